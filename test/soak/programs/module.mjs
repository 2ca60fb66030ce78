// An ES module with top-level await, timers and a generator pipeline.
import { setTimeout as sleep } from "node:timers/promises";
import { writeFile, readFile } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { Readable, Transform } from "node:stream";

const n = Number(process.argv[2]);
await sleep(2);
let sum = 0;
await pipeline(
  Readable.from((function* () { for (let i = 0; i < 500; i++) yield i; })()),
  new Transform({ objectMode: true, transform(v, _, next) { next(null, v * n); } }),
  async function (source) { for await (const v of source) sum += v; },
);
console.log(sum);
await writeFile("out.json", JSON.stringify({ n, sum }));
console.log(JSON.parse(await readFile("out.json", "utf8")).sum === sum);
