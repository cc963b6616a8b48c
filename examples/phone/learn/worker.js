// Runs EdgeForest in MicroPython, apart from the page. It works in slices: in between, messages are
// heard (samples, cancel), and MicroPython collects its garbage, which it does only then.
import "./micropython.mjs";

const SLICE = 40; // milliseconds
const text = async (name) => (await fetch(name)).text();
let python = null; // its functions
let files = null;
let learning = false;
let reading = false;
let pumping = false;
let inside = 0; // milliseconds in WebAssembly: since learning began ...
let total = 0; // ... and since the page was opened

async function start() {
  const micropython = await globalThis.loadMicroPython({
    url: new URL("./micropython.wasm", import.meta.url).href,
    heapsize: 16 * 1024 * 1024,
  });
  files = micropython.FS;
  files.mkdirTree("/edgeforest");
  const { python: names } = JSON.parse(await text("files.json"));
  await Promise.all(names.map(async (name) => files.writeFile(`/${name}`, await text(name))));
  micropython.runPython('import sys\nsys.path.insert(0, "/")\nimport page');
  const page = micropython.globals.get("page");
  python = (name, ...given) => {
    const began = performance.now();
    try {
      return page[name](...given);
    } finally {
      inside += performance.now() - began;
      total += performance.now() - began;
    }
  };
}

// The last line of a traceback has the sentence.
function sentence(error) {
  const lines = String(error.message ?? error).trim().split("\n");
  const found = /^(\w+): (.*)$/.exec(lines.at(-1));
  if (found?.[1] === "ValueError") return found[2];
  if (found?.[1] === "MemoryError") return "This browser has too little memory for so many recordings.";
  return `Something went wrong here: ${lines.at(-1)}`;
}

const heard = {
  keep({ number, samples }) {
    files.writeFile("/samples", new Uint8Array(samples.buffer));
    python("keep", number);
    reading = true;
  },
  forget({ number }) {
    python("forget", number);
  },
  learn({ asked, seconds }) {
    inside = 0;
    python("begin", JSON.stringify(asked), seconds);
    learning = true;
  },
  cancel() {
    if (!learning) return; // it has just ended
    learning = false;
    python("cancel");
    postMessage({ kind: "cancelled" });
  },
  watch({ model }) {
    postMessage({ kind: "watching", classes: JSON.parse(python("watch", model)) });
  },
  sample({ sample }) {
    const said = python("push", ...sample);
    if (said) {
      const [best, votes] = JSON.parse(said);
      postMessage({ kind: "answer", best, votes });
    }
  },
  clear() {
    python("clear");
  },
  table({ asked }) {
    postMessage({ kind: "table", text: python("table", JSON.stringify(asked)) });
  },
};

// One slice of work, then the messages that have come meanwhile, then the next.
function pump() {
  pumping = false;
  attempt(() => {
    if (learning) {
      const { done, doing } = JSON.parse(python("step", SLICE));
      if (done < 1) {
        postMessage({ kind: "progress", done, doing });
      } else {
        learning = false;
        const learned = JSON.parse(python("finish"));
        postMessage({ kind: "learned", seconds: inside / 1000, total: total / 1000, ...learned });
      }
    } else if (reading) {
      reading = python("read");
    }
  });
}

function attempt(work) {
  try {
    work();
  } catch (error) {
    learning = false;
    postMessage({ kind: "failed", sentence: sentence(error) });
  }
  if ((learning || reading) && !pumping) {
    pumping = true;
    setTimeout(pump);
  }
}

const ready = start().then(
  () => postMessage({ kind: "ready" }),
  (error) => postMessage({ kind: "failed", sentence: `The page is not complete: ${error.message}` }),
);
self.onmessage = ({ data }) =>
  ready.then(() => {
    if (python) attempt(() => heard[data.kind](data));
  });
