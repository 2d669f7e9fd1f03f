// Lessons can be taken back: a defect learned by mistake is a defect again, with the same score to the last bit.
import assert from "node:assert/strict";
import { files, LONG, scene, TASK } from "./harness.mjs";

export default () => scene("lessons", {}, async ({ test, page, camera, get, text, waitText, open, connected, expected, ask }) => {
  const [bad, bad2] = files("bad");
  const before = {};

  await test("a part far above the threshold is called good only when it is said twice", async () => {
    await connected();
    Object.assign(before, await camera(bad));
    assert.equal(before.verdict, "defect");
    await waitText("#now .verdict-word", /Defect/);
    await page.waitForTimeout(600);  // a part that has just come is not marked by the key
    expected.push(/409/);
    await page.keyboard.press("g");
    await page.locator("#ask").waitFor({ state: "visible" });
    assert.match(await text("#ask"), /really good/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "ask-no", "Enter does not say yes by mistake");
    await page.keyboard.press("Enter");
    await page.locator("#ask").waitFor({ state: "hidden" });
    assert.equal((await get(`v1/inspections/${before.id}`)).learned, false);
  });

  await test("a defect learned by mistake", async () => {
    await page.keyboard.press("g");
    await page.locator("#ask-yes").click();
    await waitText("#beside-part .feedback-note", /Marked good.*learned/, LONG);
    expected.pop();
    const again = await camera(bad);
    assert.notEqual(again.score, before.score, "it is known now");
  });

  await test("is listed with who and when, and taken back, exactly", async () => {
    await open("lessons");
    await waitText("#lesson-list tbody", /Called good/);
    const { lessons } = await get("v1/lessons");
    const lesson = lessons.find(({ inspection }) => inspection === before.id);
    assert.equal(lesson.task, TASK);
    await page.locator(`[aria-label="Take back lesson ${lesson.id}"]`).click();
    assert.match(await text("#ask"), /Exactly/);
    await page.locator("#ask-yes").click();
    await waitText("#notice-text", /taken back, exactly/, LONG);
    await waitText("#lesson-list tbody", /taken back/);
    const after = await get(`v1/inspections/${before.id}`);
    assert.deepEqual([after.learned, after.lesson], [false, null]);
  });

  await test("and is called defect again, with the same score to the last bit", async () => {
    const again = await camera(bad);
    assert.deepEqual([again.verdict, again.score, again.threshold], [before.verdict, before.score, before.threshold]);
  });

  await test("undo takes the lesson back", async () => {
    const one = await camera(bad2);
    await page.locator("#alarm-close").click();  // it would break through the question, too
    expected.push(/409/);
    await page.goto(`${page.url().split("#")[0]}#live/${one.id}`);
    await waitText("#beside-h", new RegExp(`: ${one.id},`));
    await waitText("#beside-part .facts", new RegExp(`Number${one.id}$`));  // its words come with its picture
    await page.locator("#beside-part .say-good").click();
    await page.locator("#ask-yes").click();
    await waitText("#beside-part .feedback-note", /Marked good.*learned/, LONG);
    await page.locator("#beside-part .undo").click();
    await page.waitForFunction(() => document.querySelector("#beside-part .undo").hidden);
    expected.pop();
    assert.equal((await get(`v1/inspections/${one.id}`)).learned, false);
    const again = await camera(bad2);
    assert.deepEqual([again.verdict, again.score], [one.verdict, one.score]);
  });

  await test("versions are compared and restored", async () => {
    await open("lessons");
    await waitText("#versions tbody", /in use/);
    const { versions } = await get("v1/versions");
    const other = versions.find(({ current }) => !current);
    assert.ok(other, "there is another version");
    await page.locator(`[aria-label="Restore version ${other.id}"]`).click();
    assert.match(await text("#ask"), /Against now/);
    await page.locator("#ask-yes").click();
    await waitText("#notice-text", new RegExp(`Version ${other.id} is in use`), LONG);
  });

  await test("a task is renamed, and forgotten", async () => {
    await open("memory");
    await page.locator(`[aria-label="Rename ${TASK}"]`).click();
    await page.locator("#ask-text").fill("Flaschen ½ & <b>");
    await page.keyboard.press("Enter");
    await waitText("#tasks tbody", /Flaschen ½ & <b>/, LONG);
    await page.locator("[aria-label='Forget Flaschen ½ & <b>']").click();
    await page.locator("#ask-no").click();
    assert.equal((await get("v1/tasks")).tasks.length, 1);
    await page.locator("[aria-label='Forget Flaschen ½ & <b>']").click();
    expected.push(/409/);
    await page.locator("#ask-yes").click();
    await page.waitForFunction(() => document.getElementById("ask").open || !document.getElementById("tasks-empty").hidden);
    if (await page.locator("#ask").isVisible()) await page.locator("#ask-yes").click();  // learned by the command: not exactly
    await page.locator("#tasks-empty").waitFor({ state: "visible" });
    expected.pop();
    assert.equal((await get("v1/tasks")).tasks.length, 0);
    assert.equal((await ask("GET", "v1/lessons")).status, 200);
  });
});
