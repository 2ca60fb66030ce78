"use strict";

// Searches the index of index.js. Every word of the query must occur in a section; titles count more than text.
(() => {
  const MOST = 12;
  const AROUND = 60; // characters of text before and after the first word
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  const sections = window.searchIndex.map((s) => ({ ...s, title: s.t.toLowerCase(), text: s.x.toLowerCase() }));

  // score returns how well a section matches, or 0.
  function score(section, words) {
    let sum = 0;
    for (const word of words) {
      const inTitle = section.title.includes(word);
      const at = section.text.indexOf(word);
      if (!inTitle && at < 0) return 0;
      sum += (inTitle ? 10 : 0) + (section.title.startsWith(word) ? 5 : 0) + (at >= 0 ? 1 : 0);
    }
    return sum;
  }

  // excerpt returns the text around the first word that occurs in it.
  function excerpt(section, words) {
    const places = words.map((word) => section.text.indexOf(word)).filter((at) => at >= 0);
    const at = places.length > 0 ? Math.min(...places) : 0;
    const from = Math.max(0, at - AROUND);
    return (from > 0 ? "... " : "") + section.x.slice(from, at + AROUND);
  }

  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    found.replaceChildren();
    found.hidden = words.length === 0;
    if (words.length === 0) return;
    const matches = sections
      .map((section) => ({ section, value: score(section, words) }))
      .filter((match) => match.value > 0)
      .sort((a, b) => b.value - a.value)
      .slice(0, MOST);
    if (matches.length === 0) found.textContent = "Nothing found";
    for (const { section } of matches) {
      const link = document.createElement("a");
      link.href = section.p;
      const text = document.createElement("span");
      text.textContent = excerpt(section, words);
      link.append(section.t, text);
      found.append(link);
    }
  }

  input.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && found.contains(document.activeElement) || event.key === "Escape" &&
      document.activeElement === input) {
      input.value = "";
      show();
    } else if (event.key === "Enter" && document.activeElement === input) {
      found.querySelector("a")?.click();
    }
  });
})();
