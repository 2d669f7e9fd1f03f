"use strict";
// The page of `contcore serve`. No framework and no build step: what stands here is what runs.
// Text from the service only ever becomes textContent; styles only change through CSSOM (the CSP wants both).

// ---------------------------------------------------------------- small tools

const $ = (id) => document.getElementById(id);

/** Sets a text, only where it differs: a screen reader would say it again. */
function put(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

/** An element: el("p", {class: "note", onclick: f}, "text", node, …). */
function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

function icon(name) {
  return svg("svg", { "aria-hidden": "true", class: `icon ${name}` }, svg("use", { href: `#i-${name}` }));
}

/** Four figures or so, with a fixed number of decimals so that columns line up. */
function num(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  const digits = size >= 100 ? 1 : size >= 1 || size === 0 ? 2 : 4;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
const whole = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });
const percent = (value, digits = 1) => `${(value * 100).toFixed(digits).replace(/\.0+$/, "")} %`;
const milliseconds = (value) => `${value.toFixed(1)} ms`;
const count = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

const clock = (text) => new Date(text).toLocaleTimeString("en-GB");
function when(text) {
  if (!text) return el("span", {}, "–");
  const date = new Date(text);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, `;
  return el("time", { datetime: text, title: date.toLocaleString("en-GB") }, day + clock(text));
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Runs work on all items, at most `width` at a time; the first failure ends it. */
async function pool(items, width, work) {
  const rest = items.values();
  const lane = async () => { for (const item of rest) await work(item); };
  await Promise.all(Array.from({ length: width }, lane));
}

/** Storage can be forbidden; the page then forgets, and works. */
const keep = {
  get(name, otherwise) { try { return localStorage.getItem(name) ?? otherwise; } catch { return otherwise; } },
  set(name, value) { try { localStorage.setItem(name, value); } catch { /* forgotten */ } },
};
const token = {
  get() { try { return sessionStorage.getItem("token") ?? ""; } catch { return ""; } },
  set(value) { try { sessionStorage.setItem("token", value); } catch { /* forgotten */ } },
};

// ---------------------------------------------------------------- theme (before the first paint)

const THEMES = ["auto", "light", "dark"];
let theme = keep.get("theme", "auto");
function applyTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
applyTheme();

function showTheme() {
  const words = { auto: "as the system", light: "light", dark: "dark" }[theme];
  $("theme-icon").setAttribute("href", theme === "auto" ? "#i-theme" : `#i-${theme}`);
  $("theme").setAttribute("aria-label", `Theme: ${words}`);
  $("theme").title = `Theme: ${words}`;
}

function nextTheme() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  keep.set("theme", theme);
  applyTheme();
  showTheme();
}

// ---------------------------------------------------------------- the service

