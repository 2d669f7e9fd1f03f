// What a person says of a part: good, defect (with a place or without), or nothing after all.
import { post } from "./api.js";
import { remember, wake } from "./heartbeat.js";
import { put } from "./dom.js";
import { markRegion } from "./marking.js";
import { ask, complain, notice } from "./notice.js";
import { whyNot } from "./session.js";
import { clock } from "./words.js";

let teaching = false;

/** `hold` makes sure that the part stays in sight while something is said of it. */
export function connectFeedback(part, hold) {
  const say = (label) => () => giveFeedback(part, hold, label);
  part.at("say-good").addEventListener("click", say("good"));
  part.at("say-defect").addEventListener("click", say("defect"));
  part.at("say-where").addEventListener("click", () => giveRegion(part, hold));
  part.at("undo").addEventListener("click", say(""));
}

export function showFeedback(part) {
  const { one } = part;
  part.at("feedback").hidden = one?.id == null;
  if (one?.id == null) return;
  const may = whyNot("learn");
  const reason = may || (one.has_image ? "" : "The image is no longer kept: it cannot be learned.");
  part.at("say-good").disabled = teaching || Boolean(reason);
  part.at("say-defect").disabled = part.at("say-where").disabled = teaching || Boolean(may);
  part.at("say-good").setAttribute("aria-pressed", one.feedback === "good");
  part.at("say-defect").setAttribute("aria-pressed", one.feedback === "defect");
  part.at("say-where").hidden = !one.has_image;
  part.at("undo").hidden = !one.feedback || Boolean(may);
  part.at("undo").disabled = teaching;
  put(part.at("feedback-note"), teaching ? "Saving…" : feedbackNote(one) || reason);
}

function feedbackNote({ feedback, feedback_time: time, learned }) {
  const at = time ? ` at ${clock(time)}` : "";
  if (feedback === "good") return `Marked good${at}${learned ? ", and learned." : ". Not learned."}`;
  if (feedback === "defect") return `Marked as a defect${at}, kept as evidence.`;
  return learned ? "No mark now. What was learned from it stays in the memory." : "";
}

/** While the newest is shown, it may change under the finger: then nothing is marked, and it is held beside. */
async function held(part, hold) {
  const justChanged = performance.now() - part.since < 500;
  const { one } = part;
  const other = await hold(part);
  if (other === part || !justChanged) return { part: other, one };
  notice("The part had just changed, so nothing was marked. It is held beside now: mark it again.", false);
  return null;
}

export async function giveFeedback(part, hold, label) {
  const button = part.at({ good: "say-good", defect: "say-defect", "": "undo" }[label]);
  if (part.one?.id == null || teaching || button.disabled || button.hidden || part.one.feedback === label) return;
  const focused = document.activeElement;
  const target = await held(part, hold);
  if (target) await send(target.part, target.one, { label }, focused);
}

export async function giveRegion(part, hold) {
  if (part.one?.id == null || teaching || part.at("say-where").disabled || part.at("say-where").hidden) return;
  const target = await held(part, hold);
  if (!target) return;
  const region = await markRegion(target.part);
  if (region) await send(target.part, target.one, { label: "defect", region });
}

async function send(part, one, body, focused = document.activeElement) {
  teaching = true;
  showFeedback(part);
  try {
    const answer = await askedAgain(`v1/inspections/${one.id}/feedback`, body, one);
    if (answer) remember(answer);
    wake();
  } catch (error) {
    complain(error, "Not marked");
  } finally {
    teaching = false;
    showFeedback(part);
    // Disabling the button had taken the focus away.
    if (document.activeElement === document.body) (focused?.isConnected && !focused.hidden ? focused : part.at("say-good")).focus({ preventScroll: true });
  }
}

/** The service may want to hear twice what would be hard to mend. Null: it was not said again. */
async function askedAgain(path, body, one) {
  try {
    return await post(path, body);
  } catch (error) {
    if (error.status !== 409) throw error;
    if (error.problem.confirm) {
      if (await ask("Is this part really good?", [error.message], "It is good: learn it", { danger: true }) == null) return null;
      return post(path, { ...body, confirm: true });
    }
    // What it was learned as cannot be taken back exactly any more: only if that is wanted.
    if (body.label === "good" || !one.lesson) throw error;
    if (await ask("It cannot be taken back exactly", [error.message], "Take it back as well as can be", { danger: true }) == null) return null;
    await post("v1/lessons/forget", { lessons: [one.lesson], exact: false });
    return post(path, body);
  }
}
