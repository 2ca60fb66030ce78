// Keeps the output of earlier runs apart. Part of driver.js, whose constants it uses.
//
// AsyncLocalStorage would know who started a callback. But in Node 20 it uses async hooks, and interrupting code leaves
// their stack inconsistent, for which Node aborts.

const MAX_MESSAGE = 32 << 10, TEXT = bytesOf("t"); // of the socket for background output; package guest specifies it
const { captureStackTrace } = Error;
const { getActiveResourcesInfo } = process;

let others = false; // code of earlier runs may still run
let idleResources = 0; // what keeps an idle context alive
let hint, hints = 0; // the run that set the timer of the current callback, also for the promises that it settles
const HOPS = 50; // of microtasks, for which the hint stays
const { queueMicrotask } = globalThis;

const counted = typeof getActiveResourcesInfo === "function"; // since Node 17.3
const resources = () => counted ? apply(getActiveResourcesInfo, host, []).length : Infinity;

// isOwn reports whether the current run's code is running: it set the timer, or is among the callers. Callers that
// await a function are in the stack too.
function isOwn() {
  if (run === null) return false;
  if (!others || run.guarded || hint === run.number) return true;
  const caller = outermost();
  return caller === run.number || caller === undefined && hint === undefined;
}

// outermost returns the run of the outermost function in the stack, or undefined.
function outermost() {
  const { prepareStackTrace, stackTraceLimit } = Error, trace = {};
  let found;
  try {
    Error.stackTraceLimit = 100;
    Error.prepareStackTrace = (error, frames) => {
      for (let i = 0; i < frames.length; i++) {
        const parsed = exec(/^run-(\d+)\.js$/, frames[i].getScriptNameOrSourceURL() ?? "");
        if (parsed !== null) found = Number(parsed[1]);
      }
      return "";
    };
    captureStackTrace(trace);
    trace.stack; // calls the function
  } catch {} finally {
    Error.prepareStackTrace = prepareStackTrace;
    Error.stackTraceLimit = stackTraceLimit;
  }
  return found;
}

// forget drops the hint after the microtasks of a callback.
function forget(count, left) {
  if (count !== hints) return;
  if (left === 0) hint = undefined;
  else queueMicrotask(() => forget(count, left - 1));
}

// Timers note which run set them.
for (const name of ["setTimeout", "setInterval", "setImmediate"]) {
  const original = world[name];
  const timer = function (callback, ...rest) {
    const by = run === null ? hint : isOwn() ? run.number : hint;
    const wrapped = typeof callback !== "function" ? callback : function (...args) {
      hint = by;
      if (others) forget(++hints, HOPS);
      return apply(callback, this, args);
    };
    return apply(original, this, [wrapped, ...rest]);
  };
  for (const key of ownKeys(original)) {
    if (key !== "prototype") defineProperty(timer, key, getOwnPropertyDescriptor(original, key));
  }
  world[name] = timer;
}

// print writes output of the current run, and background output of earlier ones.
function print(fd, data) {
  if (isOwn()) return writeAll(fd, data);
  const bytes = typeof data === "string" ? bytesOf(data) : data;
  for (let at = 0; at < bytes.length; at += MAX_MESSAGE) {
    if (!writeAll(ASIDE, concat([TEXT, cut(bytes, at, at + MAX_MESSAGE)]))) return false;
  }
  return true;
}
