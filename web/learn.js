// Learning a task from many images: they are sent, looked over, and learned without those that are clicked away.
import { api, pool, post, sendImage, sleep } from "./api.js";
import { $, el, fileButton, icon, on, put } from "./dom.js";
import { inOrder, looksLikeImage } from "./files.js";
import { loadTasks, wake } from "./heartbeat.js";
import { connectInterest, forgetRegion, interestTrouble, offerImages, regionToLearn, showInterest } from "./interest.js";
import { complain, notice } from "./notice.js";
import { review } from "./review.js";
import { whyNot } from "./session.js";
import { state, watch } from "./store.js";
import { count, percent, when, whole } from "./words.js";

const ABOUT_THE_FILE = [400, 413, 415, 422];  // answers after which the next file may fare better

// chosen: what the user picked. run: the job being fed or followed, null when there is none.
const learning = { chosen: [], ignored: [], run: null };

/** Whether leaving the page would lose images that are being sent. */
export const isSending = () => ["receiving", "reviewing", "questions"].includes(learning.run?.job?.state);

export function chooseToLearn(files) {
  if (learning.run) return notice("A job is running. Wait for it, or cancel it.");
  const all = inOrder(files);
  learning.chosen = all.filter(looksLikeImage);
  learning.ignored = all.filter((file) => !looksLikeImage(file)).map((file) => ({ name: file.name, why: "not an image that can be read, by its name" }));
  const size = learning.chosen.reduce((sum, file) => sum + file.size, 0) / 1e6;
  put("learn-chosen", learning.chosen.length ? `${count(learning.chosen.length, "image")}, ${size.toFixed(1)} MB`
    + (learning.ignored.length ? `. ${count(learning.ignored.length, "other file")} will be skipped.` : ".") : "No image among the files chosen.");
  $("learn-result").replaceChildren();
  showGate();
  offerImages(learning.chosen);
}

// Some keyboards and file systems give a letter and its accent apart; a new name is written whole.
function taskName() {
  const name = $("task-name").value.trim();
  return state.tasks.some((task) => task.name === name) ? name : name.normalize("NFC");
}

function showGate() {
  const name = taskName();
  const known = state.tasks.some((task) => task.name === name);
  const reason = whyNot("learn");
  const trouble = interestTrouble(name);
  $("learn-start").disabled = Boolean(reason || learning.run || !name || !learning.chosen.length || trouble);
  $("learn-start").hidden = Boolean(learning.run);
  put("learn-reason", reason || (learning.run ? "" : !name ? "Give it a name." : !learning.chosen.length ? "Choose images." : trouble));
  put("task-hint", known ? "This task exists: it goes on learning." : "For example the product: bottle, screw, casting.");
  for (const id of ["task-name", "learn-folder", "learn-images"]) $(id).disabled = Boolean(reason || learning.run);
  showInterest(name, Boolean(reason || learning.run));
}

async function learn(event) {
  event.preventDefault();
  if ($("learn-start").disabled) return;
  const run = { name: taskName(), files: learning.chosen, stop: new AbortController(), job: null, skipped: [...learning.ignored], byIndex: new Map() };
  learning.run = run;
  $("learn-result").replaceChildren();
  $("learn-progress").hidden = $("learn-cancel").hidden = false;
  $("learn-cancel").focus();
  showGate();
  try {
    run.job = await post("v1/jobs", { task: run.name, region: regionToLearn() }, { signal: run.stop.signal });
    await upload(run);
    const without = await lookOver(run);
    run.job = await post(`v1/jobs/${run.job.id}/start`, without.length ? { without } : undefined, { signal: run.stop.signal });
    await follow(run, "learning", "Learning");
  } catch (error) {
    run.error = error.name === "AbortError" ? "" : error.message;
    if (run.job) run.job = await api(`v1/jobs/${run.job.id}`, { method: "DELETE" }).catch(() => run.job);
  }
  await end(run);
}

/** A file that is broken, empty or cannot be read is skipped and named; the others go on. */
async function upload(run) {
  let done = 0;
  const total = run.files.length;
  showProgress(0, `Sending 0 of ${total}`);
  await pool(run.files, 4, async (file) => {
    try {
      const answer = await sendImage(`v1/jobs/${run.job.id}/images?name=${encodeURIComponent(file.name.slice(0, 50))}`, file, run.stop.signal);
      run.job = answer;
      if (answer.image != null) run.byIndex.set(answer.image, file);
    } catch (error) {
      const unreadable = error.status === undefined && error.name !== "AbortError";
      if (!unreadable && !ABOUT_THE_FILE.includes(error.status)) { run.stop.abort(error); throw error; }
      run.skipped.push({ name: file.name, why: unreadable ? "it cannot be read" : error.message });
    }
    showProgress(++done / total, `Sending ${done} of ${total}${run.skipped.length ? `, ${run.skipped.length} skipped` : ""}`);
  });
  if (!run.byIndex.size && run.skipped.length >= total) throw new Error("None of the files is an image that can be read.");
}

