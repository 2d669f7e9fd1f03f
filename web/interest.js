// The region of interest that a task is learned with: drawn, or from a file; and that of a task that has one already.
import { drawRegion } from "./drawing.js";
import { $, fileButton, on, put } from "./dom.js";
import { darken, fits, regionOfFile, wordsFor } from "./region.js";
import { state } from "./store.js";
import { whole } from "./words.js";

const MOST_PICTURES = 12;  // to draw on

// region: for the task to be learned; null: all of the image. pictures: of the images chosen, those that can be shown.
const interest = { region: null, pictures: [], chosen: 0, files: [], looked: true, busy: false, task: "" };
let changed = () => {};

/** With what a task is learned; null: as it was learned before, or with all of the image. */
export const regionToLearn = () => interest.region;

/** Why a task of that name cannot be learned with what is drawn; "": it can. */
export function interestTrouble(name) {
  if (!interest.region) return "";
  const known = state.tasks.find((task) => task.name === name);
  if (!known) return "";
  return `${name} was learned ${known.region ? "with a region already" : "without a region"}, which goes for all its images. Remove the region, or give another name.`;
}

export function forgetRegion() {
  interest.region = null;
  show();
}

/** The images that are to be learned: the first that this browser can show are there to draw on. */
export async function offerImages(files) {
  for (const { url } of interest.pictures) URL.revokeObjectURL(url);
  Object.assign(interest, { files, pictures: [], chosen: 0, looked: !files.length });
  const found = await Promise.all(files.slice(0, MOST_PICTURES).map(pictureOf));
  if (interest.files !== files) return found.forEach((one) => one && URL.revokeObjectURL(one.url));
  Object.assign(interest, { pictures: found.filter(Boolean), looked: true });
  show();
}

async function pictureOf(file) {
  const url = URL.createObjectURL(file);
  const image = new Image();
  const loaded = await new Promise((done) => {
    image.onload = () => done(true);
    image.onerror = () => done(false);
    image.src = url;
  });
  if (loaded) return { name: file.name, url, width: image.naturalWidth, height: image.naturalHeight };
  URL.revokeObjectURL(url);
  return null;
}

/** Shows it for the task of that name; `busy`: nothing can be changed now, and why. */
export function showInterest(name, busy) {
  Object.assign(interest, { task: name, busy });
  show();
}

const shape = ({ width, height }) => `${whole(width)} × ${whole(height)}`;

function show() {
  const { files, pictures, chosen, busy, looked } = interest;
  const known = state.tasks.find(({ name }) => name === interest.task);
  const region = interest.region ?? known?.region ?? null;
  const fitting = region ? pictures.find(({ width, height }) => fits(region, width, height)) : null;
  const picture = region ? fitting : null;
  put("region-text", wordsOf(known, region));
  put("region-note", !region || !pictures.length || pictures.every(({ width, height }) => fits(region, width, height)) ? ""
    : `It is of images of ${shape(region)}. ${pictures.find(({ width, height }) => !fits(region, width, height)).name} has another shape, and would not be learned.`);
  $("region-preview").hidden = !region;
  $("region-picture").hidden = !picture;
  if (picture && $("region-picture").src !== picture.url) $("region-picture").src = picture.url;
  if (region) $("region-preview").style.aspectRatio = `${region.width} / ${region.height}`;
  darken($("region-dark"), region);
  $("region-draw").textContent = interest.region?.polygons ? "Change the drawing…" : "Draw a region…";
  $("region-draw").disabled = Boolean(busy || known || !pictures[chosen]);
  $("region-file").disabled = Boolean(busy || known);
  $("region-remove").hidden = !interest.region;
  $("region-remove").disabled = Boolean(busy);
  put("region-why", busy || known || pictures.length || !looked ? "" : files.length ? "This browser cannot show the images chosen, so there is nothing to draw on. Give a mask or a region’s file."
    : "Choose images first: it is drawn on one of them.");
}

function wordsOf(known, region) {
  if (interest.region) return `Looked at: ${wordsFor(region)}. What is dark is neither learned nor judged.`;
  if (known?.region) return `${known.name} has a region: ${wordsFor(region)}. It goes for all its images. To change it, forget the task under Memory and learn it again.`;
  if (known) return `All of the image: so ${known.name} was learned. To change that, forget it under Memory and learn it again.`;
  return "All of the image is looked at.";
}

function set(region) {
  interest.region = region;
  put("region-fault", "");
  show();
  changed();
}

async function drawOne() {
  const { region, pictures } = interest;
  const fitting = region?.polygons ? pictures.findIndex(({ width, height }) => fits(region, width, height)) : 0;
  const drawn = await drawRegion(pictures, fitting < 0 ? null : region, Math.max(0, fitting));
  if (drawn) set(drawn);
}

async function takeFile([file]) {
  try {
    set(await regionOfFile(file));
  } catch (error) { put("region-fault", `${file.name}: ${error.message}`); }
}

/** `then` is run when the region has changed. */
export function connectInterest(then) {
  changed = then;
  on("region-draw", "click", drawOne);
  fileButton("region-file", "region-file-input", takeFile);
  on("region-remove", "click", () => { set(null); $("region-draw").focus(); });
  show();
}
