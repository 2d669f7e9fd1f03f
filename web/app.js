// The page of `contcore serve`. No framework and no build step: what stands here is what runs. This file starts it,
// and knows which view is open; each view is a module of its own.
import { closeAlarm, connectAlarm, lookAtAlarm } from "./alarm.js";
import { connectBanners } from "./banners.js";
import { $, on } from "./dom.js";
import { connectDrawing } from "./drawing.js";
import { heartbeat, loadTasks, wake } from "./heartbeat.js";
import { connectHistory, loadHistory } from "./history.js";
import { connectInspect } from "./inspect.js";
import { keep } from "./keep.js";
import { connectLearn, isSending, loadJobs } from "./learn.js";
import { connectLessons, loadLessons } from "./lessons.js";
import { connectLive, enterLive, liveKeys } from "./live.js";
import { connectMemory, loadMemory } from "./memory.js";
import { complain, connectNotice, notice, openDialog } from "./notice.js";
import { connectSession } from "./session.js";
import { connectShifts, loadShifts } from "./shifts.js";
import { connectSound } from "./sound.js";
import { connectStation, enterStation, fullScreen } from "./station.js";
import { state, update } from "./store.js";
import { connectThresholds, loadThreshold } from "./thresholds.js";

// ---- which view is open

const ENTER = {
  live: (id) => enterLive(id),
  station: () => enterStation(),
  learn: () => loadJobs(),
  memory: () => loadMemory(),
  thresholds: (task) => loadThreshold(task || undefined),
  history: (query) => loadHistory(query),
  shifts: (query) => loadShifts(query),
  lessons: () => loadLessons(),
};

async function enter() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const view = ENTER[name] ? name : "live";
  update({ view });
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== view;
  document.body.classList.toggle("at-station", view === "station");
  for (const link of $("nav").children) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view[0].toUpperCase()}${view.slice(1)}${state.station ? ` · ${state.station}` : ""} · contcore`;
  wake();
  if ($("sign-in").open) return;
  try {
    const text = rest.join("/");
    await ENTER[view](view === "history" || view === "shifts" ? text : decodeURIComponent(text));
  } catch (error) { complain(error); }
}

/** A link's view is another one: what had the focus may be hidden, so the content gets it. */
function onHash() {
  const before = state.view;
  enter();
  if (state.view === before) return;
  if (!$("nav").contains(document.activeElement)) $("main").focus({ preventScroll: true });
  notice("");
  window.scrollTo({ top: 0 });
}

// ---- keys

const KEYS = { live: liveKeys, station: { f: fullScreen, Escape: () => { location.hash = "#live"; } } };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.("select, textarea, input:not([type=checkbox])")) return;
  if (event.key === "Escape" && state.view === "live") return liveKeys.n();
  if (!$("keys-on").checked) return;
  if (event.key === "?") return openDialog($("help"));
  if (event.key === "a") return lookAtAlarm();
  if (event.key === "x") return closeAlarm();
  const action = KEYS[state.view]?.[event.key];
  if (!action || (event.repeat && event.key.length === 1)) return;
  event.preventDefault();
  action();
}

// ---- the theme; theme.js has set it already

const THEMES = ["auto", "light", "dark"];

function showTheme() {
  const theme = keep.get("theme", "auto");
  const words = { auto: "as the system", light: "light", dark: "dark" }[theme] ?? "as the system";
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  $("theme-icon").setAttribute("href", theme === "light" || theme === "dark" ? `#i-${theme}` : "#i-theme");
  $("theme").setAttribute("aria-label", `Theme: ${words}`);
  $("theme").title = `Theme: ${words}`;
}

function nextTheme() {
  keep.set("theme", THEMES[(THEMES.indexOf(keep.get("theme", "auto")) + 1) % THEMES.length]);
  showTheme();
}

// ---- start

function connectPage() {
  showTheme();
  on("theme", "click", nextTheme);
  on("help-open", "click", () => openDialog($("help")));
  on("help-close", "click", () => $("help").close());
  $("keys-on").checked = keep.get("keys", "on") === "on";
  on("keys-on", "change", () => keep.set("keys", $("keys-on").checked ? "on" : "off"));
  on("skip", "click", (event) => { event.preventDefault(); $("main").focus(); });
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) wake(); });
  window.addEventListener("online", wake);
  window.addEventListener("hashchange", onHash);
  window.addEventListener("beforeunload", (event) => { if (isSending()) event.preventDefault(); });
}

for (const connect of [connectNotice, connectBanners, connectSound, connectLive, connectStation, connectAlarm, connectInspect, connectDrawing, connectLearn, connectMemory,
  connectThresholds, connectHistory, connectShifts, connectLessons, connectPage]) connect();
connectSession(() => { wake(); loadTasks().catch(complain); enter(); });
enter();
heartbeat();
