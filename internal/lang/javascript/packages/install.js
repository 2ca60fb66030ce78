// Installs packages into a folder. Reads an order on stdin and prints a receipt, both as JSON. Prints progress on
// stderr.
"use strict";
const fs = require("node:fs"), path = require("node:path"), { spawn } = require("node:child_process");

const order = JSON.parse(fs.readFileSync(0, "utf8"));
const home = fs.mkdtempSync("/tmp/npm-"), project = path.join(path.dirname(order.dir), "project");
const address = new URL(order.index);
const secret = process.env.FUMEHOOD_INDEX_SECRET; // a placeholder that the gate replaces
const user = decodeURIComponent(address.username);
address.username = "";
const config = [`registry=${address}`, "audit=false", "fund=false", "update-notifier=false", "bin-links=false",
  `ignore-scripts=${!order.allow_build}`, "loglevel=http",
  "fetch-retries=1", "omit=dev", "progress=false"];
if (secret) config.push(`//${address.host}${address.pathname}:_auth=${Buffer.from(`${user}:${secret}`).toString("base64")}`);

// Node has its own certificate authorities. Those of the root may include that of the index.
const trusted = [process.env.NODE_EXTRA_CA_CERTS, "/etc/ssl/certs/ca-certificates.crt"].find((f) => f && fs.existsSync(f)) ?? "";

// npm leaves out an optional dependency whose metadata ends early, and prints nothing. HOOK prints a line like those of
// other failures.
const hook = path.join(home, "hook.cjs");
const HOOK = `const requests = require("node:diagnostics_channel").channel("http.client.response.finish");
requests.subscribe(({ request, response }) => {
  const address = request.protocol + "//" + request.getHeader("host") + request.path;
  response.once("close", () => response.complete || response.statusCode >= 300 ||
    process.stderr.write("npm http fetch GET " + address + " attempt 1 failed with CUT\\n"));
});`;

function run(argv) {
  return new Promise((resolve) => {
    let text = "";
    const env = { PATH: process.env.PATH, HOME: home, NODE_EXTRA_CA_CERTS: trusted, NODE_OPTIONS: `--require=${hook}` };
    const child = spawn("npm", argv, { cwd: project, env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (piece) => {
        text = (text + piece).slice(-2000000); // dropped needs a line for each request
        process.stderr.write(piece);
      });
    }
    child.on("error", (e) => resolve({ code: 1, text: String(e) })).on("close", (code) => resolve({ code, text }));
  });
}

const split = (requirement) => {
  const at = requirement.indexOf("@", 1);
  return at < 0 ? [requirement, "*"] : [requirement.slice(0, at), requirement.slice(at + 1) || "*"];
};

// wrong returns the errors of npm without its progress, which has the same addresses.
const wrong = (text) => text.split("\n").filter((l) => /^npm (ERR!|error)/.test(l))
  .map((l) => l.replace(/^npm (ERR!|error) ?/, "")).join("\n");

function failure(text) {
  const noise = /^(code|A complete log|errno|syscall)|^404\s*$|-debug-0\.log$/;
  const keep = wrong(text).split("\n").filter((l) => l.trim() && !noise.test(l));
  return keep.join("\n").slice(0, 4000) || text.slice(-1000) || "npm failed";
}

// dropped returns the error of an installation without an optional dependency that could not be fetched or unpacked, or
// null. npm leaves these out, whatever the reason. Others share the layer, and may have more disk or a better network.
// The network refuses other hosts to all of them (ENOTFOUND). A build may fail for all, too.
function dropped(text, packages) {
  const failed = new Set(), got = new Set(); // addresses
  const requests = /^npm http fetch GET (?:(\d+) )?(\S+)(?: attempt \d+ failed with (\S+))?/gm;
  for (const [, status, address, code] of text.matchAll(requests)) {
    failed.delete(address);
    if (code === "ENOTFOUND" || /^4(?!08|29)/.test(status)) continue;
    if (code || /^[45]/.test(status)) failed.add(address);
    else got.add(address);
  }
  for (const address of failed) return { error: `${address} could not be fetched`, down: true };
  const full = /ENOSPC|EDQUOT/.test(text), lost = order.allow_build ? null : lostOf(packages, [...got]);
  return lost || full ? { error: `${lost ?? "a package"} could not be unpacked`, full, down: !full } : null;
}

