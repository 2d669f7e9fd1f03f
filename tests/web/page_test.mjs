// Drives the page in a real browser against a running service, as a user would.
//
//   CONTCORE_URL=http://127.0.0.1:8080 CONTCORE_TEST_IMAGES=images node tests/web/page_test.mjs
//
// CONTCORE_TEST_IMAGES has good/, more_good/ and bad/ with .png files. Optional: CONTCORE_TOKEN (of an admin,
// where the service wants one), CONTCORE_SHOTS (a folder for screenshots), CONTCORE_CHROMIUM (the browser).
// Needs playwright-core and axe-core. Exit code 0: all is well.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const BASE = process.env.CONTCORE_URL?.replace(/\/$/, "");
const IMAGES = process.env.CONTCORE_TEST_IMAGES;
const TOKEN = process.env.CONTCORE_TOKEN ?? "";
const SHOTS = process.env.CONTCORE_SHOTS;
const SECTIONS = ["live", "learn", "memory", "thresholds", "history"];
const TASK = `page test ${Date.now() % 1e6}`;
const LONG = 180_000;  // learning may take its time

if (!BASE || !IMAGES) {
  console.error("CONTCORE_URL and CONTCORE_TEST_IMAGES must be set");
  process.exit(1);
}

const files = (folder) => readdirSync(join(IMAGES, folder)).filter((name) => name.endsWith(".png")).sort().map((name) => join(IMAGES, folder, name));
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({ executablePath: process.env.CONTCORE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1366, height: 768 }, colorScheme: "light", reducedMotion: "reduce" });
page.setDefaultTimeout(20_000);

// The browser itself logs every answer above 399; those the test provokes are named here. A busy service may
// put an image off at any time, and the page sends it again.
const expected = [/status of (503|429).*\/(images|inspections)\b/];
const complaints = [];
page.on("pageerror", (error) => complaints.push(`page error: ${error.stack}`));
page.on("console", (message) => {
  if (message.type() !== "error" && message.type() !== "warning") return;
  const text = `${message.text()} (${message.location().url})`;
  if (!expected.some((pattern) => pattern.test(text))) complaints.push(`console ${message.type()}: ${text}`);
});

let failures = 0;
async function test(name, body) {
  const start = Date.now();
  try {
    await body();
    assert.deepEqual(complaints.splice(0), [], "the browser complained");
    console.log(`ok    ${name} (${Date.now() - start} ms)`);
  } catch (error) {
    ++failures;
    complaints.length = 0;
    console.log(`FAIL  ${name}\n      ${String(error.stack ?? error).replaceAll("\n", "\n      ")}`);
    if (SHOTS) await page.screenshot({ path: join(SHOTS, `failed-${failures}.png`) }).catch(() => {});
  }
}

async function service(path) {
  const answer = await page.request.get(`${BASE}/${path}`, { headers: TOKEN ? { Authorization: `Bearer ${TOKEN}` } : {} });
  assert.equal(answer.status(), 200, path);
  return answer.json();
}

const text = (selector) => page.locator(selector).innerText();
const waitText = (selector, pattern, timeout = 20_000) => page.waitForFunction(
  ([css, source]) => new RegExp(source).test(document.querySelector(css)?.textContent ?? ""), [selector, pattern.source], { timeout });

async function open(section) {
  await page.locator(`#nav a[href="#${section}"]`).click();
  await page.locator(`#${section}`).waitFor({ state: "visible" });
}

async function drop(paths) {
  const list = paths.map((path) => ({ name: path.split("/").pop(), data: readFileSync(path).toString("base64") }));
  const dataTransfer = await page.evaluateHandle((all) => {
    const transfer = new DataTransfer();
    for (const { name, data } of all) transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name, { type: name.endsWith(".png") ? "image/png" : "" }));
    return transfer;
  }, list);
  await page.dispatchEvent("body", "dragover", { dataTransfer });
  assert.equal(await page.locator("#drop").isVisible(), true, "dragging shows where it would go");
  await page.dispatchEvent("body", "drop", { dataTransfer });
}

const shownId = async () => Number((await page.evaluate(() => location.hash)).split("/")[1]);

