// The page: buttons, recordings, what was learned. motion.js has the sensor, store.js keeps things,
// worker.js learns.
import { HERTZ, Grid, MOTIONS, Simulator, ask, listen, mustAsk, simulatedRecording } from "./motion.js";
import * as store from "./store.js";

const LEAST = HERTZ; // samples of a recording: gestures.py looks at a second at a time
const MOST = 10 * HERTZ;
const LONGEST_LABEL = 30;
const LOOKS = 700; // milliseconds in which a sensor would have given a reading
const FORMAT = "edgeforest-recordings";

const at = (id) => document.getElementById(id);
const worker = new Worker("worker.js", { type: "module" });
const send = (kind, more = {}) => worker.postMessage({ kind, ...more });

let gestures = []; // {id, label}
let recordings = []; // {number, gesture, samples}
let held = null; // the recording in hand: {gesture, button, samples}
let model = null; // {text, classes, score}
let live = false; // the sensor has given a reading
let learning = null; // what is being learned: [number, label] of each recording
let wrong = new Map(); // number of a recording that was mistaken -> what for
const trace = [];
const bars = [];

// ---- Small things ----------------------------------------------------------------------------

function make(kind, parent, properties = {}) {
  const element = Object.assign(document.createElement(kind), properties);
  parent.append(element);
  return element;
}

function note(text) {
  at("noted").textContent = text;
}

// One sentence, until something works again.
function complain(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
  if (text) at("problem").scrollIntoView({ block: "nearest" });
}

// A label is text from a stranger: no control characters, no halves of letters, not too long.
function cleaned(text) {
  const letters = [...String(text).replace(/[\p{Cc}\p{Cs}\u2028\u2029]/gu, " ").trim()];
  return letters.slice(0, LONGEST_LABEL).join("").trim();
}

const labelOf = (recording) => gestures.find(({ id }) => id === recording.gesture).label;
const asked = () => recordings.map((recording) => [recording.number, labelOf(recording)]);
const times = (count) => (count === 1 ? "once" : `${count} times`);
const many = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

async function keeping(promise) {
  try {
    await promise;
  } catch {
    complain("This browser has no room to keep more recordings; save them as a file.");
  }
}

// ---- Motion ----------------------------------------------------------------------------------

const grid = new Grid(onSample, () => send("clear"));
const simulator = new Simulator((...reading) => grid.add(...reading));

function onSample(sample) {
  trace.push(sample);
  if (trace.length > 3 * HERTZ) trace.shift();
  if (held) {
    held.samples.push(...sample);
    held.button.textContent = `${(held.samples.length / 3 / HERTZ).toFixed(1)} s`;
    if (held.samples.length >= 3 * MOST) release();
  }
  if (model) send("sample", { sample });
}

function onReading(x, y, z, time) {
  if (!live) {
    live = true;
    simulator.stop();
    showSource();
  }
  grid.add(x, y, z, time);
}

function showSource() {
  at("source").textContent = live ? "motion sensor" : "simulated";
  at("source").className = live ? "live" : "";
  for (const id of ["simulator", "example"]) at(id).hidden = live;
  if (live) at("sensor").hidden = true;
}

function findMotion() {
  for (const kind of MOTIONS) {
    const label = make("label", at("motions"));
    const input = make("input", label, { type: "radio", name: "motion", checked: kind === MOTIONS[0] });
    input.onchange = () => simulator.choose(kind);
    make("span", label, { textContent: kind });
  }
  listen(onReading);
  if (mustAsk()) {
    at("sensor").hidden = false;
    at("sensor").onclick = async () => {
      const answer = await ask();
      if (answer !== "granted") {
        complain("The motion sensor was refused: allow it in the settings of the browser and load the page again.");
        return;
      }
      at("sensor").hidden = true;
      setTimeout(() => {
        if (!live) complain("This device has no motion sensor, or it is silent: motion is simulated here.");
      }, LOOKS);
    };
  } else if (!window.isSecureContext) {
    complain("Browsers give the motion sensor only to pages from https or localhost; here it is simulated.");
  }
  setTimeout(() => {
    if (live) return;
    showSource();
    simulator.start();
  }, LOOKS);
}

