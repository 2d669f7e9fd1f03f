// Several stations on one service: each page shows its own parts and counts, from five metres away if need be.
import assert from "node:assert/strict";
import { files, scene, TASK } from "./harness.mjs";

export default () => scene("stations", { path: `?station=${encodeURIComponent("Prüfung 2")}#station`, options: ["--shifts", "00:00"] }, async ({ test, page, base, camera, text, waitText, get, open }) => {
  const [good, good2] = files("more_good");
  const [bad, bad2] = files("bad");
  const HERE = "Prüfung 2";

  await test("the display of a station says that nothing has come", async () => {
    await waitText("#station-word", /No part yet/);
    assert.equal(await text("#station-name"), HERE);
    assert.equal(await page.locator(".top").isVisible(), false, "nothing but the station is shown");
  });

  await test("it shows its own parts and no others, and the counts of the shift", async () => {
    await camera(bad, { station: "elsewhere" });
    await camera(good, { station: HERE });
    await waitText("#station-word", /^Good$/);
    await waitText("#count-inspected", /^1$/);
    assert.equal(await text("#count-defect"), "0");
    const one = await camera(bad2, { station: HERE });
    await waitText("#station-word", /^Defect$/);
    await waitText("#count-defect", /^1$/);
    assert.match(await page.locator("#station-verdict").getAttribute("class"), /defect/);
    await camera(good2, { station: HERE });
    await waitText("#station-word", /^Good$/);
    assert.match(await text("#station-last"), new RegExp(`Last defect.*part ${one.id}`), "the last defect keeps its place");
    await waitText("#count-inspected", /^3$/);
    assert.match(await text("#count-since"), /since 00:00/);
  });

  await test("it can be read from five metres", async () => {
    // Five metres away a letter should be 25 mm high: a tenth of a screen that is 25 cm high.
    const size = await page.locator("#station-word").evaluate((node) => parseFloat(getComputedStyle(node).fontSize));
    assert.ok(size >= 0.14 * 768, `${size} px`);
    for (const word of ["Defect", "Unknown", "Uncalibrated", "Connection lost"]) {
      const fits = await page.evaluate((text) => {
        const node = document.getElementById("station-word");
        const box = document.getElementById("station-verdict");
        const [before, look] = [node.textContent, box.className];
        node.textContent = text;
        box.className = `station-verdict ${text === "Connection lost" ? "none lost" : text.toLowerCase()}`;
        const result = node.scrollWidth <= node.clientWidth;
        node.textContent = before;
        box.className = look;
        return result;
      }, word);
      assert.ok(fits, `“${word}” is not cut off`);
    }
    const count = await page.locator("#count-defect").evaluate((node) => parseFloat(getComputedStyle(node).fontSize));
    assert.ok(count >= 0.06 * 768, `${count} px`);
    assert.ok(await page.evaluate(() => document.documentElement.scrollHeight <= innerHeight + 1), "all of it is in sight");
  });

  await test("a product is pinned to a station", async () => {
    await page.keyboard.press("Escape");
    await page.locator("#live").waitFor({ state: "visible" });
    assert.match(await text("#shift"), /3 inspected, 2 good, 1 defect/);
    await page.locator("#station-task").selectOption(TASK);
    await waitText("#notice-text", new RegExp(`${HERE} inspects ${TASK}`));
    const { stations } = await get("v1/stations");
    assert.equal(stations.find(({ name }) => name === HERE).task, TASK);
    assert.equal(await page.locator("#inspect-task").isVisible(), false, "there is no other product to choose");
    await page.locator("#station-task").selectOption("");
    await waitText("#notice-text", /recognises/);
    assert.equal((await get("v1/stations")).stations.find(({ name }) => name === HERE).task, null);
  });

  await test("one's own images are the station's", async () => {
    await page.locator("#inspect-files").setInputFiles([good]);
    await page.waitForFunction(() => /4 inspected/.test(document.getElementById("shift").textContent));
    const [one] = (await get("v1/inspections?limit=1")).inspections;
    assert.deepEqual([one.station, one.source], [HERE, "000.png"]);
  });

  await test("another station is chosen, or all of them", async () => {
    await page.locator("#station-choice").selectOption("elsewhere");
    await page.waitForURL(/station=elsewhere/);
    await waitText("#now .verdict-word", /Defect/);
    await waitText("#shift", /1 inspected, 0 good, 1 defect/);
    await page.locator("#station-choice").selectOption("");
    await waitText("#shift", /5 inspected/);
    assert.equal(new URL(page.url()).search, "");
    await open("history");
    await page.locator("#filter-station").selectOption(HERE);
    await page.waitForFunction(() => document.querySelectorAll("#past tbody tr").length === 4);
  });

  await test("a name is never markup", async () => {
    const name = "<img src=x onerror=alert(1)> & \"'";
    await page.goto(`${base}/?station=${encodeURIComponent(name)}#station`);
    await waitText("#station-name", /<img src=x/);
    await camera(good, { station: name });
    await waitText("#station-word", /^Good$/);
  });
});
