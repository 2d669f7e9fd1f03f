// Runs a model with ONNX Runtime: its outputs as raw float32 files, and its time.
//
//   node compare_ort.mjs MODEL.onnx IMAGE.bin SIDE THREADS REPEATS OUT_FOLDER
//
// IMAGE.bin is 3 × SIDE × SIDE float32. Prints one JSON line: the best time in milliseconds and each
// output's name, shape and file. Needs the npm package onnxruntime-node where Node finds it.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

// The package may be installed in the folder we are started from, not beside this file.
const require = createRequire(path.join(process.cwd(), "here.js"));
const ort = require("onnxruntime-node");

const [model, image, side, threads, repeats, folder] = process.argv.slice(2);
const bytes = fs.readFileSync(image);
const numbers = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
const session = await ort.InferenceSession.create(model, { intraOpNumThreads: Number(threads) });
const dims = [1, 3, Number(side), Number(side)];
const feeds = { [session.inputNames[0]]: new ort.Tensor("float32", numbers, dims) };

let results = await session.run(feeds);
let best = Infinity;
for (let i = 0; i < Number(repeats); ++i) {
  const start = process.hrtime.bigint();
  results = await session.run(feeds);
  best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e6);
}
const outputs = session.outputNames.map((name, i) => {
  const file = path.join(folder, `output${i}.bin`);
  const data = results[name].data;
  fs.writeFileSync(file, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  return { name, shape: results[name].dims, file };
});
console.log(JSON.stringify({ milliseconds: best, outputs }));
