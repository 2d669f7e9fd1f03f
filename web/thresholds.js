// A task's threshold: the scores it parts, and the ways to set it.
import { api, put as send } from "./api.js";
import { ticks } from "./chart.js";
import { $, el, on, put, setOptions, svg } from "./dom.js";
import { loadTasks } from "./heartbeat.js";
import { alarms } from "./memory.js";
import { complain, notice } from "./notice.js";
import { whyNot } from "./session.js";
import { state, watch } from "./store.js";
import { count, num, percent } from "./words.js";

const GROUPS = [["calibration", "Calibration", "normal"], ["good", "Called good", "good"], ["rejected", "Called defect", "defect"]];
const SIDE = 10;  // half the range's thumb: so plot and slider line up

// scores: of the task shown. value: where the line stands, which need not be set yet.
const limit = { scores: null, value: null, low: 0, high: 1 };

export async function loadThreshold(name = $("threshold-task").value) {
  await loadTasks();
  const { tasks } = state;
  $("threshold-card").hidden = !tasks.length;
  $("threshold-empty").hidden = tasks.length > 0;
  if (!tasks.length) return;
  $("threshold-task").value = tasks.some((task) => task.name === name) ? name : tasks[0].name;
  limit.scores = await api(`v1/tasks/${encodeURIComponent($("threshold-task").value)}/scores`);
  frameScores();
  showNow();
  move(limit.scores.threshold?.score ?? limit.high);
}

function frameScores() {
  const all = GROUPS.flatMap(([key]) => limit.scores[key]).concat(limit.scores.threshold?.score ?? []);
  const [min, max] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  const pad = (max - min) * 0.08 || max * 0.2 || 1;
  const step = 10 ** Math.floor(Math.log10((max - min + 2 * pad) / 100));
  const base = limit.scores.threshold?.score ?? 0;  // on the slider's grid, or the slider could not stand on it
  limit.low = Math.max(0, base - Math.ceil((base - min + pad) / step) * step);
  limit.high = limit.low + Math.ceil((max + pad - limit.low) / step) * step;
  Object.assign($("threshold-range"), { min: limit.low, max: limit.high, step });
}

function showNow() {
  const { threshold } = limit.scores;
  put("threshold-now", !threshold ? "No threshold yet: too few images were learned."
    : threshold.manual ? `Now ${num(threshold.score)}, set by hand.`
      : `Now ${num(threshold.score)}, automatic: at most ${percent(threshold.false_alarms ?? 0)} false alarms, from ${count(threshold.images, "good image")}.`);
  const task = state.tasks.find(({ name }) => name === limit.scores.task);
  $("threshold-promise").hidden = !task?.promise?.parts;
  if (task?.promise?.parts) $("threshold-promise").replaceChildren("Alarms of the last parts: ", alarms(task), task.promise.warning ? `. ${task.promise.warning}` : "");
}

function showGate() {
  const reason = whyNot("admin");
  put("threshold-reason", reason);
  for (const control of document.querySelectorAll("#threshold-card .ways :is(button, input)")) control.disabled = Boolean(reason);
}

function move(value, from) {
  limit.value = value;
  if (from !== "range") $("threshold-range").value = value;
  if (from !== "number") $("hand-score").value = Number(value.toFixed(value < 1 ? 4 : 2));
  $("threshold-range").setAttribute("aria-valuetext", num(value));
  $("threshold-effect").replaceChildren(...GROUPS.map(([key, label]) => el("li", {}, effectOn(limit.scores[key], label), " ")));
  drawHistogram();
}

function effectOn(scores, label) {
  if (!scores.length) return `${label}: none yet.`;
  const above = scores.filter((score) => score > limit.value).length;
  return `${label}: ${above} of ${scores.length} above, ${percent(above / scores.length)}.`;
}

