// Drawing a box over a part's picture: with the mouse or a finger, or with the arrow keys.
import { el, put, svg } from "./dom.js";
import { place } from "./words.js";

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** Lets the user draw a box in the image's pixels. Answers with it, or null when it was given up. */
export function markRegion(part) {
  const { width, height, regions = [] } = part.one;
  const stage = part.at("stage");
  const first = regions[0] ?? { x: width * 0.375, y: height * 0.375, width: width * 0.25, height: height * 0.25 };
  let box = { x: first.x, y: first.y, width: first.width, height: first.height };
  const shown = svg("rect", { class: "marked" });
  const area = el("div", { class: "marking", tabindex: "0", role: "application", "aria-label": "Mark the defect: arrow keys move the box, with Shift they change its size, Enter takes it, Escape gives up" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, shown));
  const words = el("span", { role: "status" });
  const done = el("button", { type: "button", class: "primary" }, "Mark this place");
  const no = el("button", { type: "button" }, "Cancel");
  const bar = el("div", { class: "marking-bar" }, el("p", {}, "Draw a box around the defect, or move it with the arrow keys (Shift: size). ", words), done, no);

  const draw = () => {
    const w = clamp(box.width, 1, width);
    const h = clamp(box.height, 1, height);
    box = { x: clamp(box.x, 0, width - w), y: clamp(box.y, 0, height - h), width: w, height: h };
    for (const [name, value] of Object.entries(box)) shown.setAttribute(name, value);
    put(words, place(box));
  };
  // The picture is fitted into the stage: from a point on the screen to its pixels.
  const pixel = (event) => {
    const frame = area.getBoundingClientRect();
    const scale = Math.min(frame.width / width, frame.height / height);
    return { x: clamp((event.clientX - frame.left - (frame.width - width * scale) / 2) / scale, 0, width),
      y: clamp((event.clientY - frame.top - (frame.height - height * scale) / 2) / scale, 0, height) };
  };
  let from = null;
  area.addEventListener("pointerdown", (event) => { from = pixel(event); area.setPointerCapture(event.pointerId); event.preventDefault(); area.focus(); });
  area.addEventListener("pointermove", (event) => {
    if (!from || !area.hasPointerCapture(event.pointerId)) return;
    const to = pixel(event);
    box = { x: Math.min(from.x, to.x), y: Math.min(from.y, to.y), width: Math.abs(to.x - from.x), height: Math.abs(to.y - from.y) };
    draw();
  });
  stage.append(area, bar);
  draw();
  area.focus();

  return new Promise((answer) => {
    const end = (result) => {
      area.remove();
      bar.remove();
      answer(result);
    };
    const whole = () => {
      const [x, y] = [Math.floor(box.x), Math.floor(box.y)];
      return { x, y, width: Math.max(1, Math.ceil(box.x + box.width) - x), height: Math.max(1, Math.ceil(box.y + box.height) - y) };
    };
    done.addEventListener("click", () => end(whole()));
    no.addEventListener("click", () => end(null));
    const byKey = (event) => {
      event.stopPropagation();  // no other key of the page means anything now
      if (event.key === "Escape") { event.preventDefault(); return end(null); }
      if (event.currentTarget !== area) return;
      if (event.key === "Enter") { event.preventDefault(); return end(whole()); }
      const step = Math.max(1, Math.min(width, height) / 50);
      const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
      if (!move) return;
      event.preventDefault();
      const [dx, dy] = move;
      box = event.shiftKey ? { ...box, width: box.width + dx, height: box.height + dy } : { ...box, x: box.x + dx, y: box.y + dy };
      draw();
    };
    area.addEventListener("keydown", byKey);
    bar.addEventListener("keydown", byKey);
    // The part has gone, or another stands here now.
    new MutationObserver((_, observer) => { if (!area.isConnected) { observer.disconnect(); end(null); } }).observe(stage, { childList: true });
  });
}
