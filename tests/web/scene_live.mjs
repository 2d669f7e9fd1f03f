// The live view is live: the newest part stands large, or it is said that it does not; an older one opens beside it;
// a defect breaks through whatever is open.
import assert from "node:assert/strict";
import { files, scene } from "./harness.mjs";

export default () => scene("live", {}, async ({ test, page, camera, text, waitText, connected, largePicture, open, expected, get, context }) => {
  const [good, good2, good3] = files("more_good");
  const [bad, bad2, bad3, bad4] = files("bad");
  const word = () => text("#now .verdict-word");

  await test("the newest part stands large, with its picture", async () => {
    await connected();
    const one = await camera(good);
    await waitText("#now .verdict-word", /Good/);
    await largePicture();
    assert.match(await text("#now .facts"), new RegExp(`${one.id}$`));
    assert.equal(await page.locator("#alarm").isVisible(), false);
  });

  await test("a defect stands large at once", async () => {
    await camera(bad);
    await waitText("#now .verdict-word", /Defect/);
    await largePicture();
    assert.equal(await page.locator("#alarm").isVisible(), false, "it stands large already");
    await camera(good2);
    await waitText("#now .verdict-word", /Good/);
  });

  await test("a camera part called defect while an older one is open", async () => {
    const older = page.locator("#strip .thumb.good").nth(1);  // the first good one, not the newest
    await older.click();
    await page.locator("#beside").waitFor({ state: "visible" });
    await waitText("#beside-part .verdict-word", /Good/);
    assert.equal(await word(), "Good", "the newest still stands large");
    assert.match(await text("#beside-h"), /An older part/);
    const one = await camera(bad2);
    await waitText("#now .verdict-word", /Defect/);
    assert.match(await text("#beside-part .verdict-word"), /Good/, "what is looked at stays");
    await page.locator("#alarm").waitFor({ state: "visible" });
    assert.match(await text("#alarm"), new RegExp(`Defect[\\s\\S]*part ${one.id}`));
    await page.waitForFunction(() => document.getElementById("alarm-picture").width > 1);
    const covered = await page.evaluate(() => {
      const alarm = document.getElementById("alarm").getBoundingClientRect();
      return document.querySelector("#now .verdict").getBoundingClientRect().top < alarm.bottom;
    });
    assert.equal(covered, false, "the alarm does not hide the newest part");
  });

  await test("an alarm is replaced by a newer one, and closes by key", async () => {
    const one = await camera(bad3);
    await waitText("#alarm-where", new RegExp(`part ${one.id}.*1 more before it`));
    await page.keyboard.press("Escape");
    await page.locator("#alarm").waitFor({ state: "hidden" });
    assert.equal(await page.locator("#beside").isVisible(), true, "Escape closes the alarm alone");
    await page.keyboard.press("Escape");
    await page.locator("#beside").waitFor({ state: "hidden" });
  });

  await test("an alarm breaks through every view and dialog", async () => {
    for (const view of ["learn", "memory", "thresholds", "shifts", "history", "lessons"]) {
      await open(view);
      await camera(bad4);
      await page.locator("#alarm").waitFor({ state: "visible" });
      await page.locator("#alarm-close").click();
      await page.locator("#alarm").waitFor({ state: "hidden" });
    }
    await page.locator("#help-open").click();
    const one = await camera(bad4);
    await page.locator("#alarm").waitFor({ state: "visible" });
    await page.keyboard.press("Escape");
    await page.locator("#alarm").waitFor({ state: "hidden" });
    assert.equal(await page.locator("#help").isVisible(), true, "the dialog below stays");
    await camera(bad4);
    await page.locator("#alarm-look").click();
    await page.locator("#beside").waitFor({ state: "visible" });
    assert.equal(await page.locator("#help").isVisible(), false);
    assert.match(await text("#beside-h"), new RegExp(`${one.id + 1}`));
    await page.keyboard.press("Escape");
  });

  await test("a defect that is not the newest any more is not missed", async () => {
    await open("live");
    // Both come between two heartbeats.
    await page.evaluate(() => { const real = window.fetch; window.hold = new Promise((go) => { window.release = go; }); window.fetch = async (...all) => { await window.hold; return real(...all); }; });
    const one = await camera(bad);
    await camera(good3);
    await page.evaluate(() => window.release());
    await waitText("#alarm-where", new RegExp(`part ${one.id}`));
    await waitText("#now .verdict-word", /Good/);
    await page.keyboard.press("Escape");
  });

  await test("it says in large letters that the connection is lost, and recovers", async () => {
    expected.push(/ERR_|Failed to load/);
    await context.setOffline(true);
    await waitText("#now .verdict-word", /Connection lost/);
    assert.match(await text("#now .verdict-why"), /Not live.*last part seen was called good/);
    const size = await page.locator("#now .verdict-word").evaluate((node) => parseFloat(getComputedStyle(node).fontSize));
    assert.ok(size >= 28, `${size} px are not large`);
    await context.setOffline(false);
    await waitText("#now .verdict-word", /Good/);
    expected.pop();
  });

  await test("it says in large letters that nothing comes any more", async () => {
    const [newest] = (await get("v1/inspections?limit=1")).inspections;
    const old = { ...newest, time: new Date(Date.now() - 7 * 60e3).toISOString() };
    await page.route(/v1\/inspections\?limit=20$/, (route) => route.fulfill({ json: { inspections: [old], next: null } }));
    await page.reload();
    await waitText("#now .verdict-word", /Nothing for 7 minutes/);
    assert.match(await text("#now .verdict-why"), /last part seen was called good/);
    await page.unroute(/v1\/inspections\?limit=20$/);
    await page.reload();
    await waitText("#now .verdict-word", /Good/);
  });

  await test("it says so when parts are inspected but not kept", async () => {
    const real = await get("v1/status");
    await page.route(/v1\/status$/, (route) => route.fulfill({ json: { ...real, unkept: "the disk is full" } }));
    await waitText("#now .verdict-word", /Not kept/);
    assert.match(await text("#now .verdict-why"), /the disk is full/);
    await page.unroute(/v1\/status$/);
    await waitText("#now .verdict-word", /Good/);
  });

  await test("the sound is off, is switched on, remembered, and heard at a defect", async () => {
    const sounded = () => page.evaluate(() => Number(document.documentElement.dataset.sounded ?? 0));
    assert.equal(await page.locator("#sound").getAttribute("aria-label"), "Sound: off");
    await camera(bad);
    await waitText("#now .verdict-word", /Defect/);
    assert.equal(await sounded(), 0);
    await page.locator("#sound").click();
    await page.waitForFunction(() => document.getElementById("sound").title === "Sound: on defect");
    const before = await sounded();
    await camera(bad2);
    await page.waitForFunction((n) => Number(document.documentElement.dataset.sounded) > n, before);
    await page.reload();
    await connected();
    assert.equal(await page.locator("#mute").isVisible(), true, "a browser plays nothing before the first click, and the page says so");
    await page.keyboard.press("Tab");
    await page.locator("#mute").waitFor({ state: "hidden" });
    await page.locator("#sound").click();
    await page.waitForFunction(() => document.getElementById("sound").title === "Sound: off");
  });

  await test("a reload and a link show the same part beside the newest", async () => {
    const list = (await get("v1/inspections?limit=5")).inspections;
    await page.goto(`${page.url().split("#")[0]}#live/${list[3].id}`);
    await page.reload();
    await waitText("#beside-h", new RegExp(`An older part: ${list[3].id}`));
    await waitText("#now .facts", new RegExp(`${list[0].id}$`));
    await page.keyboard.press("ArrowRight");
    await waitText("#beside-h", new RegExp(`${list[4].id}`));
    for (let i = 0; i < 4; ++i) await page.keyboard.press("ArrowLeft");
    await page.locator("#beside").waitFor({ state: "hidden" });
  });
});
