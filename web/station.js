// The station's own display, to be read from five metres: verdict in colour, sign and word, and the counts of the shift.
import { put as send } from "./api.js";
import { $, on, put, setOptions } from "./dom.js";
import { loadStations } from "./heartbeat.js";
import { age, whyNotLive } from "./liveness.js";
import { complain, notice } from "./notice.js";
import { decoded, thumbnail } from "./pictures.js";
import { whyNot } from "./session.js";
import { state, watch } from "./store.js";
import { clock, isAlarming, moment, reasonOf, span, whole, wordOf } from "./words.js";

const COUNTS = ["inspected", "good", "defect", "unknown", "uncalibrated"];

/** The station's counts; those of all stations where none is named. */
function shift() {
  const of = state.stations.filter(({ name }) => !state.station || name === state.station);
  const total = { since: of[0]?.shift.since };
  for (const key of COUNTS) total[key] = of.reduce((sum, one) => sum + (one.shift[key] ?? 0), 0);
  return total;
}

function showCounts() {
  const counts = shift();
  for (const key of COUNTS) put(`count-${key}`, whole(counts[key]));
  $("count-uncalibrated-box").hidden = !counts.uncalibrated;
  const since = counts.since ? `This shift, since ${clock(counts.since).slice(0, 5)}` : "This shift";
  put("count-since", since);
  const short = [`${since}: ${whole(counts.inspected)} inspected`, `${whole(counts.good)} good`, `${whole(counts.defect)} defect`, `${whole(counts.unknown)} unknown`];
  put("shift", short.join(", "));
}

function show() {
  const instead = whyNotLive();
  const one = state.recent?.[0];
  const box = $("station-verdict");
  const kind = instead?.kind ?? one.verdict;
  box.className = `station-verdict ${instead ? "none" : ""} ${kind}`;
  $("station-icon").setAttribute("href", `#i-${instead ? (kind === "lost" ? "lost" : "quiet") : kind}`);
  put("station-word", instead ? instead.word : wordOf(one.verdict));
  put("station-why", instead ? instead.why || "It will be shown here." : reasonOf(one) || one.task || "");
  put("station-age", instead || !one ? "" : `${age(one) < 10 ? "now" : `${span(age(one))} ago`} · part ${one.id}`);
  put("station-name", state.station || "All stations");
  put("station-clock", new Date().toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }));
  if (state.view === "station") showPicture(instead ? null : one);
}

let pictured = null;
async function showPicture(one) {
  if (pictured === (one?.id ?? null)) return;
  pictured = one?.id ?? null;
  $("station-picture").hidden = true;
  if (!one?.has_image) return;
  try {
    const url = await decoded(one.id, "image");
    if (pictured !== one.id) return;
    $("station-picture").src = url;
    $("station-picture").alt = `The part that is called ${wordOf(one.verdict).toLowerCase()}`;
    $("station-picture").hidden = false;
  } catch { /* the words are enough */ }
}

// The last part that was not good keeps its place until the next.
let lastBad = null;
function showLast() {
  const one = (state.recent ?? []).filter(isAlarming).concat(lastBad ?? []).sort((a, b) => b.id - a.id)[0];
  $("station-last").hidden = !one;
  if (!one || one.id === lastBad?.id) return;
  lastBad = one;
  $("station-last").className = `station-last ${one.verdict}`;
  put("station-last-text", `Last ${wordOf(one.verdict).toLowerCase()}: ${moment(one.time)}, part ${one.id}`);
  put("station-last-why", reasonOf(one));
  thumbnail($("station-last-picture"), one, 200);
}

async function pin() {
  try {
    await send(`v1/stations/${encodeURIComponent(state.station)}`, { task: $("station-task").value || null });
    await loadStations();
    notice($("station-task").value ? `${state.station} inspects ${$("station-task").value} from now on.` : `${state.station} recognises products by their looks.`, false);
  } catch (error) { complain(error, "Not pinned"); }
}

/** Which station this page is for, and its product. */
function showChoice() {
  const names = state.stations.map(({ name }) => name).filter(Boolean);
  if (state.station && !names.includes(state.station)) names.push(state.station);
  setOptions($("station-choice"), names, "All stations");
  $("station-choice").value = state.station;
  $("station-choice-box").hidden = !names.length;
  const task = state.stations.find(({ name }) => name === state.station)?.task ?? "";
  const tasks = state.tasks.map(({ name }) => name);
  setOptions($("station-task"), task && !tasks.includes(task) ? [...tasks, task] : tasks, "Any product");
  if (document.activeElement !== $("station-task")) $("station-task").value = task;
  $("station-task-box").hidden = !state.station;
  $("station-task").disabled = Boolean(whyNot("admin"));
  $("station-task").title = whyNot("admin") || "Images of this station are inspected as this product, whatever they look like";
  $("inspect-task").hidden = Boolean(task);
}

export function enterStation() { show(); showCounts(); showLast(); }

export async function fullScreen() {
  try {
    await (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen());
  } catch { notice("This browser does not go full screen by itself; its own key does, often F11."); }
}

export function connectStation() {
  watch("recent error status", show);
  watch("recent", showLast);
  watch("stations status tasks", () => { showCounts(); showChoice(); });
  on("station-choice", "change", () => { location.href = `${$("station-choice").value ? `?station=${encodeURIComponent($("station-choice").value)}` : "./"}${location.hash.split("/")[0]}`; });
  on("station-task", "change", pin);
  on("station-full", "click", fullScreen);
  setInterval(() => { if (state.view === "station") show(); }, 1000);
}
