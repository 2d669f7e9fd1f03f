// What an hour, a shift, a day or a week adds up to: counts, yield, latency, by task and station, over time, and where
// defects happen. While the present one is shown it keeps up.
import { api, serviceNow } from "./api.js";
import { barChart } from "./chart.js";
import { $, el, icon, on, put, setOptions } from "./dom.js";
import { connectExports, pointExports } from "./exports.js";
import { loadStations, loadTasks } from "./heartbeat.js";
import { complain } from "./notice.js";
import { smallPicture } from "./pictures.js";
import { showPlaces } from "./places.js";
import { state, watch } from "./store.js";
import { milliseconds, percent, stretch, whole } from "./words.js";

const PICTURE_SIDE = 480;
const LOOKED_THROUGH = 20;  // parts, to find one whose picture is kept

// query: what was asked for, as it stands in the address. found: the answer. pictured: what the picture is of.
const shifts = { query: new URLSearchParams("span=shift"), found: null, text: "", pictured: "" };

export async function loadShifts(text) {
  const query = new URLSearchParams(text);
  if (!text && state.station) query.set("station", state.station);
  if (!query.has("span") && !query.has("since")) query.set("span", "shift");
  shifts.query = query;
  await Promise.all([state.tasks.length ? null : loadTasks(), state.stations.length ? null : loadStations()]);
  showChoices();
  await load();
}

async function load() {
  const { query } = shifts;
  const found = await api(`v1/statistics?${query}`);
  if (query !== shifts.query) return;  // another was asked for meanwhile
  const text = JSON.stringify(found);
  const same = text === shifts.text;
  Object.assign(shifts, { found, text });
  if (isPresent() && query.has("at")) {  // it is to go on with the time
    query.delete("at");
    history.replaceState(null, "", `#shifts/${query}`);
  }
  showWhen();
  if (!same) show();
}

const isPresent = () => shifts.found != null && Date.parse(shifts.found.since) <= serviceNow() && serviceNow() < Date.parse(shifts.found.until);

// ---- what is asked for

function showChoices() {
  const { query } = shifts;
  const choose = (id, names) => {
    const name = query.get(id.slice("shift-".length)) ?? "";
    setOptions($(id), name && !names.includes(name) ? [...names, name] : names, "all");
    $(id).value = name;
  };
  $("shift-span").value = query.get("span") ?? "";
  choose("shift-task", state.tasks.map(({ name }) => name));
  const stations = state.stations.map(({ name }) => name).filter(Boolean);
  choose("shift-station", stations);
  $("shift-station-box").hidden = !stations.length && !query.get("station");
}

/** Asks for something else; null takes a part of the query away. */
function go(changes) {
  const query = new URLSearchParams(shifts.query);
  for (const [name, value] of Object.entries(changes)) if (value) query.set(name, value); else query.delete(name);
  if (query.has("span")) for (const name of ["since", "until"]) query.delete(name);
  const next = `#shifts/${query}`;
  if (location.hash === next) load().catch(complain);
  else location.hash = next;
}

function turn(later) {
  if (!shifts.found) return;
  const { since, until } = shifts.found;
  const at = later ? until : new Date(Date.parse(since) - 1000).toISOString();
  go({ span: $("shift-span").value || "shift", at: at.replace(/\.000Z$/, "Z") });
}

// ---- what it adds up to

function showWhen() {
  const { since, until, span } = shifts.found;
  const now = isPresent();
  const word = span ?? "time";
  put("shift-when", `${now ? `This ${word}` : `${word[0].toUpperCase()}${word.slice(1)}`}: ${stretch(since, until)}`);
  put("shift-live", now ? "Still counting." : "");
  $("shift-next").disabled = Date.parse(until) > serviceNow();
  $("shift-now").hidden = now;
}

function show() {
  const { parts, latency_ms: latency, places, tasks, stations, series, since, until } = shifts.found;
  const filter = filterOf();
  pointExports($("shift-csv"), $("shift-json"), filter);
  $("shift-report").href = `v1/report?${shifts.query}`;
  $("shift-history").href = `#history/${filter}`;
  $("shift-figures").replaceChildren(figure("inspected", whole(parts.inspected)), figure("yield", yieldOf(parts), "", "Good of good, defect and unknown"),
    ...["good", "defect", "unknown"].map((kind) => figure(kind, whole(parts[kind]), kind)),
    ...(parts.uncalibrated ? [figure("uncalibrated", whole(parts.uncalibrated))] : []));
  const called = parts.called_good + parts.called_defect ? ` A person called ${whole(parts.called_good)} good and ${whole(parts.called_defect)} defect.` : "";
  put("shift-latency", latency.median == null ? "Nothing was inspected." : `Latency: median ${milliseconds(latency.median)}, 95 % within ${milliseconds(latency.p95)}, 99 % within ${milliseconds(latency.p99)}.${called}`);
  showSeries(series);
  fill("shift-tasks", tasks, "task", "no known product");
  fill("shift-stations", stations, "station", "without a station");
  showPlaces($("shift-places"), places);
  showPicture(tasks, since, until).catch(() => {});  // the places are seen without it
}

