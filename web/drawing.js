// Drawing a region of interest on a picture: with the mouse or a finger, or with keys alone. The dialog answers with the
// region, or with null when it was given up.
import { $, el, on, put, svg } from "./dom.js";
import { openDialog } from "./notice.js";
import { darken, faultOf, fits, MOST_CORNERS, wordsFor } from "./region.js";
import { count, whole } from "./words.js";

const NEAR = { mouse: 12, pen: 14, touch: 24 };  // pixels of the screen

// shapes: closed ones. open: the corners of the one that is being drawn. picked: a corner of a closed or of the open one.
const drawing = { width: 1, height: 1, shapes: [], open: [], picked: null, cursor: [0, 0], before: [], fault: null, warned: false, keys: false, pictures: [], answer: null };

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const inside = ([x, y]) => [clamp(Math.round(x), 0, drawing.width), clamp(Math.round(y), 0, drawing.height)];
const same = ([ax, ay], [bx, by]) => ax === bx && ay === by;
const at = ([x, y]) => `(${whole(x)}, ${whole(y)})`;
const cornersOf = (shape) => drawing.shapes[shape] ?? drawing.open;
const isOpen = (shape) => shape >= drawing.shapes.length;
const say = (text) => put("drawing-status", text);
const regionOf = (polygons) => ({ width: drawing.width, height: drawing.height, polygons });

/** Lets a person draw on one of these pictures ({name, url, width, height}). `region` is what is there already. */
export function drawRegion(pictures, region, chosen = 0) {
  const polygons = region?.polygons ?? [];
  const { width, height } = polygons.length ? region : pictures[chosen];
  Object.assign(drawing, { width, height, shapes: structuredClone(polygons), open: [], picked: null, cursor: [Math.round(width / 2), Math.round(height / 2)],
    before: [], fault: null, warned: false, keys: false, pictures });
  $("drawing-image").replaceChildren(...pictures.map(({ name }, i) => el("option", { value: i }, name)));
  $("drawing-image").value = chosen;
  $("drawing-image-box").hidden = pictures.length < 2;
  showPicture();
  say(drawing.shapes.length ? `Now ${wordsFor(regionOf(drawing.shapes))} is looked at.` : "Nothing is drawn yet.");
  openDialog($("drawing"));
  draw();
  $("drawing-stage").focus();
  return new Promise((answer) => { drawing.answer = answer; });
}

function end(result) {
  drawing.answer?.(result);
  drawing.answer = null;
  $("drawing").close();
}

function showPicture() {
  const picture = drawing.pictures[Number($("drawing-image").value)];
  $("drawing-picture").src = picture.url;
  const strange = !fits(drawing, picture.width, picture.height);
  put("drawing-shape", strange ? `This image is ${whole(picture.width)} × ${whole(picture.height)}, another shape than ${whole(drawing.width)} × ${whole(drawing.height)} that the region is drawn on. It would not be learned.` : "");
}

// ---- changes, each of which can be undone

/** `what` names a change that goes on, such as a corner that is moved: it is undone at once. */
function remember(what = Symbol()) {
  drawing.warned = false;
  if (drawing.before.at(-1)?.what === what) return;
  drawing.before.push({ what, shapes: structuredClone(drawing.shapes), open: structuredClone(drawing.open) });
}

function undo() {
  const { shapes, open } = drawing.before.pop() ?? {};
  if (!shapes) return say("Nothing to undo.");
  Object.assign(drawing, { shapes, open, picked: null });
  say(`Undone. ${open.length ? `The open shape has ${count(open.length, "corner")}.` : count(shapes.length, "shape") + "."}`);
  draw();
}

function addCorner(corner) {
  const { open } = drawing;
  if (open.length && same(open.at(-1), corner)) return say("There is a corner here already.");
  if (drawing.shapes.flat().length + open.length >= MOST_CORNERS) return say(`There are ${whole(MOST_CORNERS)} corners, and no more can be.`);
  remember();
  open.push(corner);
  drawing.picked = null;
  drawing.cursor = corner;
  say(`Corner ${open.length} at ${at(corner)}.${open.length === 3 ? " The shape can be closed now." : ""}`);
  draw();
}

