// A region of interest: what of a task's images is looked at, as polygons or a mask. How it is drawn, how much of the image
// it is, how it is read from a file, and in words what is wrong with it.
import { svg } from "./dom.js";
import { count, percent, whole } from "./words.js";

export const MOST_CORNERS = 1000;  // as many as the service takes
const MOST_COUNTS = 32768;         // of a mask, as well

/** Whether images of that size have the region's shape, but for the rounding of a side. */
export function fits(region, width, height) {
  const [a, b] = [width * region.height, height * region.width];
  return Math.abs(a - b) <= Math.max(width, height, region.width, region.height);
}

/** Where the inside is, as the "d" of a path to be filled by the even-odd rule. */
export function pathOf({ width, polygons, counts }) {
  if (polygons) return polygons.map((corners) => `M${corners.map(([x, y]) => `${x} ${y}`).join("L")}Z`).join("");
  const path = [];
  let at = 0;
  counts.forEach((n, i) => {
    const end = at + n;
    for (; i % 2 && at < end; at += Math.min(end - at, width - at % width)) {
      const more = Math.min(end - at, width - at % width);
      path.push(`M${at % width} ${Math.floor(at / width)}h${more}v1h-${more}z`);
    }
    at = end;
  });
  return path.join("");
}

/** Darkens what is not looked at, in an <svg> that lies over a picture; null: nothing. */
export function darken(node, region) {
  if (node.region === region) return;
  node.region = region;
  node.replaceChildren();
  if (!region) return;
  const { width, height, polygons } = region;
  const path = pathOf(region);
  node.setAttribute("viewBox", `0 0 ${width} ${height}`);
  node.append(svg("path", { class: polygons ? "dark" : "dark rows", d: `M0 0H${width}V${height}H0Z${path}` }));
  if (polygons) node.append(svg("path", { class: "edge-below", d: path }), svg("path", { class: "edge", d: path }));
}

const shares = new WeakMap();

/** The part of the image that is looked at. */
export function shareOf(region) {
  if (!shares.has(region)) shares.set(region, region.counts ? ofCounts(region) : ofPolygons(region));
  return shares.get(region);
}

const ofCounts = ({ width, height, counts }) => counts.reduce((sum, n, i) => sum + (i % 2 ? n : 0), 0) / (width * height);

function ofPolygons(region) {
  const scale = Math.min(1, 256 / Math.max(region.width, region.height));
  const [width, height] = [region.width, region.height].map((side) => Math.max(1, Math.round(side * scale)));
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.scale(width / region.width, height / region.height);
  context.fill(new Path2D(pathOf(region)), "evenodd");
  const { data } = context.getImageData(0, 0, width, height);
  let sum = 0;
  for (let i = 3; i < data.length; i += 4) sum += data[i];
  return sum / (255 * width * height);
}

/** "2 shapes, 41 % of the image". */
export function wordsFor(region) {
  const share = shareOf(region);
  const part = share > 0 && share < 0.01 ? "less than 1 %" : percent(share, 0);
  return `${region.counts ? "a mask" : count(region.polygons.length, "shape")}, ${part} of the image`;
}

// ---- what is wrong with it

const turn = ([ax, ay], [bx, by], [cx, cy]) => Math.sign((bx - ax) * (cy - ay) - (by - ay) * (cx - ax));
const between = ([ax, ay], [bx, by], [x, y]) => Math.min(ax, bx) <= x && x <= Math.max(ax, bx) && Math.min(ay, by) <= y && y <= Math.max(ay, by);

/** Whether two sides cross or touch. */
function meet(a, b, c, d) {
  const [abc, abd, cda, cdb] = [turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b)];
  if (abc !== abd && cda !== cdb) return true;
  return (abc === 0 && between(a, b, c)) || (abd === 0 && between(a, b, d)) || (cda === 0 && between(c, d, a)) || (cdb === 0 && between(c, d, b));
}

const sides = (corners) => corners.map((corner, i) => [corner, corners[(i + 1) % corners.length]]);

/** The corners where a shape's first crossing sides begin; null: it does not cross itself. */
function crossing(corners) {
  const all = sides(corners);
  for (let i = 0; i < all.length; ++i) {
    for (let k = i + 2; k < all.length; ++k) {
      if (i === 0 && k === all.length - 1) continue;  // they share a corner
      if (meet(...all[i], ...all[k])) return [i + 1, k + 1];
    }
  }
  return null;
}

const area = (corners) => Math.abs(sides(corners).reduce((sum, [[ax, ay], [bx, by]]) => sum + ax * by - bx * ay, 0)) / 2;

