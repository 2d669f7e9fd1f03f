// What the memory knows and how it judges: thresholds, shares, the history.
import assert from "node:assert/strict";
import { files, scene, TASK } from "./harness.mjs";

export default () => scene("tasks", {}, async ({ test, page, base, get, waitText, open, camera }) => {
  const kept = {};

  await test("the threshold moves by keyboard, by mouse, by hand and by rate", async () => {
    kept.bad = (await camera(files("bad")[0])).id;
    await camera(files("more_good")[0]);
    await open("thresholds");
    await waitText("#threshold-now", /Now|No threshold/);
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
    const now = async () => (await get("v1/tasks")).tasks.find((task) => task.name === TASK).threshold;
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
    await page.goto(`${base}/#thresholds/${encodeURIComponent(TASK)}`);
    await page.reload();
    await waitText("#threshold-now", /set by hand/);
    assert.ok(Math.abs(await value() - kept.threshold) < 1e-6);
  });

  await test("memory shows every task, its share and its course", async () => {
    await open("memory");
    await waitText("#tasks tbody", new RegExp(TASK));
    const { tasks } = await get("v1/tasks");
    assert.equal(await page.locator("#tasks tbody tr").count(), tasks.length);
    await page.locator("#chart-certificate :is(svg.chart, .empty)").waitFor();
    assert.match(await page.locator("#stack").getAttribute("aria-label"), new RegExp(TASK));
  });

  await test("history filters, and a row opens beside the newest", async () => {
    await page.goto(`${base}/#live/${kept.bad}`);
    await page.locator("#beside-part .say-defect").click();
    await waitText("#beside-part .feedback-note", /kept as evidence/);
    await open("history");
    await page.locator("#filter-task").selectOption(TASK);
    await page.locator("#filters select[name=feedback]").selectOption("defect");
    await page.waitForFunction(() => document.querySelectorAll("#past tbody tr").length === 1);
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("#past tbody tr").length === 1);
    await page.locator("#past tbody tr").first().click();
    await page.locator("#live").waitFor({ state: "visible" });
    await waitText("#beside-h", new RegExp(`${kept.bad}`));
  });
});