function closeShape() {
  const { open, shapes } = drawing;
  if (!open.length) return say("No shape is open.");
  if (open.length < 3) return say(`The shape has ${count(open.length, "corner")}; it takes three or more.`);
  remember();
  shapes.push(open);
  drawing.open = [];
  drawing.picked = null;
  draw();
  say(`Shape ${shapes.length} is closed.${drawing.fault ? "" : ` Now ${wordsFor(regionOf(shapes))} is looked at.`}`);
}

/** A new corner in the side that begins at a corner; it is picked. */
function split({ shape, corner }, where) {
  const corners = cornersOf(shape);
  const next = corners[(corner + 1) % corners.length];
  remember();
  corners.splice(corner + 1, 0, inside(where ?? [(corners[corner][0] + next[0]) / 2, (corners[corner][1] + next[1]) / 2]));
  pick({ shape, corner: corner + 1 });
}

function move({ shape, corner }, to, what) {
  const next = inside(to);
  if (same(cornersOf(shape)[corner], next)) return;
  remember(what);
  cornersOf(shape)[corner] = next;
  drawing.cursor = next;
  draw();
  say(`Corner ${corner + 1} of ${isOpen(shape) ? "the open shape" : `shape ${shape + 1}`} at ${at(next)}.`);
}

function pick(picked) {
  drawing.picked = picked;
  if (picked) {
    drawing.cursor = [...cornersOf(picked.shape)[picked.corner]];
    say(`Corner ${picked.corner + 1} of ${isOpen(picked.shape) ? "the open shape" : `shape ${picked.shape + 1}`} at ${at(drawing.cursor)} is picked.`);
  }
  draw();
}

/** The corner that is picked; else the last of the open shape. */
function deleteCorner() {
  const picked = drawing.picked ?? (drawing.open.length ? { shape: drawing.shapes.length, corner: drawing.open.length - 1 } : null);
  if (!picked) return say("Pick a corner first: click it, or press N.");
  const corners = cornersOf(picked.shape);
  if (!isOpen(picked.shape) && corners.length <= 3) return say("A shape has three corners at least. Delete the shape, or add a corner before.");
  remember();
  corners.splice(picked.corner, 1);
  drawing.picked = null;
  say(`Deleted. ${isOpen(picked.shape) ? "The open shape" : `Shape ${picked.shape + 1}`} has ${count(corners.length, "corner")}.`);
  draw();
}

/** That of the corner that is picked; else the open one, else the last. */
function deleteShape() {
  const shape = drawing.picked?.shape ?? (drawing.open.length ? drawing.shapes.length : drawing.shapes.length - 1);
  if (shape < 0) return say("Nothing is drawn yet.");
  remember();
  if (isOpen(shape)) drawing.open = [];
  else drawing.shapes.splice(shape, 1);
  drawing.picked = null;
  say(`Deleted. ${drawing.shapes.length ? `${count(drawing.shapes.length, "shape")} left.` : "Nothing is drawn now."}`);
  draw();
}

/** From corner to corner through all shapes. */
function step(by) {
  const all = [...drawing.shapes, drawing.open].flatMap((corners, shape) => corners.map((_, corner) => ({ shape, corner })));
  if (!all.length) return say("There is no corner yet.");
  const now = all.findIndex(({ shape, corner }) => shape === drawing.picked?.shape && corner === drawing.picked?.corner);
  pick(all[now < 0 ? (by > 0 ? 0 : all.length - 1) : (now + by + all.length) % all.length]);
}

/** Escape: the corner that is picked, then the open shape, then the drawing; what would be lost is asked twice for. */
function giveUp() {
  if (drawing.picked) { drawing.picked = null; say("Let go."); return draw(); }
  if (drawing.open.length) {
    remember();
    drawing.open = [];
    say("The open shape is given up. Undo brings it back.");
    return draw();
  }
  if (!drawing.before.length || drawing.warned) return end(null);
  drawing.warned = true;
  say("Press Escape once more to give up what was drawn.");
}

