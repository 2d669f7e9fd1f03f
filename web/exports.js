// What can be taken away: inspections as CSV or JSON, and the report to print. Without tokens the links do it by themselves,
// and the browser writes what comes to the disk, however long it is. A token cannot travel in a link: then it is fetched, and
// saved when it is whole.
import { api } from "./api.js";
import { el } from "./dom.js";
import { token } from "./keep.js";
import { complain, notice } from "./notice.js";

const LONG = 3600;  // seconds that an export may take

/** Points links at what a query leaves. */
export function pointExports(csv, json, query) {
  const what = `${query}`;
  for (const [link, kind] of [[csv, "csv"], [json, "json"]]) link.href = `v1/inspections.${kind}${what ? `?${what}` : ""}`;
}

const isElsewhere = (event) => event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;

function follow(href, name) {
  const link = el("a", { href, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
}

function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  follow(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const nameIn = (response, otherwise) => /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? otherwise;

async function save(event) {
  if (isElsewhere(event) && !token.get()) return;
  event.preventDefault();
  const link = event.currentTarget;
  if (link.ariaBusy === "true") return;
  const word = link.textContent;
  const href = link.getAttribute("href");
  link.ariaBusy = "true";
  try {
    if (token.get()) {
      link.textContent = "Saving…";
      const response = await api(href, { raw: true, patience: LONG });
      const name = nameIn(response, href.includes(".csv") ? "inspections.csv" : "inspections.json");
      const blob = await response.blob().catch(() => { throw new Error("it was broken off; try again"); });
      saveBlob(blob, name);
    } else {
      // The same of no inspection: what is wrong is said here, and not by the browser's list of downloads.
      await (await api(`${href}${href.includes("?") ? "&" : "?"}before=1`, { raw: true })).text();
      follow(href, "");
    }
  } catch (error) {
    complain(error, "Not exported");
  } finally {
    link.textContent = word;
    link.ariaBusy = null;
  }
}

// ---- the report

/** Shows the report in a window of this page, whose policy forbids styles and pictures in the text: they are put there by
 * script. */
function showIn(tab, text) {
  const style = /<style>([^<]*)<\/style>/.exec(text) ?? ["", ""];
  const plain = text.replace(style[0], "").replaceAll(" style=\"", " data-style=\"").replaceAll(" src=\"data:", " data-src=\"data:");
  const parsed = new DOMParser().parseFromString(plain, "text/html");
  const sheet = new tab.CSSStyleSheet();
  sheet.replaceSync(style[1]);
  const page = tab.document;
  page.write("<!doctype html><title></title><body>");  // or it would be shown as pages were before there were standards
  page.close();
  page.adoptedStyleSheets = [sheet];
  page.title = parsed.title;
  page.documentElement.lang = "en";
  page.body.replaceChildren(...[...parsed.body.childNodes].map((node) => page.importNode(node, true)));
  for (const node of page.querySelectorAll("[data-style]")) node.style.cssText = node.dataset.style;
  for (const node of page.querySelectorAll("img[data-src]")) {
    const bytes = Uint8Array.from(atob(node.dataset.src.split(",")[1]), (letter) => letter.charCodeAt(0));
    node.src = tab.URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" }));
  }
}

async function openReport(event) {
  if (!token.get()) return;
  event.preventDefault();
  const tab = window.open("", "_blank");  // at once: later the browser takes it for an advertisement
  try {
    const response = await api(event.currentTarget.getAttribute("href"), { raw: true, patience: 60 });
    const name = nameIn(response, "report.html");
    const text = await response.text();
    if (tab && !tab.closed) return showIn(tab, text);
    saveBlob(new Blob([text], { type: "text/html" }), name);
    notice("The browser opens no window, so the report was saved.", false);
  } catch (error) {
    tab?.close();
    complain(error, "No report");
  }
}

export function connectExports(exports, reports) {
  for (const link of exports) link.addEventListener("click", save);
  for (const link of reports) link.addEventListener("click", openReport);
}
