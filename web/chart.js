// Lines over time, one for each task.
import { $, el, svg } from "./dom.js";
import { num } from "./words.js";

/** A few round numbers between low and high. */
export function ticks(low, high, about) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].find((s) => s * power >= rough) * power;
  const all = [];
  for (let k = Math.ceil(low / size); k * size <= high + size * 1e-9; ++k) all.push(k * size);
  return { all, digits: Math.max(0, -Math.floor(Math.log10(size) + 1e-9)) };
}

/** Draws one value of the samples into a figure; the legend gives the same in words. */
export function lineChart(figure, title, key, names, samples, reference) {
  const all = [...names];
  for (const sample of samples) if (!all.includes(sample.task)) all.push(sample.task);
  const series = all.map((name, i) => ({ name, i, points: samples.filter((s) => s.task === name && s[key] != null).map((s) => [Date.parse(s.time), s[key]]) }))
    .filter((one) => one.points.length);
  const story = series.map(({ name, points }) => `${name} ${num(points[0][1])} → ${num(points.at(-1)[1])}`);
  const period = $("period").selectedOptions[0].textContent;
  const width = Math.max(260, figure.clientWidth - 34);
  const drawing = series.length ? drawLines(series, width, reference) : null;
  drawing?.setAttribute("aria-label", `${title}, ${period}, first and last: ${story.join("; ").replaceAll("→", "to")}`);
  figure.replaceChildren(el("h3", {}, title), drawing ?? el("p", { class: "empty" }, `Nothing recorded in the ${period}.`),
    el("figcaption", {}, el("ul", { class: "legend" }, ...series.map(({ i }, k) => el("li", {},
      svg("svg", { class: `line-key c${i % 8}`, viewBox: "0 0 24 8", "aria-hidden": "true" }, svg("path", { d: "M1 4h22" })), story[k])))));
}

function drawLines(series, width, reference) {
  const [left, right, top, bottom, height] = [44, 8, 8, 22, 180];
  const values = series.flatMap(({ points }) => points.map(([, v]) => v)).concat(reference ?? []);
  const pad = (Math.max(...values) - Math.min(...values)) * 0.1 || Math.abs(values[0]) * 0.05 || 1;
  const [low, high] = [Math.min(...values) - pad, Math.max(...values) + pad];
  const [from, to] = [Date.now() - Number($("period").value) * 3600e3, Date.now()];
  const x = (t) => left + (width - left - right) * (t - from) / (to - from);
  const y = (v) => top + (height - top - bottom) * (high - v) / (high - low);
  const root = svg("svg", { class: "chart", role: "img", width, height, viewBox: `0 0 ${width} ${height}` });
  const scale = ticks(low, high, 5);
  for (const v of scale.all) {
    root.append(svg("path", { class: v === reference ? "grid strong" : "grid", d: `M${left} ${y(v)}H${width - right}` }),
      svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v.toFixed(scale.digits)));
  }
  for (const share of [0, 0.5, 1]) {
    root.append(svg("text", { x: left + share * (width - left - right), y: height - 4, "text-anchor": ["start", "middle", "end"][share * 2] }, timeLabel(from + share * (to - from), to - from)));
  }
  for (const { i, points } of series) {
    // What was last recorded still holds: each line goes on to now.
    const path = [...points, [to, points.at(-1)[1]]].map(([t, v], k) => `${k ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    root.append(svg("path", { class: `line-of c${i % 8}`, d: path }));
  }
  return root;
}

function timeLabel(time, length) {
  const date = new Date(time);
  return length <= 25 * 3600e3 ? date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}