function use() {
  if (drawing.open.length > 2) closeShape();
  const polygons = drawing.open.length ? [...drawing.shapes, drawing.open] : drawing.shapes;
  drawing.fault = polygons.length ? faultOf(regionOf(polygons)) : { text: "Nothing is drawn yet: add three corners or more.", shapes: [] };
  paint();
  if (!drawing.fault) return end(regionOf(drawing.shapes));
  $("drawing-stage").focus();
}

// ---- how it looks

function draw() {
  drawing.fault = drawing.shapes.length ? faultOf(regionOf(drawing.shapes)) : null;
  paint();
}

function paint() {
  const { width, height, shapes, open, picked, cursor } = drawing;
  put("drawing-fault", drawing.fault?.text ?? "");
  darken($("drawing-dark"), shapes.length ? regionOf(shapes) : null);
  const view = $("drawing-lines");
  view.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const box = $("drawing-stage").getBoundingClientRect();
  const unit = 1 / Math.max(1e-6, Math.min(box.width / width, box.height / height));  // a pixel of the screen
  const bad = new Set(drawing.fault?.shapes);
  const parts = shapes.filter((_, i) => bad.has(i)).map((corners) => svg("path", { class: "bad-edge", d: `M${corners.join("L")}Z` }));
  if (open.length) {
    const line = `M${open.join("L")}${drawing.keys && !picked ? `L${cursor}` : ""}`;
    parts.push(svg("path", { class: "edge-below", d: line }), svg("path", { class: "open-edge", d: line }));
  }
  [...shapes, open].forEach((corners, shape) => corners.forEach(([x, y], corner) => {
    const is = picked?.shape === shape && picked.corner === corner;
    const first = shape === shapes.length && corner === 0 && open.length > 2;
    parts.push(svg("circle", { class: `corner${is ? " picked" : ""}${first ? " closes" : ""}`, cx: x, cy: y, r: (is ? 9 : first ? 8 : 6) * unit }));
  }));
  if (drawing.keys && !picked) {
    const [x, y] = cursor;
    const cross = `M${x - 16 * unit} ${y}h${32 * unit}M${x} ${y - 16 * unit}v${32 * unit}`;
    parts.push(svg("path", { class: "edge-below", d: cross }), svg("path", { class: "cursor", d: cross }));
  }
  view.replaceChildren(...parts);
  $("drawing-close").disabled = open.length < 3;
  $("drawing-undo").disabled = !drawing.before.length;
  $("drawing-corner").disabled = !picked && !open.length;
  $("drawing-shape-away").disabled = !shapes.length && !open.length;
}

// ---- mouse and finger

/** From a point on the screen to the image's pixels, and how many of them are as near as `near` pixels of the screen. */
function pointed(event) {
  const box = $("drawing-stage").getBoundingClientRect();
  const scale = Math.min(box.width / drawing.width, box.height / drawing.height);
  const point = [(event.clientX - box.left - (box.width - drawing.width * scale) / 2) / scale, (event.clientY - box.top - (box.height - drawing.height * scale) / 2) / scale];
  return { point, near: (NEAR[event.pointerType] ?? NEAR.mouse) / scale };
}

const distance = ([ax, ay], [bx, by]) => Math.hypot(ax - bx, ay - by);

function cornerAt(point, near) {
  let best = null;
  [...drawing.shapes, drawing.open].forEach((corners, shape) => corners.forEach((one, corner) => {
    const far = distance(one, point);
    if (far <= near && far < (best?.far ?? Infinity)) best = { shape, corner, far };
  }));
  return best;
}

/** The side of a closed shape that is there, by the corner that it begins at. */
function sideAt([x, y], near) {
  for (const [shape, corners] of drawing.shapes.entries()) {
    for (const [corner, [ax, ay]] of corners.entries()) {
      const [bx, by] = corners[(corner + 1) % corners.length];
      const share = clamp(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1), 0, 1);
      if (distance([ax + share * (bx - ax), ay + share * (by - ay)], [x, y]) <= near / 2) return { shape, corner };
    }
  }
  return null;
}

