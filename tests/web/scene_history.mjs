// What was inspected: pictures that come when they come into sight, names, times, and exports of what the filter leaves.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { files, scene, TASK } from "./harness.mjs";

export default () => scene("history", { timezoneId: "Asia/Kathmandu" }, async ({ test, page, get, camera, open, text, waitText, base }) => {
  const all = [];
  const kinds = [...files("more_good"), ...files("bad")];
  for (let i = 0; i < 60; ++i) all.push(await camera(kinds[i % kinds.length], { source: `part ${i}.png`, station: i % 4 ? "press 4" : "press 5" }));
  const rows = () => page.locator("#past tbody tr").count();
  const hasRows = (n) => page.waitForFunction((wanted) => document.querySelectorAll("#past tbody tr").length === wanted, n);
  const pictures = () => page.evaluate(() => [...document.querySelectorAll("#past canvas")].map((canvas) => canvas.width > 1));
  const idsOf = (csv) => csv.trim().split("\r\n").slice(1).map((line) => Number(line.split(",")[0]));
  async function download(link) {
    const [got] = await Promise.all([page.waitForEvent("download"), page.locator(link).click()]);
    return readFileSync(await got.path(), "utf8");
  }

  await test("small pictures come when they come into sight", async () => {
    const asked = [];
    page.on("request", (request) => { if (/inspections\/\d+\/image/.test(request.url())) asked.push(new URL(request.url())); });
    await page.locator("#alarm-close").click({ timeout: 3000 }).catch(() => {});
    await page.goto(`${base}/#live`);
    await page.waitForTimeout(1500);
    asked.length = 0;
    await open("history");
    await hasRows(50);
    await page.waitForFunction(() => document.querySelector("#past canvas").width > 1);
    await page.waitForTimeout(500);
    const first = (await pictures()).filter(Boolean).length;
    assert.ok(first >= 8 && first < 40, `${first} of 50 are there at once`);
    const small = asked.filter((url) => url.searchParams.get("side"));
    assert.equal(small.length, first, "each is asked for once, and small");
    await page.locator("#past tbody tr").last().scrollIntoViewIfNeeded();
    await page.waitForFunction(() => [...document.querySelectorAll("#past canvas")].at(-1).width > 1);
    const side = await page.locator("#past canvas").first().evaluate((canvas) => Math.max(canvas.width, canvas.height));
    assert.equal(side, 64, "it is not made larger than it is");
  });

  await test("a row has its file’s name and its time", async () => {
    const row = page.locator("#past tbody tr").first();
    assert.match(await row.innerText(), /60[\s\S]*\d+ \w{3}, \d\d:\d\d:\d\d[\s\S]*part 59\.png/);
    await page.setViewportSize({ width: 390, height: 844 });
    assert.match(await row.locator("td").nth(2).innerText(), /part 59\.png/);
    await page.setViewportSize({ width: 1366, height: 768 });
  });

  await test("filtered by station, task, verdict and time; the export is what is left, on all pages", async () => {
    await page.locator("#filter-station").selectOption("press 4");
    await hasRows(45);
    await page.locator("#filter-task").selectOption(TASK);
    await page.locator("#filters select[name=verdict]").selectOption("defect");
    const wanted = all.filter(({ station, verdict }) => station === "press 4" && verdict === "defect").map(({ id }) => id).reverse();
    await hasRows(wanted.length);
    assert.ok(wanted.length > 0 && wanted.length < 45);
    assert.deepEqual(idsOf(await download("#past-csv")), wanted);
    assert.deepEqual(JSON.parse(await download("#past-json")).inspections.map(({ id }) => id), wanted);
    await page.locator("#filters-clear").click();
    await hasRows(50);
    assert.equal(idsOf(await download("#past-csv")).length, 60, "all pages, not the one that is shown");
    await page.locator("#older-page").click();
    await hasRows(10);
    assert.equal(idsOf(await download("#past-csv")).length, 60);
  });

  await test("times are of this clock, and the address has them", async () => {
    const local = (time) => page.evaluate((t) => { const date = new Date(t); return new Date(date - date.getTimezoneOffset() * 60e3).toISOString().slice(0, 16); }, time);
    const now = Date.now();
    assert.match(await page.locator("#past tbody time").first().innerText(), new RegExp(`, ${(await local(all.at(-1).time)).slice(11)}`));
    await page.locator("#filters input[name=since]").fill(await local(now + 3600e3));
    await hasRows(0);
    assert.match(await text("#past-empty"), /No inspection matches/);
    assert.match(decodeURIComponent(page.url()), /since=\d{4}-\d\d-\d\dT\d\d:\d\d:00Z/);
    await page.locator("#filters input[name=since]").fill(await local(now - 3600e3));
    await hasRows(50);
    await page.locator("#filters input[name=until]").fill(await local(now - 1800e3));
    await hasRows(0);
    await page.reload();
    await waitText("#past-empty", /No inspection/);
    assert.equal(await page.locator("#filters input[name=until]").inputValue(), await local(now - 1800e3));
    assert.equal(await rows(), 0);
    // To the second, as a link may have it.
    const [from, to] = [all[20].time, all[40].time];
    await page.goto(`${base}/#history/${new URLSearchParams({ since: from.replace(/\.\d+Z/, "Z"), until: new Date(Date.parse(to) + 1000).toISOString().replace(/\.\d+Z/, "Z") })}`);
    const found = await get(`v1/inspections?limit=500&since=${from.replace(/\.\d+Z/, "Z")}&until=${new Date(Date.parse(to) + 1000).toISOString().replace(/\.\d+Z/, "Z")}`);
    await hasRows(Math.min(50, found.inspections.length));
    assert.equal(idsOf(await download("#past-csv")).length, found.inspections.length);
  });
});