class ApiError extends Error {
  constructor(status, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function problemOf(response) {
  let text = `${response.status} ${response.statusText}`;
  try {
    const problem = await response.json();
    text = problem.detail || problem.title || text;
  } catch { /* not JSON: the status has to do */ }
  const retry = response.headers.get("Retry-After");
  return new ApiError(response.status, text, retry == null ? null : Number(retry) || 1);
}

/** One request. `raw` gives the response itself; everything else is JSON. */
async function api(path, { method = "GET", json, body, type, signal, raw = false, patience = 15 } = {}) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (json !== undefined) { body = JSON.stringify(json); type = "application/json"; }
  if (type) headers["Content-Type"] = type;
  const timeout = AbortSignal.timeout(patience * 1000);
  let response;
  try {
    response = await fetch(path, { method, headers, body, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The service cannot be reached.");
  }
  if (response.status === 401) askToken();
  if (!response.ok) throw await problemOf(response);
  return raw ? response : response.json();
}

const post = (path, json, more = {}) => api(path, { method: "POST", json, patience: 120, ...more });

/** Sends an image; waits and tries again while the service is too busy to take it. */
async function sendImage(path, file, signal) {
  for (let tries = 1; ; ++tries) {
    try {
      return await post(path, undefined, { body: file, type: file.type || "application/octet-stream", signal });
    } catch (error) {
      const busy = error.retryAfter != null && (error.status === 503 || error.status === 429);
      if (!busy || tries >= 8) throw error;
      await sleep(Math.min(error.retryAfter, 10) * 1000);
      signal?.throwIfAborted();
    }
  }
}

// ---------------------------------------------------------------- what everybody sees: connection, role, notices

let status = null;
let view = "live";
let tasks = [];

const RANK = { inspect: 0, learn: 1, admin: 2 };

/** Why the user may not do something that needs a role; "" when they may. */
function whyNot(role) {
  if (!status) return "Waiting for the service.";
  if (RANK[status.role] < RANK[role]) return `Your role is “${status.role}”; this needs “${role}”.`;
  if (role === "learn" && status.learning.state === "stopped") return "Learning is stopped.";
  return "";
}

let noticeTimer = 0;
function notice(text, bad = true) {
  clearTimeout(noticeTimer);
  $("notice").hidden = !text;
  $("notice").classList.toggle("bad", bad);
  put("notice-text", text);
  if (!bad) noticeTimer = setTimeout(() => notice(""), 6000);
}

/** Reports a failure, unless something else on the page already says it. */
function complain(error, what = "") {
  if (error.name === "AbortError" || error.status === 401) return;
  notice(what ? `${what}: ${error.message}` : error.message);
}

function showStatus() {
  const { memory, learning, queue } = status;
  put("link-text", learning.state === "learning" ? "Learning" : queue.waiting ? `${queue.waiting} waiting` : "Connected");
  $("stopped").hidden = learning.state !== "stopped";
  put("stopped", `Learning is stopped (${learning.reason}). Inspection goes on.`);
  $("unkept").hidden = !status.unkept;
  put("unkept", `Inspections are not kept (${status.unkept}). Inspection goes on.`);
  put("about", `contcore ${status.version}, role ${status.role}. ${memory.backbone}. ${count(status.inspections, "inspection")}.`);
  $("sign-out").hidden = !token.get();
  showFeedback();
  showLearnGate();
  showThresholdGate();
}

function showLink(error, seconds) {
  $("link-state").className = `link-state ${error ? "lost" : "on"}`;
  $("lost").hidden = !error;
  if (!error) return;
  put("link-text", error.status ? "Busy" : "Connection lost");
  put("lost", `${error.status ? error.message : "Connection lost"}, trying again every ${count(seconds, "second")}. What is shown may be old.`);
}

async function loadStatus() {
  status = await api("v1/status");
  showStatus();
}

async function loadTasks() {
  tasks = (await api("v1/tasks")).tasks;
  const names = tasks.map((task) => task.name);
  setOptions($("inspect-task"), names, "Any task");
  setOptions($("filter-task"), names, "any");
  setOptions($("threshold-task"), names);
  $("task-names").replaceChildren(...names.map((name) => el("option", { value: name })));
}

/** Sets a select's options, keeping what is chosen. */
function setOptions(select, names, first) {
  const all = first == null ? names : ["", ...names];
  const same = select.options.length === all.length && all.every((name, i) => select.options[i].value === name);
  if (same) return;
  const chosen = select.value;
  select.replaceChildren(...all.map((name) => el("option", { value: name }, name || first)));
  if (all.includes(chosen)) select.value = chosen;
}

// The heartbeat: new inspections every second, slower when nobody looks or nobody answers.

let wake = () => {};
let statusAge = Infinity;

async function heartbeat() {
  let failures = 0;
  for (;;) {
    let pause = document.hidden ? 15 : view === "live" ? 1 : 4;
    if (!$("sign-in").open) {
      try {
        await beat();
        if (failures) await reconnected();
        failures = 0;
        showLink(null);
      } catch (error) {
        if (error.status !== 401) {
          pause = Math.max(error.retryAfter ?? 0, Math.min(15, 2 ** failures++));
          showLink(error, pause);
          statusAge = Infinity;
        }
      }
    }
    statusAge += pause;
    await Promise.race([sleep(pause * 1000), new Promise((resume) => { wake = resume; })]);
  }
}

async function beat() {
  if (statusAge >= 4) {
    statusAge = 0;
    const before = status?.tasks;
    await loadStatus();
    if (before !== status.tasks) await loadTasks();
    if (view === "memory") await loadMemory();
    if (view === "learn") await loadJobs();
  }
  await pollInspections();
}

/** A restarted service may count from 1 again: what is here no longer says what is new. */
async function reconnected() {
  live.recent = [];
  await loadTasks();
  await pollInspections();
}

// ---------------------------------------------------------------- sign in

function askToken() {
  const dialog = $("sign-in");
  if (dialog.open) return;
  put("sign-in-error", token.get() ? "This token is not accepted." : "");
  token.set("");
  $("help").close();
  dialog.showModal();
}

async function signIn(event) {
  event.preventDefault();
  token.set($("token").value.trim());
  try {
    await loadStatus();
    $("token").value = "";
    $("sign-in").close();
    statusAge = Infinity;
    wake();
    await loadTasks();
    await enter();
  } catch (error) {
    token.set("");
    put("sign-in-error", error.status === 401 ? "This token is not accepted." : error.message);
    $("token").select();
  }
}

function signOut() {
  token.set("");
  location.reload();
}

// ---------------------------------------------------------------- live: which inspection is shown

const STRIP = 20;
const WORD = { good: "Good", defect: "Defect", unknown: "Unknown", uncalibrated: "Uncalibrated" };

// recent: the newest, as polled. frozen: the strip while one inspection is held (null: follow the newest).
const live = { recent: [], frozen: null, held: null, shown: null, since: 0 };
const strip = () => live.frozen ?? live.recent;

async function pollInspections() {
  const newest = live.recent[0]?.id;
  const { inspections } = await api(`v1/inspections?limit=${STRIP}${newest == null ? "" : `&after=${newest}`}`);
  if (newest != null && !inspections.length) return;
  live.recent = [...inspections, ...live.recent].slice(0, STRIP);
  if (live.held == null) showNewest();
  else showNewer();
}

function showNewest() {
  live.held = live.frozen = null;
  showNewer();
  showStrip();
  if (live.recent.length) show(live.recent[0]);
  else showEmpty();
}

/** Says how many came in while one is held. */
function showNewer() {
  const newer = live.held == null ? 0 : live.recent.filter((one) => one.id > live.held).length;
  $("follow").checked = live.held == null;
  put("newer", newer ? ` (${newer}${newer === STRIP ? "+" : ""} new)` : "");
}

/** Holds one inspection: the strip stands still around it. */
async function hold(id) {
  live.held = id;
  const list = strip();
  const at = list.findIndex((one) => one.id === id);
  live.frozen = [...list];
  if (at >= 0) show(list[at]);
  showNewer();
  if (at > 0 && at < list.length - 1) return showStrip();
  try {
    // Identifiers count up, so this has those around it; after the last page it has fewer.
    const { inspections } = await api(`v1/inspections?before=${id + STRIP / 2}&limit=${STRIP}`);
    if (live.held !== id) return;
    const one = inspections.find((other) => other.id === id) ?? await api(`v1/inspections/${id}`);
    live.frozen = inspections.includes(one) ? inspections : [one];
    showStrip();
    show(one);
  } catch (error) {
    if (live.held !== id || error.status === 401) return;
    complain(error, `Inspection ${id}`);
    if (error.status === 404) location.hash = "#live";
  }
}

/** Shows a verdict that the service could not keep: nothing else will show it again. */
function showUnkept(one) {
  history.replaceState(null, "", "#live");
  live.frozen = [...strip()];
  live.held = 0;  // no inspection has this number
  live.shown = null;
  showNewer();
  show(one);
}

/** The address says what is held, so that a reload or a link shows the same. */
function goTo(id) {
  history.replaceState(null, "", id == null ? "#live" : `#live/${id}`);
  return id == null ? showNewest() : hold(id);
}

function step(by) {
  const list = strip();
  const next = list[list.findIndex((one) => one.id === live.shown?.id) + by];
  if (next) goTo(next.id);
}

// ---------------------------------------------------------------- live: what is shown of it

function show(inspection) {
  const before = live.shown;
  live.shown = inspection;
  if (before?.id !== inspection.id) live.since = performance.now();
  showVerdict(inspection);
  showScore(inspection);
  showFacts(inspection);
  showFeedback();
  markShown();
  if (before?.id === inspection.id) return;
  showPictures(inspection);
  speak(inspection, before);
}

function showEmpty() {
  live.shown = null;
  for (const id of ["score-box", "facts", "feedback", "strip", "pic-image", "pic-map", "pic-outline"]) $(id).hidden = true;
  $("verdict").className = "verdict none";
  put("verdict-word", status ? "No inspection yet" : "Waiting for the service");
  put("verdict-why", !status ? "" : status.tasks === 0 ? "Nothing is learned yet. Learn a task first." : "The newest will be shown here.");
  put("stage-note", status?.tasks ? "Drop an image anywhere to inspect it." : "");
}

function showVerdict({ verdict, score, threshold }) {
  $("verdict").className = `verdict ${verdict}`;
  $("verdict-icon").setAttribute("href", `#i-${verdict}`);
  put("verdict-word", WORD[verdict] ?? verdict);
  put("verdict-why", threshold == null ? "No threshold for this yet."
    : `${percent(Math.abs(score / threshold - 1), 0)} ${score > threshold ? "above" : "below"} the threshold`);
}

/** The threshold always stands at the same place, so that the eye learns where it is. */
function showScore({ score, threshold, verdict }) {
  const MARK = 60;
  $("score-box").hidden = false;
  put("score", num(score));
  put("score-of", threshold == null ? "" : `threshold ${num(threshold)}`);
  $("scale").hidden = $("scale").nextElementSibling.hidden = threshold == null;
  if (threshold == null) return;
  $("scale").className = `scale ${verdict}`;
  $("scale").setAttribute("aria-label", `Score ${num(score)}, threshold ${num(threshold)}`);
  $("scale-fill").style.width = `${Math.min(100, MARK * score / threshold)}%`;
  put("scale-threshold", num(threshold));
}

function showFacts(one) {
  const facts = [["Task", one.task ?? "not recognised"], ["Time", when(one.time)], ["Source", one.source || "–"],
    ["Latency", milliseconds(one.latency_ms)], ["Image", `${one.width} × ${one.height}`], ["Number", one.id ?? "not kept"]];
  $("facts").hidden = false;
  $("facts").replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

// Tells a screen reader what it needs: every verdict the user asked for; of those that pass by, defects
// and changes, and not more than one in four seconds.
let spokenAt = -Infinity;
function speak({ verdict, score, task, id }, before) {
  const passing = live.held == null;
  const worth = verdict === "defect" || verdict !== before?.verdict;
  if (view !== "live" || passing && (!worth || performance.now() - spokenAt < 4000)) return;
  spokenAt = performance.now();
  put("spoken", `${WORD[verdict] ?? verdict}, score ${num(score)}${task ? `, ${task}` : ""}, ${id == null ? "not kept" : `inspection ${id}`}`);
}

// Pictures are fetched, not linked: a token cannot travel in an <img>. The last few stay at hand.
const pictures = new Map();
function picture(id, kind) {
  const key = `${id}/${kind}`;
  const found = pictures.get(key) ?? fetchPicture(key);
  pictures.delete(key);
  pictures.set(key, found);
  if (pictures.size > 30) {
    const [oldest, gone] = pictures.entries().next().value;
    pictures.delete(oldest);
    gone.then(({ url }) => URL.revokeObjectURL(url), () => {});
  }
  return found;
}

async function fetchPicture(key) {
  try {
    const blob = await (await api(`v1/inspections/${key}`, { raw: true })).blob();
    return { blob, url: URL.createObjectURL(blob) };
  } catch (error) {
    pictures.delete(key);
    throw error;
  }
}

async function decoded(id, kind) {
  const { url } = await picture(id, kind);
  const image = new Image();
  image.src = url;
  await image.decode();
  return url;
}

async function showPictures({ id, task, has_image: kept, threshold }) {
  const stage = $("stage");
  stage.classList.add("stale");
  const kinds = !kept ? [] : threshold == null ? ["image", "map"] : ["image", "map", "outline"];
  const found = await Promise.allSettled(kinds.map((kind) => decoded(id, kind)));
  if (live.shown?.id !== id) return;
  ["image", "map", "outline"].forEach((kind, i) => {
    $(`pic-${kind}`).hidden = found[i]?.status !== "fulfilled";
    if (found[i]?.value) $(`pic-${kind}`).src = found[i].value;
  });
  $("pic-image").alt = `Inspected image ${id}${task ? `, ${task}` : ""}, with its heat map`;
  put("stage-note", id == null ? "The service could not keep this inspection. Its verdict holds." : !kept ? "The image is no longer kept." : found[0].status === "fulfilled" ? "" : noPicture(found[0].reason));
  stage.classList.remove("stale");
}

function noPicture(error) {
  if (error.status === 404) return "The image is no longer kept.";
  return error instanceof ApiError ? error.message : "This browser cannot show the image’s format. It was inspected all the same.";
}

function showLook() {
  const opacity = Number($("opacity").value);
  $("pic-map").style.opacity = opacity / 100;
  put("opacity-out", `${opacity} %`);
  $("pic-outline").classList.toggle("off", !$("outline").checked);
  keep.set("opacity", opacity);
  keep.set("outline", $("outline").checked ? "on" : "off");
}

// The strip. One stop for the tab key; the arrows move within it.
const thumbs = new Map();
let thumbQueue = Promise.resolve();

function showStrip() {
  const box = $("strip");
  const list = strip();
  const focused = box.contains(document.activeElement);
  const nodes = list.map((one) => thumbs.get(one.id) ?? makeThumb(one));
  for (const id of thumbs.keys()) if (!list.some((one) => one.id === id)) thumbs.delete(id);
  box.hidden = !list.length;
  if (nodes.length !== box.children.length || nodes.some((node, i) => node !== box.children[i])) box.replaceChildren(...nodes);
  markShown();
  if (focused) thumbs.get(live.shown?.id)?.focus();
}

function makeThumb(one) {
  const node = el("div", { role: "option", tabindex: "-1", class: `thumb ${one.verdict}`, "aria-selected": "false",
    "aria-label": `${WORD[one.verdict] ?? one.verdict}, ${num(one.score)}, ${clock(one.time)}, inspection ${one.id}`,
    onclick: () => goTo(one.id), onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); goTo(one.id); } } },
  el("canvas", { width: 1, height: 1 }), icon(one.verdict), el("span", { class: "thumb-score" }, num(one.score)));
  thumbs.set(one.id, node);
  if (one.has_image) thumbQueue = thumbQueue.then(() => drawThumb(one, node)).catch(() => {});  // no picture, the icon stays
  return node;
}

async function drawThumb(one, node) {
  if (!node.isConnected) return;
  const { blob } = await picture(one.id, "image");
  const small = await createImageBitmap(blob, { resizeHeight: 112, resizeQuality: "medium" });
  const canvas = node.querySelector("canvas");
  canvas.width = small.width;
  canvas.height = small.height;
  canvas.getContext("2d").drawImage(small, 0, 0);
}

function markShown() {
  for (const [id, node] of thumbs) {
    const chosen = id === live.shown?.id;
    const moved = chosen && node.getAttribute("aria-selected") !== "true";
    node.setAttribute("aria-selected", chosen);
    node.tabIndex = chosen ? 0 : -1;
    if (!moved) continue;
    if (node.parentNode?.contains(document.activeElement)) node.focus();
    $("strip").scrollLeft = node.offsetLeft - ($("strip").clientWidth - node.clientWidth) / 2;  // scrollIntoView would move the page too
  }
}

// ---------------------------------------------------------------- live: feedback

let teaching = false;

function showFeedback() {
  const one = live.shown;
  $("feedback").hidden = one?.id == null;
  if (one?.id == null) return;
  const reason = whyNot("learn") || (one.has_image ? "" : "The image is no longer kept: it cannot be learned.");
  $("say-good").disabled = teaching || Boolean(reason);
  $("say-defect").disabled = teaching || Boolean(whyNot("learn"));
  $("say-good").setAttribute("aria-pressed", one.feedback === "good");
  $("say-defect").setAttribute("aria-pressed", one.feedback === "defect");
  $("undo").hidden = !one.feedback || Boolean(whyNot("learn"));
  $("undo").disabled = teaching;
  put("feedback-note", teaching ? "Saving…" : feedbackNote(one) || reason);
}

function feedbackNote({ feedback, feedback_time: time, learned }) {
  const at = time ? ` at ${clock(time)}` : "";
  if (feedback === "good") return `Marked good${at}${learned ? ", and learned." : ". Not learned."}`;
  if (feedback === "defect") return `Marked as a defect${at}, kept as evidence.`;
  return learned ? "No mark now. What was learned from it stays in the memory." : "";
}

async function giveFeedback(label) {
  const one = live.shown;
  const button = { good: "say-good", defect: "say-defect", "": "undo" }[label];
  if (one?.id == null || teaching || $(button).disabled || $(button).hidden || one.feedback === label) return;
  // While following, the image may change under the finger: then nothing is marked, and it holds still.
  const justChanged = live.held == null && performance.now() - live.since < 400;
  const focused = document.activeElement;
  teaching = !justChanged;
  if (live.held == null) await goTo(one.id);
  if (justChanged) return notice("The image had just changed, so nothing was marked. It is held now: mark it again.", false);
  showFeedback();
  try {
    remember(await post(`v1/inspections/${one.id}/feedback`, { label }));
  } catch (error) {
    complain(error, "Not marked");
  } finally {
    teaching = false;
    showFeedback();
    // Disabling the button had taken the focus away.
    if (document.activeElement === document.body) (focused.hidden ? $("say-good") : focused).focus({ preventScroll: true });
  }
}

/** An inspection has changed: so do all copies of it here. */
function remember(answer) {
  for (const one of [...live.recent, ...live.frozen ?? [], live.shown]) if (one?.id === answer.id) Object.assign(one, answer);
}

// ---------------------------------------------------------------- live: inspecting one's own images

let inspecting = null;

async function inspectFiles(files) {
  if (!files.length) return;
  if (inspecting) return notice("The images before are still being inspected.");
  inspecting = new AbortController();
  if (view !== "live") location.hash = "#live";
  const failed = [];
  $("inspect-progress").hidden = false;
  $("inspect-bar").max = files.length;
  for (const [i, file] of files.entries()) {
    $("inspect-bar").value = i;
    put("inspect-text", `Inspecting ${i + 1} of ${files.length}`);
    try {
      const one = await inspectFile(file, inspecting.signal);
      if (view !== "live") continue;
      if (one.id == null) showUnkept(one);
      else goTo(one.id);
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401) break;
      failed.push(`${file.name}: ${error.message}`);
      if ([0, 403, 409].includes(error.status)) break;  // the next one would fare no better
    }
  }
  $("inspect-progress").hidden = true;
  inspecting = null;
  wake();
  if (failed.length) notice(`Not inspected: ${failed.slice(0, 3).join("; ")}${failed.length > 3 ? `; and ${failed.length - 3} more` : ""}`);
}

