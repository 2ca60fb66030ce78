// What the tests share: a server, a browser, and checks of each page.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const program = process.env.TESTED_PROGRAM;
const pictures = process.env.TESTED_PICTURES;
const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

// serve starts a server with its own state and cache.
export async function serve(...flags) {
  const state = mkdtempSync(join(tmpdir(), "dashboard-"));
  const child = spawn(program,
    ["serve", "--listen", "127.0.0.1:0", "--state-dir", state, "--no-local-socket", ...flags],
    { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, XDG_CACHE_HOME: join(state, "cache") } });
  let said = "";
  const url = await new Promise((resolve, reject) => {
    child.stderr.on("data", (data) => {
      said += data;
      const found = /listening on (http:\S+)/.exec(said);
      if (found) resolve(found[1]);
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
  });
  return {
    url,
    state,
    async close() {
      const ended = new Promise((resolve) => child.removeAllListeners("exit").on("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      rmSync(state, { recursive: true, force: true });
    },
  };
}

// createKey adds a key to the file and returns its secret.
export const createKey = (name, file, ...flags) =>
  execFileSync(program, ["--quiet", "keys", "create", name, "--file", file, ...flags], { encoding: "utf8" }).trim();

export const startBrowser = () =>
  chromium.launch({ executablePath: process.env.TESTED_CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

// open opens the dashboard. The test fails if a page reports an error or breaks its policy, unless allowed matches it.
export async function open(browser, server, options = {}) {
  const { path = "/", allowed, ...rest } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...rest });
  const page = await context.newPage();
  page.complaints = [];
  const complain = (text) => allowed?.test(text) || page.complaints.push(text);
  page.on("pageerror", (e) => complain(String(e)));
  page.on("console", (m) => m.type() === "error" && complain(m.text()));
  await page.goto(server.url + path);
  return page;
}

// checkPage takes a picture and looks for serious problems of accessibility.
export async function checkPage(page, name) {
  if (pictures) {
    mkdirSync(pictures, { recursive: true });
    await page.screenshot({ path: join(pictures, name + ".png") });
  }
  // The policy of the page forbids eval, which addScriptTag would use; evaluate runs outside of it.
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { iframes: false }));
  const serious = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
  assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`), [], name);
  assert.deepEqual(page.complaints, [], name);
}

// call calls the API: GET, or POST with a JSON body.
export async function call(server, path, json) {
  const answer = await fetch(server.url + path, json && { method: "POST", body: JSON.stringify(json),
    headers: { "Content-Type": "application/json" } });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer;
}

// setCode replaces the text of the editor.
export async function setCode(page, text) {
  await page.locator(".cm-content").first().click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}
