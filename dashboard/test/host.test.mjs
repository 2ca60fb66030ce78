import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { call, checkPage, open, serve, startBrowser } from "./browser.mjs";

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([serve(), startBrowser()]);
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
