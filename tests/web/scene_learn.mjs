// Learning questions its input: what is strange is shown before anything is learned, and clicked away; a broken file
// never cancels the others; feedback with a place.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { files, LONG, scene, SHOTS, violations } from "./harness.mjs";

export default () => scene("learn", {}, async ({ test, page, get, text, waitText, open, expected, camera }) => {
  const TASK = "checks";

  await test("a folder with what does not belong there is looked over first", async () => {
    const folder = mkdtempSync(join(tmpdir(), "page-test-"));
    try {
      for (const file of files("other")) cpSync(file, join(folder, file.split("/").pop()));
      for (const [i, file] of [files("bad")[0], files("empty")[2]].entries()) cpSync(file, join(folder, `stray ${i}.png`));
      writeFileSync(join(folder, "notes.txt"), "not an image");
      writeFileSync(join(folder, "broken.png"), "not an image either");
      writeFileSync(join(folder, "empty.png"), "");
      expected.push(/4(00|15|22)/);
      await open("learn");
      assert.equal(await page.locator("#learn-start").isDisabled(), true);
      await page.locator("#task-name").fill(TASK);
      await page.locator("#learn-folder-input").setInputFiles(folder);
      await waitText("#learn-chosen", /16 images.*1 other file will be skipped/);
      await page.locator("#learn-start").click();
      await page.locator("#review").waitFor({ state: "visible", timeout: LONG });
      expected.pop();
    } finally {
      rmSync(folder, { recursive: true });
    }
    assert.equal((await get("v1/tasks")).tasks.length, 1, "nothing is learned yet");
    assert.ok(await page.locator("#review-pictures .tile").count() > 0);
    assert.match(await text("#review-pictures"), /stray 0\.png/);
  });

  await test("the review is clean in both themes and three widths", async () => {
    for (const colorScheme of ["light", "dark"]) {
      for (const [width, height] of [[390, 844], [768, 1024], [1366, 768]]) {
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        await page.setViewportSize({ width, height });
        assert.deepEqual(await violations(page), [], `${colorScheme}, ${width}`);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `it scrolls sideways at ${width}`);
        if (SHOTS) await page.screenshot({ path: join(SHOTS, `review-${width}-${colorScheme}.png`), fullPage: true });
      }
    }
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  });

  await test("the strangest are clicked away, by mouse and by key", async () => {
    const tiles = page.locator("#review-pictures .tile");
    await tiles.filter({ hasText: "stray 0" }).click();
    await tiles.filter({ hasText: "stray 1" }).focus();
    await page.keyboard.press("Space");
    assert.match(await text("#review-go"), /Learn 12 images, without 2/);
    await page.locator("#review-go").click();
    await waitText("#learn-result", /Learned checks from 12 images, 2 images left out/, LONG);
    assert.match(await text("#learn-result"), /3 files skipped/);
    assert.match(await text("#learn-result"), /broken\.png/);
    assert.match(await text("#learn-result"), /empty\.png/);
    await waitText("#jobs tbody tr:first-child", /checks.*learned/);
    assert.equal((await get("v1/tasks")).tasks.find(({ name }) => name === TASK).images, 12);
  });

  await test("a job can be cancelled, while it is sent and while it is looked over", async () => {
    await page.locator("#task-name").fill("cancelled");
    const many = Array.from({ length: 40 }, (_, i) => ({ name: `${i}.png`, mimeType: "image/png", buffer: readFileSync(files("good")[i % 30]) }));
    await page.locator("#learn-images-input").setInputFiles(many);
    await page.locator("#learn-start").click();
    await page.locator("#learn-cancel").click();
    await waitText("#learn-result", /Cancelled/);
    await page.locator("#learn-start").click();
    await page.locator("#review").waitFor({ state: "visible", timeout: LONG });
    await page.locator("#learn-cancel").click();
    await waitText("#learn-result", /Cancelled/);
    assert.equal(await page.locator("#review").isVisible(), false);
    assert.equal((await get("v1/tasks")).tasks.some(({ name }) => name === "cancelled"), false);
  });

  await test("a defect is marked by hand: with the mouse, and with keys", async () => {
    const one = await camera(files("bad")[3]);
    await page.locator("#alarm-close").click();
    await page.goto(`${page.url().split("#")[0]}#live/${one.id}`);
    await page.locator("#beside-part .say-where").click();
    const box = await page.locator("#beside-part .marking").boundingBox();
    let sent = null;
    page.on("request", (request) => { if (request.url().endsWith("/feedback")) sent = request.postDataJSON(); });
    const side = Math.min(box.width, box.height);
    const at = (share) => [box.x + box.width / 2 + (share - 0.5) * side, box.y + box.height / 2 + (share - 0.5) * side];
    await page.mouse.move(...at(0.25));
    await page.mouse.down();
    await page.mouse.move(...at(0.75), { steps: 4 });
    await page.mouse.up();
    await page.locator("#beside-part .marking-bar .primary").click();
    await waitText("#beside-part .feedback-note", /Marked as a defect/);
    assert.equal(sent.label, "defect");
    for (const [key, value] of Object.entries({ x: 16, y: 16, width: 32, height: 32 })) assert.ok(Math.abs(sent.region[key] - value) <= 2, `${key} ${sent.region[key]}`);
    await page.keyboard.press("u");
    await page.waitForFunction(() => document.querySelector("#beside-part .undo").hidden);
    await page.keyboard.press("m");
    await page.locator("#beside-part .marking").waitFor();
    const first = (await text("#beside-part .marking-bar span"));
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Shift+ArrowDown");
    assert.notEqual(await text("#beside-part .marking-bar span"), first);
    await page.keyboard.press("Enter");
    await waitText("#beside-part .feedback-note", /Marked as a defect/);
    await page.keyboard.press("u");
    await page.waitForFunction(() => document.querySelector("#beside-part .undo").hidden);
    await page.keyboard.press("m");
    await page.locator("#beside-part .marking").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#beside-part .marking").waitFor({ state: "detached" });
    assert.equal(await page.locator("#beside").isVisible(), true, "Escape gives the box up, and nothing else");
    assert.equal((await get(`v1/inspections/${one.id}`)).feedback, "");
  });
});
