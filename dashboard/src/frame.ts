// The script of frame.html: shows HTML that the page around it sends. Scripts in the HTML do not run: parsed elements
// have none that runs, and the policy of this page admits no others. Elements that leave the page are removed.
addEventListener("message", (e) => {
  if (e.source !== parent || typeof e.data?.html !== "string") return;
  const dark = e.data.dark === true;
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  document.body.style.cssText = "margin:4px;font:14px system-ui,sans-serif;color:" + (dark ? "#ddd" : "#111");
  const parsed = new DOMParser().parseFromString(e.data.html, "text/html");
  const leaving = "script, meta, base, link, iframe, frame, object, embed";
  for (const element of parsed.querySelectorAll(leaving)) element.remove();
  document.body.replaceChildren(...parsed.head.querySelectorAll("style"), ...parsed.body.childNodes);
  parent.postMessage({ height: document.documentElement.scrollHeight }, "*");
});
addEventListener("click", (e) => {
  const link = (e.target as Element | null)?.closest?.("a");
  if (link && !link.getAttribute("href")?.startsWith("#")) e.preventDefault(); // it would replace this page
});
parent.postMessage({ ready: true }, "*");
