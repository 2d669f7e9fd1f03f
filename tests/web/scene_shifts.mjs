// What an hour, a shift, a day and a week add up to: the numbers are the service's, the links carry the filters, and what
// they lead to is what they say, also where a token is needed.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { files, scene, SHOTS, TASK } from "./harness.mjs";

const TOKEN = "0123456789abcdef0123456789abcdef";

/** What the page shows, against what the service says. */
async function same({ page, get }, query) {
  const found = await get(`v1/statistics?${query}`);
  const whole = (n) => n.toLocaleString("en");
  await page.waitForFunction((inspected) => document.querySelector("#shift-figures dd")?.textContent === inspected, whole(found.parts.inspected));
  const shown = await page.evaluate(() => ({
    figures: Object.fromEntries([...document.querySelectorAll("#shift-figures div")].map((one) => [one.querySelector("dt").textContent, one.querySelector("dd").textContent])),
    latency: document.getElementById("shift-latency").textContent,
    tables: Object.fromEntries(["tasks", "stations", "series"].map((name) => [name, [...document.querySelectorAll(`#shift-${name} tbody tr`)].map((row) => [...row.children].map((cell) => cell.textContent))])),
    bars: Object.fromEntries(["good", "defect", "unknown"].map((kind) => [kind, document.querySelectorAll(`#shift-bars .bar.${kind}`).length])),
    cells: [...document.querySelectorAll("#shift-places .place")].map((cell) => [Number(cell.getAttribute("y")) * 16 + Number(cell.getAttribute("x")), parseInt(cell.textContent, 10)]),
  }));
  for (const kind of ["inspected", "good", "defect", "unknown"]) assert.equal(shown.figures[kind], whole(found.parts[kind]), kind);
  const percent = (share) => (share == null ? "–" : `${(share * 100).toFixed(1).replace(/\.0+$/, "")} %`);
  assert.equal(shown.figures.yield, percent(found.parts.yield));
  if (found.latency_ms.median != null) assert.ok(shown.latency.includes(`median ${found.latency_ms.median.toFixed(1)} ms, 95 % within ${found.latency_ms.p95.toFixed(1)} ms`), shown.latency);
  const row = (name, one) => [name, ...["inspected", "good", "defect", "unknown"].map((kind) => whole(one[kind])), percent(one.yield)];
  const sorted = (rows) => rows.map(String).sort();
  assert.deepEqual(sorted(shown.tables.tasks), sorted(found.tasks.map((one) => row(one.task || "no known product", one))));
  assert.deepEqual(sorted(shown.tables.stations), sorted(found.stations.map((one) => row(one.station || "without a station", one))));
  const steps = found.series.filter((one) => one.inspected);
  assert.deepEqual(shown.tables.series.map((cells) => cells.slice(1)), steps.map((one) => row("", one).slice(1)));
  for (const kind of ["good", "defect", "unknown"]) assert.equal(shown.bars[kind], steps.filter((one) => one[kind]).length, `bars: ${kind}`);
  assert.deepEqual(shown.cells, found.places.defects.map((n, i) => [i, n]).filter(([, n]) => n));
  return found;
}

async function download({ page }, link) {
  const [got] = await Promise.all([page.waitForEvent("download"), page.locator(link).click()]);
  return { name: got.suggestedFilename(), text: readFileSync(await got.path(), "utf8") };
}

const idsOf = (csv) => csv.trim().split("\r\n").slice(1).map((line) => Number(line.split(",")[0]));