/** The service says what it finds strange before anything is learned. The images to leave out. */
async function lookOver(run) {
  try {
    run.job = await post(`v1/jobs/${run.job.id}/review`, undefined, { signal: run.stop.signal });
  } catch (error) {
    if (error.status === 404) return [];
    throw error;
  }
  await follow(run, "reviewing", "Looking the images over");
  if (run.job.state !== "questions") throw new Error(run.job.error || `The job is ${run.job.state}.`);
  showProgress(1, "Waiting for you: look at what is strange, then learn.");
  return review(run);
}

async function follow(run, while_, word) {
  while (run.job.state === while_) {
    showProgress(run.job.progress, `${word}, ${percent(run.job.progress, 0)}`);
    await sleep(400);
    run.stop.signal.throwIfAborted();
    run.job = await api(`v1/jobs/${run.job.id}`, { signal: run.stop.signal });
  }
}

function showProgress(share, text) {
  $("learn-bar").value = share;
  put("learn-text", text);
}

async function end(run) {
  const ended = run.job?.state ?? "failed";
  learning.run = null;
  $("learn-progress").hidden = $("learn-cancel").hidden = true;
  $("review").hidden = true;
  $("learn-result").replaceChildren(...await resultOf(run, run.error ? "failed" : ended));
  if (ended === "done") {
    learning.chosen = learning.ignored = [];
    put("learn-chosen", "Nothing chosen yet.");
    forgetRegion();
    offerImages([]);
    wake();
  }
  showGate();
  $("task-name").focus();
  await loadJobs().catch(complain);
}

async function resultOf(run, ended) {
  const lines = [];
  if (ended === "done") {
    await loadTasks().catch(complain);
    const task = state.tasks.find((one) => one.name === run.name);
    const left = run.left ? `, ${count(run.left, "image")} left out` : "";
    lines.push(el("p", { class: "outcome good" }, icon("good"), el("strong", {}, `Learned ${run.name}`), ` from ${count(run.job.received - (run.left ?? 0), "image")}${left}.`));
    if (task) lines.push(el("p", {}, `It holds ${count(task.vectors, "vector")}, and its threshold is calibrated with ${count(task.calibrated, "image")}. `,
      el("a", { href: "#live" }, "Inspect"), " · ", el("a", { href: `#thresholds/${encodeURIComponent(run.name)}` }, "Threshold"), " · ", el("a", { href: "#lessons" }, "Lessons")));
  } else if (ended === "cancelled") {
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

export async function loadJobs() {
  const { jobs } = await api("v1/jobs");
  $("jobs-empty").hidden = jobs.length > 0;
  $("jobs").hidden = !jobs.length;
  $("jobs").tBodies[0].replaceChildren(...jobs.slice(0, 12).map(jobRow));
}

function jobRow(job) {
  const words = { receiving: "receiving images", reviewing: "being looked over", questions: "waiting for an answer", learning: `learning, ${percent(job.progress, 0)}`,
    done: "learned", failed: `failed: ${job.error}`, cancelled: job.error ? `cancelled: ${job.error}` : "cancelled" }[job.state] ?? job.state;
  // Our own is cancelled by the button beside its progress.
  const open = !["done", "failed", "cancelled"].includes(job.state) && job.id !== learning.run?.job?.id;
  const cancel = open && !whyNot("learn") ? el("button", { type: "button", class: "plain", "aria-label": `Cancel job ${job.id}`, onclick: () => cancelJob(job.id) }, "Cancel") : null;
  return el("tr", {}, el("td", {}, job.task), el("td", {}, `${words} `, cancel), el("td", { class: "num" }, whole(job.received)),
    el("td", { class: "num" }, whole(job.skipped)), el("td", {}, when(job.created)));
}

async function cancelJob(id) {
  try {
    await api(`v1/jobs/${id}`, { method: "DELETE" });
    await loadJobs();
  } catch (error) { complain(error); }
}

export function connectLearn() {
  fileButton("learn-folder", "learn-folder-input", chooseToLearn);
  fileButton("learn-images", "learn-images-input", chooseToLearn);
  connectInterest(showGate);
  on("task-name", "input", showGate);
  on("learn-form", "submit", learn);
  on("learn-cancel", "click", () => learning.run?.stop.abort());
  watch("tasks status", showGate);
  watch("status", () => { if (state.view === "learn") loadJobs().catch(() => {}); });  // the banner says what is wrong
  watch("tasks", () => $("task-names").replaceChildren(...state.tasks.map(({ name }) => el("option", { value: name }))));
}
