// Runs the scenes of the page in a real browser, each against a service of its own:
//
//   CONTCORE=build/release/apps/contcore node run.mjs [SCENE…]      (tests/web/run.sh prepares it all)
//
// Optional: CONTCORE_SHOTS (a folder for screenshots), CONTCORE_CHROMIUM (the browser), CONTCORE_WEB (the page's files
// from this folder instead of the command's). Exit code 0: all is well.
import { readdirSync } from "node:fs";
import { finish } from "./harness.mjs";

const wanted = process.argv.slice(2);
const scenes = readdirSync(".").filter((name) => name.startsWith("scene_")).sort();
for (const file of scenes) {
  const name = file.replace(/^scene_|\.mjs$/g, "");
  if (wanted.length && !wanted.includes(name)) continue;
  console.log(`-- ${name}`);
  await (await import(`./${file}`)).default();
}
await finish();
