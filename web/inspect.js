// Inspecting one's own images: chosen, or dropped anywhere.
import { sendImage } from "./api.js";
import { $, fileButton, on, put, setOptions } from "./dom.js";
import { filesOf, inOrder, looksLikeImage } from "./files.js";
import { wake } from "./heartbeat.js";
import { chooseToLearn } from "./learn.js";
import { openBeside, showUnkept } from "./live.js";
import { notice } from "./notice.js";
import { state, watch } from "./store.js";
import { wordOf } from "./words.js";

let running = null;

export async function inspectFiles(files) {
  if (!files.length) return;
  if (running) return notice("The images before are still being inspected.");
  running = new AbortController();
  if (state.view !== "live") location.hash = "#live";
  const failed = [];
  const verdicts = [];
  let last = null;
  $("inspect-progress").hidden = false;
  $("inspect-bar").max = files.length;
  for (const [i, file] of files.entries()) {
    $("inspect-bar").value = i;
    put("inspect-text", `Inspecting ${i + 1} of ${files.length}`);
    try {
      last = await inspectFile(file, running.signal);
      verdicts.push(wordOf(last.verdict).toLowerCase());
      wake();
      if (last.id == null) showUnkept(last);
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401) break;
      failed.push(`${file.name}: ${error.message}`);
      if ([0, 403, 409].includes(error.status)) break;  // the next one would fare no better
    }
  }
  $("inspect-progress").hidden = true;
  running = null;
  wake();
  if (failed.length) notice(`Not inspected: ${failed.slice(0, 3).join("; ")}${failed.length > 3 ? `; and ${failed.length - 3} more` : ""}`);
  else if (verdicts.length > 1) notice(`${verdicts.length} inspected: ${[...Map.groupBy(verdicts, (word) => word)].map(([word, all]) => `${all.length} ${word}`).join(", ")}.`, false);
  stay(last);
}

/** It was the newest, so it stands large; where others have come meanwhile it is opened beside. */
function stay(one) {
  if (one?.id == null) return;
  setTimeout(() => { if (state.view === "live" && state.beside == null && state.recent?.[0]?.id > one.id) openBeside(one.id); }, 1500);
}

function inspectFile(file, signal) {
  const query = new URLSearchParams({ source: file.name.slice(0, 50) });
  if (state.station) query.set("station", state.station);
  if ($("inspect-task").value && !$("inspect-task").hidden) query.set("task", $("inspect-task").value);
  return sendImage(`v1/inspections?${query}`, file, signal);
}

let dropTimer = 0;
function overDrop(event) {
  if (!event.dataTransfer?.types.includes("Files") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  put("drop-text", state.view === "learn" ? "Drop to choose them for learning" : "Drop to inspect");
  $("drop").hidden = false;
  clearTimeout(dropTimer);
  dropTimer = setTimeout(() => { $("drop").hidden = true; }, 400);
}

async function takeDrop(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  $("drop").hidden = true;
  if (document.querySelector("dialog[open]")) return;
  const forLearning = state.view === "learn";
  const files = await filesOf(event.dataTransfer);
  if (forLearning) chooseToLearn(files);
  else inspectFiles(files.length > 1 ? files.filter(looksLikeImage) : files);
}

export function connectInspect() {
  fileButton("inspect-open", "inspect-files", (files) => inspectFiles(inOrder(files)));
  on("inspect-stop", "click", () => running?.abort());
  watch("tasks", () => setOptions($("inspect-task"), state.tasks.map(({ name }) => name), "Any task"));
  document.addEventListener("dragover", overDrop);
  document.addEventListener("drop", takeDrop);
}
