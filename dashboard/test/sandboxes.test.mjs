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

test("sandboxes: create, run, follow, files, contexts, usage, extend, end", async () => {
  const page = await open(browser, server, { path: "/#/sandboxes" });
  page.on("dialog", (d) => d.accept("notes.txt"));
  await page.getByLabel("Name of a new sandbox").fill("work");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("link", { name: "work" }).waitFor();
  await checkPage(page, "sandboxes");
  await page.getByRole("link", { name: "work" }).click();

  await page.getByLabel("Command line to start").fill("for i in 1 2 3; do echo step $i; sleep 0.2; done; cat");
  await page.getByRole("button", { name: "Start" }).click();
  await page.locator("pre.output", { hasText: "step 3" }).waitFor();
  await page.getByLabel("Command line to start").fill("python3 -m http.server 8000");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("Running…").waitFor();
  await checkPage(page, "sandbox-runs");

  await page.getByRole("tab", { name: "files" }).click();
  await page.getByLabel("Upload").setInputFiles(
    { name: "up.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") });
  await page.getByRole("button", { name: "up.csv", exact: true }).waitFor();
  await page.getByRole("button", { name: "New file" }).click();
  await page.locator(".edit .cm-content").click();
  await page.keyboard.insertText("remember");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("saved").waitFor();
  await checkPage(page, "sandbox-files");
  await page.getByRole("button", { name: "Close" }).click();
  assert.equal(await (await call(server, "/v1/sandboxes/work/files/notes.txt")).text(), "remember");
  const [download] = await Promise.all([
    page.waitForEvent("download"), page.getByRole("button", { name: "Download up.csv" }).click()]);
  assert.equal(download.suggestedFilename(), "up.csv");
  await page.getByRole("button", { name: "Remove up.csv" }).click();
  await page.getByRole("button", { name: "up.csv", exact: true }).waitFor({ state: "detached" });

  await call(server, "/v1/sandboxes/work/run", { code: "answer = 42" });
  await page.getByRole("tab", { name: "contexts" }).click();
  await page.getByRole("button", { name: "Variables" }).click();
  await page.getByText("answer").waitFor();
  await checkPage(page, "sandbox-contexts");

  await page.getByRole("tab", { name: "ports" }).click();
  const link = page.getByRole("link", { name: "/v1/sandboxes/work/ports/8000/" });
  assert.match(await (await call(server, await link.getAttribute("href"))).text(), /Directory listing/);
  await page.getByRole("button", { name: "Show port 8000" }).click();
  await page.frameLocator("iframe.result").getByRole("heading", { name: /Directory listing/ }).waitFor();
  await checkPage(page, "sandbox-ports");

  await page.getByRole("tab", { name: "usage" }).click();
  await page.locator("canvas").waitFor();
  await checkPage(page, "sandbox-usage");

  const before = await (await call(server, "/v1/sandboxes/work")).json();
  await page.getByRole("button", { name: "Extend" }).click();
  await page.getByText(/after 60 min without use/).waitFor();
  const extended = await (await call(server, "/v1/sandboxes/work")).json();
  assert.ok(extended.lifetime.idle_s > before.lifetime.idle_s);
  await page.getByRole("button", { name: "End", exact: true }).click();
  await page.getByText("There are none.").waitFor();
});

test("sandboxes: network attempts, filters, the rule to copy", async () => {
  await call(server, "/v1/sandboxes", { name: "net", network: { mode: "restricted", allow: ["example.org:443"] } });
  await call(server, "/v1/sandboxes/net/run", { code: `import socket
for host in ("192.0.2.7", "192.0.2.8"):
    try: socket.create_connection((host, 443), 1)
    except OSError as e: print(e)` });
  const page = await open(browser, server, { path: "/#/sandboxes/net/network" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByText("192.0.2.7:443").first().waitFor();
  await checkPage(page, "sandbox-network");
  await page.getByLabel("Host, path or reason").fill("192.0.2.8");
  await page.getByText("192.0.2.7:443").first().waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Copy the rule" }).first().click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "192.0.2.8:443");
  await page.getByLabel("Decision").selectOption("allowed");
  await page.getByText("There are none.").waitFor();
});

test("sandboxes: hostile names and output do not run", async () => {
  await call(server, "/v1/sandboxes", { name: "hostile", metadata: { "<img src=x onerror=alert(1)>": "x" } });
  await call(server, "/v1/sandboxes/hostile/run", { command: ["sh", "-c",
    `touch '/workspace/<img src=x onerror=alert(1)>.txt'
printf '\\033]0;owned\\007\\033[2J<script>alert(2)</script>\\342\\200\\256txt.exe'`] });
  const page = await open(browser, server, { path: "/#/sandboxes/hostile/files" });
  let dialogs = 0;
  page.on("dialog", (d) => (dialogs++, d.dismiss()));
  await page.getByRole("button", { name: "<img src=x onerror=alert(1)>.txt", exact: true }).waitFor();
  await page.getByRole("tab", { name: "runs" }).click();
  await page.locator("pre.output", { hasText: "<script>alert(2)</script>" }).waitFor();
  assert.doesNotMatch(await page.locator("pre.output").innerText(), /owned|\x1b/);
  assert.equal(dialogs, 0);
  assert.notEqual(await page.title(), "owned");
  assert.deepEqual(page.complaints, []);
});

test("sandboxes: an operator sees and ends those of all owners, others see their own", async () => {
  const file = join(server.state, "keys");
  const keys = { alice: createKey("alice", file), bob: createKey("bob", file) };
  keys.root = createKey("root", file, "--operator");
  const keyed = await serve("--api-key-file", file);
  try {
    for (const name of ["alice", "bob"]) {
      const answer = await fetch(keyed.url + "/v1/sandboxes", { method: "POST",
        body: JSON.stringify({ name: "of-" + name }),
        headers: { "Content-Type": "application/json", Authorization: "Bearer " + keys[name] } });
      assert.ok(answer.ok);
    }
    const login = async (name) => {
      const page = await open(browser, keyed, { path: "/#/sandboxes", allowed: /401/ });
      page.on("dialog", (d) => d.accept());
      await page.getByLabel("API key").fill(keys[name]);
      await page.getByRole("button", { name: "Log in" }).click();
      await page.getByRole("rowheader").first().waitFor();
      return page;
    };
    const bob = await login("bob");
    assert.deepEqual(await bob.getByRole("rowheader").allInnerTexts(), ["of-bob"]);
    const root = await login("root");
    assert.deepEqual(await root.getByRole("rowheader").allInnerTexts(), ["of-alice", "of-bob"]);
    assert.equal(await root.getByRole("link", { name: "of-alice" }).count(), 0);
    await checkPage(root, "operator");
    await bob.getByRole("link", { name: "of-bob" }).click();
    await bob.getByLabel("Command line to start").fill("python3 -m http.server 8000");
    await bob.getByRole("button", { name: "Start" }).click();
    await bob.getByText("Running…").waitFor();
    await bob.getByRole("tab", { name: "ports" }).click();
    const show = bob.getByRole("button", { name: "Show port 8000" });
    while (!(await show.count())) { // the program does not listen yet
      await bob.getByRole("button", { name: "Refresh" }).click();
      await bob.waitForTimeout(100);
    }
    await show.click(); // with the key, which a link cannot send
    await bob.frameLocator("iframe.result").getByRole("heading", { name: /Directory listing/ }).waitFor();
    await root.getByRole("button", { name: "End of-alice" }).click();
    await root.getByRole("rowheader", { name: "of-alice" }).waitFor({ state: "detached" });
  } finally {
    await keyed.close();
  }
});
