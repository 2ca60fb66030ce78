// The driver of a context (internal/driver specifies the protocol). It runs code through an inspector session of its
// own thread, which opens no port. replMode provides top-level await, redeclaration of let and const, and the value of
// the last expression. node:repl provides the same only with a parser that it does not export, and it owns the standard
// streams.
//
// The code shares these globals and can change them, so the driver keeps everything that it uses after the start in
// constants.
(() => {
"use strict";
const { apply, ownKeys, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const { defineProperty, hasOwn } = Object;
const { stringify } = JSON;
const { isArray } = Array;
const { min } = Math;
const { Error, Number, BigInt, String, Uint8Array, Set, Map, Date, RegExp, globalThis: world } = globalThis;
const setHas = uncurry(Set.prototype.has), setAdd = uncurry(Set.prototype.add);
const exec = uncurry(RegExp.prototype.exec), then = uncurry(Promise.prototype.then);
const slice = uncurry(String.prototype.slice), split = uncurry(String.prototype.split), repeat = uncurry(String.prototype.repeat);
const startsWith = uncurry(String.prototype.startsWith), indexOf = uncurry(String.prototype.indexOf);
const { from: bytesOf, concat, allocUnsafe } = Buffer;
const textOf = uncurry(Buffer.prototype.toString), cut = uncurry(Buffer.prototype.subarray);
const byteIndexOf = uncurry(Buffer.prototype.indexOf);
const { setImmediate, setTimeout, setInterval, clearInterval, clearImmediate } = globalThis;
const { wait, load: peek, store, compareExchange } = Atomics, nap = new Int32Array(new SharedArrayBuffer(4));
const fs = require("node:fs"), { writeSync, fstatSync } = fs;
const path = require("node:path"), Module = require("node:module"), vm = require("node:vm");
const { inspect, types: { isNativeError, isPromise, isProxy } } = require("node:util");
const { cwd, reallyExit, listenerCount, emit, _tickCallback } = process;
const host = process;
const quit = (code) => apply(reallyExit, host, [code]);

// Limits of reports, in bytes. Those of the engine are higher.
const MAX_TEXT = 1 << 20, MAX_JSON = 256 << 10, MAX_IMAGE = 16 << 20, MAX_ERROR = 6 << 20, MAX_NAME = 1 << 10;
const MAX_SOURCE_LINE = 200, MAX_JSON_VALUES = 50000;
const MAX_HEADER = 512, MAX_FIELDS = 64, MAX_FRAME = 24 << 20; // as in package driver
const REQUESTS = 3, REPORTS = 4, ASIDE = 5;
const OWN = "fumehood:driver"; // the name of this script in traces

/* rewrite.js */

// ---- output

// writeAll writes all bytes, also if another process made the pipe non-blocking.
function writeAll(fd, data) {
  let bytes = typeof data === "string" ? bytesOf(data) : data;
  while (bytes.length > 0) {
    try {
      bytes = cut(bytes, writeSync(fd, bytes));
    } catch (e) {
      if (e.code !== "EAGAIN") return false;
      wait(nap, 0, 0, 1);
    }
  }
  return true;
}

const identity = (fd) => { const s = fstatSync(fd); return s.dev + ":" + s.ino; };
const channel = [identity(REQUESTS), identity(REPORTS)];

// checkChannel ends the driver if code has closed or replaced its descriptors.
function checkChannel() {
  try {
    if (identity(REQUESTS) === channel[0] && identity(REPORTS) === channel[1]) return;
  } catch {}
  quit(1);
}

function report(kind, fields) {
  let head = kind;
  const parts = [""];
  for (let i = 0; i < fields.length; i++) {
    const f = fields[i], part = typeof f === "string" ? bytesOf(f) : f;
    head += " " + part.length;
    parts[parts.length] = part;
  }
  parts[0] = bytesOf(head + "\n");
  if (!writeAll(REPORTS, concat(parts))) quit(1);
}

// bounded truncates a text to a number of bytes, between characters, and notes that.
function bounded(text, limit) {
  if (text.length * 3 <= limit) return bytesOf(text);
  const all = bytesOf(text);
  if (all.length <= limit) return all;
  let end = limit - 64;
  while ((all[end] & 0xc0) === 0x80) end--;
  return concat([cut(all, 0, end), bytesOf("\n... " + (all.length - end) + " more bytes")]);
}

// ---- runs

let run = null, runs = 0; // the current run, and the number of runs
const fileName = (r) => "run-" + r.number + ".js";

/* aside.js */

// Node's own stdout queues data for a full pipe, and makes the pipe non-blocking for children too. This one writes
// synchronously, so that all output of a run precedes its end, and has no state that an interrupt could corrupt. It
// ignores end and destroy, because later runs need it.
for (const [name, fd] of [["stdout", 1], ["stderr", 2]]) {
  let stream;
  const make = () => {
    const { Writable } = require("node:stream");
    stream = new Writable();
    stream.write = (data, encoding, done) => {
      if (typeof encoding === "function") [encoding, done] = [undefined, encoding];
      print(fd, typeof data === "string" ? bytesOf(data, encoding) : bytesOf(data));
      if (typeof done === "function") host.nextTick(done);
      return true;
    };
    stream.fd = fd;
    stream._type = "pipe";
    stream._isStdio = true;
    stream.destroy = stream.destroySoon = () => stream;
    stream.end = (data, encoding, done) => {
      const last = [data, encoding, done];
      for (let i = 0; i < 3; i++) if (typeof last[i] === "function") { host.nextTick(last[i]); last.length = i; }
      if (data !== undefined && data !== null && last.length > 0) stream.write(data, last[1]);
      return stream;
    };
    return stream;
  };
  defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream ?? make() });
}
// While a session is connected, Node's console also keeps the last thousand messages and their objects.
{
  const sink = (name) => ({ write: (text) => host[name].write(text) });
  const plain = new console.Console({ stdout: sink("stdout"), stderr: sink("stderr"), ignoreErrors: false });
  for (const name of Object.keys(plain)) if (typeof plain[name] === "function") console[name] = plain[name];
}

/* calls.js */

/* traces.js */

/* values.js */

/* state.js */

const inspector = require("node:inspector");
const session = new inspector.Session();
session.connect();
const post = uncurry(session.post);
const command = (method, params, callback = () => {}) => post(session, method, params, callback);

let taken, takeId;
defineProperty(world, "__take", { configurable: true, value: (value) => { taken = value; } });
command("Runtime.evaluate", { expression: "__take" }, (e, r) => { takeId = r.result.objectId; });
delete world.__take;

// take returns the value that the inspector describes.
function take(remote) {
  if (hasOwn(remote, "objectId")) {
    const args = [{ objectId: remote.objectId }];
    command("Runtime.callFunctionOn", { objectId: takeId, functionDeclaration: "function(v){this(v)}", arguments: args });
    const value = taken;
    taken = undefined;
    return value;
  }
  if (!hasOwn(remote, "unserializableValue")) return hasOwn(remote, "value") ? remote.value : undefined;
  const text = remote.unserializableValue;
  return text[text.length - 1] === "n" ? BigInt(slice(text, 0, -1)) : Number(text);
}

// Node's watchdog for SIGINT terminates a script that runs with breakOnSigint. It is never stopped, so that it also
// keeps a signal that arrives between scripts, which would otherwise kill the process. A later Node may lack it. Then a
// listener is the fallback.
const watchdog = (() => {
  try {
    const { startSigintWatchdog: start, stopSigintWatchdog: stop } = process.binding("contextify");
    start();
    return { seen: () => { start(); return stop(); } }; // stop clears the signal; the first start remains
  } catch {
    let came = false;
    process.on("SIGINT", () => { came = true; });
    return { seen: () => { const was = came; came = false; return was; } };
  }
})();

let job = null;
defineProperty(world, "__fumehood", { value: () => { const go = job; job = null; go?.(); } });
const guarded = new vm.Script("__fumehood()", { filename: OWN });
const runGuarded = uncurry(guarded.runInThisContext);

// guard calls a function that runs code, and reports whether SIGINT terminated it.
function guard(go) {
  job = go;
  try {
    runGuarded(guarded, { breakOnSigint: true, displayErrors: false });
    return true;
  } catch (e) {
    if (e?.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED") return false;
    uncaught(e);
    return true;
  }
}

// purge empties the queue of microtasks, by termination. Otherwise microtasks of interrupted code would continue after
// the end of its run.
function purge() {
  let empty = false;
  for (let left = 100; left > 0 && !empty; left--) { // on a busy host the time may end before the first microtask runs
    job = () => { settle(); empty = true; };
    try {
      runGuarded(guarded, { breakOnSigint: true, timeout: PURGE, displayErrors: false });
    } catch {}
  }
}

// settle runs all due callbacks, including microtasks. An exception in a callback does not prevent the next.
function settle() {
  for (let left = 1000; left > 0; left--) {
    try {
      return apply(_tickCallback, host, []);
    } catch (e) {
      uncaught(e);
    }
  }
}

function begin(id, code, env) {
  const mine = run = { id, code: textOf(code), number: ++runs, outcome: null, guarded: true, timer: undefined, env };
  exchange(env);
  hint = undefined;
  others = resources() > idleResources;
  const end = (outcome) => {
    if (run !== mine || mine.outcome !== null) return;
    mine.outcome = outcome;
    if (!mine.guarded) conclude(mine);
  };
  const whole = guard(() => {
    watchdog.seen(); // clears earlier signals; the guard handles later ones
    const source = rewritten(mine.code) + "\n//# sourceURL=" + fileName(mine);
    const ask = { expression: source, replMode: true, awaitPromise: true, objectGroup: "run" };
    command("Runtime.evaluate", ask, (e, answer) => {
      if (e) return end({ interrupted: true });
      const details = hasOwn(answer, "exceptionDetails") ? answer.exceptionDetails : null;
      if (details) return end({ thrown: take(details.exception), details });
      const value = take(answer.result);
      if (!isPromise(value)) return end({ value });
      then(value, (value) => end({ value }), (thrown) => end({ thrown }));
    });
    settle();
  });
  mine.guarded = false;
  if (!whole) mine.outcome = { interrupted: true };
  if (mine.outcome !== null) return conclude(mine);
  watchOver();
  mine.timer = setInterval(() => { if (interrupted()) end({ interrupted: true }); }, POLL);
}

// exchange sets pairs of a variable of the environment and its value, or removes those without one. It leaves the
// values of before in place of them.
function exchange(pairs) {
  for (let i = 0; i < pairs.length; i += 2) {
    try { // the code may have replaced the environment
      const before = hasOwn(host.env, pairs[i]) ? host.env[pairs[i]] : undefined;
      if (pairs[i + 1] === undefined) delete host.env[pairs[i]];
      else host.env[pairs[i]] = pairs[i + 1];
      pairs[i + 1] = before;
    } catch {}
  }
}

// conclude reports the outcome of a run.
function conclude(mine) {
  clearInterval(mine.timer);
  if (overseer !== null) {
    const state = compareExchange(overseer, 0, WAITS, IDLE);
    if (state === DOOMED) return onceTerminated(() => conclude(mine));
    if (state === TERMINATED) mine.outcome = { interrupted: true };
    store(overseer, 0, IDLE);
  }
  let { outcome } = mine, code = 0, error = null;
  const whole = guard(() => {
    if (watchdog.seen()) outcome = { interrupted: true }; // a signal between the two guards
    else if (hasOwn(outcome, "thrown")) error = describe(outcome.thrown, outcome.details);
    else if (hasOwn(outcome, "value") && isShown(outcome.value)) show(outcome.value, "1");
  });
  if (!whole || outcome.interrupted) {
    purge();
    error = { name: "KeyboardInterrupt", value: "", trace: "KeyboardInterrupt", printed: "KeyboardInterrupt\n" };
  }
  if (hasOwn(outcome, "exit")) code = outcome.exit;
  else if (host.exitCode !== undefined) code = Number(host.exitCode) & 255;
  host.exitCode = undefined;
  if (error !== null) {
    code ||= 1;
    writeAll(2, error.printed);
    const { name, value, trace } = error;
    report("error", [mine.id, bounded(name, MAX_NAME), bounded(value, MAX_ERROR), bounded(trace, MAX_ERROR)]);
  }
  exchange(mine.env);
  calls = { __proto__: null };
  report("done", [mine.id, String(code)]);
  run = null;
  command("Runtime.releaseObjectGroup", { objectGroup: "run" });
  checkChannel();
  setImmediate(next);
}

// ---- interrupts of a waiting run

const POLL = 20; // ms between checks for SIGINT
const PURGE = 5; // ms to empty the queue of interrupted code

// The state that the overseer shares with this thread: no run waits; a run waits; the overseer is terminating its
// callback; it has done so. Both threads may see one signal. Each changes the state by an atomic exchange, so that no
// termination can reach a later run.
const IDLE = 0, WAITS = 1, DOOMED = 2, TERMINATED = 3;
let overseer = null;

// watchOver starts a thread that terminates a busy callback after an await, which runs without a watchdog. The thread
// takes 10 MB, so only a context whose code has waited has one.
function watchOver() {
  if (overseer === null) {
    overseer = new Int32Array(new SharedArrayBuffer(4));
    try {
      const { Worker, SHARE_ENV } = require("node:worker_threads");
      const workerData = { state: overseer, poll: POLL, WAITS, DOOMED, TERMINATED };
      const thread = new Worker(`(${oversee})()`, { eval: true, env: SHARE_ENV, workerData, stdin: false });
      thread.on("error", () => {});
      thread.unref();
    } catch {}
  }
  store(overseer, 0, WAITS);
}

function interrupted() {
  return watchdog.seen() || peek(overseer, 0) >= DOOMED;
}

// onceTerminated continues after the overseer's termination. It terminates one callback, so one of these two remains.
function onceTerminated(go) {
  let gone = false;
  const chain = (next) => {
    const look = () => {
      if (gone) return;
      next(look);
      if (peek(overseer, 0) !== TERMINATED) return;
      gone = true;
      go();
    };
    next(look);
  };
  chain(setImmediate);
  chain((look) => setTimeout(look, 1));
}

// oversee is the program of the thread. If the main thread has not handled a signal within 100 ms, it is busy.
function oversee() {
  const { workerData: { state, poll, WAITS, DOOMED, TERMINATED } } = require("node:worker_threads");
  const { startSigintWatchdog, stopSigintWatchdog, watchdogHasPendingSigint } = process.binding("contextify");
  const session = new (require("node:inspector").Session)();
  session.connectToMainThread();
  let seen = 0;
  setInterval(() => {
    seen = Atomics.load(state, 0) === WAITS && watchdogHasPendingSigint() ? seen + 1 : 0;
    if (seen < 5) return;
    seen = 0;
    if (Atomics.compareExchange(state, 0, WAITS, DOOMED) !== WAITS) return;
    startSigintWatchdog();
    stopSigintWatchdog();
    session.post("Runtime.terminateExecution", () => Atomics.store(state, 0, TERMINATED));
  }, poll);
}

// ---- exit

// exit ends the run and keeps the context. It terminates the code without running its catch or finally blocks.
process.exit = function exit(code) {
  code = Number(code ?? host.exitCode ?? 0) & 255;
  const mine = run;
  if (mine === null) quit(code);
  host.exitCode = undefined;
  mine.outcome ??= { exit: code };
  setImmediate(() => {
    mine.guarded = false;
    if (run === mine) conclude(mine);
  });
  let failed = null;
  command("Runtime.terminateExecution", {}, (e) => { failed = e; });
  while (failed === null);
  throw new Error("process.exit could not stop the code");
};

// uncaught prints an exception of a callback, or passes it to the code's own listeners.
function uncaught(e) {
  try {
    if (apply(listenerCount, host, ["uncaughtException"]) > 0) {
      apply(emit, host, ["uncaughtException", e, "uncaughtException"]);
      return;
    }
  } catch (again) {
    e = again;
  }
  print(2, bounded(describe(e).printed, MAX_ERROR));
}
process.setUncaughtExceptionCaptureCallback(uncaught);

// ---- names of a script

function nameScript() {
  const main = path.join(cwd(), "main.js");
  const module = new Module(main, null);
  module.filename = main;
  module.paths = Module._nodeModulePaths(cwd());
  const names = { require: Module.createRequire(main), module, exports: module.exports, __filename: main, __dirname: cwd() };
  module.require = names.require;
  host.argv[1] = main;
  names.require.main = module;
  for (const name of Object.keys(names)) {
    defineProperty(world, name, { configurable: true, writable: true, value: names[name] });
  }
}
const { createRequire } = Module, { pathToFileURL, URL } = require("node:url");
const resolve = createRequire(path.join(cwd(), "main.js")).resolve;

// Code that the inspector compiles cannot import, so rewritten code calls this function. It also finds packages in
// NODE_PATH.
async function load(name, options) {
  try {
    return await import(name, options);
  } catch (e) {
    let file;
    if (e?.code !== "ERR_MODULE_NOT_FOUND" || typeof name !== "string" || exec(/^[@\w]/, name) === null) throw e;
    try { file = resolve(name); } catch { throw e; }
    return import(pathToFileURL(file).href, options);
  }
}
const filename = path.join(cwd(), "main.js");
const meta = { __proto__: null, url: pathToFileURL(filename).href, dirname: cwd(), filename, resolve: locate };
const { isBuiltin } = Module;
function locate(name) {
  if (isBuiltin(name)) return startsWith(name, "node:") ? name : "node:" + name;
  return exec(/^(?:[./]|\w+:)/, name) ? new URL(name, meta.url).href : pathToFileURL(resolve(name)).href;
}
defineProperty(load, "meta", { value: meta });
defineProperty(world, IMPORT, { value: load });

function rewritten(code) {
  try {
    return rewrite(code);
  } catch {
    return code; // the code changed prototypes; then imports fail
  }
}

// ---- completion

function complete(id, code, cursor) {
  const before = textOf(cut(code, 0, cursor));
  const parsed = exec(/((?:[\p{ID_Start}$_][\p{ID_Continue}$]*\??\.)*)([\p{ID_Start}$_][\p{ID_Continue}$]*)?$/u, before);
  const found = [], seen = new Set(), object = parsed[1], want = parsed[2] ?? "";
  const add = (name) => {
    if (typeof name !== "string" || found.length >= MAX_FIELDS - 2 || setHas(seen, name) || !startsWith(name, want)) return;
    if (name.length > MAX_NAME || exec(/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u, name) === null) return;
    setAdd(seen, name);
    found[found.length] = name;
  };
  let from = world;
  if (object) {
    const expression = slice(object, 0, object[object.length - 2] === "?" ? -2 : -1);
    const ask = { expression, throwOnSideEffect: true, objectGroup: "run", timeout: 200 };
    command("Runtime.evaluate", ask, (e, answer) => { from = e || answer.exceptionDetails ? undefined : take(answer.result); });
  } else {
    command("Runtime.globalLexicalScopeNames", {}, (e, answer) => {
      for (let i = 0; !e && i < answer.names.length; i++) add(answer.names[i]);
    });
  }
  if (from !== undefined && from !== null) from = Object(from);
  for (let depth = 0; from !== undefined && from !== null && depth < 20 && !isProxy(from); depth++, from = getPrototypeOf(from)) {
    const keys = ownKeys(from);
    for (let i = 0; i < keys.length; i++) add(keys[i]);
  }
  const fields = [id, String(cursor - bytesOf(want).length)];
  for (let i = 0; i < found.length; i++) fields[i + 2] = found[i];
  report("matches", fields);
  command("Runtime.releaseObjectGroup", { objectGroup: "run" });
}

// ---- requests

const queue = []; // frames that wait for the end of a run
let parts = [], size = 0, need = MAX_HEADER, head = null;

// feed splits the stream into frames. It joins the parts of a large frame only once.
function feed(bytes) {
  parts[parts.length] = bytes;
  size += bytes.length;
  for (;;) {
    if (size < need && head !== null) return;
    let all = parts.length === 1 ? parts[0] : concat(parts);
    parts = [all];
    if (head === null) {
      const end = byteIndexOf(all, 10);
      if (end < 0) {
        if (size >= MAX_HEADER) quit(1);
        return;
      }
      const words = split(textOf(cut(all, 0, end)), " ");
      head = { kind: words[0], lengths: [] };
      need = 0;
      for (let i = 1; i < words.length; i++) need += head.lengths[i - 1] = Number(words[i]);
      if (!(need <= MAX_FRAME)) quit(1);
      parts = [all = cut(all, end + 1)];
      size = all.length;
      if (size < need) return;
    }
    const fields = [];
    let at = 0;
    for (let i = 0; i < head.lengths.length; i++) fields[i] = cut(all, at, at += head.lengths[i]);
    const { kind } = head;
    head = null;
    parts = [cut(all, at)];
    size = parts[0].length;
    if (kind === "answer") takeAnswer(textOf(fields[0]), textOf(fields[1]), fields[2]);
    else queue[queue.length] = { kind, fields };
  }
}

// next handles the next request. Only the event loop calls it, because microtasks do not run inside a microtask.
function next() {
  if (run !== null || queue.length === 0) return;
  const { kind, fields } = queue[0];
  for (let i = 1; i < queue.length; i++) queue[i - 1] = queue[i];
  queue.length--;
  if (kind === "run") {
    const env = [];
    for (let i = 2; i < fields.length; i++) env[i - 2] = textOf(fields[i]);
    return begin(textOf(fields[0]), fields[1], env);
  }
  if (kind === "tools") defineTools(textOf(fields[0]));
  if (kind === "export" || kind === "import") handleState(kind, textOf(fields[0]), fields[1]);
  if (kind === "complete") complete(textOf(fields[0]), fields[1], Number(textOf(fields[2])));
  setImmediate(next);
}

const socket = new (require("node:net").Socket)({
  fd: REQUESTS, readable: true, writable: false,
  onread: {
    buffer: Buffer.allocUnsafeSlow(64 << 10),
    callback(n, buffer) {
      feed(bytesOf(cut(buffer, 0, n)));
      next();
      return true;
    },
  },
});
socket.on("end", () => quit(0));
socket.on("error", () => quit(1));

setImmediate(() => { // before that, Node has not set its own names for -e
  nameScript();
  ownNames = new Set(ownKeys(world));
  idleResources = resources();
  report("ready", [process.version]);
});
})();
//# sourceURL=fumehood:driver