function inspectFile(file, signal) {
  const query = new URLSearchParams({ source: "page" });
  if ($("inspect-task").value) query.set("task", $("inspect-task").value);
  return sendImage(`v1/inspections?${query}`, file, signal);
}

// ---------------------------------------------------------------- files, dropped or chosen

/** All files of a drop, folders walked. The items must be taken at once: they are gone after the event. */
async function filesOf(transfer) {
  const roots = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const files = [];
  const walk = async (entry) => {
    if (entry instanceof File) files.push(entry);
    else if (entry.isFile) files.push(await new Promise((done, failed) => entry.file(done, failed)));
    else for (const child of await childrenOf(entry)) await walk(child);
  };
  for (const root of roots) if (root) await walk(root);
  return files.sort(byName);
}

async function childrenOf(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {  // it answers a hundred at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return all;
    all.push(...some);
  }
}

const byName = (a, b) => (a.webkitRelativePath || a.name).localeCompare(b.webkitRelativePath || b.name, "en", { numeric: true });

let dropTimer = 0;
function overDrop(event) {
  if (!event.dataTransfer?.types.includes("Files") || $("sign-in").open) return;
  event.preventDefault();
  put("drop-text", view === "learn" ? "Drop to choose them for learning" : "Drop to inspect");
  $("drop").hidden = false;
  clearTimeout(dropTimer);
  dropTimer = setTimeout(() => { $("drop").hidden = true; }, 400);
}

