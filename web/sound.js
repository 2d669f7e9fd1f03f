// A sound for a defect: off, or on. Made here, so that no file is needed; remembered by the browser.
import { $, on, put } from "./dom.js";
import { keep } from "./keep.js";

let context = null;
const wanted = () => keep.get("sound", "off") === "on";

function tone(frequency, start, length) {
  const oscillator = context.createOscillator();
  const volume = context.createGain();
  oscillator.type = "square";
  oscillator.frequency.value = frequency;
  volume.gain.setValueAtTime(0.0001, start);
  volume.gain.exponentialRampToValueAtTime(0.25, start + 0.01);
  volume.gain.exponentialRampToValueAtTime(0.0001, start + length);
  oscillator.connect(volume).connect(context.destination);
  oscillator.start(start);
  oscillator.stop(start + length);
}

/** Two notes down for a defect, the same one twice for what is unknown. */
export function soundAlarm(verdict) {
  if (!wanted() || context?.state !== "running") return;
  const start = context.currentTime;
  tone(880, start, 0.22);
  tone(verdict === "defect" ? 587 : 880, start + 0.26, 0.34);
  document.documentElement.dataset.sounded = Number(document.documentElement.dataset.sounded ?? 0) + 1;
}

/** A browser plays nothing before the user has touched the page; until then it is said. */
function show() {
  const waits = wanted() && context?.state !== "running";
  const words = !wanted() ? "off" : waits ? "on after the first click" : "on defect";
  $("sound-icon").setAttribute("href", wanted() ? "#i-sound" : "#i-silent");
  $("sound").setAttribute("aria-label", `Sound: ${words}`);
  $("sound").title = `Sound: ${words}`;
  $("sound").setAttribute("aria-pressed", wanted());
  $("mute").hidden = !waits;
  put("mute", "Sound is on, but this browser plays none until you click or press a key here once.");
}

async function unlock() {
  if (!wanted() || context?.state === "running") return;
  context ??= new AudioContext();
  if (context.state !== "running") await context.resume().catch(() => {});
  show();
}

async function toggle() {
  keep.set("sound", wanted() ? "off" : "on");
  await unlock();
  soundAlarm("unknown");  // to be heard at once
  show();
}

export function connectSound() {
  on("sound", "click", toggle);
  for (const event of ["pointerdown", "keydown"]) document.addEventListener(event, unlock, { capture: true });
  show();
}