/** All images shown have loaded: nothing is hidden behind a broken picture. */
async function pictureShown() {
  await page.waitForFunction(() => ["image", "map"].every((kind) => {
    const image = document.getElementById(`pic-${kind}`);
    return !image.hidden && image.complete && image.naturalWidth > 0;
  }) && !document.getElementById("stage").classList.contains("stale"));
}

const kept = {};  // what the reload must find again

await test("the page opens under its content security policy", async () => {
  if (TOKEN) expected.push(/401/);
  const answer = await page.goto(`${BASE}/`);
  assert.match(answer.headers()["content-security-policy"] ?? "", /script-src 'self'/);
  if (TOKEN) {
    await page.locator("#token").fill("wrong");
    await page.locator("#token").press("Enter");
    await waitText("#sign-in-error", /not accepted/);
    await page.locator("#token").fill(TOKEN);
    await page.locator("#token").press("Enter");
    await page.locator("#sign-in").waitFor({ state: "hidden" });
    expected.pop();
  }
  await waitText("#link-text", /Connected|Learning/);
  assert.equal(await page.title(), "Live · contcore");
});

await test("a folder is learned, with progress, and says what was skipped", async () => {
  const folder = mkdtempSync(join(tmpdir(), "page-test-"));
  try {
    cpSync(join(IMAGES, "good"), folder, { recursive: true });
    writeFileSync(join(folder, "notes.txt"), "not an image");
    writeFileSync(join(folder, "broken.png"), "not an image either");
    expected.push(/42[02]|415/);
    await open("learn");
    assert.equal(await page.locator("#learn-start").isDisabled(), true);
    await page.locator("#task-name").fill(TASK);
    await page.locator("#learn-folder-input").setInputFiles(folder);
    await waitText("#learn-chosen", /image.*1 other file will be skipped/);
    await page.locator("#learn-start").click();
    await page.locator("#learn-progress").waitFor({ state: "visible" });
    await waitText("#learn-result", /Learned|Not learned|Cancelled/, LONG);
    assert.match(await text("#learn-result"), new RegExp(`Learned ${TASK} from ${files("good").length} images`));
    assert.match(await text("#learn-result"), /2 files skipped/);
    await waitText("#jobs tbody tr:first-child", new RegExp(`${TASK}.*learned`));
  } finally {
    expected.pop();
    rmSync(folder, { recursive: true });
  }
  const { tasks } = await service("v1/tasks");
  assert.ok(tasks.some((task) => task.name === TASK));
});

await test("a job can be cancelled", async () => {
  await page.locator("#task-name").fill(`${TASK} cancelled`);
  // Copies under other names: enough to still be sending when the button is pressed.
  const many = Array.from({ length: 60 }, (_, i) => ({ name: `${i}.png`, mimeType: "image/png", buffer: readFileSync(files("good")[i % files("good").length]) }));
  await page.locator("#learn-images-input").setInputFiles(many);
  await page.locator("#learn-start").click();
  await page.locator("#learn-cancel").click();
  await waitText("#learn-result", /Cancelled/);
  const { tasks } = await service("v1/tasks");
  assert.ok(!tasks.some((task) => task.name === `${TASK} cancelled`));
});

await test("dropped images are inspected one after the other", async () => {
  await open("live");
  await page.locator("#inspect-task").selectOption(TASK);
  const some = [...files("more_good").slice(0, 2), files("bad")[0]];
  await drop(some);
  await page.locator("#inspect-progress").waitFor({ state: "visible" });
  await page.locator("#inspect-progress").waitFor({ state: "hidden" });
  const { inspections } = await service(`v1/inspections?task=${encodeURIComponent(TASK)}`);
  assert.equal(inspections.length, some.length);
  await pictureShown();
  const one = await service(`v1/inspections/${await shownId()}`);
  assert.equal(one.task, TASK);
  assert.equal(await text("#verdict-word"), { good: "Good", defect: "Defect", unknown: "Unknown", uncalibrated: "Uncalibrated" }[one.verdict]);
  assert.equal(await page.locator("#follow").isChecked(), false, "one's own image is held");
  [kept.bad, kept.good] = inspections.map(({ id }) => id);
  assert.equal(one.id, kept.bad);
});

