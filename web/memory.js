// What the memory knows: its tasks, their shares, promises and course over time; renaming and forgetting a task.
import { api, post, put as send } from "./api.js";
import { lineChart } from "./chart.js";
import { $, el, on, put, svg } from "./dom.js";
import { loadStatus, loadTasks, wake } from "./heartbeat.js";
import { ask, complain, notice } from "./notice.js";
import { darken, wordsFor } from "./region.js";
import { whyNot } from "./session.js";
import { state, watch } from "./store.js";
import { count, num, percent, when, whole } from "./words.js";

let samples = [];

export async function loadMemory() {
  const since = new Date(Date.now() - Number($("period").value) * 3600e3);
  const [, history] = await Promise.all([loadTasks(), api(`v1/history?since=${since.toISOString()}&points=400`), state.status ? null : loadStatus()]);
  samples = history.samples;
  showMemory();
  showCharts();
}

function showMemory() {
  const { tasks } = state;
  const { vectors, capacity, dimension, rule, certificate, backbone } = state.status.memory;
  put("memory-lead", `${whole(vectors)} of ${whole(capacity)} vectors used (${percent(vectors / capacity)}), ${whole(dimension)} numbers each. ${backbone}.`
    + (rule === "share" ? " Every task keeps an equal part." : ` Rule: ${rule}.`) + (certificate == null ? "" : ` Certificate of the whole: ${num(certificate)}.`));
  $("tasks-empty").hidden = tasks.length > 0;
  $("tasks").hidden = $("stack").hidden = !tasks.length;
  $("stack").setAttribute("aria-label", `${whole(vectors)} of ${whole(capacity)} vectors used. ${tasks.map((task) => `${task.name}: ${whole(task.vectors)}`).join(", ")}.`);
  $("stack").replaceChildren(...tasks.map((task, i) => {
    const part = el("span", { class: `part c${i % 8}`, title: `${task.name}: ${whole(task.vectors)} vectors` }, task.name);
    part.style.flexGrow = task.vectors;
    return part;
  }));
  const free = el("span", { class: "part free" }, capacity - vectors > capacity * 0.12 ? `${whole(capacity - vectors)} free` : "");
  free.style.flexGrow = Math.max(0, capacity - vectors);
  $("stack").append(free);
  $("tasks").tBodies[0].replaceChildren(...tasks.map(taskRow));
}

function taskRow(task, i) {
  const cells = [whole(task.vectors), `${(task.share * 100).toFixed(1)} %`, task.why, whole(task.images), whole(task.calibrated), num(task.certificate), num(task.drift)];
  const { threshold } = task;
  const limitText = threshold ? `${threshold.manual ? "by hand " : ""}${num(threshold.score)}` : "none";
  const link = el("a", { href: `#thresholds/${encodeURIComponent(task.name)}`, "aria-label": `${limitText}, threshold of ${task.name}` }, limitText);
  return el("tr", {}, el("th", { scope: "row" }, el("span", { class: `swatch c${i % 8}`, "aria-hidden": "true" }), task.name, regionSign(task)),
    ...cells.map((text, c) => el("td", { class: c === 2 ? "" : "num" }, text)), el("td", { class: "num" }, link), el("td", { class: "alarms" }, alarms(task)),
    el("td", { class: "num" }, knownDefects(task)), el("td", {}, when(task.learned)), el("td", { class: "acts" }, ...acts(task)));
}

/** A small picture of what is looked at, where that is not all of the image. */
function regionSign({ region }) {
  if (!region) return null;
  const words = `Region of interest: ${wordsFor(region)}`;
  const sign = svg("svg", { class: "outside region-sign", role: "img", "aria-label": words });
  darken(sign, region);
  sign.append(svg("title", {}, words));
  return sign;
}

/** Alarms of the last parts beside the rate that was promised. */
export function alarms({ promise }) {
  if (!promise?.parts) return "–";
  const seen = `${percent(promise.alarms / promise.parts)} of ${whole(promise.parts)}`;
  const text = promise.rate == null ? seen : `${seen}, promised ${percent(promise.rate)}`;
  return promise.warning ? el("span", { class: "warned", title: promise.warning }, `${text} ⚠`) : text;
}

const knownDefects = ({ known_defects: n, known_defects_used: used }) => (n == null ? "–" : `${whole(n)}${n && !used ? " (not used yet)" : ""}`);

function acts(task) {
  const reason = whyNot("admin");
  const button = (word, act) => el("button", { type: "button", class: "plain", disabled: Boolean(reason), title: reason || null, "aria-label": `${word} ${task.name}`, onclick: () => act(task) }, word);
  return [button("Rename", rename), button("Forget", forget)];
}

async function rename({ name }) {
  const given = await ask(`Rename ${name}`, [], "Rename", { field: { label: "New name", value: name } });
  if (!given || given === name) return;
  try {
    await send(`v1/tasks/${encodeURIComponent(name)}`, { name: given.normalize("NFC") });
    notice(`${name} is called ${given} now.`, false);
    await loadMemory();
    wake();
  } catch (error) { complain(error, "Not renamed"); }
}

async function forget({ name, images }) {
  const sure = await ask(`Forget ${name}?`, [`All that was learned of it goes: ${count(images, "image")}. The other tasks become what they would be without it, as far as the versions kept allow.`,
    "This cannot be undone but by restoring an earlier version under Lessons."], `Forget ${name}`, { danger: true });
  if (sure == null) return;
  await forgetting({ tasks: [name] }, `${name} is forgotten`);
  await loadMemory().catch(complain);
}

/** Has lessons or tasks forgotten; where it cannot be done exactly, only if that is wanted. */
export async function forgetting(body, done) {
  try {
    let answer;
    try {
      answer = await post("v1/lessons/forget", body);
    } catch (error) {
      if (error.status !== 409 || body.exact === false) throw error;
      const how = await ask("It cannot be taken back exactly", [error.message], "Take it back as well as can be", { danger: true });
      if (how == null) return false;
      answer = await post("v1/lessons/forget", { ...body, exact: false });
    }
    notice(`${done}${answer.exact === false ? ", as well as it could be" : ", exactly"}.${answer.note ? ` ${answer.note}` : ""}`, false);
    wake();
    return true;
  } catch (error) {
    complain(error, "Not forgotten");
    return false;
  }
}

function showCharts() {
  const names = state.tasks.map(({ name }) => name);
  lineChart($("chart-certificate"), "Certificate", "certificate", names, samples);
  lineChart($("chart-drift"), "Drift", "drift", names, samples, 1);
}

export function connectMemory() {
  on("period", "change", () => loadMemory().catch(complain));
  watch("status", () => { if (state.view === "memory") loadMemory().catch(() => {}); });  // the banner says what is wrong
  new ResizeObserver(() => { if (state.view === "memory" && state.status) showCharts(); }).observe($("main"));
}