const COLOURS = ["--x", "--y", "--z"];
const reach = 2000; // hundredths of m/s² at the edge of the trace, at least

function drawTrace() {
  const canvas = at("trace");
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const style = getComputedStyle(document.documentElement);
  const high = Math.max(reach, ...trace.map((sample) => Math.max(...sample.map(Math.abs))));
  COLOURS.forEach((colour, axis) => {
    pen.strokeStyle = style.getPropertyValue(colour);
    pen.lineWidth = 1.75;
    pen.lineJoin = "round";
    pen.beginPath();
    trace.forEach((sample, i) => {
      const x = width - ((trace.length - 1 - i) * width) / (3 * HERTZ - 1);
      const y = height / 2 - (sample[axis] / high) * (height / 2 - 3);
      if (i) pen.lineTo(x, y);
      else pen.moveTo(x, y);
    });
    pen.stroke();
  });
  requestAnimationFrame(drawTrace);
}

// ---- Recording -------------------------------------------------------------------------------

function press(gesture, button) {
  if (held) return;
  complain("");
  if (!live) simulator.vary();
  held = { gesture, button, samples: [] };
  button.classList.add("recording");
  at("trace").classList.add("recording");
  note("");
}

function release() {
  if (!held) return;
  const { gesture, button, samples } = held;
  held = null;
  button.classList.remove("recording");
  button.textContent = "Hold";
  at("trace").classList.remove("recording");
  const seconds = (samples.length / 3 / HERTZ).toFixed(1);
  if (!samples.length) {
    complain("The sensor gave no readings while you held the button.");
  } else if (samples.length < 3 * LEAST) {
    complain(`That was too short (${seconds} s): hold the button for more than a second.`);
  } else {
    add(gesture.id, Int16Array.from(samples));
    note(`Kept ${seconds} s of “${gesture.label}”.`);
    show();
  }
}

function add(gesture, samples) {
  const recording = { number: 1 + (recordings.at(-1)?.number ?? 0), gesture, samples };
  recordings.push(recording);
  send("keep", { number: recording.number, samples });
  keeping(store.keep(recording));
}

function forget(recording) {
  recordings = recordings.filter((other) => other !== recording);
  wrong.delete(recording.number);
  send("forget", { number: recording.number });
  keeping(store.forget(recording.number));
}

function holdButton(parent, gesture) {
  const button = make("button", parent, { className: "hold", textContent: "Hold" });
  button.onpointerdown = (event) => {
    if (event.button !== 0) return;
    button.setPointerCapture?.(event.pointerId);
    press(gesture, button);
  };
  button.onpointerup = button.onpointercancel = release;
  button.onkeydown = (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (!event.repeat) press(gesture, button);
  };
  button.onkeyup = (event) => {
    if (event.key === " " || event.key === "Enter") release();
  };
  button.onblur = release;
  button.oncontextmenu = (event) => event.preventDefault();
  // A screen reader taps without holding: one tap begins, the next one ends.
  button.onclick = (event) => {
    if (event.detail || event.pointerType) return;
    if (held) release();
    else press(gesture, button);
  };
  return button;
}

// ---- Gestures --------------------------------------------------------------------------------

function addGesture(label) {
  const gesture = { id: 1 + Math.max(0, ...gestures.map(({ id }) => id)), label };
  gestures.push(gesture);
  keepGestures();
  return gesture;
}

const keepGestures = () => keeping(store.set("gestures", gestures));

function freeLabel() {
  for (let n = gestures.length + 1; ; n += 1) {
    if (!gestures.some(({ label }) => label === `gesture ${n}`)) return `gesture ${n}`;
  }
}

function rename(gesture, input) {
  const label = cleaned(input.value);
  if (!label || gestures.some((other) => other !== gesture && other.label === label)) {
    complain(label ? `There is a gesture “${label}” already.` : "A gesture needs a name.");
  } else {
    gesture.label = label;
    complain("");
    keepGestures();
  }
  show();
}

function removeGesture(gesture) {
  const own = recordings.filter((recording) => recording.gesture === gesture.id);
  if (own.length && !confirm(`Delete “${gesture.label}” and its ${many(own.length, "recording")}?`)) return;
  own.forEach(forget);
  gestures = gestures.filter((other) => other !== gesture);
  keepGestures();
  show();
}

