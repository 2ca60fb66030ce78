import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { checkPage, createKey, open, serve, setCode, startBrowser } from "./browser.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test("playground: output, value, hint, policy", async () => {
  const page = await open(browser, server);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".outcome .succeeded").waitFor();
  assert.match(await page.locator("pre.output").innerText(), /Hello from a sandbox/);
  assert.match(await page.locator("pre.result").innerText(), /\[0, 1, 4, 9/);
  await page.getByText("Requested and enforced").click();
  await page.getByRole("rowheader", { name: "memory_mib" }).waitFor();
  await checkPage(page, "playground");

  await setCode(page, "import nosuchmodule");
  await page.keyboard.press("Control+Enter");
  await page.locator(".outcome .failed").waitFor();
  assert.match(await page.getByLabel("Hint").innerText(), /nosuchmodule/);
  await page.getByLabel("Colors").selectOption("dark");
  await checkPage(page, "playground-dark");
});

test("playground: output streams, and a run can be canceled", async () => {
  const page = await open(browser, server);
  await setCode(page, "import time\nprint('first', flush=True)\ntime.sleep(600)");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator("pre.output", { hasText: "first" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
  assert.deepEqual(page.complaints, []);
});

test("playground: a key is asked for, and kept for the tab", async () => {
  const file = join(server.state, "keys");
  const secret = createKey("alice", file);
  const keyed = await serve("--api-key-file", file);
  try {
    const page = await open(browser, keyed, { allowed: /401/ });
    await page.getByLabel("API key").fill("wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").waitFor();
    await checkPage(page, "login");
    await page.getByLabel("API key").fill(secret);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("button", { name: "Run", exact: true }).waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.locator(".outcome .succeeded").waitFor();
    assert.deepEqual(page.complaints, []);
  } finally {
    await keyed.close();
  }
});

test("playground: a fresh sandbox returns files", async () => {
  const page = await open(browser, server);
  await page.getByLabel("Sandbox").selectOption({ label: "fresh for each run" });
  await page.getByText("Packages, network, files, limits").click();
  await page.getByLabel("Files to return").fill("*.txt");
  await setCode(page, "print(open('in.csv').read())\nopen('out.txt', 'w').write('42')");
  await page.getByLabel("Files to send").setInputFiles(
    [{ name: "in.csv", mimeType: "text/csv", buffer: Buffer.from("a,b") },
      { name: "none.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(0) }]);
  await page.getByText("in.csv", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".outcome .succeeded").waitFor();
  assert.match(await page.locator("pre.output").innerText(), /a,b/);
  const [download] = await Promise.all([
    page.waitForEvent("download"), page.getByRole("button", { name: "out.txt" }).click()]);
  assert.equal(download.suggestedFilename(), "out.txt");
  await page.getByText("Copy as curl").click();
  for (const [form, want] of Object.entries({ Python: /"in.csv": base64.b64decode\("YSxi"\), "none.bin": base64.b64/,
    TypeScript: /"in.csv": Uint8Array.from\(atob\("YSxi"\).*"none.bin": Uint8Array.from\(atob\(""\)/s,
    CLI: /in\.csv.*none\.bin/, curl: /YSxi/ })) {
    await page.getByRole("tab", { name: form, exact: true }).click();
    assert.match(await page.locator(".copy pre").innerText(), want, form);
  }
  await checkPage(page, "playground-copy");
});

test("playground: images, tables, figures, HTML", async () => {
  const page = await open(browser, server);
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  await setCode(page, `from IPython.display import HTML, display
display({"image/png": "${pixel}"}, raw=True)
display({"image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40">' +
    '<circle r="20" cx="20" cy="20" fill="teal"/></svg>'}, raw=True)
display(HTML("<table border=1><tr><th>name</th><th>n</th></tr><tr><td>a</td><td>1</td></tr></table>"))
display({"application/vnd.plotly.v1+json": {"data": [
    {"type": "bar", "name": "2025", "x": ["red", "green"], "y": [3, 5]},
    {"type": "scatter", "name": "trend", "x": ["red", "green"], "y": [2, 6]}],
    "layout": {"title": {"text": "Counts"}}},
    "text/html": "<b>not this</b>"}, raw=True)`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".outcome .succeeded").waitFor();
  await page.getByRole("img", { name: "Chart: Counts" }).locator("canvas").waitFor();
  await page.frameLocator("iframe.result").getByRole("cell", { name: "a", exact: true }).waitFor();
  for (const name of ["Image result", "SVG result"]) {
    const image = page.getByRole("img", { name });
    assert.ok(await image.evaluate((i) => i.decode().then(() => i.naturalWidth)) > 0, name);
  }
  await checkPage(page, "playground-values");
});

test("playground: hostile figures leave the page usable", async () => {
  const page = await open(browser, server);
  await setCode(page, `import json
from IPython.display import display
def show(traces, title="bad"):
    display({"application/vnd.plotly.v1+json": {"data": traces, "layout": {"title": title}}}, raw=True)
show([{"y": [1e16, 1e16 + 2]}, {"y": [1.7e308, -1.7e308, 1]}], "a" * 100000)
show([{"x": list(range(i, 1000000, 100)), "y": [1] * 10000} for i in range(12)])
show([{"x": ["label" * 100 + str(i) for i in range(3000)], "y": list(range(3000)), "type": "bar"}])
show([{"y": {"bdata": "AAAA", "dtype": "constructor"}}, {"x": [5, 5], "y": [5, 5], "name": [[["deep"]]]}])
deep = "[" * 20000 + "]" * 20000
display({"application/vnd.plotly.v1+json": deep, "text/plain": "deep"}, raw=True)
print("drawn")`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".outcome .succeeded").waitFor();
  await page.locator("figure canvas").nth(3).waitFor();
  assert.equal(await page.locator("figure canvas").count(), 4);
  await page.getByText(/Only 50000 points are drawn/).first().waitFor();
  await checkPage(page, "playground-hostile-figures");
});

test("playground: hostile output does not run", async () => {
  const page = await open(browser, server);
  let dialogs = 0;
  page.on("dialog", (d) => (dialogs++, d.dismiss()));
  const html = `<b id=shown>bold</b><script>parent.postMessage("hostile", "*")</script>
<img src=x onerror="alert(1)"><svg onload="alert(2)"></svg><a href="javascript:alert(3)" id=link>link</a>
<iframe srcdoc="<script>alert(4)</script>"></iframe><form action="https://example.org"><button>go</button></form>
<meta http-equiv=refresh content="0;url=https://example.org"><style>body{outline:9px solid}</style>`;
  await page.evaluate(() => addEventListener("message", (e) => e.data === "hostile" && (globalThis.hostile = true)));
  page.complaints = { push() {} }; // the policy refuses, and Chromium reports that
  await setCode(page, `from IPython.display import HTML, display
print("\x1b[31mred\x1b[0m \x1b]0;title\x07<script>alert(5)</script>")
display(HTML(${JSON.stringify(html)}))`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".outcome .succeeded").waitFor();
  assert.equal((await page.locator("pre.output").innerText()).trim(), "red <script>alert(5)</script>");
  const frame = page.frameLocator("iframe.result");
  await frame.locator("#shown").waitFor();
  await frame.locator("#link").click();
  await frame.getByText("go").click();
  const inner = page.frames().find((f) => f.url().endsWith("/ui/frame.html"));
  assert.equal(await inner.evaluate(() => origin), "null");
  await assert.rejects(inner.evaluate(() => sessionStorage.length));
  await assert.rejects(inner.evaluate((u) => fetch(u), server.url + "/healthz"));
  assert.equal(await page.evaluate(() => globalThis.hostile), undefined);
  assert.equal(dialogs, 0);
  assert.match(page.frames().find((f) => f.parentFrame())?.url() ?? "", /frame\.html$/);
});
