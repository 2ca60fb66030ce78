// Finds what a run needs besides what is there. Reads a question from stdin and prints a survey, both as JSON. Nothing of the code is executed.
"use strict";
const fs = require("node:fs"), path = require("node:path"), { builtinModules } = require("node:module"), { spawnSync } = require("node:child_process");

const WORKSPACE = "/workspace", PLACES = [WORKSPACE, ""];
const MAX_FILES = 500, MAX_BYTES = 1 << 20;
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

function want(specifier, line, optional) {
  if (/^[./#]|^[a-z]+:/.test(specifier) || specifier.startsWith("npm:")) return;
  const name = packageOf(specifier);
  if (!name || builtin.has(name) || found.has(name) || PLACES.some((p) => fs.existsSync(path.join(p, "node_modules", name, "package.json")))) return;
  found.set(name, { name, line, optional });
}

// In files that only the sandbox has, text that looks like an import is taken for one; at worst a package too many is installed.
const IMPORT = /(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)(['"])([^'"\n]{1,200})\1/g;

function scan(entry) {
  const todo = [entry], seen = new Set(todo);
  while (todo.length && seen.size < MAX_FILES) {
    const file = todo.shift(), text = read(file);
    for (const [, , specifier] of (text ?? "").matchAll(IMPORT)) {
      if (!specifier.startsWith(".")) {
        want(specifier, 0, false);
        continue;
      }
      const at = path.join(path.dirname(file), specifier);
      for (const end of ["", ".js", ".mjs", ".cjs", ".ts", "/index.js"]) {
        if (!seen.has(at + end) && read(at + end) !== null) {
          seen.add(at + end);
          todo.push(at + end);
          break;
        }
      }
    }
  }
}

if (question.auto) {
  for (const i of question.imports) want(i.name, i.line, i.optional);
  if (!question.code) scan(path.join(WORKSPACE, question.name));
  try {
    const listed = JSON.parse(read(path.join(WORKSPACE, "package.json")) ?? "{}").dependencies ?? {};
    for (const [name, range] of Object.entries(listed)) {
      requirements.push(`${name}@${range}`);
      found.delete(name);
    }
  } catch {}
}

const npm = spawnSync("npm", ["config", "get", "registry"], { cwd: "/", env: { PATH: process.env.PATH, HOME: "/tmp" }, encoding: "utf8" });
const index = npm.status === 0 ? npm.stdout.trim() : "";
let hosts = [];
try {
  hosts = [new URL(index).host];
} catch {}
const report = process.report?.getReport?.().header ?? {};
process.stdout.write(JSON.stringify({
  platform: [process.platform, process.arch, process.versions.modules, report.glibcVersionRuntime ? "glibc" : "musl"].join(" "),
  installer: npm.status === 0 ? "npm" : "",
  index,
  hosts,
  requirements: [...new Set(requirements)],
  found: [...found.values()].slice(0, 1000),
}));
