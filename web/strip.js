// The strip of small pictures below the live view: the latest parts, or those around the one that is looked at. One
// stop for the tab key; the arrows move within it.
import { api } from "./api.js";
import { $, el, icon, put } from "./dom.js";
import { ofStation, STRIP } from "./heartbeat.js";
import { thumbnail } from "./pictures.js";
import { state } from "./store.js";
import { clock, num, wordOf } from "./words.js";

const thumbs = new Map();
let queue = Promise.resolve();  // pictures are drawn one after the other
let around = null;              // the strip while an older part is looked at; null: follow the newest
let choose = () => {};

export function connectStrip(chosen) { choose = chosen; }

export const stripAround = () => around ?? [];
const shown = () => around ?? state.recent ?? [];

/** The part so many places older than this one. */
export function stripNeighbour(one, by) {
  const list = shown();
  const at = list.findIndex((other) => other.id === one?.id);
  return at < 0 ? list[0] : list[at + by];
}

export function showStrip(beside) {
  if (beside?.id == null) around = null;
  else freeze(beside);
  draw(beside?.id ?? state.recent?.[0]?.id);
}

/** The strip stands still around a part that is looked at. */
function freeze(one) {
  const list = shown();
  const at = list.findIndex((other) => other.id === one.id);
  around = at < 0 ? [one] : [...list];
  showNewer(one);
  if (at > 0 && at < list.length - 1) return;
  // Identifiers count up, so this has those around it; after the last page it has fewer.
  api(ofStation(`v1/inspections?before=${one.id + STRIP / 2}&limit=${STRIP}`)).then(({ inspections }) => {
    if (state.beside?.id !== one.id || !inspections.some((other) => other.id === one.id)) return;
    around = inspections;
    draw(one.id);
  }, () => {});  // the part itself is shown all the same
}

/** Says how many came in meanwhile. */
function showNewer(one) {
  const newer = (state.recent ?? []).filter((other) => other.id > one.id).length;
  put("newer", newer ? `${newer}${newer === STRIP ? "+" : ""} newer` : "");
}

function draw(chosen) {
  const box = $("strip");
  const list = shown();
  const focused = box.contains(document.activeElement);
  const nodes = list.map((one) => thumbs.get(one.id) ?? make(one));
  for (const id of thumbs.keys()) if (!list.some((one) => one.id === id)) thumbs.delete(id);
  box.hidden = !list.length;
  if (around == null) put("newer", "");
  if (nodes.length !== box.children.length || nodes.some((node, i) => node !== box.children[i])) box.replaceChildren(...nodes);
  mark(chosen);
  if (focused) thumbs.get(chosen)?.focus();
}

function make(one) {
  const open = () => choose(one.id);
  const canvas = el("canvas", { width: 1, height: 1 });
  const node = el("div", { role: "option", tabindex: "-1", class: `thumb ${one.verdict}`, "aria-selected": "false",
    "aria-label": `${wordOf(one.verdict)}, ${num(one.score)}, ${clock(one.time)}, inspection ${one.id}`,
    onclick: open, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } } },
  canvas, icon(one.verdict), el("span", { class: "thumb-score" }, num(one.score)));
  thumbs.set(one.id, node);
  queue = queue.then(() => (node.isConnected ? thumbnail(canvas, one) : null));
  return node;
}

function mark(chosen) {
  for (const [id, node] of thumbs) {
    const is = id === chosen;
    const moved = is && node.getAttribute("aria-selected") !== "true";
    node.setAttribute("aria-selected", is);
    node.tabIndex = is ? 0 : -1;
    if (!moved) continue;
    $("strip").scrollLeft = node.offsetLeft - ($("strip").clientWidth - node.clientWidth) / 2;  // scrollIntoView would move the page too
  }
}