async function open(tools) {
  const { test, page, camera, ask, text, waitText, get, expected, base, context } = tools;
  const [bad, good] = [files("bad"), files("more_good")];
  const all = [];
  const send = async (file, station) => all.push(await camera(file, station ? { station } : {}));
  for (const file of good.slice(0, 4)) await send(file, "press 4");
  for (const file of bad.slice(0, 2)) await send(file, "press 4");
  for (const file of [...good.slice(4), bad[2]]) await send(file, "press, 5");
  await send(bad[3]);
  await ask("POST", `v1/inspections/${all.at(-1).id}/feedback`, { label: "defect" });
  await page.locator("#alarm-close").click({ timeout: 4000 }).catch(() => {});

  await test("a shift’s numbers are the service’s", async () => {
    await tools.open("shifts");
    const found = await same(tools, "span=shift");
    assert.equal(found.parts.inspected, all.length);
    assert.match(await text("#shift-when"), /^This shift: \w{3} \d+ \w+ \d{4}, \d\d:\d\d,? to /);
    assert.match(await text("#shift-latency"), /A person called 0 good and 1 defect/);
    assert.equal(await page.locator("#shift-next").isDisabled(), true);
  });

  await test("it keeps up while the present is shown", async () => {
    await send(good[0], "press 4");
    await page.waitForFunction((n) => document.querySelector("#shift-figures dd").textContent === String(n), all.length, { timeout: 10_000 });
    await same(tools, "span=shift");
  });

  await test("where defects happen lies over a part of the task, if there is one task", async () => {
    await page.locator("#shift-part").waitFor({ state: "visible" });
    assert.ok(await page.locator("#shift-part").evaluate((canvas) => canvas.width) > 1);
    assert.match(await page.locator("#shift-places svg").getAttribute("aria-label"), /Where defects happen\. Most of them (at|in) the .*: \d+ defects? in the reddest/);
  });

  await test("filtered by station and task, by choice and by link", async () => {
    await page.locator("#shift-station").selectOption("press 4");
    await page.waitForURL(/station=press/);
    const found = await same(tools, "span=shift&station=press%204");
    assert.deepEqual([found.parts.inspected, found.parts.defect], [7, 2]);
    await page.locator("#shift-task").selectOption(TASK);
    await same(tools, `span=shift&station=press%204&task=${TASK}`);
    await page.reload();
    await same(tools, `span=shift&station=press%204&task=${TASK}`);
    await page.locator("#shift-station").selectOption("");
    await same(tools, `span=shift&task=${TASK}`);
    await page.locator("#shift-stations a", { hasText: "press, 5" }).click();
    await same(tools, `span=shift&task=${TASK}&station=press%2C%205`);
  });

  await test("an export is what is counted, and no more", async () => {
    const { name, text: csv } = await download(tools, "#shift-csv");
    assert.match(name, /^inspections-press_5-stripes.*\.csv$/);
    const wanted = all.filter(({ station }) => station === "press, 5").map(({ id }) => id).reverse();
    assert.deepEqual(idsOf(csv), wanted);
    const { text: json } = await download(tools, "#shift-json");
    assert.deepEqual(JSON.parse(json).inspections.map(({ id }) => id), wanted);
    await page.locator("#shift-history").click();
    await page.locator("#history").waitFor({ state: "visible" });
    await page.waitForFunction((n) => document.querySelectorAll("#past tbody tr").length === n, wanted.length);
    await page.goBack();
    await page.locator("#shifts").waitFor({ state: "visible" });
  });

  await test("the report opens, of the same", async () => {
    const [tab] = await Promise.all([context.waitForEvent("page"), page.locator("#shift-report").click()]);
    await tab.waitForLoadState();
    const body = await tab.locator("body").innerText();
    assert.match(body, /Shift report[\s\S]*station press, 5 · task stripes/);
    assert.match(body, /inspected\s+3/);
    const [picture, cells] = await Promise.all([".place img", ".place svg"].map((one) => tab.locator(one).boundingBox()));
    assert.ok(Math.abs(picture.width - cells.width) < 1 && Math.abs(picture.height - cells.height) < 1, "the places lie over all of the picture");
    await tab.close();
  });

  await test("hour, day and week, the time before and back", async () => {
    for (const span of ["hour", "day", "week"]) {
      await page.locator("#shift-span").selectOption(span);
      await waitText("#shift-when", new RegExp(`^This ${span}:`));
      await same(tools, `span=${span}&task=${TASK}&station=press%2C%205`);
    }
    await page.locator("#shift-before").click();
    await waitText("#shift-when", /^Week:/);
    const [, at] = /at=([^&]+)/.exec(page.url());
    const before = await same(tools, `span=week&at=${at}`);
    assert.equal(before.parts.inspected, 0);
    assert.equal(before.until, (await get("v1/statistics?span=week")).since);
    assert.match(await text("#shift-latency"), /Nothing was inspected/);
    assert.match(await text("#shift-tasks-empty"), /Nothing/);
    await page.locator("#shift-next").click();
    await waitText("#shift-when", /^This week:/);
    await page.waitForFunction(() => !location.hash.includes("at="));
    await page.locator("#shift-before").click();
    await page.locator("#shift-now").click();
    await waitText("#shift-when", /^This week:/);
    await page.goto(`${base}/#shifts/span=hour&at=2020-02-01T10%3A30%3A00Z`);
    await waitText("#shift-when", /^Hour: Sat 1 Feb 2020, \d\d:\d\d to/);
  });

  await test("what goes wrong is said in words", async () => {
    await tools.open("shifts");
    await page.route(/inspections\.csv/, (route) => route.fulfill({ status: 503, contentType: "application/problem+json", headers: { "Retry-After": "1" },
      body: JSON.stringify({ title: "Service Unavailable", status: 503, detail: "as many exports as may be are under way; try again when one has ended" }) }));
    expected.push(/503/);
    await page.locator("#shift-csv").click();
    await waitText("#notice-text", /Not exported: as many exports as may be are under way/);
    await page.locator("#notice-close").click();
    await page.unroute(/inspections\.csv/);
    expected.push(/ERR_|Failed to load/);
    await context.setOffline(true);
    await page.locator("#shift-json").click();
    await waitText("#notice-text", /Not exported: The service cannot be reached/);
    await page.locator("#notice-close").click();
    await page.locator("#shift-before").click();
    await waitText("#notice-text", /cannot be reached/);
    await context.setOffline(false);
    expected.length -= 2;
    expected.push(/status of 400/);
    await page.goto(`${base}/#shifts/span=year`);
    await waitText("#notice-text", /span is hour, shift, day or week/);
    await page.reload();
    await waitText("#notice-text", /span is hour, shift, day or week/);
    await page.locator("#shift-before").click();
    await page.locator("#shift-span").selectOption("day");
    await waitText("#shift-when", /^This day:/);
    expected.pop();
  });
}

