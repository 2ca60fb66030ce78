import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { call, checkPage, createKey, open, serve, startBrowser } from "./browser.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

// text returns what the terminal shows. The accessible tree of xterm.js has each row.
const text = (frame) => frame.locator(".xterm-accessibility-tree").innerText();

async function shows(page, frame, pattern) {
  for (let tries = 0; tries < 150; tries++) {
    if (pattern.test(await text(frame))) return;
    await page.waitForTimeout(100);
  }
  assert.match(await text(frame), pattern);
}

test("terminal: a shell, full-screen programs, resize, the end", async () => {
  await call(server, "/v1/sandboxes", { name: "term" });
  const page = await open(browser, server, { path: "/#/sandboxes/term/terminal" });
  const frame = page.frameLocator("iframe.terminal");
  await frame.locator("#terminal[data-state=open]").waitFor();
  const type = (keys) => page.keyboard.type(keys);
  await frame.locator(".xterm-helper-textarea").focus();
  await type("echo $((6*7)) in $TERM; stty size\n");
  await shows(page, frame, /42 in xterm-256color/);
  const [, rows, cols] = /^(\d+) (\d+)/m.exec(await text(frame)) ?? [];
  assert.ok(rows > 20 && cols > 80, `${rows} rows, ${cols} columns`);
  await type("top -d 1\n");
  await shows(page, frame, /PID[^]*COMMAND/);
  await checkPage(page, "sandbox-terminal");
  await type("q");
  await page.setViewportSize({ width: 700, height: 900 });
  await page.waitForTimeout(500);
  await type("clear; stty size\n");
  await shows(page, frame, new RegExp(`^${rows} (?!${cols}\\b)\\d+`, "m"));
  await type("printf '\\033]0;owned\\007\\033]8;;javascript:alert(1)\\007link\\033]8;;\\007\\n'\n");
  await shows(page, frame, /^link/m);
  assert.notEqual(await page.title(), "owned");
  await type("exit 3\n");
  await frame.locator("#terminal[data-state=closed]").waitFor();
  await shows(page, frame, /exit code 3/);
  assert.deepEqual(page.complaints, []);
});

test("terminal: the key of the tab opens it", async () => {
  const file = join(server.state, "keys");
  const secret = createKey("alice", file);
  const keyed = await serve("--api-key-file", file);
  try {
    const create = await fetch(keyed.url + "/v1/sandboxes", { method: "POST", body: JSON.stringify({ name: "term" }),
      headers: { "Content-Type": "application/json", Authorization: "Bearer " + secret } });
    assert.ok(create.ok);
    const page = await open(browser, keyed, { path: "/#/sandboxes/term/terminal", allowed: /401/ });
    await page.getByLabel("API key").fill(secret);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.frameLocator("iframe.terminal").locator("#terminal[data-state=open]").waitFor();
  } finally {
    await keyed.close();
  }
});
