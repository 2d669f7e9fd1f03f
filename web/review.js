// Before a lesson is taken in: what the service finds strange, and the strangest images as pictures to click away.
import { $, el, icon, put } from "./dom.js";
import { drawSmall } from "./pictures.js";
import { count, num } from "./words.js";

const MOST_REMARKED = 40;  // pictures beside the strangest

/** Shows a job's review, and answers with the images to leave out once the user says so. Gives up with the run. */
export function review(run) {
  const { remarks = [], strangest = [] } = run.job.review ?? {};
  const without = new Set();
  const remarked = [...new Set(remarks.flatMap(({ images = [] }) => images))].filter((image) => !strangest.some((one) => one.image === image));
  const shown = [...strangest, ...remarked.slice(0, MOST_REMARKED).map((image) => ({ image }))];

  const showCount = () => {
    const left = run.job.received - without.size;
    put("review-go", without.size ? `Learn ${count(left, "image")}, without ${without.size}` : `Learn all ${count(left, "image")}`);
    $("review-go").disabled = left < 1;
  };
  const leaveOut = (images, out) => {
    for (const image of images) if (out) without.add(image); else without.delete(image);
    for (const node of $("review-pictures").children) node.setAttribute("aria-pressed", without.has(Number(node.dataset.image)));
    for (const node of $("review-remarks").querySelectorAll("button")) node.setAttribute("aria-pressed", node.images.every((image) => without.has(image)));
    showCount();
  };

  $("review-remarks").replaceChildren(...remarks.map((remark) => remarkItem(remark, leaveOut)));
  $("review-none").hidden = remarks.length > 0;
  $("review-pictures").replaceChildren(...shown.map((one) => tile(one, run.byIndex.get(one.image), () => leaveOut([one.image], !without.has(one.image)))));
  $("review-strangest").hidden = !shown.length;
  showCount();
  $("review").hidden = false;
  $("review-h").focus();

  return new Promise((answer, fail) => {
    const go = () => { leave(); run.left = without.size; answer([...without].sort((a, b) => a - b)); };
    const stop = () => { leave(); fail(run.stop.signal.reason); };
    const leave = () => {
      $("review").hidden = true;
      $("review-go").removeEventListener("click", go);
      run.stop.signal.removeEventListener("abort", stop);
    };
    $("review-go").addEventListener("click", go);
    run.stop.signal.addEventListener("abort", stop);
  });
}

function remarkItem({ text, images = [] }, leaveOut) {
  const button = images.length ? el("button", { type: "button", class: "plain", "aria-pressed": "false",
    onclick: () => leaveOut(images, button.getAttribute("aria-pressed") !== "true") }, `Leave ${count(images.length, "image")} out`) : null;
  if (button) button.images = images;
  return el("li", {}, icon("unknown"), el("span", {}, text), button);
}

function tile({ image, name, score, usual }, file, toggle) {
  const canvas = el("canvas", { width: 1, height: 1 });
  const words = name || file?.name || `image ${image + 1}`;
  if (file) drawSmall(canvas, file, 200).catch(() => {});  // a format that this browser does not know: its name stays
  const than = score == null ? "see the remarks" : usual ? `${num(score)}, usual ${num(usual)}` : num(score);
  return el("button", { type: "button", class: "tile", "aria-pressed": "false", "data-image": image, onclick: toggle },
    canvas, el("span", { class: "vh" }, "Leave out "), el("span", { class: "tile-name" }, words), el("span", { class: "tile-score" }, than), el("span", { class: "tile-out" }, "left out"));
}
