// Lines over time, one for each task; and bars over time, of what was inspected.
import { $, el, icon, svg } from "./dom.js";
import { num, percent, stretch, whole } from "./words.js";

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

const STACK = ["good", "uncalibrated", "unknown", "defect"];  // from below

/** Draws counts over time: a bar for each step, with the defects in figures above it. */
export function barChart(figure, title, series, by) {
  const width = Math.max(260, figure.clientWidth - 34);
  const [left, right, top, bottom, height] = [44, 4, 18, 22, 190];
  const most = Math.max(1, ...series.map(({ inspected }) => inspected));
  const scale = ticks(0, most, 4);
  const y = (n) => top + (height - top - bottom) * (1 - n / most);
  const wide = (width - left - right) / Math.max(1, series.length);
  const root = svg("svg", { class: "chart", role: "img", width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": `${title}: ${storyOf(series)} The table below has the figures.` });
  for (const n of scale.all.filter(Number.isInteger)) {
    root.append(svg("path", { class: n ? "grid" : "grid strong", d: `M${left} ${y(n)}H${width - right}` }), svg("text", { x: left - 6, y: y(n) + 4, "text-anchor": "end" }, whole(n)));
  }
  const every = Math.ceil(series.length * 50 / (width - left - right));
  series.forEach((step, i) => {
    const x = left + i * wide;
    let below = 0;
    const bar = svg("g", {}, svg("title", {}, `${stretch(step.begin, step.end)}: ${wordsOf(step)}`), svg("rect", { class: "bar-ground", x, y: top, width: wide, height: height - top - bottom }));
    for (const kind of STACK) {
      if (!step[kind]) continue;
      bar.append(svg("rect", { class: `bar ${kind}`, x: x + wide * 0.1, y: y(below + step[kind]), width: wide * 0.8, height: y(below) - y(below + step[kind]) }));
      below += step[kind];
    }
    if (step.defect && wide > 18) bar.append(svg("text", { x: x + wide / 2, y: y(below) - 4, "text-anchor": "middle" }, whole(step.defect)));
    if (i % every === 0) bar.append(svg("text", { x: x + wide / 2, y: height - 5, "text-anchor": "middle" }, timeLabel(Date.parse(step.begin), by === "hour" ? 0 : Infinity)));
    root.append(bar);
  });
  figure.replaceChildren(el("h2", {}, title), root, el("figcaption", {}, el("ul", { class: "legend" },
    ...STACK.filter((kind) => kind !== "uncalibrated" || series.some((step) => step[kind])).map((kind) => el("li", {}, icon(kind), kind === "defect" ? "defect, in figures" : kind)))));
}

const wordsOf = (step) => `${whole(step.inspected)} inspected, ${whole(step.good)} good, ${whole(step.defect)} defect, ${whole(step.unknown)} unknown${step.yield == null ? "" : `, yield ${percent(step.yield)}`}`;

function storyOf(series) {
  const most = series.reduce((a, b) => (b.defect > (a?.defect ?? 0) ? b : a), null);
  return most ? `most defects ${stretch(most.begin, most.end)}, ${wordsOf(most)}.` : "no defects.";
}
