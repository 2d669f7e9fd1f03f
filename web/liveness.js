// Whether what stands large is the newest part, and what to say when it may not be.
import { serviceNow } from "./api.js";
import { state } from "./store.js";
import { count, moment, span, wordOf } from "./words.js";

const DEAF = 6000;  // milliseconds without an answer
const QUIET = 120;  // seconds without a part

/** Seconds since a part was inspected. */
export const age = (one) => Math.max(0, (serviceNow() - Date.parse(one.time)) / 1000);

const last = () => {
  const one = state.recent?.[0];
  return one ? `The last part seen was called ${wordOf(one.verdict).toLowerCase()}, ${moment(one.time)}.` : "";
};

/** Null when the newest part can be shown as such; otherwise large words and small ones that say why not. */
export function whyNotLive() {
  const { status, recent, error, heard } = state;
  if (error) {
    const word = error.status ? "Service busy" : "Connection lost";
    return { kind: "lost", word, why: `Not live. Trying again every ${count(error.seconds, "second")}. ${last()}` };
  }
  if (!status || !recent) return { kind: "waiting", word: "Waiting for the service", why: "" };
  if (performance.now() - heard > DEAF) return { kind: "lost", word: "No answer", why: `Not live. The service does not answer. ${last()}` };
  if (status.unkept) return { kind: "lost", word: "Not kept", why: `Parts are inspected but not kept, so they cannot be shown: ${status.unkept}. ${last()}` };
  if (!recent.length) return { kind: "first", word: "No part yet", why: "" };
  if (age(recent[0]) > QUIET) return { kind: "quiet", word: `Nothing for ${span(age(recent[0]))}`, why: last() };
  return null;
}
