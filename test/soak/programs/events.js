// Workers, streams, an HTTP server with a client on loopback, a child process, and files.
const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");
const crypto = require("node:crypto");
const fs = require("node:fs/promises");
const http = require("node:http");
const zlib = require("node:zlib");
const { promisify } = require("node:util");
const execFile = promisify(require("node:child_process").execFile);

if (!isMainThread) {
  parentPort.postMessage(workerData * workerData);
} else {
  main(Number(process.argv[2]));
}

async function main(n) {
  const squares = await Promise.all([n, n + 1, n + 2].map((v) => new Promise((done, failed) => {
    new Worker(__filename, { workerData: v }).once("message", done).once("error", failed);
  })));
  console.log(squares.join(" "));
  const server = http.createServer((req, res) => res.end(req.url.toUpperCase()));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/path/${n}`);
  console.log(answer.status, await answer.text());
  server.close();
  server.closeAllConnections();
  const { stdout } = await execFile("sh", ["-c", `echo from a child ${n}`]);
  console.log(stdout.trim());
  const packed = await promisify(zlib.gzip)("text ".repeat(1000));
  await fs.writeFile("packed.gz", packed);
  const text = (await promisify(zlib.gunzip)(await fs.readFile("packed.gz"))).toString();
  console.log(text.length, crypto.createHash("sha256").update(text + n).digest("hex").slice(0, 16));
}