// lostOf returns the path of an optional package that npm fetched and then lost, or undefined. npm does not fetch those
// for other systems. It removes each with all that requires it, and with all that only these require.
function lostOf(packages, got) {
  const all = Object.entries(packages), left = new Set();
  const lacks = ([at, p]) => p.optional && !p.inBundle && !fs.existsSync(path.join(project, at));
  const fetched = (p) => p.resolved && got.some((address) => address.endsWith(new URL(p.resolved).pathname));
  for (const entry of all) if (lacks(entry) && !fetched(entry[1])) left.add(entry[0]);
  for (let before = -1; before < left.size;) {
    before = left.size;
    for (const [at, p] of all) if (requires(p).some((name) => left.has(find(packages, at, name)))) left.add(at);
  }
  const kept = new Set([""]); // grows while it is read
  for (const at of kept) {
    for (const name of [...requires(packages[at]), ...Object.keys(packages[at].optionalDependencies ?? {})]) {
      const to = find(packages, at, name);
      if (to && !left.has(to)) kept.add(to);
    }
  }
  return [...kept].find((at) => lacks([at, packages[at]]));
}

// requires returns the names of the dependencies without which npm does not install a package.
function requires(p) {
  const names = new Set([...Object.keys(p.dependencies ?? {}), ...Object.keys(p.peerDependencies ?? {})]);
  for (const name in p.optionalDependencies) names.delete(name);
  for (const name in p.peerDependenciesMeta) if (p.peerDependenciesMeta[name].optional) names.delete(name);
  return [...names];
}

// find returns the path of the package that a name means in the package at a path, or null.
function find(packages, at, name) {
  for (;;) {
    const to = path.join(at, "node_modules", name);
    if (packages[to]) return to;
    if (!at) return null;
    at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1));
  }
}

function describe(dependencies) {
  const text = JSON.stringify({ name: "layer", version: "1.0.0", dependencies });
  fs.writeFileSync(path.join(project, "package.json"), text);
}

async function install() {
  const wanted = order.requirements.map(split), optional = order.found.map(split), missing = [];
  for (;;) {
    fs.rmSync(project, { recursive: true, force: true });
    fs.mkdirSync(project, { recursive: true });
    fs.writeFileSync(path.join(home, ".npmrc"), config.join("\n"));
    fs.writeFileSync(hook, HOOK);
    let argv = ["install"];
    if (order.lock) {
      const lock = JSON.parse(order.lock);
      fs.writeFileSync(path.join(project, "package-lock.json"), order.lock);
      describe(lock.packages[""].dependencies);
      argv = ["ci"];
    } else if (!wanted.length && !optional.length) {
      return { packages: [], missing };
    } else {
      describe(Object.fromEntries([...optional, ...wanted]));
    }
    const { code, text } = await run(argv);
    if (code === 0) {
      const lock = fs.readFileSync(path.join(project, "package-lock.json"), "utf8"), locked = JSON.parse(lock).packages;
      const all = Object.entries(locked);
      const odd = all.find(([at, p]) => at && (p.link || !p.version || !/(^|\/)node_modules\/[^/]/.test(at)));
      if (odd) return { missing, error: `a package depends on ${odd[1].resolved ?? odd[0]}, which is not a package of the index` };
      const lacking = dropped(text, locked);
      if (lacking) return { missing, ...lacking };
      return { missing, ...receipt(lock, all) };
    }
    const lacks = /^404 (?:Not Found - GET \S*\/|\s*')((?:@[\w.~-]+(?:\/|%2f))?[\w.~-]+)/im.exec(wrong(text));
    const name = lacks ? decodeURIComponent(lacks[1]) : "";
    const lost = optional.findIndex(([n]) => n === name);
    if (lost >= 0) {
      optional.splice(lost, 1);
      missing.push(name);
      continue;
    }
    const down = /ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ERR_SOCKET_TIMEOUT|with CUT$/m.test(text);
    const denied = /\bE40[13]\b/.test(text), full = /\bENOSPC\b|\bEDQUOT\b/.test(text);
    return { missing, error: failure(text), unknown: name, down, denied, full };
  }
}

function receipt(lock, all) {
  const packages = [];
  for (const [at, p] of all) {
    if (at) packages.push({ name: at.slice(at.lastIndexOf("node_modules/") + "node_modules/".length), version: p.version,
      requires: Object.keys(p.dependencies ?? {}), hash: p.integrity ?? "" });
  }
  fs.rmSync(path.join(project, "node_modules", ".package-lock.json"), { force: true });
  fs.renameSync(path.join(project, "node_modules"), order.dir);
  return { packages, lock };
}

install().then((answer) => {
  fs.mkdirSync(order.dir, { recursive: true });
  process.stdout.write(JSON.stringify(answer));
});