async function takeDrop(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  $("drop").hidden = true;
  if ($("sign-in").open) return;
  const forLearning = view === "learn";
  const files = await filesOf(event.dataTransfer);
  if (forLearning) chooseToLearn(files);
  else inspectFiles(files.length > 1 ? files.filter(looksLikeImage) : files);
}

// By its name what the service reads, whether or not this browser knows it.
const looksLikeImage = (file) => file.type.startsWith("image/") || /\.(png|jpe?g|bmp|tiff?|webp|pgm|ppm)$/i.test(file.name);

// ---------------------------------------------------------------- learn

// chosen: what the user picked. run: the job being fed or followed, null when there is none.
const learning = { chosen: [], ignored: [], run: null };

function chooseToLearn(files) {
  if (learning.run) return notice("A job is running. Wait for it, or cancel it.");
  learning.chosen = files.filter(looksLikeImage);
  learning.ignored = files.filter((file) => !looksLikeImage(file)).map((file) => ({ name: file.name, why: "not an image file by its name" }));
  const size = learning.chosen.reduce((sum, file) => sum + file.size, 0) / 1e6;
  put("learn-chosen", learning.chosen.length ? `${count(learning.chosen.length, "image")}, ${size.toFixed(1)} MB`
    + (learning.ignored.length ? `. ${count(learning.ignored.length, "other file")} will be skipped.` : ".") : "No image among the files chosen.");
  $("learn-result").replaceChildren();
  showLearnGate();
}

