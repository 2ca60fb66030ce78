// E2B's published JavaScript SDK, unmodified, against a Fumehood server that E2B_API_URL and E2B_SANDBOX_URL name.
import assert from "node:assert/strict";
import { Sandbox } from "@e2b/code-interpreter";

const s = await Sandbox.create({ metadata: { a: "b c" }, envs: { K: "V" } });
assert.deepEqual((await s.runCode("x = 41; print('hé€😀')")).logs, { stdout: ["hé€😀\n"], stderr: [] });
assert.equal((await s.runCode("x + 1")).text, "42");
assert.equal((await s.runCode("1/0")).error.name, "ZeroDivisionError");
const context = await s.createCodeContext({ language: "js" });
assert.equal((await s.runCode("6 * 7", { context })).text, "42");

assert.equal((await s.commands.run("echo $K; pwd")).stdout, "V\n/home/user\n");
await assert.rejects(s.commands.run("exit 3"), { name: "CommandExitError", exitCode: 3 });
const cat = await s.commands.run("cat", { background: true, stdin: true });
await s.commands.sendStdin(cat.pid, "hi\n");
await s.commands.closeStdin(cat.pid);
assert.equal((await cat.wait()).stdout, "hi\n");
const sleep = await s.commands.run("sleep 60", { background: true });
assert.ok(await sleep.kill());
await assert.rejects(sleep.wait(), { message: "signal: killed" });

const typed = [];
const terminal = await s.pty.create({ cols: 80, rows: 24, onData: (data) => typed.push(Buffer.from(data)) });
await s.pty.resize(terminal.pid, { cols: 100, rows: 30 });
await s.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size; exit\n"));
assert.equal((await terminal.wait()).exitCode, 0);
assert.match(Buffer.concat(typed).toString(), /30 100/);

await s.files.makeDir("watched");
const written = new Promise((seen) => {
  s.files.watchDir("watched", (event) => event.type === "write" && seen(event.name))
    .then(() => s.files.write("watched/f", "x"));
});
assert.equal(await written, "f");

assert.equal((await s.files.write("a/b.txt", "héllo")).path, "/home/user/a/b.txt");
assert.equal(await s.files.read("a/b.txt"), "héllo");
assert.deepEqual((await s.files.list("a")).map((e) => [e.name, e.type]), [["b.txt", "file"]]);
assert.equal((await s.files.rename("a/b.txt", "a/c.txt")).path, "/home/user/a/c.txt");
assert.deepEqual([await s.files.makeDir("d"), await s.files.makeDir("d"), await s.files.exists("none")],
  [true, false, false]);
await s.files.remove("a");
await assert.rejects(s.files.read("none"), { name: "FileNotFoundError" });

assert.deepEqual((await s.getInfo()).metadata, { a: "b c" });
const listed = await Sandbox.list({ query: { metadata: { a: "b c" } } }).nextItems();
assert.ok(listed.some((i) => i.sandboxId === s.sandboxId));
assert.equal((await (await Sandbox.connect(s.sandboxId)).runCode("x")).text, "41");
assert.deepEqual([await s.isRunning(), await s.kill(), await s.isRunning()], [true, true, false]);
await assert.rejects(s.commands.run("true"), { name: "SandboxNotFoundError" });
console.log("passed");
