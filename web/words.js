// Numbers, times and verdicts as people read them.
import { el } from "./dom.js";

export const WORD = { good: "Good", defect: "Defect", unknown: "Unknown", uncalibrated: "Uncalibrated" };
export const wordOf = (verdict) => WORD[verdict] ?? verdict;

/** Why, where the verdict itself stands beside it. */
export const reasonOf = ({ reason = "" }) => reason.replace(/^(good|defect|unknown|uncalibrated): /, "");

/** Those that somebody has to look at. */
export const isAlarming = ({ verdict }) => verdict === "defect" || verdict === "unknown";

/** Four figures or so, with a fixed number of decimals so that columns line up. */
export function num(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  const digits = size >= 100 ? 1 : size >= 1 || size === 0 ? 2 : 4;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
export const whole = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });
export const percent = (value, digits = 1) => `${(value * 100).toFixed(digits).replace(/\.0+$/, "")} %`;
export const milliseconds = (value) => `${value.toFixed(1)} ms`;
export const count = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;
export const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

export const clock = (text) => new Date(text).toLocaleTimeString("en-GB");

/** "14:03:22", or with the day if it was another. */
export function moment(text) {
  const date = new Date(text);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock(text) : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${clock(text)}`;
}

export function when(text) {
  if (!text) return el("span", {}, "–");
  return el("time", { datetime: text, title: new Date(text).toLocaleString("en-GB") }, moment(text));
}

/** "8 seconds", "7 minutes", "3 hours", "2 days". */
export function span(seconds) {
  const [size, unit] = seconds < 90 ? [1, "second"] : seconds < 5400 ? [60, "minute"] : seconds < 129600 ? [3600, "hour"] : [86400, "day"];
  return count(Math.max(1, Math.floor(seconds / size)), unit);
}

const dayOf = (date) => date.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric" });
const isMidnight = (date) => date.getHours() + date.getMinutes() === 0;

/** A stretch of time: "Thu 31 May 2029, 06:00 to 14:00", or whole days alone. */
export function stretch(since, until) {
  const [begin, end] = [new Date(since), new Date(until)];
  const [first, last] = [dayOf(begin), dayOf(end)].map((text) => text.replace(",", ""));
  const time = (date) => clock(date).slice(0, 5);
  if (isMidnight(begin) && isMidnight(end) && first !== last) {
    const final = dayOf(new Date(end - 1)).replace(",", "");
    return final === first ? first : `${first} to ${final}`;
  }
  return first === last ? `${first}, ${time(begin)} to ${time(end)}` : `${first}, ${time(begin)}, to ${last}, ${time(end)}`;
}

/** "19 Nov, 14:03:22", also of today. */
export function dated(text) {
  const date = new Date(text);
  return el("time", { datetime: text, title: date.toLocaleString("en-GB") }, `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${clock(text)}`);
}

/** Where a region is, and how large. */
export const place = ({ x, y, width, height }) => `${whole(width)} × ${whole(height)} px at (${whole(x)}, ${whole(y)})`;
