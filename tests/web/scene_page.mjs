// The page as such: its policy, its theme, the keyboard, formats, images that cannot be kept, a token.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { files, scene, TASK } from "./harness.mjs";

const TOKEN = "0123456789abcdef0123456789abcdef";

async function plain({ test, page, base, get, text, waitText, connected, open, drop, largePicture, expected, camera }) {
  await test("it opens under its content security policy", async () => {
    const answer = await page.goto(`${base}/`);
    assert.match(answer.headers()["content-security-policy"] ?? "", /script-src 'self'/);
    await connected();
    assert.equal(await page.title(), "Live · contcore");
  });

  await test("images dropped anywhere are inspected", async () => {
    await open("history");
    await drop([...files("more_good").slice(0, 2), files("bad")[2]]);
    await page.locator("#live").waitFor({ state: "visible" });
    await waitText("#notice-text", /3 inspected: .*2 good|3 inspected/);
    await waitText("#now .verdict-word", /Defect/);
    await largePicture();
    const { inspections } = await get("v1/inspections");
    assert.deepEqual(inspections.map(({ verdict }) => verdict), ["defect", "good", "good"]);
    assert.equal(inspections[0].task, TASK);
    await page.locator("#notice-close").click();
  });

  await test("an image that is none is refused in words", async () => {
    expected.push(/42[02]|415|400/);
    await page.locator("#inspect-files").setInputFiles({ name: "broken.png", mimeType: "image/png", buffer: Buffer.from("nothing") });
    await waitText("#notice-text", /Not inspected: broken\.png/);
    await page.locator("#notice-close").click();
    expected.pop();
  });

  await test("an inspection that cannot be kept is shown all the same", async () => {
    const unkept = { ...(await get("v1/inspections?limit=1")).inspections[0], id: null, verdict: "defect", has_image: false };
    const isInspect = (url) => url.pathname.endsWith("/v1/inspections");
    await page.route(isInspect, (route) => (route.request().method() === "POST" ? route.fulfill({ status: 200, json: unkept }) : route.continue()));
    await drop(files("more_good").slice(0, 1));
    await waitText("#beside-part .stage-note", /could not keep/);
    assert.match(await text("#beside-h"), /was not kept/);
    assert.match(await text("#beside-part .facts"), /not kept/);
    assert.equal(await page.locator("#beside-part .feedback").isVisible(), false);
    await page.keyboard.press("g");  // there is nothing to say it about
    await page.waitForTimeout(1500);
    assert.match(await text("#beside-part .stage-note"), /could not keep/);
    await page.unroute(isInspect);
    await page.keyboard.press("Escape");
    await page.locator("#beside").waitFor({ state: "hidden" });
  });

  await test("heat map, outline and regions can be set, and stay set", async () => {
    await page.locator("#opacity").fill("35");
    await page.locator("#outline").uncheck();
    await page.locator("#boxes").uncheck();
    const look = () => page.evaluate(() => ["pic-map", "pic-outline", "boxes"].map((name) => {
      const style = getComputedStyle(document.querySelector(`#now .${name}`));
      return name === "pic-map" ? style.opacity : style.visibility;
    }));
    assert.deepEqual(await look(), ["0.35", "hidden", "hidden"]);
    await page.reload();
    await largePicture();
    assert.deepEqual(await look(), ["0.35", "hidden", "hidden"]);
  });

  await test("the theme can be chosen and is kept", async () => {
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    await page.locator("#theme").click();
    await page.locator("#theme").click();
    assert.equal(await theme(), "dark");
    await page.reload();
    assert.equal(await theme(), "dark");
    await connected();
    await page.locator("#theme").click();
    assert.equal(await theme(), undefined);
  });

  await test("everything can be reached by keyboard", async () => {
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("?");
    assert.equal(await page.locator("#help").isVisible(), true);
    await page.keyboard.press("Escape");
    await page.reload();
    await largePicture();
    await connected();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.id), "skip");
    const reached = new Set();
    for (let i = 0; i < 34; ++i) {
      await page.keyboard.press("Tab");
      const { names, outline } = await page.evaluate(() => {
        const node = document.activeElement;
        return { names: [node.id, node.hash, node.getAttribute("role"), ...node.classList].filter(Boolean), outline: getComputedStyle(node).outlineStyle };
      });
      for (const name of names) reached.add(name);
      if (names.length) assert.notEqual(outline, "none", `the focus on ${names} can be seen`);
    }
    for (const name of ["#live", "#lessons", "sound", "theme", "help-open", "option", "say-good", "say-defect", "say-where", "opacity", "outline", "boxes", "inspect-open", "inspect-task", "#station"]) {
      assert.ok(reached.has(name), `${name} was not reached: ${[...reached].join(" ")}`);
    }
  });

  await test("an alarm, a view and an older part, by keyboard alone", async () => {
    await page.keyboard.press("ArrowRight");
    await page.locator("#beside").waitFor({ state: "visible" });
    const one = await camera(files("bad")[1]);
    await page.locator("#alarm").waitFor({ state: "visible" });
    await page.keyboard.press("a");
    await waitText("#beside-h", new RegExp(`${one.id}`));
    await page.locator("#alarm").waitFor({ state: "hidden" });
    await page.keyboard.press("Escape");
    await page.keyboard.press("f");
    await page.locator("#station").waitFor({ state: "visible" });
    await page.keyboard.press("Escape");
    await page.locator("#live").waitFor({ state: "visible" });
  });

  await test("formats that the browser does not know are inspected and shown by their heat map", async () => {
    const folder = mkdtempSync(join(tmpdir(), "page-test-"));
    try {
      const gray = Buffer.from(Uint8Array.from({ length: 64 * 64 }, (_, i) => 120 + 50 * Math.sin(i / 9)));
      writeFileSync(join(folder, "a.pgm"), Buffer.concat([Buffer.from("P5 64 64 255\n"), gray]));
      writeFileSync(join(folder, "notes.txt"), "not an image");
      const before = (await get("v1/status")).inspections;
      await drop([join(folder, "a.pgm"), join(folder, "notes.txt")]);
      await waitText("#now .stage-note", /cannot show the image’s format/);
      assert.equal((await get("v1/status")).inspections, before + 1);
      assert.equal(await page.locator("#now .pic-image").isVisible(), false);
      assert.equal(await page.locator("#now .pic-map").isVisible(), true);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

async function signedIn({ test, page, waitText, connected, expected, base }) {
  await test("a token is asked for, a wrong one refused", async () => {
    expected.push(/401/);
    await page.goto(`${base}/`);
    await page.locator("#sign-in").waitFor({ state: "visible" });
    await page.locator("#token").fill("wrong");
    await page.locator("#token").press("Enter");
    await waitText("#sign-in-error", /not accepted/);
    await page.locator("#token").fill(TOKEN);
    await page.locator("#token").press("Enter");
    await page.locator("#sign-in").waitFor({ state: "hidden" });
    await connected();
    assert.equal(await page.locator("#sign-out").isVisible(), true);
    await page.locator("#sign-out").click();
    await page.locator("#sign-in").waitFor({ state: "visible" });
  });
}

export default async () => {
  await scene("page", {}, plain);
  await scene("token", { env: { CONTCORE_TOKENS: `admin ${TOKEN} desk` }, token: TOKEN }, signedIn);
};
