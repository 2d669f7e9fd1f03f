// An empty page says what to do first, and leads to the first verdict.
import assert from "node:assert/strict";
import { files, LONG, scene } from "./harness.mjs";

export default () => scene("first", { knows: false }, async ({ test, page, text, waitText, connected, largePicture }) => {
  await test("an empty page says what to do first", async () => {
    await connected();
    await page.locator("#first").waitFor({ state: "visible" });
    assert.match(await text("#first"), /Learn good parts[\s\S]*Inspect/);
    assert.equal(await page.locator("#first-inspect-go").isDisabled(), true, "there is nothing to compare with yet");
    await page.locator("#first-learn-go").click();
    await page.locator("#learn").waitFor({ state: "visible" });
  });

  await test("learned, then inspected", async () => {
    await page.locator("#task-name").fill("first");
    await page.locator("#learn-images-input").setInputFiles(files("good"));
    await page.locator("#learn-start").click();
    await page.locator("#review-go").click({ timeout: LONG });
    await waitText("#learn-result", /Learned first from 30 images/, LONG);
    await page.locator('#learn-result a[href="#live"]').click();
    await page.locator("#first-learn.done").waitFor();
    assert.equal(await page.locator("#first-inspect-go").isDisabled(), false);
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.locator("#first-inspect-go").click()]);
    await chooser.setFiles(files("bad")[0]);
    await waitText("#now .verdict-word", /Defect/);
    await largePicture();
    await page.locator("#first").waitFor({ state: "hidden" });
  });
});
