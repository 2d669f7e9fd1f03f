// Every view in both themes and three widths: axe-core finds nothing, nothing scrolls sideways; screenshots on request.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { files, scene, SHOTS, TASK, violations } from "./harness.mjs";

const VIEWS = ["live", "beside", "alarm", "station", "learn", "memory", "thresholds", "shifts", "history", "lessons", "help"];
const WIDTHS = [[390, 844], [768, 1024], [1366, 768]];

export default async () => {
  await scene("looks", { options: ["--shifts", "00:00"] }, looks);
  await scene("looks_empty", { knows: false }, async (tools) => {
    await tools.page.locator("#first").waitFor({ state: "visible" });
    for (const colorScheme of ["light", "dark"]) for (const [width, height] of WIDTHS) await look(tools, "live", colorScheme, width, height, "first");
  });
};

async function looks(tools) {
  const { page, camera, ask, connected } = tools;
  for (const [i, file] of [...files("more_good"), ...files("bad").slice(0, 2), ...files("more_good")].entries()) await camera(file, { station: i % 3 ? "press 4" : "press 5" });
  await camera(files("bad")[1], { station: "press 4" });
  const { json } = await ask("GET", "v1/inspections?verdict=defect");
  await ask("POST", `v1/inspections/${json.inspections[1].id}/feedback`, { label: "defect" });
  await connected();
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of WIDTHS) {
      for (const view of VIEWS) await look(tools, view, colorScheme, width, height);
    }
  }
  await noneSideways(tools);
}

/** Between the three widths as well. */
async function noneSideways({ test, page, base }) {
  await test("no width scrolls sideways", async () => {
    for (const view of ["live", "learn", "shifts", "history"]) {
      await page.goto(`${base}/#${view}`);
      await page.locator(`#${view}`).waitFor({ state: "visible" });
      for (const width of [360, 621, 861, 941, 1081, 1200]) {
        await page.setViewportSize({ width, height: 800 });
        // Charts are drawn anew for the width, a moment later.
        const soon = (holds, what) => page.waitForFunction(holds, null, { timeout: 15_000 }).catch(() => assert.fail(what));
        await soon(() => document.documentElement.scrollWidth <= innerWidth, `${view} at ${width}`);
        if (view === "live" && width > 860) await soon(() => document.documentElement.scrollHeight <= innerHeight, `all of it is in sight at ${width}`);
      }
    }
  });
}

async function look(tools, view, colorScheme, width, height, name = view) {
  const { test, page } = tools;
  await test(`${name}, ${colorScheme}, ${width} wide`, async () => {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height });
    await show(tools, view);
    const found = await violations(page);
    if (SHOTS) {
      mkdirSync(SHOTS, { recursive: true });
      await page.screenshot({ path: join(SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: !["live", "alarm", "station", "help"].includes(name) });
    }
    assert.deepEqual(found, []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it scrolls sideways");
    if (["live", "beside", "alarm"].includes(name)) {
      const box = await boxOf(page, name === "alarm" ? "#alarm" : "#now .verdict");
      assert.ok(box.y >= 0 && box.y + box.height <= height, "what matters is in sight");
    }
    if (name === "live" && width > 860) {
      for (const id of ["#now .stage", "#strip", "#now .say-good", "#inspect-open"]) {
        const box = await boxOf(page, id);
        assert.ok(box.y >= 0 && box.y + box.height <= height, `${id} is in sight`);
      }
    }
  });
  await leave(tools);
}

// Where a thing is. The live view makes its parts anew when there is news, and between the old and the new there is none.
async function boxOf(page, selector) {
  for (let tries = 0; tries < 50; ++tries) {
    const box = await page.locator(selector).boundingBox();
    if (box) return box;
    await page.waitForTimeout(100);
  }
  throw new Error(`${selector} is not to be seen`);
}

async function show(tools, view) {
  const { page, base, camera, get, largePicture, waitText } = tools;
  const hash = { beside: "live", alarm: "history", help: "live" }[view] ?? view;
  await page.goto(`${base}/#${hash}`);
  await page.locator(`#${hash}`).waitFor({ state: "visible" });
  await page.waitForFunction(() => document.getElementById("link-text").textContent !== "Connecting");
  if (view === "live" && !(await page.locator("#first").isVisible())) await largePicture();
  if (view === "help") await page.locator("#help-open").click();
  if (view === "beside") {
    const { inspections } = await get("v1/inspections?feedback=defect");
    await page.goto(`${base}/#live/${inspections[0].id}`);
    await largePicture("#beside-part");
  }
  if (view === "alarm") {
    const one = await camera(files("bad")[0], { station: "press 4" });
    await waitText("#alarm-where", new RegExp(`part ${one.id}`));
  }
  if (view === "memory" || view === "thresholds") await waitText(view === "memory" ? "#tasks tbody" : "#threshold-task", new RegExp(TASK));
  if (view === "shifts") await waitText("#shift-tasks tbody", new RegExp(TASK));
  await page.waitForTimeout(300);  // what the view asks of the service
}

/** Whatever is open, also after a failure. */
async function leave({ page }) {
  for (const id of ["#alarm-close", "#help-close", "#beside-close"]) if (await page.locator(id).isVisible()) await page.locator(id).click();
}