// Lines are made once and then changed: whoever uses the keyboard stays where they are.
const lines = new Map(); // gesture -> {item, refresh}

function showGestures() {
  for (const [gesture, { item }] of lines) {
    if (gestures.includes(gesture)) continue;
    item.remove();
    lines.delete(gesture);
  }
  for (const gesture of gestures) {
    if (!lines.has(gesture)) lines.set(gesture, makeLine(gesture));
    lines.get(gesture).refresh();
  }
}

function makeLine(gesture) {
  const item = make("li", at("gestures"));
  const input = make("input", item, { maxLength: LONGEST_LABEL, autocomplete: "off" });
  input.setAttribute("aria-label", "Name of the gesture");
  input.onchange = () => rename(gesture, input);
  const tail = make("div", item, { className: "tail" });
  const number = make("span", tail, { className: "count" });
  const remove = make("button", tail, { className: "icon", textContent: "×" });
  remove.onclick = () => removeGesture(gesture);
  const hold = holdButton(item, gesture);
  const refresh = () => {
    const count = recordings.filter((recording) => recording.gesture === gesture.id).length;
    input.value = gesture.label;
    number.textContent = count;
    number.title = many(count, "recording");
    remove.setAttribute("aria-label", `Delete the gesture ${gesture.label}`);
    hold.setAttribute("aria-label", `Hold to record ${gesture.label}`);
  };
  return { item, refresh };
}

function showRecordings() {
  at("count").textContent = recordings.length ? `(${recordings.length})` : "";
  at("recordings").replaceChildren();
  for (const recording of recordings.slice().reverse()) {
    const item = make("li", at("recordings"));
    const label = labelOf(recording);
    const mistaken = wrong.get(recording.number);
    if (mistaken !== undefined) item.className = "mistaken";
    const name = make("span", item, { className: "name", textContent: label });
    if (mistaken !== undefined) name.title = `taken for ${mistaken} when it was left out`;
    sparkline(item, recording.samples);
    const seconds = (recording.samples.length / 3 / HERTZ).toFixed(1);
    make("span", item, { className: "length", textContent: `${seconds} s` });
    const remove = make("button", item, { className: "icon", textContent: "×" });
    remove.setAttribute("aria-label", `Delete recording ${recording.number} of ${label}`);
    remove.onclick = () => {
      const place = [...at("recordings").children].indexOf(item);
      forget(recording);
      show();
      const left = at("recordings").querySelectorAll("button");
      (left[Math.min(place, left.length - 1)] ?? at("all").querySelector("summary")).focus();
    };
  }
  for (const id of ["save-json", "save-csv", "forget-all"]) at(id).disabled = !recordings.length;
}

// x, y and z of a recording as lines.
function sparkline(parent, samples) {
  const names = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(names, "svg");
  picture.setAttribute("viewBox", "0 0 100 30");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const high = Math.max(1500, ...samples.map(Math.abs));
  const last = samples.length / 3 - 1;
  for (const axis of [0, 1, 2]) {
    const points = [];
    for (let i = 0; i <= last; i += 2) {
      points.push(`${((100 * i) / last).toFixed(1)} ${(15 - (14 * samples[3 * i + axis]) / high).toFixed(1)}`);
    }
    const path = document.createElementNS(names, "path");
    path.setAttribute("d", `M${points.join("L")}`);
    picture.append(path);
  }
  parent.append(picture);
}

function show() {
  showGestures();
  if (at("all").open) showRecordings();
  else at("count").textContent = recordings.length ? `(${recordings.length})` : "";
  showLearn();
}

// ---- Learning --------------------------------------------------------------------------------

function showLearn() {
  at("learn").disabled = learning !== null || !recordings.length;
  at("learn").textContent = recordings.length
    ? `Learn from ${many(recordings.length, "recording")}`
    : "Learn";
  at("busy").hidden = learning === null;
  at("hope").hidden = learning !== null || model !== null;
}

function learn() {
  complain("");
  learning = asked();
  at("progress").value = 0;
  at("doing").textContent = "Reading the recordings";
  send("learn", { asked: learning, seconds: Number(at("seconds").value) });
  showLearn();
}

