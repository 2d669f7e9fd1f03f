// One inspected part: its verdict and why, its picture with heat, outline and regions, its score and facts. The live
// view has two of them: the newest, and an older one beside it.
import { sleep } from "./api.js";
import { $, el, put, svg } from "./dom.js";
import { decoded, noPicture } from "./pictures.js";
import { darken, fits, shareOf } from "./region.js";
import { state, watch } from "./store.js";
import { milliseconds, num, percent, place, reasonOf, when, whole, wordOf } from "./words.js";

const MARK = 60;      // where the threshold stands on the scale: always at the same place, so that the eye learns it
const TOGETHER = 300; // milliseconds that a verdict waits for its picture, so that both change at once

export class Part {
  constructor(root) {
    this.root = root;
    root.append($("part").content.cloneNode(true));
    this.one = null;
    this.since = 0;  // when this part came, by performance.now()
    watch("tasks", () => { if (this.one) { this.showRegions(this.one); this.showFacts(this.one); } });  // what is looked at is known by the task
  }

  at(name) { return this.root.querySelector(`.${name}`); }

  /** Shows a part: words and picture together, or the words first if the picture takes long. */
  async show(one) {
    const same = this.one != null && this.one.id === one.id && one.id != null;
    const wanted = Symbol();
    this.wanted = wanted;
    if (same) return this.showWords(one);
    const pictures = this.load(one);
    // Words that there is no part are not true any more: they do not wait.
    await Promise.race([pictures, sleep(this.at("verdict").classList.contains("none") ? 0 : TOGETHER)]);
    if (this.wanted !== wanted) return;
    this.since = performance.now();
    this.stopMarking();
    this.at("stage").classList.add("empty");  // never another part's picture under these words
    this.showWords(one);
    const found = await pictures;
    if (this.one?.id === one.id) this.showPictures(one, found);
  }

  showWords(one) {
    this.one = one;
    this.showVerdict(one);
    this.showScore(one);
    this.showRegions(one);
    this.showFacts(one);
    this.at("details").hidden = false;
  }

  /** Shows that there is no part to be seen as the newest. */
  showInstead({ word, why }, kind) {
    this.at("verdict").className = `verdict none ${kind}`;
    put(this.at("verdict-word"), word);
    put(this.at("verdict-why"), why);
    put(this.at("verdict-age"), "");
  }

  /** A box that was being drawn was drawn on another part. */
  stopMarking() {
    for (const node of this.root.querySelectorAll(".marking, .marking-bar")) node.remove();
  }

  clear() {
    this.stopMarking();
    this.one = null;
    this.wanted = null;
    this.at("details").hidden = true;
    this.at("stage").classList.add("empty");
    put(this.at("stage-note"), "");
    this.at("boxes").replaceChildren();
    darken(this.at("outside"), null);
  }

  showVerdict(one) {
    const { verdict, score, threshold, task } = one;
    this.at("verdict").className = `verdict ${verdict}`;
    this.at("verdict-use").setAttribute("href", `#i-${verdict}`);
    put(this.at("verdict-word"), wordOf(verdict));
    const margin = threshold ? `${percent(Math.abs(score / threshold - 1), 0)} ${score > threshold ? "above" : "below"} the threshold` : "";
    const product = task ? `${task}: ` : "";
    put(this.at("verdict-why"), product + (reasonOf(one) || margin || "no threshold for this yet"));
  }

  showScore({ score, threshold, verdict }) {
    put(this.at("score"), num(score));
    put(this.at("score-of"), threshold == null ? "" : `threshold ${num(threshold)}`);
    const scale = this.at("scale");
    scale.hidden = this.at("scale-ends").hidden = threshold == null;
    if (threshold == null) return;
    scale.className = `scale ${verdict}`;
    scale.setAttribute("aria-label", `Score ${num(score)}, threshold ${num(threshold)}`);
    this.at("fill").style.width = `${Math.min(100, MARK * score / threshold)}%`;
    put(this.at("at-mark"), num(threshold));
  }

  showRegions({ regions = [], width, height }) {
    const boxes = this.at("boxes");
    boxes.setAttribute("viewBox", `0 0 ${width} ${height}`);
    boxes.replaceChildren(...regions.map((region) => svg("rect", { x: region.x, y: region.y, width: region.width, height: region.height })));
    darken(this.at("outside"), this.lookedAt());
    this.at("regions").hidden = !regions.length;
    put(this.at("regions-count"), regions.length === 1 ? "1 region" : `${regions.length} regions`);
    this.at("regions-list").replaceChildren(...regions.map((region, i) => el("li", {
      onpointerenter: () => boxes.children[i].classList.add("on"), onpointerleave: () => boxes.children[i].classList.remove("on"),
    }, `${place(region)}${region.score == null ? "" : `, score ${num(region.score)}`}`)));
  }

  /** The region of interest of the part's task; null: all of the image is looked at. */
  lookedAt() {
    const { task, width, height } = this.one;
    const region = state.tasks.find(({ name }) => name === task)?.region;
    return region && fits(region, width, height) ? region : null;
  }

  showFacts(one) {
    const region = this.lookedAt();
    const facts = [["Task", one.task ?? "not recognised"], ["Time", when(one.time)], ["Station", one.station || "–"], ["Source", one.source || "–"],
      ["Image", `${whole(one.width)} × ${whole(one.height)}`], ["Latency", milliseconds(one.latency_ms)], ["Number", one.id ?? "not kept"]];
    if (region) facts.push(["Looked at", `${percent(shareOf(region), 0)} of it`]);
    this.at("facts").replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  }

  load({ id, has_image: kept, threshold }) {
    const kinds = !kept || id == null ? [] : threshold == null ? ["image", "map"] : ["image", "map", "outline"];
    return Promise.allSettled(kinds.map((kind) => decoded(id, kind)));
  }

  showPictures({ id, task, has_image: kept }, found) {
    ["image", "map", "outline"].forEach((kind, i) => {
      const node = this.at(`pic-${kind}`);
      node.hidden = found[i]?.status !== "fulfilled";
      if (found[i]?.value) node.src = found[i].value;
    });
    this.at("pic-image").alt = `Inspected image ${id}${task ? `, ${task}` : ""}, with its heat map${this.lookedAt() ? "; what is dark is not looked at" : ""}`;
    put(this.at("stage-note"), id == null ? "The service could not keep this inspection. Its verdict holds."
      : !kept ? "The image is no longer kept." : found[0].status === "fulfilled" ? "" : noPicture(found[0].reason));
    this.at("stage").classList.remove("empty");
  }
}