async function withToken(tools) {
  const { test, page, base, context, waitText, expected } = tools;
  expected.push(/status of 401/);
  await test("a token’s exports and report", async () => {
    await page.locator("#token").fill(TOKEN);
    await page.locator("#token").press("Enter");
    await page.locator("#sign-in").waitFor({ state: "hidden" });
    const ids = [];
    for (const file of [...files("more_good").slice(0, 2), files("bad")[0]]) ids.unshift((await tools.ask("POST", "v1/inspections", readFileSync(file), { "Content-Type": "image/png" })).json.id);
    await page.goto(`${base}/#shifts`);
    await same(tools, "span=shift");
    const { name, text: csv } = await download(tools, "#shift-csv");
    assert.match(name, /^inspections.*\.csv$/);
    assert.deepEqual(idsOf(csv), ids);
    const [tab] = await Promise.all([context.waitForEvent("page"), page.locator("#shift-report").click()]);
    await tab.locator("h1").waitFor();
    assert.match(await tab.locator("body").innerText(), /Shift report[\s\S]*inspected\s+3[\s\S]*The worst parts/);
    assert.equal(await tab.locator("dl").evaluate((node) => getComputedStyle(node).display), "flex", "it has its looks");
    await tab.waitForFunction(() => [...document.querySelectorAll(".worst img")].length === 1 && [...document.images].every((image) => image.complete && image.naturalWidth > 0));
    if (SHOTS) await tab.screenshot({ path: join(SHOTS, "report-token.png"), fullPage: true });
    await tab.close();
    await page.goto(`${base}/#history`);
    await page.waitForFunction(() => [...document.querySelectorAll("#past canvas")].filter((canvas) => canvas.width > 1).length === 3);
    await page.locator("#filters select[name=verdict]").selectOption("defect");
    await waitText("#pager-text", /newest first/);
    await page.waitForFunction(() => document.querySelectorAll("#past tbody tr").length === 1);
    assert.deepEqual(idsOf((await download(tools, "#past-csv")).text), ids.slice(0, 1));
  });
}

export default async () => {
  await scene("shifts", { options: ["--shifts", "06:00,14:00,22:00"] }, open);
  await scene("shifts_token", { env: { CONTCORE_TOKENS: `admin ${TOKEN} desk` }, token: TOKEN }, withToken);
};
