// A region of interest: drawn with the mouse, with keys alone, or given as a mask; what is wrong with it is said in words;
// what lies outside is neither learned nor judged.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { files, LONG, scene, SHOTS, TASK, violations } from "./harness.mjs";

const SQUARE = [[12, 12], [52, 12], [52, 52], [12, 52]];
const WIDTHS = [[390, 844], [768, 1024], [1366, 768]];

export default () => scene("region", {}, async ({ test, page, ask, get, text, waitText, open, expected, camera, largePicture }) => {
  const stage = page.locator("#drawing-stage");
  const taskOf = async (name) => (await get("v1/tasks")).tasks.find((task) => task.name === name);

  /** Where a pixel of the image, 64 by 64, is on the screen. */
  async function spot([x, y]) {
    const box = await stage.boundingBox();
    const scale = Math.min(box.width, box.height) / 64;
    return [box.x + box.width / 2 + (x - 32) * scale, box.y + box.height / 2 + (y - 32) * scale];
  }
  const click = async (...points) => { for (const point of points) await page.mouse.click(...await spot(point)); };
  async function drag(from, to) {
    await page.mouse.move(...await spot(from));
    await page.mouse.down();
    await page.mouse.move(...await spot(to), { steps: 4 });
    await page.mouse.up();
  }
  const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  const times = (n, key) => Array.from({ length: n }, () => key);
  async function choose(name) {
    await page.locator("#task-name").fill(name);
    await page.locator("#learn-images-input").setInputFiles(files("good"));
    await waitText("#learn-chosen", /30 images/);
    await page.waitForFunction(() => !document.getElementById("region-draw").disabled);
  }
  async function learn(name) {
    await page.locator("#learn-start").click();
    await page.locator("#review-go").click({ timeout: LONG });
    await waitText("#learn-result", new RegExp(`Learned ${name} from 30 images`), LONG);
  }

  await test("nothing can be drawn before there is an image", async () => {
    await open("learn");
    assert.equal(await page.locator("#region-draw").isDisabled(), true);
    assert.match(await text("#region-why"), /Choose images first/);
    await choose("placed");
    assert.match(await text("#region-text"), /All of the image/);
  });

  await test("bad shapes are told of in words, and go no further", async () => {
    await page.locator("#region-draw").click();
    await stage.waitFor();
    await page.locator("#drawing-use").click();
    await waitText("#drawing-fault", /Nothing is drawn yet/);
    await click([12, 12], [52, 12]);
    await page.locator("#drawing-use").click();
    await waitText("#drawing-fault", /has 2 corners; it takes three/);
    await press("Escape");
    await waitText("#drawing-status", /given up/);
    await click([12, 12], [52, 52], [52, 12], [12, 52], [12, 12]);
    await waitText("#drawing-fault", /Shape 1 crosses itself/);
    await page.locator("#drawing-use").click();
    assert.equal(await stage.isVisible(), true);
    await page.locator("#drawing-shape-away").click();
    await click([4, 4], [40, 4], [40, 40], [4, 4], [20, 2], [60, 20], [30, 60], [20, 2]);
    await waitText("#drawing-fault", /Shapes 1 and 2 cross/);
    await page.locator("#drawing-undo").click();  // the second is open again
    await press("Escape", "Escape");
    await waitText("#drawing-status", /once more/);
    assert.equal(await stage.isVisible(), true);
    await press("Escape");
    await stage.waitFor({ state: "hidden" });
    assert.match(await text("#region-text"), /All of the image/, "what is given up is not there");
  });

  await test("a polygon is drawn with the mouse: added, dragged, deleted, taken back, closed", async () => {
    await page.locator("#region-draw").click();
    await click([12, 12], [52, 12], [44, 44], [12, 52]);
    await waitText("#drawing-status", /Corner 4 at \(12, 52\)/);
    await drag([44, 44], [52, 52]);
    await waitText("#drawing-status", /at \(52, 52\)/);
    await click([30, 58]);
    await press("Delete");
    await waitText("#drawing-status", /Deleted/);
    await page.locator("#drawing-undo").click();
    await page.locator("#drawing-corner").click();
    await click([12, 12]);
    await waitText("#drawing-status", /Shape 1 is closed.*39 % of the image/);
    await drag([32, 12], [32, 20]);  // a side is bent
    await page.locator("#drawing-undo").click();
    await page.locator("#drawing-undo").click();
    assert.equal(await page.locator("#drawing-lines circle").count(), 4);
    assert.equal(await page.locator("#drawing-dark .dark").count(), 1);
  });

  await test("drawing is clean in both themes and three widths", async () => {
    for (const colorScheme of ["light", "dark"]) {
      for (const [width, height] of WIDTHS) {
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        await page.setViewportSize({ width, height });
        assert.deepEqual(await violations(page), [], `${colorScheme}, ${width}`);
        const box = await page.locator("#drawing-use").boundingBox();
        assert.ok(box.y + box.height <= height && box.x + box.width <= width, `the button is in sight at ${width}`);
        const drawn = await stage.boundingBox();
        assert.ok(drawn.height >= 180 && drawn.width >= 180, `there is room to draw at ${width}`);
        if (SHOTS) {
          mkdirSync(SHOTS, { recursive: true });
          await page.screenshot({ path: join(SHOTS, `drawing-${width}-${colorScheme}.png`) });
        }
      }
    }
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  });

  await test("the task has that region", async () => {
    await page.locator("#drawing-use").click();
    await stage.waitFor({ state: "hidden" });
    assert.match(await text("#region-text"), /Looked at: 1 shape, 39 % of the image/);
    assert.equal(await page.locator("#region-preview").isVisible(), true);
    if (SHOTS) await page.screenshot({ path: join(SHOTS, "learn-region.png"), fullPage: true });
    await learn("placed");
    assert.deepEqual((await taskOf("placed")).region, { width: 64, height: 64, polygons: [SQUARE] });
    assert.match(await text("#region-text"), /placed has a region/);
  });

  await test("what lies outside changes no score", async () => {
    const seen = async (task) => { const all = []; for (const file of files("placed")) all.push((await camera(file, { task })).score); return all; };
    const [whole, other] = await seen(TASK);
    assert.notEqual(whole, other, "without a region it does");
    const [one, same] = await seen("placed");
    assert.equal(one, same);
  });

  await test("a part’s picture shows what was not looked at", async () => {
    await open("live");
    await largePicture();
    assert.match(await page.locator("#now .outside .dark").getAttribute("d"), /M12 12L52 12L52 52L12 52Z/);
    assert.match(await text("#now .facts"), /Looked at\s+39 % of it/);
    if (SHOTS) await page.screenshot({ path: join(SHOTS, "live-region.png") });
    await camera(files("more_good")[0], { task: TASK });
    await page.waitForFunction(() => !document.querySelector("#now .outside .dark"), null, { timeout: LONG });
    // Another client renames the task.
    assert.equal((await ask("PUT", "v1/tasks/placed", { name: "moved" })).status, 200);
    await camera(files("placed")[0], { task: "moved" });
    await page.waitForFunction(() => document.querySelector("#now .outside .dark"), null, { timeout: LONG });
    assert.equal((await ask("PUT", "v1/tasks/moved", { name: "placed" })).status, 200);
  });

  await test("a task that has a region shows it, and keeps it", async () => {
    await open("learn");
    await choose("other");
    await page.locator("#region-draw").click();
    await click([8, 8], [40, 8], [40, 40], [8, 8]);
    await page.locator("#drawing-use").click();
    await page.locator("#task-name").fill(TASK);
    assert.match(await text("#learn-reason"), /learned without a region/);
    assert.equal(await page.locator("#learn-start").isDisabled(), true);
    await page.locator("#region-remove").click();
    assert.match(await text("#region-text"), new RegExp(`so ${TASK} was learned`));
    assert.equal(await page.locator("#learn-start").isDisabled(), false);
    await page.locator("#task-name").fill("placed");
    assert.match(await text("#region-text"), /placed has a region: 1 shape, 39 %.*forget the task/);
    assert.equal(await page.locator("#region-draw").isDisabled(), true);
    assert.equal(await page.locator("#region-preview .dark").count(), 1);
    await learn("placed");
    const task = await taskOf("placed");
    assert.deepEqual([task.images, task.region.polygons], [60, [SQUARE]]);
    await open("memory");
    await page.locator("#tasks .region-sign").waitFor();
    assert.match(await page.locator("#tasks .region-sign").getAttribute("aria-label"), /1 shape, 39 % of the image/);
  });

  await test("a region is drawn with keys alone, with a part left out of it", async () => {
    await open("learn");
    await choose("by keys");
    await page.locator("#region-draw").focus();
    await press("Enter");
    await stage.waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), "drawing-stage");
    assert.notEqual(await stage.evaluate((node) => getComputedStyle(node).outlineStyle), "none", "the focus can be seen");
    assert.equal(await page.locator("#drawing-lines .cursor").count(), 1, "the cursor can be seen");
    assert.match(await page.evaluate(() => document.getElementById(document.getElementById("drawing-stage").getAttribute("aria-describedby")).textContent), /Arrow keys move[\s\S]*Enter adds a corner[\s\S]*Delete deletes[\s\S]*Escape/);
    await press(...times(12, "ArrowLeft"), ...times(12, "ArrowUp"));
    await waitText("#drawing-status", /^\(8, 8\)$/);
    await press("Enter", ...times(24, "ArrowRight"), "Enter", ...times(24, "ArrowDown"), "Enter", ...times(24, "ArrowLeft"), "Enter");
    await waitText("#drawing-status", /Corner 4 at \(8, 56\)/);
    await press("Shift+ArrowUp", "Enter", "Backspace", ...times(24, "ArrowUp"), "Shift+ArrowDown");
    await waitText("#drawing-status", /^\(8, 8\): the first corner, Enter closes/);
    await press("Enter");
    await waitText("#drawing-status", /Shape 1 is closed/);
    await press("n", "n", "p", "Enter");  // one after the first
    await waitText("#drawing-status", /Corner 2 of shape 1 at \(32, 8\) is picked/);
    await press("Delete");
    await waitText("#drawing-status", /Shape 1 has 4 corners/);
    await press("n", "ArrowLeft", "Shift+ArrowUp");  // the first corner, from (8, 8)
    await waitText("#drawing-status", /Corner 1 of shape 1 at \(6, 7\)/);
    await press("u");
    // A triangle inside of it, left out.
    await press(...times(8, "ArrowRight"), ...times(8, "ArrowDown"));
    const from = /\((\d+), (\d+)\)/.exec(await text("#drawing-status")).slice(1).map(Number);
    await press("Enter", ...times(4, "ArrowRight"), "Enter", ...times(4, "ArrowDown"), "Enter", "c");
    await waitText("#drawing-status", /Shape 2 is closed. Now 2 shapes/);
    const focused = () => page.evaluate(() => document.activeElement.id);
    for (let tabs = 0; tabs < 6 && await focused() !== "drawing-use"; ++tabs) await press("Tab");
    assert.equal(await focused(), "drawing-use");
    await press("Enter");
    await stage.waitFor({ state: "hidden" });
    const [x, y] = from;
    await learn("by keys");
    const { region } = await taskOf("by keys");
    assert.deepEqual(region.polygons[1], [[x, y], [x + 8, y], [x + 8, y + 8]]);
    assert.equal(region.polygons.length, 2);
    assert.ok(region.polygons[0].length >= 4);
    assert.ok(x > 8 && y > 8 && x + 8 < 56 && y + 8 < 56, "it lies inside");
  });

  await test("a mask is a region, a bad file is told of, and what the service refuses is shown", async () => {
    await choose("masked");
    const json = (region) => ({ name: "region.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(region)) });
    const file = page.locator("#region-file-input");
    await file.setInputFiles(json({ width: 64, height: 64, polygons: [[[1, 1], [70, 1], [30, 30]]] }));
    await waitText("#region-fault", /region\.json: Shape 1 reaches beyond the image/);
    await file.setInputFiles(json({ width: 64, height: 64 }));
    await waitText("#region-fault", /It is no region/);
    await file.setInputFiles(json({ width: 64, height: 64, polygons: [[[0, 0], [64, 0], [64, 64], [0, 64]]] }));
    await waitText("#region-text", /1 shape, 100 %/);
    expected.push(/status of 400.*v1\/jobs/);
    await page.locator("#learn-start").click();
    await waitText("#learn-result", /Not learned.*the region is the whole image/);
    expected.pop();
    await file.setInputFiles(files("empty")[0]);
    await waitText("#region-fault", /no black/);
    await file.setInputFiles(files("mask")[0]);
    await waitText("#region-text", /a mask, 31 % of the image/);
    assert.equal(await text("#region-fault"), "");
    await learn("masked");
    const { region } = await taskOf("masked");
    assert.equal(region.counts.reduce((sum, n, i) => sum + (i % 2 ? n : 0), 0), 40 * 32);
    assert.equal(region.counts[0], 12 * 64 + 16);
  });

  await test("an alarm breaks through the drawing", async () => {
    await choose("broken");
    await page.locator("#region-draw").click();
    await click([10, 10], [30, 10]);
    await camera(files("bad")[0], { task: TASK });
    await page.locator("#alarm").waitFor({ state: "visible" });
    await press("Escape");
    await page.locator("#alarm").waitFor({ state: "hidden" });
    assert.equal(await page.locator("#drawing-lines circle").count(), 2, "Escape closes the alarm alone");
    await click([30, 30], [10, 10], [50, 50]);
    await camera(files("bad")[1], { task: TASK });
    await page.locator("#alarm-look").click();
    await page.locator("#beside").waitFor({ state: "visible" });
    await open("learn");
    assert.match(await text("#region-text"), /Looked at: 1 shape/, "what was whole is kept");
  });
});
