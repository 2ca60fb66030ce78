// Tests of the package against a real server: TESTED_PROGRAM is its program, TESTED_DOCS the client's documentation.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { FumehoodError, run, Sandbox, Volumes } from "fumehood";

const program = process.env.TESTED_PROGRAM;
let folder, port, server, options;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "fumehood-ts-"));
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  port = probe.address().port;
  probe.close();
  options = { server: `http://127.0.0.1:${port}`};
  server = await serve();
});

after(async () => {
  await stop("SIGTERM");
  await rm(folder, { recursive: true, force: true });
});

async function serve() {
  const child = spawn(program, ["serve", "--listen", `127.0.0.1:${port}`, "--state-dir", join(folder, "state"),
    "--no-local-socket"], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  await new Promise((resolve, reject) => {
    child.stderr.on("data", (data) => {
      log += data;
      if (log.includes("listening on http")) {
        resolve();
      }
    });
    child.once("exit", () => reject(new Error(`the server ended: ${log}`)));
  });
  return child;
}

async function sandbox(t) {
  const s = await Sandbox.create(options);
  t.after(() => s.close());
  return s;
}

async function stop(signal) {
  const ended = once(server, "exit");
  server.kill(signal);
  await ended;
}

const rejectsWith = (promise, kind, text) => assert.rejects(promise, (e) => {
  assert.ok(e instanceof FumehoodError, String(e));
  assert.equal(e.kind, kind, e.message);
  assert.match(e.message, text);
  return true;
});

test("one-shot run", async () => {
  const r = await run("import sys; print(sys.stdin.read() + open('a').read())", { ...options, stdin: "in ",
    files: { a: new Uint8Array([0xc3, 0xa9]) } });
  assert.equal(r.stdout, "in é\n");
  assert.ok(r.ok);
  const failed = await run("open('b.bin', 'wb').write(b'\\xff'); raise ValueError('no')",
    { ...options, returnFiles: ["*.bin"] });
  assert.equal(failed.status, "failed");
  assert.equal(failed.exception.name, "ValueError");
  assert.deepEqual([...failed.file("b.bin")], [0xff]);
});

test("contexts, values and commands", async (t) => {
  const s = await sandbox(t);
  assert.ok((await s.run("x = 41")).ok);
  assert.equal((await s.run("x + 1")).text, "42");
  const other = await s.createContext("js", { language: "javascript" });
  assert.equal((await other.run("[1, 2].length")).text, "2");
  assert.deepEqual((await s.contexts()).map((c) => c.name).sort(), ["default", "js"]);
  assert.equal((await s.exec(["sh", "-c", "echo $A; exit 3"], { env: { A: "b" } })).exitCode, 3);
  const late = s.context("default").run("while True: pass");
  await new Promise((resolve) => setTimeout(resolve, 300));
  await s.context("default").interrupt();
  assert.equal((await late).exception.name, "KeyboardInterrupt");
  assert.equal((await s.run("x")).text, "41");
});

test("files", async (t) => {
  const s = await sandbox(t);
  await s.files.write("in/a b%.txt", "hellö", { mode: 0o600 });
  assert.equal(await s.files.read("in/a b%.txt"), "hellö");
  assert.equal((await s.files.stat("in/a b%.txt")).mode, "0600");
  await s.files.write("large", new Blob([new Uint8Array(3 << 20)]).stream());
  assert.equal((await s.files.readBytes("large")).length, 3 << 20);
  assert.equal(await s.files.exists("none"), false);
  await s.files.move("large", "in/l");
  assert.deepEqual((await s.files.list("in")).files.map((f) => f.path), ["a b%.txt", "l"]);
  await s.files.remove("in", { recursive: true });
  assert.equal(await s.files.exists("in"), false);
  await rejectsWith(s.files.read("in/l"), "not_found", /does not exist/);
  await s.close();
  await rejectsWith(s.files.exists("in"), "not_found", /it has ended/);
});

test("callbacks and background runs", async (t) => {
  const s = await sandbox(t);
  let out = "";
  const r = await s.run("for i in range(3): print(i)\n7", { onStdout: (text) => { out += text; } });
  assert.equal(out, "0\n1\n2\n");
  assert.equal(r.stdout, out);
  assert.equal(r.text, "7");
  const cat = await s.start({ command: ["cat"] }, { interactive: true });
  await cat.write("a");
  await cat.write("é", { eof: true });
  assert.equal((await cat.wait()).stdout, "aé");
  const shell = await s.start({ command: ["sh", "-c", "read x; stty size; echo got $x"] },
    { terminal: { rows: 10, columns: 40 } });
  await shell.resize({ rows: 20, columns: 50 });
  await shell.write("hi\n");
  assert.match((await shell.wait()).stdout, /20 50\r\n.*got hi\r\n/s);
  const sleep = await s.start({ command: ["sleep", "60"] });
  await sleep.signal("SIGTERM");
  assert.equal((await sleep.wait()).answer.signal, 15);
});

test("ports", async (t) => {
  const s = await sandbox(t);
  await s.files.write("page.html", "hi");
  const web = await s.start({ command: ["python3", "-um", "http.server", "8000"] });
  for await (const event of web.events()) {
    if (event.name === "stdout") {
      break; // it listens
    }
  }
  assert.equal(await (await s.fetch(8000, "/page.html")).text(), "hi");
  assert.equal((await s.fetch(8000, "/none")).status, 404);
  for (const path of ["../../../../run", "a/%2e%2e/.\t./../../../v1/run", "..\\..\\x"]) {
    await rejectsWith(s.fetch(8000, path, { method: "POST" }), "invalid", /out of the port/);
  }
});

test("a stream survives a restart of the server", async (t) => {
  const s = await sandbox(t);
  const seen = [];
  const r = await s.run({ command: ["sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done"] }, {
    onEvent: (e) => seen.push(e.id),
    onStdout: async (text) => {
      if (text === "2\n") {
        await stop("SIGKILL");
        server = await serve();
      }
    },
  });
  assert.equal(r.stdout, "1\n2\n3\n4\n5\n6\n");
  assert.deepEqual(seen, seen.map((_, i) => i + 1)); // each event once
});

test("problems", async (t) => {
  await rejectsWith(Sandbox.connect("nobody", options), "not_found", /no living sandbox .*\(/);
  await rejectsWith(Sandbox.create({ ...options, limits: { memory: "much" } }), "invalid", /memory/);
  await rejectsWith(Sandbox.create({ server: "localhost:7070" }), "invalid", /http:\/\/HOST:PORT/);
  await rejectsWith(Sandbox.create({ server: "http://me:s3cret@h:1" }), "invalid", /^an address with a user is not/);
  await rejectsWith(run("1", { server: "http://127.0.0.1:1" }), "unavailable", /fumehood serve/);
  const s = await sandbox(t);
  const run2 = s.getRun("aaaaaaaaaaaaaaaaaaaaaaaaaa");
  await rejectsWith(run2.wait(), "not_found", /run/);
  const end = new AbortController();
  const running = s.run("import time; time.sleep(60)", { signal: end.signal });
  setTimeout(() => end.abort(new Error("enough")), 200);
  await assert.rejects(running, /enough/);
});

test("a server that is not Fumehood, or sends half an answer", async () => {
  const answers = (text) => async () => new Response(text, { status: 200 });
  await rejectsWith(Sandbox.connect("a", { fetch: answers("<html>") }), "unavailable", /broke off/);
  await rejectsWith(Sandbox.connect("a", { fetch: async () => new Response("<html>", { status: 404 }) }),
    "unavailable", /404.*not an answer of Fumehood/);
  const stream = { fetch: async () => new Response("event: done\n\n"), tools: { f: () => 1 } };
  await rejectsWith(run("f()", stream), "unavailable", /no header Fumehood-Run-Id/);
  const older = { kind: "invalid", detail: "tools: unknown field tools", type: "about:blank", status: 400 };
  const fetch = async () => new Response(JSON.stringify(older), { status: 400 });
  await rejectsWith(Sandbox.connect("a", { fetch }), "invalid", /unknown field tools.*the same version of both/);
});

test("the programs of the documentation, and the example", async (t) => {
  const text = await readFile(process.env.TESTED_DOCS, "utf8");
  process.env.FUMEHOOD_SERVER = options.server;
  const printed = [];
  t.mock.method(console, "log", (...words) => printed.push(words.join(" ")));
  const programs = [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code);
  programs.push(await readFile(process.env.TESTED_EXAMPLE, "utf8"));
  for (const [i, code] of programs.entries()) {
    const file = new URL(`./docs-${i}.mjs`, import.meta.url);
    await writeFile(file, code);
    await import(file.href).finally(() => rm(file));
  }
  assert.deepEqual(printed, ["42", "failed 3 hello\n", "hello\n", "'ABOUT CATS'", "a.csv", "42", "200",
    "", "RangeError: no plums", "42"]);
});

test("variables travel to another context", async (t) => {
  const s = await sandbox(t);
  const [from, to] = [await s.createContext("a", { language: "javascript" }), await s.createContext("b")];
  await from.run("const o = { when: new Date(0), big: 2n ** 65n }; o.all = [o.when]; let f = () => 1");
  const document = await from.export();
  assert.deepEqual(document.missing, []);
  assert.deepEqual((await to.load(document)).map((m) => m.name), ["f"]); // its source is not of Python
  const text = "o['big'] == 2**65, o['when'].year, o['all'][0] is o['when']";
  assert.equal((await to.run(text)).text, "(True, 1970, True)");
  assert.deepEqual(Object.keys((await from.export(["f"])).variables), ["f"]);
});

test("tools: code calls functions of this program, and fails where they do", async (t) => {
  const s = await sandbox(t);
  const tools = {
    search: { call: ({ query }) => [query], description: "Searches.",
      schema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] } },
    fail: async () => { throw new RangeError("no"); },
    odd: () => 1n,
    large: () => "x".repeat(9 << 20),
    nothing: () => undefined,
  };
  assert.equal((await s.run("search('a'), nothing(), search.__doc__", { tools })).text, "(['a'], None, 'Searches.')");
  const errors = await s.run("for f in fail, odd, large:\n try: f()\n except ToolError as e: print(e)", { tools });
  assert.match(errors.stdout, /^RangeError: no\nTypeError: .*BigInt.*\nRangeError: the tool returned \d+ char.*\n$/);
  const js = "const all = await Promise.all([1, 2, 3].map((n) => f({ n }))); all.join()";
  assert.equal((await s.run(js, { language: "javascript", tools: { f: ({ n }) => n * n } })).text, "'1,4,9'");
  const background = await s.start("search('b')", { tools });
  assert.equal((await background.wait()).text, "['b']");
  assert.equal((await run("search('c')", { ...options, tools })).text, "['c']");
  const context = await s.createContext("c", { tools, callLimits: { calls: 1 } });
  const more = { tools: { more: () => 1 }, callLimits: { calls: 9 } };
  assert.equal((await context.run("search('d') + [more()]", more)).text, "['d', 1]");
  assert.equal((await context.run("search('e')")).text, "['e']");
});

test("volumes", { skip: process.getuid?.() !== 0 && "only root can bound a volume" }, async () => {
  const volumes = new Volumes(options);
  const made = await volumes.create({ name: "data", size_mib: 16 });
  assert.equal(made.size_mib, 16);
  await assert.rejects(volumes.create({ name: "data", size_mib: 16 }), FumehoodError);
  const mounted = { ...options, volumes: [{ name: "data", path: "/data" }] };
  await run({ command: ["sh", "-c", "echo kept > /data/x"] }, mounted);
  assert.equal((await run({ command: ["cat", "/data/x"] }, mounted)).stdout, "kept\n");
  assert.deepEqual((await volumes.list()).map((v) => v.name), ["data"]);
  await volumes.remove("data");
  assert.deepEqual(await volumes.list(), []);
});
