// A defect, or a part that is no known product, breaks through whatever is open: a banner above all, with its picture.
// It pushes the page down and covers nothing; a newer one takes its place, and it goes by key or click alone.
import { $, on, put } from "./dom.js";
import { openBeside } from "./live.js";
import { thumbnail } from "./pictures.js";
import { soundAlarm } from "./sound.js";
import { state, watch } from "./store.js";
import { isAlarming, moment, reasonOf, wordOf } from "./words.js";

let raised = null;  // the newest that was not closed
let before = 0;     // how many were raised before it and not closed either

/** Whether the large view shows it as the newest, with nothing else open. */
function standsLarge(one) {
  const looks = state.view === "station" || (state.view === "live" && state.beside == null);
  return looks && state.recent?.[0]?.id === one.id && !document.querySelector("dialog[open]");
}

function raise() {
  const alarming = state.fresh.filter(isAlarming);
  if (!alarming.length) return;
  soundAlarm(alarming[0].verdict);
  // The station's display has a place of its own for the last one.
  if (state.view === "station" || standsLarge(alarming[0])) return;
  before += alarming.length - (raised ? 0 : 1);
  [raised] = alarming;
  show();
}

function show() {
  const one = raised;
  $("alarm").className = `alarm ${one.verdict}`;
  $("alarm-icon").setAttribute("href", `#i-${one.verdict}`);
  put("alarm-word", wordOf(one.verdict));
  put("alarm-why", [one.task, reasonOf(one)].filter(Boolean).join(": "));
  put("alarm-where", [one.station, moment(one.time), `part ${one.id}`, before ? `${before} more before it` : ""].filter(Boolean).join(" · "));
  const canvas = $("alarm-picture");
  canvas.width = canvas.height = 1;
  thumbnail(canvas, one, 240);
  place();
}

/** Above every dialog: inside the topmost one, since what is outside of it cannot be clicked. */
function place() {
  if (!raised) return;
  const host = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if ($("alarm").parentNode !== host) host.append($("alarm"));
  if (!$("alarm").matches(":popover-open")) $("alarm").showPopover();
  document.body.style.setProperty("--alarm", `${$("alarm").offsetHeight}px`);
}

export function closeAlarm() {
  if (!raised) return false;
  raised = null;
  before = 0;
  $("alarm").hidePopover();
  document.body.append($("alarm"));
  document.body.style.removeProperty("--alarm");
  return true;
}

export function lookAtAlarm() {
  if (!raised) return;
  const { id } = raised;
  closeAlarm();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  if (state.view === "live") openBeside(id);
  else location.hash = `#live/${id}`;
}

export function connectAlarm() {
  watch("fresh", raise);
  on("alarm-close", "click", closeAlarm);
  on("alarm-look", "click", lookAtAlarm);
  document.addEventListener("dialog", place);
  document.addEventListener("close", place, { capture: true });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !closeAlarm()) return;
    event.preventDefault();  // a dialog below it stays
    event.stopPropagation();
  }, { capture: true });
  new ResizeObserver(() => { if (raised) document.body.style.setProperty("--alarm", `${$("alarm").offsetHeight}px`); }).observe($("alarm"));
}
