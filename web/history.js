// What was inspected, filtered, page by page.
import { api } from "./api.js";
import { $, el, icon, on, put, setOptions } from "./dom.js";
import { loadStations, loadTasks } from "./heartbeat.js";
import { complain } from "./notice.js";
import { state, watch } from "./store.js";
import { milliseconds, num, when, wordOf } from "./words.js";

// Where each page started, to find back: null is the newest.
const past = { starts: [null], next: null };

export async function loadHistory(query) {
  const filters = new URLSearchParams(query);
  await Promise.all([state.tasks.length ? null : loadTasks(), state.stations.length ? null : loadStations()]);
  if (!query && state.station) filters.set("station", state.station);
  for (const field of $("filters").elements) if (field.name) field.value = filters.get(field.name) ?? "";
  $("filters-clear").hidden = !query;
  past.starts = [null];
  await loadPage();
}

async function loadPage() {
  const query = filterQuery();
  const before = past.starts.at(-1);
  query.set("limit", 50);
  if (before != null) query.set("before", before);
  const { inspections, next } = await api(`v1/inspections?${query}`);
  past.next = next;
  $("past").tBodies[0].replaceChildren(...inspections.map(row));
  $("past").hidden = !inspections.length;
  $("past-empty").hidden = inspections.length > 0;
  $("newer-page").disabled = past.starts.length === 1;
  $("older-page").disabled = next == null;
  put("pager-text", inspections.length ? `${inspections[0].id} to ${inspections.at(-1).id}, newest first` : "");
}

function filterQuery() {
  const query = new URLSearchParams(new FormData($("filters")));
  for (const [name, value] of [...query]) if (!value.trim()) query.delete(name);
  return query;
}

function row(one) {
  const mark = one.feedback ? [icon(one.feedback), `${one.feedback}${one.learned ? ", learned" : ""}`] : ["–"];
  return el("tr", { onclick: () => { location.hash = `#live/${one.id}`; } },
    el("td", { class: "num" }, el("a", { href: `#live/${one.id}`, "aria-label": `Open inspection ${one.id}` }, one.id)),
    el("td", {}, when(one.time)), el("td", { class: "word", title: one.reason || null }, icon(one.verdict), wordOf(one.verdict)),
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