let dragged = null;  // names the change, while a corner is dragged

function press(event) {
  if (event.button !== 0) return;
  event.preventDefault();
  $("drawing-stage").focus();
  drawing.keys = false;
  const { point, near } = pointed(event);
  const corner = cornerAt(point, near);
  if (corner && isOpen(corner.shape) && corner.corner === 0 && drawing.open.length > 2) return closeShape();
  if (corner) pick(corner);
  else if (!drawing.open.length && sideAt(point, near)) split(sideAt(point, near), point);
  else return addCorner(inside(point));
  dragged = Symbol();
  $("drawing-stage").setPointerCapture(event.pointerId);
}

function drag(event) {
  if (dragged && drawing.picked && $("drawing-stage").hasPointerCapture(event.pointerId)) move(drawing.picked, pointed(event).point, dragged);
}

// ---- keys

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Far steps, and with Shift single pixels. */
function byArrow([dx, dy], shift) {
  const far = shift ? 1 : Math.max(1, Math.round(Math.min(drawing.width, drawing.height) / 32));
  const to = inside([drawing.cursor[0] + dx * far, drawing.cursor[1] + dy * far]);
  if (drawing.picked) return move(drawing.picked, to, `${drawing.picked.shape} ${drawing.picked.corner}`);
  drawing.cursor = to;
  const closes = drawing.open.length > 2 && same(to, drawing.open[0]);
  say(`${at(to)}${closes ? ": the first corner, Enter closes the shape." : ""}`);
  draw();
}

function enter() {
  if (drawing.picked) return split(drawing.picked);
  if (drawing.open.length > 2 && same(drawing.cursor, drawing.open[0])) return closeShape();
  addCorner([...drawing.cursor]);
}

const KEYS = { Enter: enter, " ": enter, Delete: deleteCorner, Backspace: deleteCorner, n: () => step(1), p: () => step(-1), c: closeShape, u: undo };

function onKey(event) {
  if (event.altKey || event.isComposing) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key === "z") { event.preventDefault(); undo(); }
    return;
  }
  const arrow = ARROWS[event.key];
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action = key === "d" && event.shiftKey ? deleteShape : KEYS[key];
  if (!arrow && !action) return;
  event.preventDefault();
  drawing.keys = true;
  if (arrow) byArrow(arrow, event.shiftKey);
  else action();
}

export function connectDrawing() {
  on("drawing-stage", "pointerdown", press);
  on("drawing-stage", "pointermove", drag);
  for (const type of ["pointerup", "pointercancel"]) on("drawing-stage", type, () => { dragged = null; });
  on("drawing-stage", "dblclick", () => { if (drawing.open.length > 2) closeShape(); });
  on("drawing-stage", "keydown", onKey);
  on("drawing-stage", "focus", () => {
    drawing.keys ||= $("drawing-stage").matches(":focus-visible");
    paint();
  });
  for (const [id, act] of [["drawing-close", closeShape], ["drawing-undo", undo], ["drawing-corner", deleteCorner], ["drawing-shape-away", deleteShape]]) {
    on(id, "click", () => {
      act();
      if ($(id).disabled) $("drawing-stage").focus();  // it would have lost the focus
    });
  }
  on("drawing-use", "click", use);
  on("drawing-no", "click", () => end(null));
  on("drawing-image", "change", showPicture);
  on("drawing", "keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    giveUp();
  });
  on("drawing", "cancel", (event) => { event.preventDefault(); giveUp(); });  // a phone’s way back
  // An alarm was looked at: what is whole is kept.
  on("drawing", "close", () => end(drawing.shapes.length && !drawing.fault ? regionOf(drawing.shapes) : null));
  new ResizeObserver(() => { if ($("drawing").open) paint(); }).observe($("drawing-stage"));
}
