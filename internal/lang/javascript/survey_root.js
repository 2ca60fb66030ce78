// Prints the version and the packages that require finds: in NODE_PATH, in Node's own folders and from npm -g.
const fs = require("fs"), path = require("path");
const found = new Map();
const add = (folder, name) => {
  try {
    const file = path.join(folder, name, "package.json");
    const version = JSON.parse(fs.readFileSync(file, "utf8")).version;
    if (!found.has(name)) found.set(name, typeof version === "string" ? version : "");
  } catch {}
};
const list = (folder) => {
  try {
    return fs.readdirSync(folder);
  } catch {
    return [];
  }
};
for (const folder of require("module").globalPaths) {
  for (const name of list(folder)) {
    if (name.startsWith("@")) for (const inner of list(path.join(folder, name))) add(folder, name + "/" + inner);
    else add(folder, name);
  }
}
const modules = [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, version]) => ({ name, version }));
console.log(JSON.stringify({ version: process.versions.node, standard_library: true, modules }));
