// Tells what the phone is doing: motion sensor (or sliders) -> four numbers -> forest -> label.
"use strict";

const { features: names, classes, typical, seconds, gravity } = window.schema;
const SCALES = {
  strength: { min: 0, max: 25, step: 0.05, unit: "m/s²" },
  swing: { min: 0, max: 70, step: 0.1, unit: "m/s²" },
  rate: { min: 0, max: 20, step: 0.5, unit: "/s" },
  tilt: { min: -1, max: 1, step: 0.01, unit: "g" },
};
const at = (id) => document.getElementById(id);
const sliders = [];
const bars = [];
const samples = []; // of the last seconds: [x, y, z, time in seconds]
let session = null;
let busy = false;
let next = null; // what came while the forest was busy
let live = false;

// ---- The forest ------------------------------------------------------------------------------

async function load() {
  ort.env.wasm.numThreads = 1;
  let model = "model.onnx";
  if (location.protocol === "file:") {
    // A page from a folder may run its scripts but not read its files: they come in a script.
    await script("offline.js");
    const bytes = (name) => Uint8Array.from(atob(window.files[name]), (c) => c.charCodeAt(0));
    const glue = new Blob([bytes("ort-wasm-simd-threaded.mjs")], { type: "text/javascript" });
    ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(glue) };
    ort.env.wasm.wasmBinary = bytes("ort-wasm-simd-threaded.wasm").buffer;
    model = bytes("model.onnx");
    window.files = null;
  }
  session = await ort.InferenceSession.create(model);
}

function script(source) {
  return new Promise((done, failed) => {
    const element = document.createElement("script");
    element.src = source;
    element.onload = done;
    element.onerror = () => failed(new Error(`${source} is not in this folder`));
    document.head.append(element);
  });
}

async function predict(row) {
  const X = new ort.Tensor("float32", Float32Array.from(row), [1, row.length]);
  const { label, probabilities } = await session.run({ X });
  return { label: label.data[0], shares: Array.from(probabilities.data) };
}

// One prediction at a time; of those that come meanwhile the last is made.
async function update(row) {
  next = row;
  if (busy || !session) return;
  busy = true;
  while (next) {
    const asked = next;
    next = null;
    const began = performance.now();
    show(await predict(asked), performance.now() - began);
  }
  busy = false;
}

// ---- The motion sensor -----------------------------------------------------------------------

// As make.py computes it.
function describe(motion, span) {
  const force = motion.map(([x, y, z]) => Math.sqrt(x * x + y * y + z * z));
  const mean = force.reduce((a, b) => a + b, 0) / force.length;
  const spread = force.reduce((a, f) => a + (f - mean) * (f - mean), 0) / force.length;
  const rises = force.filter((f, i) => i > 0 && force[i - 1] < mean && mean <= f).length;
  const tilt = motion.reduce((a, [, , z]) => a + z, 0) / motion.length / gravity;
  return [Math.sqrt(spread), Math.max(...force) - Math.min(...force), rises / span, tilt];
}

function addSample(x, y, z, time) {
  if (!live) goLive();
  samples.push([x, y, z, time]);
  while (time - samples[0][3] >= seconds) samples.shift();
  const span = time - samples[0][3];
  if (span < seconds / 2) return null; // too little to tell
  const row = describe(samples, span * (samples.length / (samples.length - 1)));
  setSliders(row);
  update(row);
  return row;
}

function onMotion(event) {
  const a = event.accelerationIncludingGravity;
  if (a && a.x !== null) addSample(a.x, a.y, a.z, event.timeStamp / 1000);
}

function goLive() {
  live = true;
  samples.length = 0;
  at("source").textContent = "motion sensor";
  at("source").className = "live";
  for (const { input } of sliders) input.disabled = true;
  for (const id of ["hint", "chips", "sensor"]) at(id).hidden = true;
}

function listen() {
  if (typeof DeviceMotionEvent === "undefined") return;
  window.addEventListener("devicemotion", onMotion);
  if (typeof DeviceMotionEvent.requestPermission !== "function") return;
  // iPhones want to be asked, and by a touch; until then nothing comes.
  at("sensor").hidden = false;
  at("sensor").onclick = async () => {
    const answer = await DeviceMotionEvent.requestPermission().catch(() => "denied");
    if (live) return;
    at("hint").textContent =
      answer === "granted"
        ? "The sensor tells nothing: move the sliders, or try"
        : "The sensor was refused: move the sliders, or try";
  };
}

// ---- The page --------------------------------------------------------------------------------

function make(kind, parent, properties = {}) {
  const element = Object.assign(document.createElement(kind), properties);
  parent.append(element);
  return element;
}

function build() {
  for (const name of classes) {
    const item = make("li", at("shares"));
    make("span", item, { textContent: name });
    const fill = make("i", make("span", item, { className: "bar" }));
    bars.push({ item, fill, output: make("output", item) });
  }
  for (const name of names) {
    const { min, max, step, unit } = SCALES[name];
    const row = make("label", at("sliders"));
    make("span", row, { textContent: name });
    const input = make("input", row, { type: "range", min, max, step });
    sliders.push({ input, output: make("output", row), unit });
    input.oninput = () => {
      writeValues(readSliders());
      update(readSliders());
    };
  }
  for (const name of Object.keys(typical)) {
    make("button", at("chips"), { textContent: name }).onclick = () => tryOut(name);
  }
}

const readSliders = () => sliders.map(({ input }) => Number(input.value));

function writeValues(row) {
  row.forEach((value, i) => {
    sliders[i].output.textContent = `${value.toFixed(i === 3 ? 2 : 1)} ${sliders[i].unit}`;
  });
}

function setSliders(row) {
  row.forEach((value, i) => {
    sliders[i].input.value = value;
  });
  writeValues(row);
}

function tryOut(name) {
  setSliders(typical[name]);
  update(typical[name]);
}

function show({ label, shares }, milliseconds) {
  const best = classes.indexOf(label);
  at("label").textContent = label;
  at("sure").textContent = `${Math.round(100 * shares[best])} % of the votes`;
  bars.forEach(({ item, fill, output }, k) => {
    item.className = k === best ? "best" : "";
    fill.style.width = `${100 * shares[k]}%`;
    output.textContent = `${Math.round(100 * shares[k])} %`;
  });
  at("about").textContent = `Told on this device in ${milliseconds.toFixed(1)} ms. Nothing is sent.`;
}

async function start() {
  build();
  try {
    await load();
  } catch (error) {
    at("label").textContent = "Cannot start";
    at("sure").textContent = String(error.message ?? error);
    at("source").textContent = "error";
    return;
  }
  at("source").textContent = "sliders";
  tryOut("walking");
  listen();
}

start();