// Some keyboards and file systems give a letter and its accent apart; a new name is written whole.
function taskName() {
  const name = $("task-name").value.trim();
  return tasks.some((task) => task.name === name) ? name : name.normalize("NFC");
}

function showLearnGate() {
  const name = taskName();
  const known = tasks.some((task) => task.name === name);
  const reason = whyNot("learn");
  $("learn-start").disabled = Boolean(reason || learning.run || !name || !learning.chosen.length);
  put("learn-reason", reason || (learning.run ? "" : !name ? "Give it a name." : !learning.chosen.length ? "Choose images." : ""));
  put("task-hint", known ? "This task exists: it goes on learning." : "For example the product: bottle, screw, casting.");
  for (const id of ["task-name", "learn-folder", "learn-images"]) $(id).disabled = Boolean(reason || learning.run);
}

async function learn(event) {
  event.preventDefault();
  if ($("learn-start").disabled) return;
  const run = { name: taskName(), stop: new AbortController(), job: null, skipped: [...learning.ignored] };
  learning.run = run;
  $("learn-result").replaceChildren();
  $("learn-progress").hidden = $("learn-cancel").hidden = false;
  $("learn-cancel").focus();
  showLearnGate();
  try {
    run.job = await post("v1/jobs", { task: run.name }, { signal: run.stop.signal });
    await upload(run);
    run.job = await post(`v1/jobs/${run.job.id}/start`, undefined, { signal: run.stop.signal });
    await followJob(run);
  } catch (error) {
    run.error = error.name === "AbortError" ? "" : error.message;
    if (run.job) run.job = await api(`v1/jobs/${run.job.id}`, { method: "DELETE" }).catch(() => run.job);
  }
  await endLearning(run);
}

async function upload(run) {
  let done = 0;
  const total = learning.chosen.length;
  showLearning(0, `Sending 0 of ${total}`);
  await pool(learning.chosen, 4, async (file) => {
    try {
      run.job = await sendImage(`v1/jobs/${run.job.id}/images`, file, run.stop.signal);
    } catch (error) {
      if (![413, 415, 422].includes(error.status)) { run.stop.abort(error); throw error; }
      run.skipped.push({ name: file.name, why: error.message });
    }
    showLearning(++done / total, `Sending ${done} of ${total}${run.skipped.length ? `, ${run.skipped.length} skipped` : ""}`);
  });
}

async function followJob(run) {
  while (run.job.state === "learning") {
    showLearning(run.job.progress, `Learning, ${percent(run.job.progress, 0)}`);
    await sleep(400);
    run.stop.signal.throwIfAborted();
    run.job = await api(`v1/jobs/${run.job.id}`, { signal: run.stop.signal });
  }
}