await test("an image that is none is refused in words", async () => {
  expected.push(/42[02]|415/);
  await page.locator("#inspect-files").setInputFiles({ name: "broken.png", mimeType: "image/png", buffer: Buffer.from("nothing") });
  await waitText("#notice-text", /Not inspected: broken\.png/);
  await page.locator("#notice-close").click();
  expected.pop();
});

await test("an inspection that cannot be kept is shown all the same", async () => {
  const before = await shownId();
  const unkept = { ...(await service("v1/inspections?limit=1")).inspections[0], id: null, verdict: "defect", has_image: false };
  const isInspect = (url) => url.pathname.endsWith("/v1/inspections");
  await page.route(isInspect, (route) => route.request().method() === "POST"
    ? route.fulfill({ status: 200, json: unkept }) : route.continue());
  await open("live");
  await drop(files("more_good").slice(0, 1));
  await waitText("#stage-note", /could not keep/);
  assert.match(await text("#verdict"), /Defect/);
  assert.match(await text("#facts"), /not kept/);
  for (const id of ["pic-image", "pic-map", "feedback"]) assert.equal(await page.locator(`#${id}`).isVisible(), false, id);
  await page.keyboard.press("g");  // there is nothing to say it about
  await page.waitForTimeout(2500);  // two heartbeats: it stays
  assert.match(await text("#stage-note"), /could not keep/);
  await page.unroute(isInspect);
  await page.evaluate((id) => { location.hash = `#live/${id}`; }, before);  // what was held before
  await pictureShown();
  assert.equal(await page.locator("#feedback").isVisible(), true);
});

await test("heat map and outline can be set, and stay set", async () => {
  await page.locator("#opacity").fill("35");
  assert.equal(await page.locator("#pic-map").evaluate((image) => image.style.opacity), "0.35");
  await page.locator("#outline").uncheck();
  assert.equal(await page.locator("#pic-outline").evaluate((image) => getComputedStyle(image).visibility), "hidden");
});

await test("feedback in one click, undone, and by key", async () => {
  await page.locator("#say-defect").click();
  await waitText("#feedback-note", /kept as evidence/);
  assert.equal((await service(`v1/inspections/${kept.bad}`)).feedback, "defect");
  await page.locator("#undo").click();
  await page.waitForFunction(() => document.getElementById("undo").hidden);
  assert.equal((await service(`v1/inspections/${kept.bad}`)).feedback, "");
  await page.keyboard.press("d");
  await waitText("#feedback-note", /kept as evidence/);
  for (let i = 0; i < 10 && await shownId() !== kept.good; ++i) {  // the older one beside it, if nobody else inspects
    const before = await shownId();
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction((id) => location.hash !== `#live/${id}`, before);
  }
  assert.equal(await shownId(), kept.good);
  await page.keyboard.press("g");
  await waitText("#feedback-note", /Marked good.*learned/, LONG);
  assert.equal((await service(`v1/inspections/${kept.good}`)).learned, true);
});

await test("everything can be reached by keyboard", async () => {
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("?");
  assert.equal(await page.locator("#help").isVisible(), true);
  await page.keyboard.press("Escape");
  await page.reload();
  await page.waitForFunction(() => document.getElementById("link-text").textContent === "Connected" && !document.getElementById("facts").hidden);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "skip");
  const reached = new Set();
  for (let i = 0; i < 30; ++i) {
    await page.keyboard.press("Tab");
    const { name, outline } = await page.evaluate(() => {
      const node = document.activeElement;
      return { name: node.id || node.hash || node.getAttribute("role"), outline: getComputedStyle(node).outlineStyle };
    });
    reached.add(name);
    if (name) assert.notEqual(outline, "none", `the focus on ${name} can be seen`);
  }
  for (const name of ["#live", "#history", "theme", "help-open", "option", "say-good", "say-defect", "opacity", "outline", "follow", "inspect-open", "inspect-task"]) {
    assert.ok(reached.has(name), `${name} was not reached: ${[...reached].join(" ")}`);
  }
});

