// Determines which packages a run needs and this root lacks. Reads a question on stdin and prints a survey, both as
// JSON. It does not execute the code.
"use strict";
const fs = require("node:fs"), path = require("node:path");
const { builtinModules } = require("node:module"), { spawnSync } = require("node:child_process");

const WORKSPACE = "/workspace", PLACES = [WORKSPACE, ""];
const MAX_BYTES = 1 << 20, TOOL = "/tmp/fumehood-typescript";
const question = JSON.parse(fs.readFileSync(0, "utf8"));
const requirements = [...question.requirements], found = new Map();

const read = (file) => {
  try {
    const stat = fs.statSync(file);
    return stat.isFile() && stat.size <= MAX_BYTES ? fs.readFileSync(file, "utf8") : null;
  } catch {
    return null;
  }
};

const packageOf = (specifier) => specifier.split("/").slice(0, specifier.startsWith("@") ? 2 : 1).join("/");
const builtin = new Set(builtinModules);

// A file outside the workspace, which is a folder of the host then, finds files of the workspace by NODE_PATH.
const aside = path.isAbsolute(question.name);
const isFile = (specifier) => aside && ["", ".js", ".json", ".node", "/index.js", "/package.json"].some((end) =>
  fs.statSync(path.join(WORKSPACE, specifier + end), { throwIfNoEntry: false })?.isFile());

function want(specifier, optional) {
  if (/^[./#]|^[a-z]+:/.test(specifier) || isFile(specifier)) return;
  const name = packageOf(specifier);
  if (!name || builtin.has(name) || found.has(name)) return;
  if (PLACES.some((p) => fs.existsSync(path.join(p, "node_modules", name, "package.json")))) return;
  found.set(name, { name, line: 0, optional });
}

// imports returns the modules that the code and its local files import. Our tool parses JavaScript and TypeScript. If
// it fails, so does the survey: others share the answer, and may have more memory or processes.
function imports() {
  const file = path.resolve(WORKSPACE, question.name || "main.ts");
  const tool = spawnSync(TOOL, ["--imports", file], { input: question.code, encoding: "utf8", maxBuffer: MAX_BYTES });
  if (tool.error || tool.status !== 0) throw tool.error ?? new Error(`${TOOL} ended by ${tool.signal ?? tool.status}`);
  return JSON.parse(tool.stdout);
}

if (question.auto) {
  for (const i of imports()) want(i.name, i.optional);
  try {
    const listed = JSON.parse(read(path.join(WORKSPACE, "package.json")) ?? "{}").dependencies ?? {};
    for (const [name, range] of Object.entries(listed)) {
      requirements.push(`${name}@${range}`);
      found.delete(name);
    }
  } catch {}
}

// host returns facts that only an installation needs. This takes longer than the rest of the survey.
function host() {
  const env = { PATH: process.env.PATH, HOME: "/tmp" };
  const npm = spawnSync("npm", ["config", "get", "registry"], { cwd: "/", env, encoding: "utf8" });
  const index = npm.status === 0 ? npm.stdout.trim() : "";
  let hosts = [];
  try {
    hosts = [new URL(index).host];
  } catch {}
  const report = process.report?.getReport?.().header ?? {};
  return {
    platform: [process.platform, process.arch, process.versions.modules, report.glibcVersionRuntime ? "glibc" : "musl"]
      .join(" "),
    installer: npm.status === 0 ? "npm" : "",
    index,
    hosts,
  };
}

process.stdout.write(JSON.stringify({
  requirements: [...new Set(requirements)],
  found: [...found.values()].slice(0, 1000),
  ...(question.auto ? {} : host()),
}));
