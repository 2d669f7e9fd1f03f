// What the scenes share: a service, a browser, and a page that is watched for complaints.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { extname, join, resolve } from "node:path";
import { chromium } from "playwright-core";

export const SHOTS = process.env.CONTCORE_SHOTS;
export const LONG = 60_000;  // learning may take its time
export const TASK = "stripes";
const COMMAND = process.env.CONTCORE;
const SMALL = ["--backbone", "builtin", "--resize", "64", "--capacity", "500"];
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

export const files = (folder) => readdirSync(join("images", folder)).sort().map((name) => resolve("images", folder, name));
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Nothing but the service is asked for anything.
const browser = await chromium.launch({ executablePath: process.env.CONTCORE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync", "--no-first-run",
    "--disable-domain-reliability", "--disable-client-side-phishing-detection", "--autoplay-policy=user-gesture-required"] });

/** What axe-core finds wrong with the page as it stands. */
export async function violations(page) {
  await page.evaluate(axeSource);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.map((one) => `${one.impact} ${one.id}: ${one.nodes.map((node) => `${node.target.join(" ")} ${node.any[0]?.message ?? node.failureSummary}`).join(" | ")}`);
}

let failures = 0;
export async function finish() {
  await browser.close();
  console.log(failures ? `${failures} failed` : "all passed");
  process.exit(failures ? 1 : 0);
}

// ---- the service

/** A memory that knows the stripes, learned once. */
function learned(folder) {
  const ready = resolve("services", "ready.ccm");
  if (!existsSync(ready)) {
    const done = spawnSync(COMMAND, ["learn", ready, resolve("images", "good"), "--task", TASK, ...SMALL], { encoding: "utf8" });
    assert.equal(done.status, 0, done.stderr);
  }
  cpSync(ready, join(folder, "line.ccm"));
}

// Of eight by eight patches a defect may change so many that nothing known is left: strangers are told in the scene
// that is about them.
async function start(name, { knows = true, strangers = 0, options = [], env = {} }) {
  const folder = resolve("services", name);
  mkdirSync(folder, { recursive: true });
  if (knows) learned(folder);
  const process_ = spawn(COMMAND, ["serve", join(folder, "line.ccm"), "--port", "0", "--strangers", String(strangers), ...SMALL, ...options], { env: { ...process.env, ...env } });
  let said = "";
  process_.stderr.on("data", (text) => { said += text; });
  const base = await new Promise((done, failed) => {
    let out = "";
    process_.stdout.on("data", (text) => { out += text; const found = /http:\S+/.exec(out); if (found) done(found[0]); });
    process_.on("exit", (code) => failed(new Error(`the service ended with ${code}: ${said}`)));
  });
  const stop = () => new Promise((done) => { process_.removeAllListeners("exit"); process_.on("exit", done); process_.kill("SIGTERM"); });
  return { base, folder, stop, said: () => said };
}

// ---- a scene

/** Runs `body` with a service and a page of its own; `options` are the service's, `path` is opened first. */
export async function scene(name, { path = "", token = "", permissions = [], timezoneId, ...how }, body) {
  const service = await start(name, how);
  const context = await browser.newContext({ viewport: { width: 1366, height: 768 }, colorScheme: "light", reducedMotion: "reduce", permissions, timezoneId });
  if (process.env.CONTCORE_WEB) await filesFrom(context, process.env.CONTCORE_WEB, service.base);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const expected = [/status of (503|429).*\/(images|inspections)\b/];  // a busy service puts images off, and the page sends them again
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`page error: ${error.stack}`));
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    const text = `${message.text()} (${message.location().url})`;
    if (!expected.some((pattern) => pattern.test(text))) complaints.push(`console ${message.type()}: ${text}`);
  });

  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const tools = {
    page, context, service, base: service.base, expected,
    async test(title, act) {
      const begun = Date.now();
      try {
        await act();
        assert.deepEqual(complaints.splice(0), [], "the browser complained");
        console.log(`ok    ${title} (${Date.now() - begun} ms)`);
      } catch (error) {
        ++failures;
        const told = [error.stack ?? error, ...complaints.splice(0)].join("\n");
        console.log(`FAIL  ${title}\n      ${told.replaceAll("\n", "\n      ")}`);
        if (SHOTS) await page.screenshot({ path: join(SHOTS, `failed-${failures}.png`) }).catch(() => {});
      }
    },
    /** Asks the service as another client would. */
    async ask(method, where, data, more = {}) {
      const answer = await page.request.fetch(`${service.base}/${where}`, { method, data, headers: { ...headers, ...more } });
      return { status: answer.status(), json: await answer.json() };
    },
    async get(where) {
      const { status, json } = await tools.ask("GET", where);
      assert.equal(status, 200, where);
      return json;
    },
    /** As a camera would. */
    async camera(file, query = {}) {
      const { status, json } = await tools.ask("POST", `v1/inspections?${new URLSearchParams(query)}`, readFileSync(file), { "Content-Type": "image/png" });
      assert.equal(status, 201, JSON.stringify(json));
      return json;
    },
    text: (selector) => page.locator(selector).innerText(),
    waitText: (selector, pattern, timeout = 15_000) => page.waitForFunction(
      ([css, source, flags]) => new RegExp(source, flags).test(document.querySelector(css)?.textContent ?? ""), [selector, pattern.source, pattern.flags], { timeout }),
    async open(view) {
      await page.locator(`#nav a[href="#${view}"]`).click();
      await page.locator(`#${view}`).waitFor({ state: "visible" });
    },
    connected: () => tools.waitText("#link-text", /Connected|Learning|waiting/),
    /** The large picture is there, and of the newest part. */
    async largePicture(root = "#now") {
      await page.waitForFunction((css) => {
        const part = document.querySelector(css);
        return !part.querySelector(".stage").classList.contains("empty") && ["image", "map"].every((kind) => {
          const image = part.querySelector(`.pic-${kind}`);
          return !image.hidden && image.complete && image.naturalWidth > 0;
        });
      }, root);
    },
    async drop(paths) {
      const list = paths.map((file) => ({ name: file.split("/").pop(), data: readFileSync(file).toString("base64") }));
      const dataTransfer = await page.evaluateHandle((all) => {
        const transfer = new DataTransfer();
        for (const { name, data } of all) transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name, { type: name.endsWith(".png") ? "image/png" : "" }));
        return transfer;
      }, list);
      await page.dispatchEvent("body", "dragover", { dataTransfer });
      assert.equal(await page.locator("#drop").isVisible(), true, "dragging shows where it would go");
      await page.dispatchEvent("body", "drop", { dataTransfer });
    },
  };
  try {
    await page.goto(`${service.base}/${path}`);
    await body(tools);
  } catch (error) {
    ++failures;
    console.log(`FAIL  ${name}\n      ${String(error.stack ?? error).replaceAll("\n", "\n      ")}`);
  } finally {
    await context.close();
    await service.stop();
  }
}

/** The page's files from a folder, under the policy that the service gives them. */
async function filesFrom(context, folder, base) {
  const policy = (await (await fetch(`${base}/`)).headers).get("content-security-policy");
  await context.route((url) => url.origin === new URL(base).origin && (url.pathname === "/" || existsSync(join(folder, url.pathname))), (route) => {
    const name = new URL(route.request().url()).pathname.replace(/^\/$/, "/index.html");
    return route.fulfill({ body: readFileSync(join(folder, name)), contentType: TYPES[extname(name)], headers: { "content-security-policy": policy } });
  });
}