/** What is wrong with it, in words, and with which shapes; null: nothing that is seen here. */
export function faultOf({ width, height, polygons, counts }) {
  if (counts) {
    if (counts.length > MOST_COUNTS) return { text: `The mask’s edge is too ragged: ${count(counts.length, "change")} between inside and outside, at most ${whole(MOST_COUNTS)} are kept. Give a smoother or smaller mask, or draw.`, shapes: [] };
    if (counts.length === 1) return { text: "The mask is black all over: nothing would be looked at.", shapes: [] };
    if (counts.length === 2 && counts[0] === 0) return { text: "The mask has no black: all of the image would be looked at, which takes no region.", shapes: [] };
    return null;
  }
  const corners = polygons.reduce((sum, one) => sum + one.length, 0);
  if (corners > MOST_CORNERS) return { text: `There are ${count(corners, "corner")}; at most ${whole(MOST_CORNERS)} can be. Delete some, or give a mask.`, shapes: [] };
  for (const [i, one] of polygons.entries()) {
    const name = `Shape ${i + 1}`;
    if (one.length < 3) return { text: `${name} has ${count(one.length, "corner")}; it takes three or more. Add corners, or delete it.`, shapes: [i] };
    if (one.some(([x, y]) => !(x >= 0 && y >= 0 && x <= width && y <= height))) return { text: `${name} reaches beyond the image. Move its corners inside.`, shapes: [i] };
    const at = crossing(one);
    if (at) return { text: `${name} crosses itself: the sides from corner ${at[0]} and from corner ${at[1]} meet. Move a corner.`, shapes: [i] };
    if (area(one) < 1) return { text: `${name} has nothing inside. Move its corners apart.`, shapes: [i] };
  }
  for (let i = 0; i < polygons.length; ++i) {
    for (let k = i + 1; k < polygons.length; ++k) {
      const other = sides(polygons[k]);
      if (sides(polygons[i]).some((one) => other.some((two) => meet(...one, ...two)))) {
        return { text: `Shapes ${i + 1} and ${k + 1} cross. Draw them apart, or one inside the other: then it is left out.`, shapes: [i, k] };
      }
    }
  }
  return null;
}

// ---- from a file

/** A region of a file: of its JSON, or of a mask, an image in which what is not black is looked at. Fails in words. */
export async function regionOfFile(file) {
  const region = /\.json$/i.test(file.name) || file.type === "application/json" ? ofText(await file.text()) : await ofMask(file);
  const fault = faultOf(region);
  if (fault) throw new Error(fault.text);
  return region;
}

const isCorner = (corner) => Array.isArray(corner) && corner.length === 2 && corner.every(Number.isFinite);
const LONGEST_SIDE = 65535;
const MOST_PIXELS = 100 * 2 ** 20;  // as the service has it
const isSide = (side) => Number.isInteger(side) && side > 0 && side <= LONGEST_SIDE;

function ofText(text) {
  let found;
  try { found = JSON.parse(text); } catch { /* said below */ }
  const { width, height, polygons, counts } = found ?? {};
  const drawn = Array.isArray(polygons) && polygons.length > 0 && polygons.every((one) => Array.isArray(one) && one.every(isCorner));
  const masked = Array.isArray(counts) && counts.every((n) => Number.isInteger(n) && n >= 0);
  if (!isSide(width) || !isSide(height) || width * height > MOST_PIXELS || drawn === masked) throw new Error("It is no region: {\"width\": 640, \"height\": 480, \"polygons\": [[[x, y], [x, y], [x, y]]]}.");
  if (masked && counts.reduce((sum, n) => sum + n, 0) !== width * height) throw new Error("Its counts are of another number of pixels than width × height.");
  return drawn ? { width, height, polygons } : { width, height, counts };
}

const PNG_DEPTH = 24; // the byte of a PNG that says how many bits a pixel has

async function ofMask(file) {
  const head = new Uint8Array(await file.slice(0, PNG_DEPTH + 1).arrayBuffer());
  if (head[0] === 0xff && head[1] === 0xd8) throw new Error("A mask is an image without loss, and a JPEG is not quite black where it should be. Draw it anew as a PNG.");
  if (head[0] === 0x89 && head[1] === 0x50 && head[PNG_DEPTH] === 16) throw new Error("A mask has 8 bits a pixel, this one 16. Save it with 8.");
  let image;
  try {
    image = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch { throw new Error("This browser cannot read the file as an image. Give the mask as a PNG."); }
  const { width, height } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(image, 0, 0);
  image.close();
  const { data } = context.getImageData(0, 0, width, height);
  const counts = [];
  let [inside, n] = [false, 0];
  for (let i = 0; i < data.length; i += 4) {
    // What colour there is below, a canvas does not say.
    if (data[i + 3] !== 255) throw new Error("The mask is transparent in places. Save it without transparency.");
    const is = data[i] + data[i + 1] + data[i + 2] > 0;
    if (is !== inside) { counts.push(n); inside = is; n = 0; }
    ++n;
  }
  counts.push(n);
  return { width, height, counts };
}
