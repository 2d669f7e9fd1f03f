// The live view. What stands large is the newest part of the station, or says in large letters that it is not; an
// older part opens beside it, never in its place.
import { api } from "./api.js";
import { $, on, put } from "./dom.js";
import { connectFeedback, giveFeedback, giveRegion, showFeedback } from "./feedback.js";
import { keep } from "./keep.js";
import { age, whyNotLive } from "./liveness.js";
import { complain } from "./notice.js";
import { Part } from "./part.js";
import { state, update, watch } from "./store.js";
import { connectStrip, showStrip, stripAround, stripNeighbour } from "./strip.js";
import { moment, num, span, wordOf } from "./words.js";

let now = null;     // the newest
let beside = null;  // an older one

// ---- the newest

function showNow() {
  const instead = whyNotLive();
  const newest = state.recent?.[0];
  $("first").hidden = instead?.kind !== "first";
  $("live").classList.toggle("nothing", instead?.kind === "first");
  $("live").classList.toggle("old", instead != null && instead.kind !== "first");
  showFirst();
  if (!newest) now.clear();
  else if (now.one?.id !== newest.id || instead == null) now.show(newest).then(() => { showAge(); showFeedback(now); });
  if (instead) {
    now.showInstead(instead, instead.kind);
    speakOnce(instead.word);
  }
  showAge();
  showFeedback(now);
}

/** The words that stand large may grow old by themselves. */
function showAge() {
  const instead = whyNotLive();
  if (instead) return now.showInstead(instead, instead.kind);
  const { one } = now;
  if (!one) return;
  if (now.at("verdict").classList.contains("none")) {
    now.showVerdict(one);
    $("live").classList.remove("old");
  }
  const seconds = age(one);
  put(now.at("verdict-age"), seconds < 10 ? "now" : `${span(seconds)} ago`);
}

/** What to do first, with what is done already. */
function showFirst() {
  const learned = state.status?.tasks > 0;
  for (const [id, done] of [["first-learn", learned], ["first-inspect", false]]) $(id).classList.toggle("done", done);
  $("first-learn-go").classList.toggle("primary", !learned);
  $("first-inspect-go").classList.toggle("primary", learned);
  $("first-inspect-go").disabled = !learned;
  put("first-learn-text", learned ? `Done: ${state.tasks.map((task) => task.name).slice(0, 5).join(", ")}. You can learn more at any time.`
    : "Give it twenty or more pictures of good parts. It needs no defects.");
}

// Tells a screen reader what it needs: of the parts that pass by, defects and changes, not more than one in four seconds.
let spokenAt = -Infinity;
let spokenWord = "";
function speak(text) {
  spokenAt = performance.now();
  put("spoken", text);
}
function speakOnce(word) {
  if (state.view === "live" && spokenWord !== word) speak(word);
  spokenWord = word;
}
function speakParts() {
  const [newest] = state.fresh;
  if (!newest || state.view !== "live" || performance.now() - spokenAt < 4000) return;
  if (newest.verdict !== "defect" && newest.verdict !== "unknown" && spokenWord === newest.verdict) return;
  spokenWord = newest.verdict;
  speak(`${wordOf(newest.verdict)}, score ${num(newest.score)}${newest.task ? `, ${newest.task}` : ""}`);
}

// ---- an older one, beside it

function showBeside() {
  const one = state.beside;
  $("beside").hidden = one == null;
  $("live").classList.toggle("two", one != null);
  if (one == null) {
    beside.clear();
    return showStrip(null);
  }
  const isNewest = one.id != null && one.id === state.recent?.[0]?.id;
  put("beside-h", one.id == null ? "This part was not kept" : `${isNewest ? "This part" : "An older part"}: ${one.id}, ${moment(one.time)}`);
  beside.show(one).then(() => showFeedback(beside));
  showFeedback(beside);
  showStrip(one);
}

/** Looks at a part beside the newest. The address says so, so that a reload or a link shows the same. */
export async function openBeside(id) {
  const at = [...(state.recent ?? []), ...stripAround()].find((one) => one.id === id);
  history.replaceState(null, "", `#live/${id}`);
  try {
    const one = at ?? await api(`v1/inspections/${id}`);
    if (location.hash !== `#live/${id}`) return;
    update({ beside: one });
    speak(`${wordOf(one.verdict)}, score ${num(one.score)}, inspection ${id}, beside the newest`);
  } catch (error) {
    if (error.status === 401) return;
    complain(error, `Inspection ${id}`);
    if (error.status === 404) closeBeside();
  }
}

/** A verdict that the service could not keep: nothing else will show it again. */
export function showUnkept(one) {
  history.replaceState(null, "", "#live");
  update({ beside: one });
}

export function closeBeside() {
  if (state.view === "live") history.replaceState(null, "", "#live");
  if (state.beside == null) return;
  const focused = $("beside").contains(document.activeElement);
  update({ beside: null });
  if (focused) $("main").focus({ preventScroll: true });
}

/** What is said is said of a part that stays in sight: the newest is opened beside first. */
async function hold(part) {
  if (part === beside) return beside;
  update({ beside: part.one });
  history.replaceState(null, "", `#live/${part.one.id}`);
  await beside.show(part.one);
  return beside;
}

const looked = () => (state.beside ? beside : now);

function step(by) {
  const next = stripNeighbour(state.beside ?? state.recent?.[0], by);
  if (!next) return;
  if (next.id === state.recent?.[0]?.id) closeBeside();
  else openBeside(next.id);
}

function showLook() {
  const opacity = Number($("opacity").value);
  $("live").style.setProperty("--heat", opacity / 100);
  put("opacity-out", `${opacity} %`);
  $("live").classList.toggle("no-outline", !$("outline").checked);
  $("live").classList.toggle("no-boxes", !$("boxes").checked);
  keep.set("opacity", opacity);
  keep.set("outline", $("outline").checked ? "on" : "off");
  keep.set("boxes", $("boxes").checked ? "on" : "off");
}

export const liveKeys = {
  g: () => giveFeedback(looked(), hold, "good"), d: () => giveFeedback(looked(), hold, "defect"), u: () => giveFeedback(looked(), hold, ""),
  m: () => giveRegion(looked(), hold), ArrowLeft: () => step(-1), ArrowRight: () => step(1), n: closeBeside,
  o: () => $("outline").click(), i: () => $("inspect-open").click(), f: () => { location.hash = "#station"; },
};

export function enterLive(id) {
  if (Number(id)) return openBeside(Number(id));
  closeBeside();
  return showNow();
}

export function connectLive() {
  now = new Part($("now"));
  beside = new Part($("beside-part"));
  connectFeedback(now, hold);
  connectFeedback(beside, hold);
  connectStrip((id) => (id === state.recent?.[0]?.id ? closeBeside() : openBeside(id)));
  $("opacity").value = keep.get("opacity", "60");
  $("outline").checked = keep.get("outline", "on") === "on";
  $("boxes").checked = keep.get("boxes", "on") === "on";
  showLook();
  for (const [id, event] of [["opacity", "input"], ["outline", "change"], ["boxes", "change"]]) on(id, event, showLook);
  on("beside-close", "click", closeBeside);
  on("first-inspect-go", "click", () => $("inspect-open").click());
  watch("recent error", () => { showNow(); showStrip(state.beside); });
  watch("status tasks", () => { showNow(); showFeedback(now); showFeedback(beside); });
  watch("fresh", speakParts);
  watch("beside", showBeside);
  setInterval(showAge, 1000);
}
