// What was inspected, filtered, page by page.
import { api } from "./api.js";
import { $, el, icon, on, put, setOptions } from "./dom.js";
import { connectExports, pointExports } from "./exports.js";
import { loadStations, loadTasks } from "./heartbeat.js";
import { complain } from "./notice.js";
import { smallPicture } from "./pictures.js";
import { state, watch } from "./store.js";
import { dated, milliseconds, num, wordOf } from "./words.js";

const SIDE = 112;  // of a small picture
const TIMES = ["since", "until"];

// Where each page started, to find back: null is the newest.
const past = { starts: [null], next: null };

export async function loadHistory(query) {
  const filters = new URLSearchParams(query);
  await Promise.all([state.tasks.length ? null : loadTasks(), state.stations.length ? null : loadStations()]);
  if (!query && state.station) filters.set("station", state.station);
  for (const field of $("filters").elements) {
    if (field.name) field.value = TIMES.includes(field.name) ? hereTime(filters.get(field.name)) : filters.get(field.name) ?? "";
  }
  $("filters-clear").hidden = !query;
  past.starts = [null];
  await loadPage();
}

async function loadPage() {
  const query = filterQuery();
  pointExports($("past-csv"), $("past-json"), query);
  const before = past.starts.at(-1);
  query.set("limit", 50);
  if (before != null) query.set("before", before);
  const { inspections, next } = await api(`v1/inspections?${query}`);
  past.next = next;
  seen.disconnect();
  $("past").tBodies[0].replaceChildren(...inspections.map(row));
  $("past").hidden = !inspections.length;
  $("past-empty").hidden = inspections.length > 0;
  $("newer-page").disabled = past.starts.length === 1;
  $("older-page").disabled = next == null;
  put("pager-text", inspections.length ? `${inspections[0].id} to ${inspections.at(-1).id}, newest first` : "");
}

function filterQuery() {
  const query = new URLSearchParams(new FormData($("filters")));
  for (const [name, value] of [...query]) {
    if (!value.trim()) query.delete(name);
    else if (TIMES.includes(name)) query.set(name, new Date(value).toISOString().replace(".000Z", "Z"));
  }
  return query;
}

/** A time of the service, in UTC, as a field of this clock shows it. */
function hereTime(text) {
  const time = Date.parse(text ?? "");
  if (!time) return "";
  const date = new Date(time - new Date(time).getTimezoneOffset() * 60e3).toISOString();
  return date.slice(0, date.endsWith(":00.000Z") ? 16 : 19);
}

// A picture is asked for when its row comes into sight.
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    smallPicture(target, target.one, SIDE).catch(() => {});  // its place stays empty
  }
}, { rootMargin: "150px" });

function pictureCell(one) {
  const canvas = el("canvas", { class: "small-picture", width: 1, height: 1, "aria-hidden": "true" });
  canvas.one = one;
  if (one.has_image) seen.observe(canvas);
  return el("td", { class: "picture", title: one.has_image ? null : "The image is no longer kept." }, canvas);
}

function row(one) {
  const mark = one.feedback ? [icon(one.feedback), `${one.feedback}${one.learned ? ", learned" : ""}`] : ["–"];
  return el("tr", { onclick: () => { location.hash = `#live/${one.id}`; } }, pictureCell(one),
    el("td", { class: "num" }, el("a", { href: `#live/${one.id}`, "aria-label": `Open inspection ${one.id}` }, one.id)),
    el("td", {}, dated(one.time), el("span", { class: "file-below" }, one.source)), el("td", { class: "word", title: one.reason || null }, icon(one.verdict), wordOf(one.verdict)),
    el("td", { class: "num" }, num(one.score)), el("td", { class: "num wide-only" }, num(one.threshold)), el("td", {}, one.task ?? "–"),
    el("td", { class: "wide-only" }, one.station || "–"), el("td", { class: "wide-only" }, one.source || "–"), el("td", { class: "word" }, ...mark),
    el("td", { class: "num wide-only" }, milliseconds(one.latency_ms)));
}

function turn(older) {
  if (older) past.starts.push(past.next);
  else past.starts.pop();
  loadPage().catch(complain);
  window.scrollTo({ top: 0 });
}

export function connectHistory() {
  const filter = (event) => { event.preventDefault(); location.hash = `#history/${filterQuery()}`; };
  on("filters", "change", filter);
  on("filters", "submit", filter);
  connectExports([$("past-csv"), $("past-json")], []);
  on("filters-clear", "click", () => { location.hash = "#history"; });
  on("newer-page", "click", () => turn(false));
  on("older-page", "click", () => turn(true));
  watch("tasks", () => setOptions($("filter-task"), state.tasks.map(({ name }) => name), "any"));
  watch("stations", () => {
    const names = state.stations.map(({ name }) => name).filter(Boolean);
    setOptions($("filter-station"), names, "any");
    $("filter-station-box").hidden = !names.length;
  });
}
