// The service: one request at a time, with its errors in words.
import { token } from "./keep.js";

export class ApiError extends Error {
  constructor(status, message, { problem = {}, retryAfter = null } = {}) {
    super(message);
    this.status = status;      // 0: there was no answer
    this.problem = problem;    // what the service said of it
    this.retryAfter = retryAfter;
  }
}

let unauthorized = () => {};
/** What to do when the service wants a token. */
export function onUnauthorized(action) { unauthorized = action; }

// The service's clock may differ from this machine's.
let skew = 0;
export const serviceNow = () => Date.now() + skew;

async function problemOf(response) {
  let problem = {};
  try { problem = await response.json(); } catch { /* not JSON: the status has to do */ }
  const retry = response.headers.get("Retry-After");
  return new ApiError(response.status, problem.detail || problem.title || `${response.status} ${response.statusText}`,
    { problem, retryAfter: retry == null ? null : Number(retry) || 1 });
}

/** One request. `raw` gives the response itself; everything else is JSON. */
export async function api(path, { method = "GET", json, body, type, signal, raw = false, patience = 15 } = {}) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (json !== undefined) { body = JSON.stringify(json); type = "application/json"; }
  if (type) headers["Content-Type"] = type;
  const timeout = AbortSignal.timeout(patience * 1000);
  let response;
  try {
    response = await fetch(path, { method, headers, body, signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The service cannot be reached.");
  }
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (date && Math.abs(date - serviceNow()) > 1500) skew = date - Date.now();  // it counts whole seconds
  if (response.status === 401) unauthorized();
  if (!response.ok) throw await problemOf(response);
  return raw ? response : response.json();
}

export const post = (path, json, more = {}) => api(path, { method: "POST", json, patience: 120, ...more });
export const put = (path, json) => api(path, { method: "PUT", json, patience: 120 });

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Sends an image; waits and tries again while the service is too busy to take it. */
export async function sendImage(path, file, signal) {
  const body = await file.arrayBuffer();  // a file that cannot be read is no fault of the service
  for (let tries = 1; ; ++tries) {
    try {
      return await post(path, undefined, { body, type: file.type.startsWith("image/") ? file.type : "application/octet-stream", signal });
    } catch (error) {
      const busy = error.retryAfter != null && (error.status === 503 || error.status === 429);
      if (!busy || tries >= 8) throw error;
      await sleep(Math.min(error.retryAfter, 10) * 1000);
      signal?.throwIfAborted();
    }
  }
}

/** Runs work on all items, at most `width` at a time; the first failure ends it. */
export async function pool(items, width, work) {
  const rest = items.values();
  const lane = async () => { for (const item of rest) await work(item); };
  await Promise.all(Array.from({ length: width }, lane));
}