function endLearning() {
  learning = null;
  showLearn();
}

const heard = {
  ready() {},
  progress({ done, doing }) {
    at("progress").value = done;
    if (at("doing").textContent !== doing) at("doing").textContent = doing; // said aloud once
  },
  learned({ model: text, classes, seconds, right, tested, wrong: mistakes, trees, rows, insertions }) {
    wrong = new Map(mistakes.map(([place, said]) => [learning[place][0], said]));
    const counts = new Map();
    for (const [place, said] of mistakes) {
      const line = `“${learning[place][1]}” was taken for “${said}”`;
      counts.set(line, (counts.get(line) ?? 0) + 1);
    }
    const score = {
      right,
      tested,
      mistakes: [...counts].map(([line, count]) => `${line} ${times(count)}`),
      cost: `${trees} trees from ${many(rows, "window")} of a second, in ${seconds.toFixed(1)} s`,
      seconds,
      insertions,
    };
    setModel({ text, classes, score });
    keeping(store.set("model", model));
    endLearning();
    show();
  },
  cancelled() {
    endLearning();
    note("Cancelled; nothing has changed.");
  },
  failed({ sentence }) {
    endLearning();
    complain(sentence);
  },
  watching() {},
  answer({ best, votes }) {
    showAnswer(best, votes);
  },
  table({ text }) {
    download("gestures.csv", text, "text/csv");
  },
};

worker.onmessage = ({ data }) => {
  heard[data.kind](data);
  document.dispatchEvent(new CustomEvent(`forest:${data.kind}`, { detail: data }));
};
worker.onerror = () =>
  complain("This browser cannot run the page's worker; use a newer one, and a server rather than a file.");

// ---- The model -------------------------------------------------------------------------------

function setModel(found) {
  model = found;
  const { right, tested, mistakes, cost } = model.score;
  at("score").hidden = false;
  at("percent").textContent = tested ? `${Math.floor((100 * right) / tested)} %` : "–";
  at("outof").textContent = tested
    ? `${right} of ${many(tested, "recording")} recognised by a forest that had not learned them`
    : "There was no time to test it: allow more.";
  at("mistakes").replaceChildren();
  for (const line of mistakes) make("li", at("mistakes"), { textContent: line });
  at("cost").textContent = cost;
  at("untaught").hidden = true;
  at("live").hidden = false;
  at("shares").replaceChildren();
  bars.length = 0;
  for (const label of model.classes) {
    const item = make("li", at("shares"));
    make("span", item, { textContent: label });
    const fill = make("i", make("span", item, { className: "bar" }));
    bars.push({ item, fill, output: make("output", item) });
  }
  at("share").hidden = !shareable();
}

function showAnswer(best, votes) {
  if (!model || votes.length !== bars.length) return;
  const total = votes.reduce((a, b) => a + b, 0);
  const percent = votes.map((vote) => Math.round((100 * vote) / total));
  at("label").textContent = model.classes[best];
  at("sure").textContent = `${percent[best]} % of the votes`;
  bars.forEach(({ item, fill, output }, k) => {
    item.className = k === best ? "best" : "";
    fill.style.width = `${percent[k]}%`;
    output.textContent = `${percent[k]} %`;
  });
}

function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", document.body, { href: address, download: name });
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

// Some browsers share text files only.
function shareable() {
  if (!navigator.canShare || !model) return null;
  const choice = [
    new File([model.text], "gestures.json", { type: "application/json" }),
    new File([model.text], "gestures.json.txt", { type: "text/plain" }),
  ];
  return choice.map((file) => ({ files: [file], title: "A forest that knows my gestures" })).find((data) => navigator.canShare(data));
}

async function share() {
  try {
    await navigator.share(shareable());
  } catch (error) {
    if (error.name !== "AbortError") complain("Sharing did not work; download the model instead.");
  }
}

// ---- Files -----------------------------------------------------------------------------------

function recordingsAsText() {
  const found = recordings.map((recording) => {
    const samples = [];
    for (let i = 0; i < recording.samples.length; i += 3) samples.push([...recording.samples.slice(i, i + 3)]);
    return JSON.stringify({ gesture: labelOf(recording), samples });
  });
  const head = JSON.stringify({ format: FORMAT, version: 1, hertz: HERTZ, unit: "0.01 m/s2" }).slice(0, -1);
  return `${head},"recordings":[\n${found.join(",\n")}\n]}\n`;
}

