// A request of the playground as a call of each client.
import type * as wire from "./generated/wire";

export const forms = ["curl", "Python", "TypeScript", "CLI"] as const;

export function copyAs(form: string, request: wire.RunRequest, server: string): string {
  switch (form) {
    case "Python":
      return python(request, server);
    case "TypeScript":
      return typescript(request, server);
    case "CLI":
      return cli(request);
  }
  return `curl -s ${server}/v1/run -H "Authorization: Bearer $FUMEHOOD_KEY" \\\n` +
    `  -H 'Content-Type: application/json' -d ${quote(JSON.stringify(request))}`;
}

// quote writes a word for a POSIX shell.
const quote = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", `'\\''`) + "'");

function pythonValue(v: unknown): string {
  if (v === true || v === false) return v ? "True" : "False";
  if (v === null || v === undefined) return "None";
  if (Array.isArray(v)) return "[" + v.map(pythonValue).join(", ") + "]";
  if (typeof v === "object") {
    return "{" + Object.entries(v).map(([k, e]) => JSON.stringify(k) + ": " + pythonValue(e)).join(", ") + "}";
  }
  return JSON.stringify(v); // a JSON string is a Python string, except for lone surrogates
}

function python(r: wire.RunRequest, server: string): string {
  const { code, files, limits, ...rest } = r;
  const options: string[] = [];
  for (const [name, value] of Object.entries(rest)) options.push(`${name}=${pythonValue(value)}`);
  if (limits?.timeout_s) options.push(`timeout_s=${limits.timeout_s}`);
  const others = Object.fromEntries(Object.entries(limits ?? {}).filter(([name]) => name !== "timeout_s"));
  if (Object.keys(others).length) options.push(`limits=${pythonValue(others)}`);
  if (files?.length) options.push("files={" + files.map((f) => `${JSON.stringify(f.path)}: ` +
    (f.content_base64 === undefined ? pythonValue(f.content) : `base64.b64decode(${JSON.stringify(f.content_base64)})`))
    .join(", ") + "}");
  const needs64 = files?.some((f) => f.content_base64 !== undefined);
  return (needs64 ? "import base64\n" : "") +
    `from fumehood import Client\n\nwith Client(${JSON.stringify(server)}) as client:\n` +
    `    answer = client.run(${[pythonValue(code), ...options].join(",\n        ")})\n    print(answer.stdout)`;
}

function typescript(r: wire.RunRequest, server: string): string {
  const { code, files, limits, packages, return_files, ...rest } = r;
  const options: Record<string, unknown> = { server, ...rest };
  if (packages) options["packages"] = packages;
  if (return_files) options["returnFiles"] = return_files;
  if (limits?.timeout_s) options["timeout"] = limits.timeout_s;
  const others = Object.fromEntries(Object.entries(limits ?? {}).filter(([name]) => name !== "timeout_s"));
  if (Object.keys(others).length) options["limits"] = others;
  const content = (f: wire.File) => f.content_base64 === undefined ? JSON.stringify(f.content)
    : `Uint8Array.from(atob(${JSON.stringify(f.content_base64)}), (c) => c.charCodeAt(0))`;
  const entries = (files ?? []).map((f) => `    ${JSON.stringify(f.path)}: ${content(f as wire.File)}`);
  let text = JSON.stringify(options, null, 2);
  if (entries.length) text = text.replace(/\n\}$/, () => `,\n  "files": {\n${entries.join(",\n")}\n  }\n}`);
  return `import { run } from "fumehood";\n\nconst r = await run(${JSON.stringify(code)}, ${text});\n` +
    "console.log(r.stdout);";
}

function cli(r: wire.RunRequest): string {
  const words = ["fumehood", "run"];
  if (r.language) words.push("--lang", r.language);
  if (r.backend) words.push("--backend", r.backend);
  if (r.limits?.timeout_s) words.push("--timeout", `${r.limits.timeout_s}s`);
  if (r.limits?.memory_mib) words.push("--memory", `${r.limits.memory_mib}MiB`);
  for (const p of r.packages ?? []) words.push("--packages", p);
  if (r.network?.mode === "full") words.push("--network", "full");
  for (const rule of r.network?.allow ?? []) words.push("--allow", rule);
  for (const f of r.files ?? []) words.push("--file", f.path);
  for (const f of r.return_files ?? []) words.push("--return", f);
  return [...words, "-c", r.code ?? ""].map(quote).join(" ");
}
