// Where motion comes from: the sensor or, where there is none, a simulated phone.

export const HERTZ = 50; // as gestures.py wants it
const BETWEEN = 1000 / HERTZ;
const GAP = 500; // milliseconds without a reading after which a new stretch begins
const MOST = 32767;

const whole = (value) => Math.max(-MOST, Math.min(MOST, Math.round(100 * value)));

// Sensors have rates of their own, and miss a beat: 50 samples a second, between the readings on a line.
export class Grid {
  constructor(onSample, onGap) {
    this.onSample = onSample;
    this.onGap = onGap;
    this.last = null;
  }

  add(x, y, z, time) {
    const last = this.last;
    this.last = { x, y, z, time };
    if (!last || time - last.time > GAP || time < last.time) {
      this.next = time;
      this.onGap();
    }
    const from = last ?? this.last;
    while (this.next <= time) {
      const part = time > from.time ? Math.max(0, (this.next - from.time) / (time - from.time)) : 1;
      this.onSample([
        whole(from.x + part * (x - from.x)),
        whole(from.y + part * (y - from.y)),
        whole(from.z + part * (z - from.z)),
      ]);
      this.next += BETWEEN;
    }
  }
}

// ---- The sensor ------------------------------------------------------------------------------

// Calls onReading(x, y, z, milliseconds) for each reading, in m/s² with gravity.
export function listen(onReading) {
  window.addEventListener("devicemotion", (event) => {
    const a = event.accelerationIncludingGravity;
    if (a && a.x !== null && a.y !== null && a.z !== null) onReading(a.x, a.y, a.z, event.timeStamp);
  });
}

// iPhones want to be asked, and by a tap.
export const mustAsk = () => typeof window.DeviceMotionEvent?.requestPermission === "function";

export const ask = () => DeviceMotionEvent.requestPermission().catch(() => "denied");

// ---- A simulated phone -----------------------------------------------------------------------

export const MOTIONS = ["shake", "circle", "nod", "hold still"];
const between = (low, high) => low + (high - low) * Math.random();
const noise = () => between(-1, 1) + between(-1, 1); // more small ones than large ones

// One way to make a motion: no two have the same speed, force and way to hold the phone.
export function simulate(kind) {
  const speed = 2 * Math.PI * between(1.2, 2.6);
  const force = between(4, 12);
  const start = between(0, 2 * Math.PI);
  const trembling = between(0.1, 0.5);
  const pitch = between(-0.4, 0.4);
  const roll = between(-0.4, 0.4);
  return (seconds) => {
    const angle = start + speed * seconds;
    const nodding = kind === "nod" ? 0.6 * Math.sin(angle / 2) : 0;
    let x = 9.81 * Math.sin(roll);
    let y = 9.81 * Math.sin(pitch + nodding);
    let z = 9.81 * Math.cos(roll) * Math.cos(pitch + nodding);
    if (kind === "shake" || kind === "circle") x += force * Math.sin(angle);
    if (kind === "circle") y += force * Math.cos(angle);
    [x, y, z] = [x, y, z].map((value) => value + trembling * noise());
    return [x, y, z];
  };
}

// A whole recording at once, as whole numbers.
export function simulatedRecording(kind) {
  const motion = simulate(kind);
  const count = Math.round(HERTZ * between(1.4, 2.6));
  return Int16Array.from(Array.from({ length: count }, (_, i) => motion(i / HERTZ).map(whole)).flat());
}

// Goes on until it is stopped, with a new way to move every few seconds.
export class Simulator {
  constructor(onReading) {
    this.onReading = onReading;
    this.kind = MOTIONS[0];
    this.vary();
  }

  choose(kind) {
    this.kind = kind;
    this.vary();
  }

  vary() {
    this.motion = simulate(this.kind);
    this.until = performance.now() + 4000;
  }

  start() {
    this.timer = setInterval(() => {
      const now = performance.now();
      if (now > this.until) this.vary();
      this.onReading(...this.motion(now / 1000), now);
    }, BETWEEN);
  }

  stop() {
    clearInterval(this.timer);
  }
}
