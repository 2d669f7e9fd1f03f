// What is said to the user across all views: a notice, a failure, a question.
import { $, el, on, put } from "./dom.js";

let timer = 0;
export function notice(text, bad = true) {
  clearTimeout(timer);
  $("notice").hidden = !text;
  $("notice").classList.toggle("bad", bad);
  put("notice-text", text);
  if (!bad) timer = setTimeout(() => notice(""), 6000);
}

/** Reports a failure, unless something else on the page already says it. */
export function complain(error, what = "") {
  if (error.name === "AbortError" || error.status === 401) return;
  notice(what ? `${what}: ${error.message}` : error.message);
}

/** Opens a dialog above everything, and tells who must stay above it. */
export function openDialog(dialog) {
  dialog.showModal();
  document.dispatchEvent(new Event("dialog"));
}

/** Asks before something that matters. Lines are texts; `field` is a text to be given. Null: no; else the field's text. */
export function ask(question, lines, yes, { field = null, danger = false } = {}) {
  const dialog = $("ask");
  put("ask-h", question);
  $("ask-lines").replaceChildren(...lines.filter(Boolean).map((line) => el("p", {}, line)));
  put("ask-yes", yes);
  $("ask-yes").classList.toggle("danger", danger);
  $("ask-field").hidden = $("ask-text").disabled = field == null;
  put("ask-label", field?.label ?? "");
  $("ask-text").value = field?.value ?? "";
  dialog.returnValue = "";
  if (!dialog.open) openDialog(dialog);
  (field == null ? $("ask-no") : $("ask-text")).focus();
  return new Promise((answer) => { answered = answer; });
}

// Answered as soon as the dialog is closed: its event may come behind the next key.
let answered = () => {};
function answer(yes) {
  const text = $("ask-text").value.trim();
  $("ask").close(yes ? "yes" : "");
  answered(yes ? text : null);
}

export function connectNotice() {
  on("notice-close", "click", () => notice(""));
  on("ask-form", "submit", (event) => { event.preventDefault(); answer(true); });
  on("ask-no", "click", () => answer(false));
  on("ask", "close", () => { if (!$("ask").open) answered(null); });  // by Escape; of one that is answered, nothing
}