function showLearning(share, text) {
  $("learn-bar").value = share;
  put("learn-text", text);
}

async function endLearning(run) {
  const state = run.job?.state ?? "failed";
  learning.run = null;
  $("learn-progress").hidden = $("learn-cancel").hidden = true;
  $("learn-result").replaceChildren(...await resultOf(run, run.error ? "failed" : state));
  if (state === "done") {
    learning.chosen = learning.ignored = [];
    put("learn-chosen", "Nothing chosen yet.");
    statusAge = Infinity;
    wake();
  }
  showLearnGate();
  $("task-name").focus();
  await loadJobs().catch(complain);
}

async function resultOf(run, state) {
  const lines = [];
  if (state === "done") {
    await loadTasks().catch(complain);
    const task = tasks.find((one) => one.name === run.name);
    lines.push(el("p", { class: "outcome good" }, icon("good"), el("strong", {}, `Learned ${run.name}`), ` from ${count(run.job.received, "image")}.`));
    if (task) lines.push(el("p", {}, `It holds ${count(task.vectors, "vector")}, and its threshold is calibrated with ${count(task.calibrated, "image")}. `,
      el("a", { href: "#memory" }, "Memory"), " · ", el("a", { href: `#thresholds/${encodeURIComponent(run.name)}` }, "Threshold")));
  } else if (state === "cancelled") {
    lines.push(el("p", { class: "outcome" }, icon("unknown"), el("strong", {}, "Cancelled."), " Nothing was learned from these images."));
  } else {
    lines.push(el("p", { class: "outcome defect" }, icon("defect"), el("strong", {}, "Not learned."), ` ${run.error || run.job?.error || ""}`));
  }
  if (run.skipped.length) lines.push(skippedList(run.skipped));
  return lines;
}

function skippedList(skipped) {
  const reasons = Map.groupBy(skipped, (one) => one.why);
  return el("details", { open: true }, el("summary", {}, `${count(skipped.length, "file")} skipped`),
    el("ul", {}, ...[...reasons].map(([why, files]) => el("li", {},
      `${count(files.length, "file")}, ${why}: ${files.slice(0, 5).map((file) => file.name).join(", ")}${files.length > 5 ? ", …" : ""}`))));
}

async function loadJobs() {
  const { jobs } = await api("v1/jobs");
  $("jobs-empty").hidden = jobs.length > 0;
  $("jobs").hidden = !jobs.length;
  $("jobs").tBodies[0].replaceChildren(...jobs.slice(0, 12).map(jobRow));
}

function jobRow(job) {
  const state = { receiving: "receiving images", learning: `learning, ${percent(job.progress, 0)}`, done: "learned", failed: `failed: ${job.error}`,
    cancelled: job.error ? `cancelled: ${job.error}` : "cancelled" }[job.state] ?? job.state;
  // Our own is cancelled by the button beside its progress.
  const open = (job.state === "receiving" || job.state === "learning") && job.id !== learning.run?.job?.id;
  const cancel = open && !whyNot("learn") ? el("button", { type: "button", class: "plain", "aria-label": `Cancel job ${job.id}`, onclick: () => cancelJob(job.id) }, "Cancel") : null;
  return el("tr", {}, el("td", {}, job.task), el("td", {}, `${state} `, cancel), el("td", { class: "num" }, whole(job.received)),
    el("td", { class: "num" }, whole(job.skipped)), el("td", {}, when(job.created)));
}

async function cancelJob(id) {
  try {
    await api(`v1/jobs/${id}`, { method: "DELETE" });
    await loadJobs();
  } catch (error) { complain(error); }
}

// ---------------------------------------------------------------- memory

let samples = [];

async function loadMemory() {
  const since = new Date(Date.now() - Number($("period").value) * 3600e3);
  const [, history] = await Promise.all([loadTasks(), api(`v1/history?since=${since.toISOString()}&points=400`), status ? null : loadStatus()]);
  samples = history.samples;
  showMemory();
  showCharts();
}

function showMemory() {
  const { vectors, capacity, dimension, rule, certificate, backbone } = status.memory;
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
  return el("tr", {}, el("th", { scope: "row" }, el("span", { class: `swatch c${i % 8}`, "aria-hidden": "true" }), task.name),
    ...cells.map((text, c) => el("td", { class: c === 2 ? "" : "num" }, text)), el("td", { class: "num" }, link), el("td", {}, when(task.learned)));
}

function showCharts() {
  lineChart($("chart-certificate"), "Certificate", "certificate");
  lineChart($("chart-drift"), "Drift", "drift", 1);
}

/** A few round numbers between low and high. */
function ticks(low, high, about) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].find((s) => s * power >= rough) * power;
  const all = [];
  for (let k = Math.ceil(low / size); k * size <= high + size * 1e-9; ++k) all.push(k * size);
  return { all, digits: Math.max(0, -Math.floor(Math.log10(size) + 1e-9)) };
}

/** One line for each task; the legend gives the same in words. */
function lineChart(figure, title, key, reference) {
  const names = tasks.map((task) => task.name);
  for (const sample of samples) if (!names.includes(sample.task)) names.push(sample.task);
  const series = names.map((name, i) => ({ name, i, points: samples.filter((s) => s.task === name && s[key] != null).map((s) => [Date.parse(s.time), s[key]]) }))
    .filter((one) => one.points.length);
  const story = series.map(({ name, points }) => `${name} ${num(points[0][1])} → ${num(points.at(-1)[1])}`);
  const period = $("period").selectedOptions[0].textContent;
  const width = Math.max(260, figure.clientWidth - 34);
  const drawing = series.length ? drawLines(series, width, reference) : null;
  drawing?.setAttribute("aria-label", `${title}, ${period}, first and last: ${story.join("; ").replaceAll("→", "to")}`);
  figure.replaceChildren(el("h3", {}, title), drawing ?? el("p", { class: "empty" }, `Nothing recorded in the ${period}.`),
    el("figcaption", {}, el("ul", { class: "legend" }, ...series.map(({ i }, k) => el("li", {},
      svg("svg", { class: `line-key c${i % 8}`, viewBox: "0 0 24 8", "aria-hidden": "true" }, svg("path", { d: "M1 4h22" })), story[k])))));
}

