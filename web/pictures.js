// Pictures of inspections. They are fetched, not linked: a token cannot travel in an <img>. The last few stay at hand.
import { api, ApiError } from "./api.js";

const pictures = new Map();

function picture(id, kind) {
  const key = `${id}/${kind}`;
  const found = pictures.get(key) ?? fetchPicture(key);
  pictures.delete(key);
  pictures.set(key, found);
  if (pictures.size > 40) {
    const [oldest, gone] = pictures.entries().next().value;
    pictures.delete(oldest);
    gone.then(({ url }) => URL.revokeObjectURL(url), () => {});
  }
  return found;
}

async function fetchPicture(key) {
  try {
    const blob = await (await api(`v1/inspections/${key}`, { raw: true })).blob();
    return { blob, url: URL.createObjectURL(blob) };
  } catch (error) {
    pictures.delete(key);
    throw error;
  }
}

/** An address that an <img> can show at once. */
export async function decoded(id, kind) {
  const { url } = await picture(id, kind);
  const image = new Image();
  image.src = url;
  await image.decode();
  return url;
}

/** Draws a small picture into a canvas. */
export async function drawSmall(canvas, blob, height = 112) {
  const small = await createImageBitmap(blob, { resizeHeight: height, resizeQuality: "medium" });
  canvas.width = small.width;
  canvas.height = small.height;
  canvas.getContext("2d").drawImage(small, 0, 0);
}

/** The image of an inspection, small; what cannot be shown is left out. */
export async function thumbnail(canvas, one, height) {
  if (!one.has_image) return;
  try {
    await drawSmall(canvas, (await picture(one.id, "image")).blob, height);
  } catch { /* no picture, the icon stays */ }
}

const lanes = Array.from({ length: 3 }, () => Promise.resolve());  // so many small pictures are asked for at once

/** The image of an inspection, made small by the service, drawn into a canvas; nothing where it has left the page. */
export async function smallPicture(canvas, one, side) {
  const lane = lanes.shift();
  const drawn = lane.then(async () => {
    if (!canvas.isConnected) return;
    const blob = await (await api(`v1/inspections/${one.id}/image?side=${side}`, { raw: true })).blob();
    const small = await createImageBitmap(blob);
    canvas.width = small.width;
    canvas.height = small.height;
    canvas.getContext("2d").drawImage(small, 0, 0);
  });
  lanes.push(drawn.catch(() => {}));
  return drawn;
}

export function noPicture(error) {
  if (error.status === 404) return "The image is no longer kept.";
  return error instanceof ApiError ? error.message : "This browser cannot show the image’s format. It was inspected all the same.";
}
