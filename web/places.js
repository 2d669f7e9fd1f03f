// Where in the picture defects happen: a cell is the redder the more defects touched it.
import { el, svg } from "./dom.js";
import { count } from "./words.js";

const WORDS = [["at the top left", "at the top", "at the top right"], ["at the left", "in the middle", "at the right"], ["at the bottom left", "at the bottom", "at the bottom right"]];

/** In words, the middle of the places that most of them touch. */
function wordsFor({ columns, rows, defects }, most) {
  const worst = [...defects.keys()].filter((i) => defects[i] === most);
  const mean = (of) => worst.reduce((sum, i) => sum + of(i) + 0.5, 0) / worst.length;
  const third = (at, all) => Math.min(2, Math.floor(3 * at / all));
  return WORDS[third(mean((i) => Math.floor(i / columns)), rows)][third(mean((i) => i % columns), columns)];
}

/** Draws them into a box that may have a picture below. */
export function showPlaces(box, places) {
  const { columns, rows, defects } = places;
  const most = Math.max(...defects);
  const story = most ? `Most of them ${wordsFor(places, most)}: ${count(most, "defect")} in the reddest place.` : "No defect had a place.";
  const cells = defects.map((n, i) => (n ? svg("rect", { class: "place", x: i % columns, y: Math.floor(i / columns), width: 1, height: 1,
    "fill-opacity": (0.2 + 0.7 * n / most).toFixed(2) }, svg("title", {}, count(n, "defect"))) : null)).filter(Boolean);
  const drawn = svg("svg", { class: "places-cells", viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": `Where defects happen. ${story}` }, ...cells);
  box.querySelector("svg")?.remove();
  box.append(drawn);
  box.nextElementSibling.replaceChildren(el("span", {}, story));
}