function drawLines(series, width, reference) {
  const [left, right, top, bottom, height] = [44, 8, 8, 22, 180];
  const values = series.flatMap(({ points }) => points.map(([, v]) => v)).concat(reference ?? []);
  const pad = (Math.max(...values) - Math.min(...values)) * 0.1 || Math.abs(values[0]) * 0.05 || 1;
  const [low, high] = [Math.min(...values) - pad, Math.max(...values) + pad];
  const [from, to] = [Date.now() - Number($("period").value) * 3600e3, Date.now()];
  const x = (t) => left + (width - left - right) * (t - from) / (to - from);
  const y = (v) => top + (height - top - bottom) * (high - v) / (high - low);
  const root = svg("svg", { class: "chart", role: "img", width, height, viewBox: `0 0 ${width} ${height}` });
  const scale = ticks(low, high, 5);
  for (const v of scale.all) {
    root.append(svg("path", { class: v === reference ? "grid strong" : "grid", d: `M${left} ${y(v)}H${width - right}` }),
      svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v.toFixed(scale.digits)));
  }
  for (const share of [0, 0.5, 1]) {
    root.append(svg("text", { x: left + share * (width - left - right), y: height - 4, "text-anchor": ["start", "middle", "end"][share * 2] }, timeLabel(from + share * (to - from), to - from)));
  }
  for (const { i, points } of series) {
    // What was last recorded still holds: each line goes on to now.
    const path = [...points, [to, points.at(-1)[1]]].map(([t, v], k) => `${k ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    root.append(svg("path", { class: `line-of c${i % 8}`, d: path }));
  }
  return root;
}

function timeLabel(time, span) {
  const date = new Date(time);
  return span <= 25 * 3600e3 ? date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

// ---------------------------------------------------------------- thresholds

const GROUPS = [["calibration", "Calibration", "normal"], ["good", "Called good", "good"], ["rejected", "Called defect", "defect"]];
const SIDE = 10;  // half the range's thumb: so plot and slider line up

// scores: of the task shown. value: where the line stands, which need not be set yet.
const limit = { scores: null, value: null, low: 0, high: 1 };

async function loadThreshold(name = $("threshold-task").value) {
  await loadTasks();
  $("threshold-card").hidden = !tasks.length;
  $("threshold-empty").hidden = tasks.length > 0;
  if (!tasks.length) return;
  $("threshold-task").value = tasks.some((task) => task.name === name) ? name : tasks[0].name;
  limit.scores = await api(`v1/tasks/${encodeURIComponent($("threshold-task").value)}/scores`);
  frameScores();
  showThresholdNow();
  moveThreshold(limit.scores.threshold?.score ?? limit.high);
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

function showThresholdNow() {
  const { threshold } = limit.scores;
  put("threshold-now", !threshold ? "No threshold yet: too few images were learned."
    : threshold.manual ? `Now ${num(threshold.score)}, set by hand.`
      : `Now ${num(threshold.score)}, automatic: at most ${percent(threshold.false_alarms ?? 0)} false alarms, from ${count(threshold.images, "good image")}.`);
}

function showThresholdGate() {
  const reason = whyNot("admin");
  put("threshold-reason", reason);
  for (const control of document.querySelectorAll("#threshold-card .ways :is(button, input)")) control.disabled = Boolean(reason);
}

function moveThreshold(value, from) {
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

function dragThreshold(event) {
  if (event.type === "pointerdown") $("histogram").setPointerCapture(event.pointerId);
  else if (!$("histogram").hasPointerCapture(event.pointerId)) return;
  const box = $("histogram").getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (event.clientX - box.left - SIDE) / (box.width - 2 * SIDE)));
  moveThreshold(limit.low + share * (limit.high - limit.low));
}

async function setThreshold(event, body) {
  event.preventDefault();
  if (!event.target.checkValidity()) return event.target.reportValidity();
  const name = limit.scores.task;
  try {
    const task = await api(`v1/tasks/${encodeURIComponent(name)}/threshold`, { method: "PUT", json: body });
    await loadThreshold(name);
    notice(`The threshold of ${name} is ${num(task.threshold?.score)} now.`, false);
  } catch (error) { complain(error, "Not set"); }
}

// ---------------------------------------------------------------- history

// Where each page started, to find back: null is the newest.
const past = { starts: [null], next: null };

async function loadHistory(query) {
  const filters = new URLSearchParams(query);
  for (const field of $("filters").elements) if (field.name) field.value = filters.get(field.name) ?? "";
  if (filters.get("task") && !$("filter-task").value) {  // not loaded yet
    await loadTasks();
    $("filter-task").value = filters.get("task");
  }
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
  $("past").tBodies[0].replaceChildren(...inspections.map(pastRow));
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

function pastRow(one) {
  const mark = one.feedback ? [icon(one.feedback), `${one.feedback}${one.learned ? ", learned" : ""}`] : ["–"];
  return el("tr", { onclick: () => { location.hash = `#live/${one.id}`; } },
    el("td", { class: "num" }, el("a", { href: `#live/${one.id}`, "aria-label": `Open inspection ${one.id}` }, one.id)),
    el("td", {}, when(one.time)), el("td", { class: "word" }, icon(one.verdict), WORD[one.verdict] ?? one.verdict),
    el("td", { class: "num" }, num(one.score)), el("td", { class: "num wide-only" }, num(one.threshold)), el("td", {}, one.task ?? "–"),
    el("td", { class: "wide-only" }, one.source || "–"), el("td", { class: "word" }, ...mark), el("td", { class: "num wide-only" }, milliseconds(one.latency_ms)));
}

