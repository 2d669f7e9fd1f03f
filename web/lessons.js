// Every lesson, who gave it and when; taking one back. The versions that are kept, to compare and to restore.
import { api, post } from "./api.js";
import { $, el, icon, on, put } from "./dom.js";
import { loadStatus, loadTasks, wake } from "./heartbeat.js";
import { forgetting } from "./memory.js";
import { ask, complain, notice } from "./notice.js";
import { whyNot } from "./session.js";
import { count, megabytes, moment, when, whole } from "./words.js";

const KIND = { found: "Was in the memory before", batch: "Learned", online: "Learned one by one", feedback: "Called good", defect: "Called defect", threshold: "Threshold set", rename: "Renamed", forget: "Taken back", restore: "Restored" };

const list = { starts: [null], next: null, lessons: [] };

export async function loadLessons() {
  list.starts = [null];
  await Promise.all([loadPage(), loadVersions()]);
}

async function loadPage() {
  const before = list.starts.at(-1);
  const { lessons, next } = await api(`v1/lessons?limit=50${before == null ? "" : `&before=${before}`}`);
  Object.assign(list, { lessons, next });
  $("lesson-list").tBodies[0].replaceChildren(...lessons.map(lessonRow));
  $("lesson-list").hidden = !lessons.length;
  $("lessons-empty").hidden = lessons.length > 0;
  $("newer-lessons").disabled = list.starts.length === 1;
  $("older-lessons").disabled = next == null;
  $("lessons-pager").hidden = list.starts.length === 1 && next == null;
}

function lessonRow(lesson) {
  const what = KIND[lesson.kind] ?? lesson.kind;
  const link = lesson.inspection ? el("a", { href: `#live/${lesson.inspection}` }, `part ${lesson.inspection}`) : "";
  return el("tr", { class: lesson.taken ? "" : "taken-back" }, el("td", { class: "num" }, String(lesson.id)), el("td", {}, when(lesson.time)), el("td", {}, lesson.who || "–"),
    el("td", {}, what, link ? ", " : "", link), el("td", {}, lesson.task || "–"), el("td", { class: "num" }, lesson.images ? whole(lesson.images) : "–"),
    el("td", { class: "acts" }, ...(lesson.taken ? takeBackButton(lesson, what) : ["taken back"])));
}

function takeBackButton(lesson, what) {
  if (lesson.kind === "found") return [el("span", { class: "hint", title: lesson.why || null }, "cannot be taken back")];
  const reason = whyNot("learn");
  const button = el("button", { type: "button", class: "plain", disabled: Boolean(reason), title: reason || null, "aria-label": `Take back lesson ${lesson.id}`, onclick: () => takeBack(lesson, what) }, "Take back");
  return lesson.exact === false ? [button, el("span", { class: "hint", title: lesson.why || null }, "not exactly")] : [button];
}

async function takeBack(lesson, what) {
  const exact = lesson.exact !== false;
  const sure = await ask(`Take lesson ${lesson.id} back?`, [
    `${what}: ${lesson.task || "–"}, ${lesson.images ? count(lesson.images, "image") : "no image"}, ${moment(lesson.time)}${lesson.who ? `, by ${lesson.who}` : ""}.`,
    exact ? "Exactly: the memory will be what it would have been without this lesson." : `Not exactly any more: ${lesson.why || "the version before it is no longer kept."}`],
  exact ? "Take it back" : "Take it back as well as can be", { danger: !exact });
  if (sure == null) return;
  await forgetting({ lessons: [lesson.id], ...(exact ? {} : { exact: false }) }, `Lesson ${lesson.id} is taken back`);
  await loadLessons().catch(complain);
}

async function loadVersions() {
  const { versions } = await api("v1/versions");
  const now = versions.find(({ current }) => current) ?? versions[0];
  $("versions").tBodies[0].replaceChildren(...versions.map((version) => versionRow(version, now)));
  $("versions").hidden = !versions.length;
  $("versions-empty").hidden = versions.length > 0;
}

const signed = (n) => (n === 0 ? "the same" : `${n > 0 ? "+" : "−"}${whole(Math.abs(n))}`);

/** What a version has more or less than the memory that is in use. */
function compared(version, now) {
  if (!now || version === now) return "";
  return `${signed(version.tasks - now.tasks)} tasks, ${signed(version.vectors - now.vectors)} vectors, ${signed(version.lessons - now.lessons)} lessons`;
}

function versionRow(version, now) {
  const reason = whyNot("admin");
  const restore = version.current ? el("span", { class: "word" }, icon("good"), "in use")
    : el("button", { type: "button", class: "plain", disabled: Boolean(reason), title: reason || null, "aria-label": `Restore version ${version.id}`, onclick: () => restoreVersion(version, now) }, "Restore");
  return el("tr", {}, el("td", { class: "num" }, String(version.id)), el("td", {}, when(version.time)), el("td", { class: "num" }, whole(version.lessons)), el("td", { class: "num" }, whole(version.tasks)),
    el("td", { class: "num" }, whole(version.vectors)), el("td", { class: "num wide-only" }, megabytes(version.bytes)), el("td", {}, compared(version, now) || "–"), el("td", { class: "acts" }, restore));
}

async function restoreVersion(version, now) {
  const sure = await ask(`Restore version ${version.id}?`, [`The memory becomes what it was ${moment(version.time)}. Against now: ${compared(version, now)}.`,
    "What was learned since is not in it. The version in use now is kept, as long as there is room."], "Restore it", { danger: true });
  if (sure == null) return;
  try {
    await post(`v1/versions/${encodeURIComponent(version.id)}/restore`);
    notice(`Version ${version.id} is in use now.`, false);
    await Promise.all([loadStatus(), loadTasks()]);
    wake();
  } catch (error) { complain(error, "Not restored"); }
  await loadLessons().catch(complain);
}

function turn(older) {
  if (older) list.starts.push(list.next);
  else list.starts.pop();
  loadPage().catch(complain);
}

export function connectLessons() {
  on("newer-lessons", "click", () => turn(false));
  on("older-lessons", "click", () => turn(true));
}