await test("the threshold moves by keyboard, by hand and by rate", async () => {
  await open("thresholds");
  await waitText("#threshold-now", /Now|No threshold/);
  await Promise.all([page.waitForResponse(/\/scores$/), page.locator("#threshold-task").selectOption(TASK)]);
  await page.waitForTimeout(200);
  await page.locator("#histogram svg").waitFor();
  const value = async () => Number(await page.locator("#hand-score").inputValue());
  const start = await value();
  await page.locator("#threshold-range").focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  assert.ok(await value() < start, "the arrow key moves it");
  const box = await page.locator("#histogram").boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 60, { steps: 4 });
  await page.mouse.up();
  kept.threshold = await value();
  assert.ok(kept.threshold > start * 0.5 && kept.threshold !== start, "the mouse drags it");
  await page.locator("#by-hand button").click();
  await waitText("#threshold-now", /set by hand/);
  const now = async () => (await service("v1/tasks")).tasks.find((task) => task.name === TASK).threshold;
  assert.equal((await now()).score, Math.fround(kept.threshold));  // float32, as it is kept
  await page.locator("#rate").fill("30");
  await page.locator("#by-rate button").click();
  await waitText("#threshold-now", /automatic/);
  assert.equal((await now()).manual, false);
  await waitText("#notice-text", /threshold of/);
  await page.locator("#notice-close").click();  // so that the next one can be told from it
  await page.locator("#automatic button").click();
  await waitText("#notice-text", /threshold of/);
  await page.locator("#hand-score").fill(String(kept.threshold));
  await page.locator("#by-hand button").click();
  await waitText("#threshold-now", /set by hand/);
});

await test("memory shows every task, its share and its course", async () => {
  await open("memory");
  await waitText("#tasks tbody", new RegExp(TASK));
  const { tasks } = await service("v1/tasks");
  assert.equal(await page.locator("#tasks tbody tr").count(), tasks.length);
  await page.locator("#chart-certificate :is(svg.chart, .empty)").waitFor();
  assert.match(await page.locator("#stack").getAttribute("aria-label"), new RegExp(TASK));
});

await test("history filters, and a row opens in the viewer", async () => {
  await open("history");
  await page.locator("#filter-task").selectOption(TASK);
  await page.locator("#filters select[name=feedback]").selectOption("defect");
  await page.waitForFunction(() => document.querySelectorAll("#past tbody tr").length === 1);
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll("#past tbody tr").length === 1);
  await page.locator("#past tbody tr").first().click();
  await page.locator("#live").waitFor({ state: "visible" });
  assert.equal(await shownId(), kept.bad);
});

await test("a reload finds everything as it was", async () => {
  await page.goto(`${BASE}/#live/${kept.good}`);
  await page.reload();
  await waitText("#feedback-note", /Marked good.*learned/);
  await pictureShown();
  assert.equal(await page.locator("#opacity").inputValue(), "35");
  assert.equal(await page.locator("#outline").isChecked(), false);
  await page.goto(`${BASE}/#live/${kept.bad}`);
  await waitText("#feedback-note", /kept as evidence/);
  await page.goto(`${BASE}/#thresholds/${encodeURIComponent(TASK)}`);
  await page.reload();
  await waitText("#threshold-now", /set by hand/);
  assert.ok(Math.abs(Number(await page.locator("#hand-score").inputValue()) - kept.threshold) < 1e-6);
  await open("memory");
  await waitText("#tasks tbody", new RegExp(TASK));
  await open("learn");
  await waitText("#jobs tbody", new RegExp(TASK));
});

await test("following shows the newest again", async () => {
  await open("live");
  await page.waitForFunction(() => document.getElementById("follow").checked);
  const newest = (await service("v1/inspections?limit=1")).inspections[0];
  await page.waitForFunction((id) => Number(/Number(\d+)$/.exec(document.getElementById("facts").textContent)?.[1]) >= id, newest.id);
});

await test("the theme can be chosen and is kept", async () => {
  await page.locator("#theme").click();
  await page.locator("#theme").click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.locator("#theme").click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), undefined);
});

async function violations() {
  await page.evaluate(axeSource);
  const { violations: all } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return all.filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target.join(" ")} ${node.any[0]?.message ?? ""}`).join(" | ")}`);
}