function turnPage(older) {
  if (older) past.starts.push(past.next);
  else past.starts.pop();
  loadPage().catch(complain);
  window.scrollTo({ top: 0 });
}

// ---------------------------------------------------------------- sections, keys, start

const ENTER = {
  live: (id) => (Number(id) ? hold(Number(id)) : showNewest()),
  learn: () => loadJobs(),
  memory: () => loadMemory(),
  thresholds: (task) => loadThreshold(task || undefined),
  history: (query) => loadHistory(query),
};

async function enter() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  view = ENTER[name] ? name : "live";
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== view;
  for (const link of $("nav").children) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view[0].toUpperCase()}${view.slice(1)} · contcore`;
  wake();
  if ($("sign-in").open) return;
  try {
    const text = rest.join("/");
    await ENTER[view](view === "history" ? text : decodeURIComponent(text));
  } catch (error) { complain(error); }
}

/** A link's section is another one: what had the focus may be hidden, so the content gets it. */
function onHash() {
  const before = view;
  enter();
  if (view === before) return;
  if (!$("nav").contains(document.activeElement)) $("main").focus({ preventScroll: true });
  notice("");
  window.scrollTo({ top: 0 });
}

const KEYS = {
  g: () => giveFeedback("good"), d: () => giveFeedback("defect"), u: () => giveFeedback(""),
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), f: () => $("follow").click(), o: () => $("outline").click(), i: () => $("inspect-open").click(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !$("keys-on").checked || document.querySelector("dialog[open]")) return;
  if (event.target.closest("select, textarea, input:not([type=checkbox])")) return;
  if (event.key === "?") return $("help").showModal();
  if (view !== "live" || !KEYS[event.key] || event.repeat && event.key.length === 1) return;
  event.preventDefault();
  KEYS[event.key]();
}

/** A button stands for a hidden file input; the same file may be chosen twice. */
function fileButton(button, input, take) {
  $(button).addEventListener("click", () => $(input).click());
  $(input).addEventListener("change", () => {
    take([...$(input).files].sort(byName));
    $(input).value = "";
  });
}

const on = (id, event, action) => $(id).addEventListener(event, action);

function connectLive() {
  $("opacity").value = keep.get("opacity", "60");
  $("outline").checked = keep.get("outline", "on") === "on";
  showLook();
  on("opacity", "input", showLook);
  on("outline", "change", showLook);
  on("follow", "change", () => goTo($("follow").checked ? null : live.shown?.id));
  on("say-good", "click", () => giveFeedback("good"));
  on("say-defect", "click", () => giveFeedback("defect"));
  on("undo", "click", () => giveFeedback(""));
  on("inspect-stop", "click", () => inspecting?.abort());
  fileButton("inspect-open", "inspect-files", inspectFiles);
}

function connectSections() {
  fileButton("learn-folder", "learn-folder-input", chooseToLearn);
  fileButton("learn-images", "learn-images-input", chooseToLearn);
  on("task-name", "input", showLearnGate);
  on("learn-form", "submit", learn);
  on("learn-cancel", "click", () => learning.run?.stop.abort());
  on("period", "change", () => loadMemory().catch(complain));
  on("threshold-task", "change", () => { location.hash = `#thresholds/${encodeURIComponent($("threshold-task").value)}`; });
  on("threshold-range", "input", () => moveThreshold(Number($("threshold-range").value), "range"));
  on("hand-score", "input", () => { if (Number($("hand-score").value) > 0) moveThreshold(Number($("hand-score").value), "number"); });
  on("by-hand", "submit", (event) => setThreshold(event, { score: Number($("hand-score").value) }));
  on("by-rate", "submit", (event) => setThreshold(event, { false_alarms: Number($("rate").value) / 100 }));
  on("automatic", "submit", (event) => setThreshold(event, {}));
  for (const type of ["pointerdown", "pointermove"]) on("histogram", type, dragThreshold);
  const filter = (event) => { event.preventDefault(); location.hash = `#history/${filterQuery()}`; };
  on("filters", "change", filter);
  on("filters", "submit", filter);
  on("filters-clear", "click", () => { location.hash = "#history"; });
  on("newer-page", "click", () => turnPage(false));
  on("older-page", "click", () => turnPage(true));
}

function connectPage() {
  showTheme();
  on("theme", "click", nextTheme);
  on("help-open", "click", () => $("help").showModal());
  on("help-close", "click", () => $("help").close());
  $("keys-on").checked = keep.get("keys", "on") === "on";
  on("keys-on", "change", () => keep.set("keys", $("keys-on").checked ? "on" : "off"));
  on("sign-in-form", "submit", signIn);
  on("sign-in", "cancel", (event) => event.preventDefault());  // there is nothing to see behind it
  on("sign-out", "click", signOut);
  on("notice-close", "click", () => notice(""));
  on("skip", "click", (event) => { event.preventDefault(); $("main").focus(); });
  document.addEventListener("dragover", overDrop);
  document.addEventListener("drop", takeDrop);
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) wake(); });
  window.addEventListener("online", () => wake());
  window.addEventListener("hashchange", onHash);
  window.addEventListener("beforeunload", (event) => { if (learning.run?.job?.state === "receiving") event.preventDefault(); });
  new ResizeObserver(() => {
    if (view === "thresholds" && limit.scores) drawHistogram();
    if (view === "memory" && status) showCharts();
  }).observe($("main"));
}

document.addEventListener("DOMContentLoaded", () => {
  connectLive();
  connectSections();
  connectPage();
  enter();
  heartbeat();
});
