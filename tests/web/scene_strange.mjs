// It knows when it does not know: empty frames and another product are never called good.
import assert from "node:assert/strict";
import { files, scene, TASK } from "./harness.mjs";

export default () => scene("strange", { strangers: 0.01 }, async ({ test, page, camera, ask, text, waitText, connected }) => {
  await test("empty frames: none is called good, and the page says so in large letters", async () => {
    await connected();
    for (const file of files("empty")) {
      const one = await camera(file);
      assert.notEqual(one.verdict, "good", file);
      assert.ok(one.reason, "there is a reason");
      await waitText("#now .facts", new RegExp(`${one.id}$`));
      assert.match(await text("#now .verdict-word"), /Unknown|Defect/);
      assert.ok((await text("#now .verdict-why")).includes(one.reason.replace(/^\w+: /, "")));
    }
  });

  await test("a foreign product is not called good", async () => {
    for (const file of files("other").slice(0, 4)) assert.notEqual((await camera(file)).verdict, "good", file);
  });

  await test("a foreign product at a station for another is a defect, with its reason", async () => {
    assert.equal((await ask("PUT", "v1/stations/press%204", { task: TASK })).status, 200);
    const one = await camera(files("other")[0], { station: "press 4" });
    assert.notEqual(one.verdict, "good");
    assert.equal(one.task, TASK);
    assert.ok(one.reason);
  });

  await test("an unknown part breaks through, too", async () => {
    await page.locator('#nav a[href="#history"]').click();
    const one = await camera(files("empty")[2]);
    await waitText("#alarm-where", new RegExp(`part ${one.id}`));
    await page.keyboard.press("Escape");
    await page.locator("#alarm").waitFor({ state: "hidden" });
  });
});
