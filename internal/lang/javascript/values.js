// The forms of results. Part of driver.js, whose constants it uses.

const IMAGES = [["image/png", [0x89, 0x50, 0x4e, 0x47]], ["image/jpeg", [0xff, 0xd8, 0xff]]];
// JavaScript kernels of Jupyter call this method of a value for its forms.
const HOOK = Symbol.for("Jupyter.display");
const HOOKED = ["text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/latex"];

// forms returns pairs of a media type and bytes, richest first.
function forms(value) {
  const found = [];
  const add = (type, data) => { found[found.length] = type; found[found.length] = data; };
  if (value !== null && (typeof value === "object" || typeof value === "function") && !isProxy(value)) {
    if (typeof value[HOOK] === "function") {
      const bundle = value[HOOK]();
      for (let i = 0; i < HOOKED.length; i++) {
        const data = bundle?.[HOOKED[i]], raster = HOOKED[i] === "image/png" || HOOKED[i] === "image/jpeg";
        if (typeof data === "string" && data.length <= MAX_IMAGE) add(HOOKED[i], bytesOf(data, raster ? "base64" : "utf8"));
      }
    }
    const svg = svgOf(value);
    if (svg !== null) add("image/svg+xml", bytesOf(svg));
    for (let i = 0; value instanceof Uint8Array && i < IMAGES.length; i++) {
      const type = IMAGES[i][0], magic = IMAGES[i][1];
      let same = value.length > magic.length && value.length <= MAX_IMAGE;
      for (let k = 0; k < magic.length; k++) same &&= value[k] === magic[k];
      if (same) add(type, value);
    }
  }
  if (isPlain(value, { left: MAX_JSON_VALUES, open: new Set() })) {
    const json = bytesOf(stringify(value));
    if (json.length <= MAX_JSON) add("application/json", json);
  }
  add("text/plain", bounded(inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: MAX_TEXT }), MAX_TEXT));
  return found;
}

// svgOf returns the picture of a chart whose toString returns one, or of an element of a document, or null.
function svgOf(value) {
  for (let i = 0; i < 2; i++) {
    try {
      const text = i === 0 ? pictureText(value) : value.outerHTML;
      if (typeof text === "string" && text.length <= MAX_IMAGE && exec(SVG, text) !== null) return text;
    } catch {}
  }
  return null;
}
const SVG = /^\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE[^>]*>\s*)?<svg[\s/>]/;

// pictureText calls toString of a class of the code. Those of the language return no pictures.
function pictureText(value) {
  const method = value.toString;
  if (typeof method !== "function" || isArray(value) || value instanceof Uint8Array) return null;
  return exec(/\[native code\]/, apply(functionToString, method, [])) === null ? apply(method, value, []) : null;
}
const functionToString = Function.prototype.toString;

// isPlain reports whether JSON represents a value completely. It calls no code of the value.
function isPlain(value, budget) {
  if (budget.left-- <= 0) return false;
  switch (typeof value) {
  case "string": return value.length <= MAX_JSON;
  case "boolean": return true;
  case "number": return value - value === 0;
  case "object": break;
  default: return false;
  }
  if (value === null) return true;
  if (isProxy(value) || setHas(budget.open, value)) return false;
  const shape = getPrototypeOf(value);
  if (shape !== null && shape !== plainShape && shape !== listShape) return false;
  if (isArray(value) && value.length > budget.left) return false;
  setAdd(budget.open, value); // a value that occurs twice counts as recursive
  const keys = ownKeys(value);
  for (let i = 0; i < keys.length; i++) {
    if (typeof keys[i] !== "string") return false;
    if (keys[i] === "length" && isArray(value)) continue;
    const own = getOwnPropertyDescriptor(value, keys[i]);
    if (!own.enumerable || !hasOwn(own, "value") || !isPlain(own.value, budget)) return false;
  }
  return !isArray(value) || keys.length === value.length + 1;
}
const plainShape = Object.prototype, listShape = Array.prototype;

// isShown reports whether the value of the last expression is a result. Like undefined, a timer is none: nobody calls
// setTimeout, setInterval or setImmediate to see Node's object of a dozen fields.
function isShown(value) {
  if (value === undefined || value === null || typeof value !== "object" || isProxy(value)) return value !== undefined;
  const shape = getPrototypeOf(value);
  return shape === null || (shape !== timerShape && shape !== immediateShape);
}
const shapeOf = (timer, clear) => { clear(timer); return getPrototypeOf(timer); };
const timerShape = shapeOf(setTimeout(() => {}), clearInterval);
const immediateShape = shapeOf(setImmediate(() => {}), clearImmediate);

// show reports one result. A value that fails affects no other.
function show(value, main) {
  let shown;
  try {
    shown = forms(value);
  } catch (e) {
    let why = "";
    try { why = ": " + firstLine(e); } catch {}
    shown = ["text/plain", bounded("a value that cannot be shown" + why, MAX_TEXT)];
  }
  if (isOwn()) {
    const fields = [run.id, main];
    for (let i = 0; i < shown.length; i++) fields[i + 2] = shown[i];
    report("result", fields);
  }
  else print(1, concat([shown[shown.length - 1], bytesOf("\n")]));
}

defineProperty(world, "display", { configurable: true, writable: true, value: function display(...values) {
  for (let i = 0; i < values.length; i++) show(values[i], "0");
} });
