import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { call, checkPage, open, serve, startBrowser } from "./browser.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve("--templates", "1MiB"), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test("host: load, latencies, backends, limits, languages, volumes", async () => {
  await call(server, "/v1/run", { code: "print(1)" });
  const page = await open(browser, server, { path: "/#/host" });
  const latency = page.getByRole("region", { name: "Latency of requests" });
  await latency.getByRole("rowheader", { name: "POST /v1/run" }).waitFor();
  const cells = await latency.getByRole("row", { name: /POST \/v1\/run/ }).getByRole("cell").allInnerTexts();
  assert.equal(cells.length, 4);
  assert.match(cells[1], /\d m?s/);
  await page.getByRole("heading", { name: /Backend native/ }).waitFor();
  await page.getByRole("rowheader", { name: "seccomp" }).first().waitFor();
  await page.getByRole("rowheader", { name: "Python" }).waitFor();
  await checkPage(page, "host");
  await page.getByLabel("Colors").selectOption("dark");
  await checkPage(page, "host-dark");
});

// addLayer adds a layer to the package cache of a server, as an installation leaves it.
function addLayer(server, digest, packages) {
  const folder = join(server.state, "cache", "fumehood", "packages", "trees", digest);
  mkdirSync(join(folder, "files"), { recursive: true });
  writeFileSync(join(folder, "used"), "\n\n\n");
  writeFileSync(join(folder, "record.json"), JSON.stringify({ digest, language: "python", packages, bytes: 3 << 20 }));
}

test("host: images, templates, volumes, packages", async () => {
  await call(server, "/v1/templates", { name: "bio", dockerfile: "FROM scratch\nCOPY a /a",
    files: [{ path: "a", content: "x".repeat(2048) }] });
  await call(server, "/v1/volumes", { name: "data", size_mib: 64, allow_unenforced: ["disk", "inodes"] });
  addLayer(server, "a".repeat(64), [{ name: "<script>alert(1)</script>", version: "1" }]);
  addLayer(server, "b".repeat(64), [..."abcdefgh"].map((name) => ({ name, version: "2.0" })));
  const page = await open(browser, server, { path: "/#/host" });
  const cells = async (region, row) => {
    const found = page.getByRole("region", { name: region }).getByRole("row").filter({ hasText: row });
    await found.waitFor();
    return found.getByRole("cell").allInnerTexts();
  };
  const image = await cells("Images and templates", /docker.io.library.bio:latest\s*template/);
  assert.equal(image[0], "4.0 KiB"); // a file takes whole blocks
  assert.equal(image[3], "0");
  assert.equal((await cells("Volumes", /data/))[1], "64 MiB");
  assert.deepEqual((await cells("Packages", /<script>alert/)).slice(0, 2), ["python", "3.0 MiB"]);
  const layer = await cells("Packages", /a 2\.0.* and 3 more/);
  assert.equal(layer[3], "3");
  await page.getByRole("heading", { name: "Packages" }).scrollIntoViewIfNeeded();
  await checkPage(page, "host-stores");
});

test("pages are reached by keyboard", async () => {
  const page = await open(browser, server);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Skip to the content");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Sandboxes");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Sandboxes" }).waitFor();
  await checkPage(page, "sandboxes-empty");
});