async function settle(section) {
  await page.goto(`${BASE}/#${section}`);
  await page.waitForFunction((id) => !document.getElementById(id).hidden && document.getElementById("link-text").textContent !== "Connecting", section);
  await page.waitForTimeout(500);  // what the section asks of the service
}

for (const colorScheme of ["light", "dark"]) {
  await test(`no serious accessibility violation, ${colorScheme}`, async () => {
    await page.emulateMedia({ colorScheme });
    for (const section of SECTIONS) {
      await settle(section);
      assert.deepEqual(await violations(), [], section);
    }
    await page.keyboard.press("Escape");
    await page.locator("#help-open").click();
    assert.deepEqual(await violations(), [], "help");
    await page.locator("#help-close").click();
  });

  await test(`fits every screen, ${colorScheme}`, async () => {
    for (const [width, height] of [[390, 844], [1366, 768], [1920, 1080]]) {
      await page.setViewportSize({ width, height });
      for (const section of SECTIONS) {
        await settle(section);
        if (section === "live") await pictureShown();
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${section} is too wide at ${width}`);
        if (section === "live") {
          for (const id of width > 800 ? ["verdict", "stage", "strip", "say-good", "follow"] : ["verdict", "stage"]) {
            const box = await page.locator(`#${id}`).boundingBox();
            assert.ok(box.y >= 0 && box.y + box.height <= height, `${id} is in sight at ${width} × ${height}`);
          }
        }
        if (SHOTS) {
          mkdirSync(SHOTS, { recursive: true });
          await page.screenshot({ path: join(SHOTS, `${section}-${width}-${colorScheme}.png`), fullPage: section !== "live" || width < 800 });
        }
      }
    }
    await page.setViewportSize({ width: 1366, height: 768 });
  });
}

await test("formats that the browser does not know are inspected and shown by their heat map", async () => {
  const folder = mkdtempSync(join(tmpdir(), "page-test-"));
  try {
    const gray = Buffer.from(Uint8Array.from({ length: 64 * 64 }, (_, i) => 120 + 50 * Math.sin(i / 9)));
    const rgb = Buffer.from(Uint8Array.from({ length: 3 * 64 * 64 }, (_, i) => 120 + 50 * Math.sin(i / 30)));
    writeFileSync(join(folder, "a.pgm"), Buffer.concat([Buffer.from("P5 64 64 255\n"), gray]));
    writeFileSync(join(folder, "b.PPM"), Buffer.concat([Buffer.from("P6 64 64 255\n"), rgb]));
    writeFileSync(join(folder, "notes.txt"), "not an image");
    const before = (await service("v1/status")).inspections;
    await open("live");
    await drop([join(folder, "a.pgm"), join(folder, "b.PPM"), join(folder, "notes.txt")]);
    await waitText("#stage-note", /cannot show the image’s format/);
    await page.locator("#inspect-progress").waitFor({ state: "hidden" });
    assert.equal((await service("v1/status")).inspections, before + 2);
    await page.waitForFunction(() => {
      const map = document.getElementById("pic-map");
      return document.getElementById("pic-image").hidden && !map.hidden && map.complete && map.naturalWidth > 0;
    });
    const shown = await service(`v1/inspections/${await shownId()}`);
    assert.equal(await text("#verdict-word"), { good: "Good", defect: "Defect", unknown: "Unknown", uncalibrated: "Uncalibrated" }[shown.verdict]);
    await open("learn");
    await page.locator("#learn-folder-input").setInputFiles(folder);
    await waitText("#learn-chosen", /2 images.*1 other file will be skipped/);
    await open("live");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

await test("says when the connection is lost, and recovers", async () => {
  await page.goto(`${BASE}/#live`);
  expected.push(/ERR_|Failed to load/);
  await page.context().setOffline(true);
  await page.locator("#lost").waitFor({ state: "visible" });
  assert.match(await text("#lost"), /Connection lost, trying again/);
  await page.context().setOffline(false);
  await page.locator("#lost").waitFor({ state: "hidden" });
  await waitText("#link-text", /Connected/);
  expected.pop();
});

await browser.close();
console.log(failures ? `${failures} failed` : "all passed");
process.exit(failures ? 1 : 0);
