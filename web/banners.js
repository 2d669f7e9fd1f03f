// What everybody must know, above every view: the connection, what does not work, what the service warns of.
import { $, el, put } from "./dom.js";
import { token } from "./keep.js";
import { state, watch } from "./store.js";
import { count } from "./words.js";

function showLink() {
  const { error } = state;
  $("link-state").className = `link-state ${error ? "lost" : "on"}`;
  $("lost").hidden = !error;
  if (!error) return showStatus();
  put("link-text", error.status ? "Busy" : "Connection lost");
  put("lost", `${error.status ? error.message : "Connection lost"}, trying again every ${count(error.seconds, "second")}. What is shown may be old.`);
}

function showStatus() {
  const { status, error } = state;
  if (!status) return;
  const { memory, learning, queue, device } = status;
  if (!error) put("link-text", learning.state === "learning" ? "Learning" : queue.waiting ? `${queue.waiting} waiting` : "Connected");
  $("stopped").hidden = learning.state !== "stopped";
  put("stopped", `Learning is stopped (${learning.reason}). Inspection goes on.`);
  $("unkept").hidden = !status.unkept;
  put("unkept", `Inspections are not kept (${status.unkept}). Inspection goes on.`);
  put("about", `contcore ${status.version}, role ${status.role}. ${memory.backbone}. ${device?.gpu ? `On ${device.name} (${device.gpu}). ` : ""}${count(status.inspections, "inspection")}.`);
  $("sign-out").hidden = !token.get();
  showWarnings(status.warnings ?? []);
}

function showWarnings(warnings) {
  const same = warnings.length === $("warnings").children.length && warnings.every((text, i) => $("warnings").children[i].textContent === text);
  if (!same) $("warnings").replaceChildren(...warnings.map((text) => el("p", { class: "banner warn" }, text)));
}

export function connectBanners() {
  watch("error heard", showLink);
  watch("status", showStatus);
  // The live view takes the height that is left.
  new ResizeObserver(() => document.body.style.setProperty("--banner", `${$("banners").offsetHeight}px`)).observe($("banners"));
}