// What a file holds, checked: [{gesture, samples}, ...] or a sentence.
function parseRecordings(text) {
  const refuse = () => {
    throw new Error("This file has no recordings of this page: open one that “Save as JSON” wrote.");
  };
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    refuse();
  }
  if (found?.format !== FORMAT || found.hertz !== HERTZ || !Array.isArray(found.recordings)) refuse();
  return found.recordings.map((recording) => {
    const { gesture, samples } = recording ?? {};
    const isWhole = (value) => Number.isInteger(value) && Math.abs(value) <= 32767;
    const isSample = (sample) => Array.isArray(sample) && sample.length === 3 && sample.every(isWhole);
    const fits = Array.isArray(samples) && samples.length >= LEAST && samples.length <= MOST;
    if (typeof gesture !== "string" || !cleaned(gesture) || !fits || !samples.every(isSample)) refuse();
    return { label: cleaned(gesture), samples: Int16Array.from(samples.flat()) };
  });
}

async function openFile(file) {
  try {
    const found = parseRecordings(await file.text());
    complain("");
    addAll(found);
    note(`Added ${many(found.length, "recording")}.`);
  } catch (error) {
    complain(error.message);
  }
}

function addAll(found) {
  for (const { label, samples } of found) {
    const gesture = gestures.find((other) => other.label === label) ?? addGesture(label);
    add(gesture.id, samples);
  }
  show();
}

function fillExample() {
  const kinds = MOTIONS.slice(0, 3);
  const unused = gestures.filter(({ id }) => !recordings.some((recording) => recording.gesture === id));
  gestures = gestures.filter((gesture) => !unused.includes(gesture) || kinds.includes(gesture.label));
  addAll(kinds.flatMap((label) => Array.from({ length: 30 }, () => ({ label, samples: simulatedRecording(label) }))));
  note("Added 30 simulated recordings of each of three gestures.");
}

function forgetAll() {
  if (!confirm(`Delete ${many(recordings.length, "recording")}?`)) return;
  [...recordings].forEach(forget);
  show();
}

// ---- Start -----------------------------------------------------------------------------------

function wire() {
  at("add").onclick = () => {
    addGesture(freeLabel());
    show();
    const input = at("gestures").lastElementChild.querySelector("input");
    input.focus();
    input.select();
  };
  at("example").onclick = fillExample;
  at("learn").onclick = learn;
  at("cancel").onclick = () => send("cancel");
  at("download").onclick = () => download("gestures.json", model.text, "application/json");
  at("share").onclick = share;
  at("save-json").onclick = () => download("recordings.json", recordingsAsText(), "application/json");
  at("save-csv").onclick = () => send("table", { asked: asked() });
  at("open-file").onchange = async ({ target }) => {
    if (target.files[0]) await openFile(target.files[0]);
    target.value = "";
  };
  at("forget-all").onclick = forgetAll;
  at("all").ontoggle = () => {
    if (at("all").open) showRecordings();
  };
}

async function restore() {
  if (!(await store.open())) {
    note("This browser keeps nothing: save your recordings before you close the page.");
  }
  gestures = (await store.get("gestures")) ?? [];
  const known = new Set(gestures.map(({ id }) => id));
  recordings = (await store.recordings()).filter(({ gesture }) => known.has(gesture));
  if (!gestures.length) ["shake", "circle", "hold still"].forEach(addGesture);
  for (const { number, samples } of recordings) send("keep", { number, samples });
  const kept = await store.get("model");
  if (kept) {
    setModel(kept);
    send("watch", { model: kept.text });
  }
}

async function keepOffline() {
  if (!("serviceWorker" in navigator)) return;
  try {
    await navigator.serviceWorker.register("sw.js");
    await navigator.serviceWorker.ready;
    at("offline").textContent = "It works without a network.";
  } catch {
    at("offline").textContent = "It needs its server to open.";
  }
}

async function start() {
  wire();
  await restore();
  show();
  findMotion();
  requestAnimationFrame(drawTrace);
  await keepOffline();
}

start();