function drawHistogram() {
  const box = $("histogram");
  const [width, top, row, gap] = [Math.max(260, box.clientWidth), 20, 56, 22];
  const height = top + GROUPS.length * (row + gap) + 24;
  const x = (v) => SIDE + (width - 2 * SIDE) * Math.min(1, Math.max(0, (v - limit.low) / (limit.high - limit.low)));
  const at = x(limit.value);
  // The threshold that is set is an edge between bars: no bar stands on both sides of it.
  const size = (limit.high - limit.low) / 40;
  const base = limit.scores.threshold?.score ?? limit.low;
  const root = svg("svg", { role: "img", width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": $("threshold-effect").textContent },
    svg("rect", { class: "beyond", x: at, y: 0, width: Math.max(0, width - SIDE - at), height: height - 20 }));
  const names = [];
  GROUPS.forEach(([key, label, look], g) => {
    const floor = top + (g + 1) * (row + gap);
    const bars = new Map();
    for (const v of limit.scores[key]) {
      const bin = Math.ceil((v - base) / size - 1e-9) - 1;
      bars.set(bin, (bars.get(bin) ?? 0) + 1);
    }
    const tall = Math.max(1, ...bars.values());
    for (const [bin, n] of bars) {
      const [from, to] = [x(base + bin * size), x(base + (bin + 1) * size)];
      root.append(svg("rect", { class: `bar ${look}`, x: from + 0.5, y: floor - row * n / tall, width: Math.max(1, to - from - 1), height: row * n / tall }));
    }
    root.append(svg("path", { class: "grid", d: `M${SIDE} ${floor}H${width - SIDE}` }));
    names.push(svg("text", { class: "row-name", x: SIDE, y: floor - row - 6 }, `${label} (${limit.scores[key].length})`));
  });
  const scale = ticks(limit.low, limit.high, Math.max(3, width / 120));
  for (const v of scale.all) root.append(svg("text", { x: x(v), y: height - 4, "text-anchor": "middle" }, v.toFixed(scale.digits)));
  const set = limit.scores.threshold?.score;
  if (set != null && Math.abs(x(set) - at) > 2) root.append(svg("path", { class: "was", d: `M${x(set)} 0V${height - 20}` }));
  root.append(svg("path", { class: "limit", d: `M${at} 0V${height - 20}` }), svg("circle", { class: "grip", cx: at, cy: 10, r: 8 }), ...names);
  box.replaceChildren(root);
}

function drag(event) {
  if (event.type === "pointerdown") $("histogram").setPointerCapture(event.pointerId);
  else if (!$("histogram").hasPointerCapture(event.pointerId)) return;
  const box = $("histogram").getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (event.clientX - box.left - SIDE) / (box.width - 2 * SIDE)));
  move(limit.low + share * (limit.high - limit.low));
}

async function set(event, body) {
  event.preventDefault();
  if (!event.target.checkValidity()) return event.target.reportValidity();
  const name = limit.scores.task;
  try {
    const task = await send(`v1/tasks/${encodeURIComponent(name)}/threshold`, body);
    await loadThreshold(name);
    notice(`The threshold of ${name} is ${num(task.threshold?.score)} now.`, false);
  } catch (error) { complain(error, "Not set"); }
}

export function connectThresholds() {
  on("threshold-task", "change", () => { location.hash = `#thresholds/${encodeURIComponent($("threshold-task").value)}`; });
  on("threshold-range", "input", () => move(Number($("threshold-range").value), "range"));
  on("hand-score", "input", () => { if (Number($("hand-score").value) > 0) move(Number($("hand-score").value), "number"); });
  on("by-hand", "submit", (event) => set(event, { score: Number($("hand-score").value) }));
  on("by-rate", "submit", (event) => set(event, { false_alarms: Number($("rate").value) / 100 }));
  on("automatic", "submit", (event) => set(event, {}));
  for (const type of ["pointerdown", "pointermove"]) on("histogram", type, drag);
  watch("tasks", () => setOptions($("threshold-task"), state.tasks.map(({ name }) => name)));
  watch("status", showGate);
  new ResizeObserver(() => { if (state.view === "thresholds" && limit.scores) drawHistogram(); }).observe($("main"));
}
