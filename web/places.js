// Where in the picture defects happen: a cell is the redder the more defects touched it.
import { el, svg } from "./dom.js";
import { count } from "./words.js";

const WORDS = { down: ["at the top", "in the middle", "at the bottom"], across: ["left", "centre", "right"] };

/** "at the top left". */
function wordsFor(cell, { columns, rows }) {
  const third = (at, of) => Math.min(2, Math.floor(3 * (at + 0.5) / of));
  return `${WORDS.down[third(Math.floor(cell / columns), rows)]} ${WORDS.across[third(cell % columns, columns)]}`;
}

/** Draws them into a box that may have a picture below. */
export function showPlaces(box, places) {
  const { columns, rows, defects } = places;
  const most = Math.max(...defects);
  const worst = defects.indexOf(most);
  const story = most ? `Most of them ${wordsFor(worst, places)}: ${count(most, "defect")} touch the reddest place.` : "No defect had a place.";
  const cells = defects.map((n, i) => (n ? svg("rect", { class: "place", x: i % columns, y: Math.floor(i / columns), width: 1, height: 1,
    "fill-opacity": (0.2 + 0.7 * n / most).toFixed(2) }, svg("title", {}, count(n, "defect"))) : null)).filter(Boolean);
  const drawn = svg("svg", { class: "places-cells", viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": `Where defects happen. ${story}` }, ...cells);
  box.querySelector("svg")?.remove();
  box.append(drawn);
  box.nextElementSibling.replaceChildren(el("span", {}, story));
}