/** The same as a filter of inspections. */
function filterOf() {
  const { since, until, station, task } = shifts.found;
  const filter = new URLSearchParams({ since, until });
  if (task != null) filter.set("task", task);
  if (station != null) filter.set("station", station);
  return filter;
}

const yieldOf = (parts) => (parts.yield == null ? "–" : percent(parts.yield));

function figure(name, value, kind = "", title = null) {
  return el("div", { class: kind, title }, el("dt", {}, kind ? icon(kind) : null, name), el("dd", {}, value));
}

function cells(parts) {
  return ["inspected", "good", "defect", "unknown"].map((key) => el("td", { class: key === "good" ? "num wide-only" : "num" }, whole(parts[key]))).concat(el("td", { class: "num" }, yieldOf(parts)));
}

function showSeries(series) {
  barChart($("shift-bars"), "Over time", series, shifts.found.by);
  $("shift-series").tBodies[0].replaceChildren(...series.filter(({ inspected }) => inspected).map((step) => el("tr", {}, el("th", { scope: "row" }, stretch(step.begin, step.end)), ...cells(step))));
}

/** A table of names, the largest first; a name leads to what is its alone. */
function fill(id, list, key, nameless) {
  const table = $(id);
  const rows = [...list].sort((a, b) => b.inspected - a.inspected);
  const focused = table.contains(document.activeElement) ? document.activeElement.textContent : null;
  table.tBodies[0].replaceChildren(...rows.map((row) => {
    const name = row[key];
    const alone = shifts.found[key] != null;
    const query = new URLSearchParams(shifts.query);
    query.set(key, name);
    return el("tr", {}, el("th", { scope: "row" }, !name ? nameless : alone ? name : el("a", { href: `#shifts/${query}` }, name)), ...cells(row));
  }));
  if (focused != null) [...table.querySelectorAll("a")].find((link) => link.textContent === focused)?.focus();
  table.hidden = !rows.length;
  $(`${id}-empty`).hidden = rows.length > 0;
}

/** Below the places, the latest part of the task: where there are several, the places are not those of one picture. */
async function showPicture(tasks, since, until) {
  const { task, station } = shifts.found;
  const one = task || (task == null && tasks.length === 1 ? tasks[0].task : "");
  const key = one && tasks.length ? `${one}\n${station}\n${since}\n${until}` : "";
  put("shift-places-note", key || !tasks.length ? "" : "Of all tasks together. Choose one to see them over a part of it.");
  if (key === shifts.pictured) return;
  shifts.pictured = key;
  $("shift-part").hidden = true;
  $("shift-places").style.aspectRatio = "";
  if (!key) return;
  const query = new URLSearchParams({ task: one, since, until, limit: LOOKED_THROUGH });
  if (station != null) query.set("station", station);
  try {
    const part = (await api(`v1/inspections?${query}`)).inspections.find(({ has_image: kept }) => kept);
    if (!part || shifts.pictured !== key) return;
    await smallPicture($("shift-part"), part, PICTURE_SIDE);
    if (shifts.pictured !== key) return;
    $("shift-places").style.aspectRatio = `${part.width} / ${part.height}`;
    $("shift-part").hidden = false;
  } catch (error) {
    shifts.pictured = "";  // it is tried again
    throw error;
  }
}

export function connectShifts() {
  on("shift-filters", "submit", (event) => event.preventDefault());
  on("shift-span", "change", () => go({ span: $("shift-span").value, at: isPresent() ? null : shifts.found?.since.replace(/\.000Z$/, "Z") }));
  on("shift-task", "change", () => go({ task: $("shift-task").value }));
  on("shift-station", "change", () => go({ station: $("shift-station").value }));
  on("shift-before", "click", () => turn(false));
  on("shift-next", "click", () => turn(true));
  on("shift-now", "click", () => go({ span: $("shift-span").value || "shift", at: null }));
  connectExports([$("shift-csv"), $("shift-json")], [$("shift-report")]);
  watch("tasks stations", () => { if (state.view === "shifts") showChoices(); });
  watch("status", () => {
    if (state.view !== "shifts" || !shifts.found) return;
    if (isPresent() || !shifts.query.has("at")) load().catch(() => {});  // the banner says what is wrong
  });
  new ResizeObserver(() => { if (state.view === "shifts" && shifts.found) showSeries(shifts.found.series); }).observe($("main"));
}
