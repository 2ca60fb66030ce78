// Exports and imports the variables of a context. docs/state.md describes the document. Part of driver.js, whose
// constants it uses.

const MAX_DOCUMENT = 20 << 20, MAX_VALUES = 16 << 20, MAX_DEPTH = 40, MAX_ABSENT = 1000; // as in Python's driver
const { isMap, isSet, isDate, isRegExp, isTypedArray, isArrayBuffer, isModuleNamespaceObject } =
  require("node:util").types;
const { create: objectOf } = Object;
const mapEach = uncurry(Map.prototype.forEach), setEach = uncurry(Set.prototype.forEach);
const mapSet = uncurry(Map.prototype.set), mapGet = uncurry(Map.prototype.get), mapHas = uncurry(Map.prototype.has);
const dateTime = uncurry(Date.prototype.getTime), isoTime = uncurry(Date.prototype.toISOString);
const hexOf = uncurry(BigInt.prototype.toString);
const wellFormed = (text) => textOf(bytesOf(text)) === text; // without lone surrogates
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u, PRIVATE = /#[\p{ID_Start}$_]/u;
const ARRAYS = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
  Float32Array, Float64Array, BigInt64Array, BigUint64Array, Buffer];
const stubs = new WeakSet(); // functions of tools
const stubAdd = uncurry(WeakSet.prototype.add), stubHas = uncurry(WeakSet.prototype.has);

let ownNames; // of the global object before any code

class Refused extends Error {}

const tagged = (tag, value) => ({ ["$" + tag]: value });

// lexicalNames returns the names that the code declared by let, const and class.
function lexicalNames() {
  let names = [];
  command("Runtime.globalLexicalScopeNames", {}, (e, answer) => { if (!e) names = answer.names; });
  return names;
}

// evaluate returns the value of an expression of the driver's own making.
function evaluate(expression, effects) {
  let value;
  command("Runtime.evaluate", { expression, throwOnSideEffect: !effects, objectGroup: "run" }, (e, answer) => {
    if (e) throw new Refused("it could not be evaluated");
    const failed = answer.exceptionDetails;
    if (failed) throw new Refused(String(failed.exception?.description).slice(0, 300));
    value = take(answer.result);
  });
  return value;
}

// variable returns the value of a variable.
function variable(name, lexical) {
  if (lexical.includes(name)) return evaluate(name);
  const own = getOwnPropertyDescriptor(world, name);
  if (own === undefined) throw new Refused("there is no variable of this name");
  if (!hasOwn(own, "value")) throw new Refused("it is computed by a getter");
  return own.value;
}

// loaded returns the modules of Node that are in use, by name.
function loaded() {
  const names = new Set(host.moduleLoadList);
  const used = Module.builtinModules.filter((name) => setHas(names, "NativeModule " + name));
  return used.map((name) => [name, require(name)]);
}

class Encoder {
  constructor(lexical) {
    this.lexical = lexical;
    this.used = 0;
    this.known = new Map();
    this.alive = [];
    this.modules = loaded();
  }

  count(size) {
    this.used += size;
    if (this.used > MAX_VALUES) throw new Refused("it is too large: a document has at most " + MAX_VALUES + " bytes");
  }

  // once encodes a value that has an identity, or a reference to it.
  once(value, encode) {
    if (mapHas(this.known, value)) return tagged("ref", mapGet(this.known, value));
    mapSet(this.known, value, this.alive.length);
    this.alive[this.alive.length] = value;
    return encode();
  }

  // undo forgets the values after a number.
  undo(count, used) {
    for (let i = count; i < this.alive.length; i++) this.known.delete(this.alive[i]);
    this.alive.length = count;
    this.used = used;
  }

  text(text) {
    this.count(text.length);
    return wellFormed(text) ? text : tagged("utf16", textOf(bytesOf(text, "utf16le"), "base64"));
  }

  encode(value, depth) {
    this.count(8);
    if (depth > MAX_DEPTH) throw new Refused("it is nested more than " + MAX_DEPTH + " deep");
    switch (typeof value) {
    case "boolean": return value;
    case "undefined": return tagged("undefined", null);
    case "string": return this.text(value);
    case "number": return this.number(value);
    case "bigint": {
      const text = hexOf(value < 0n ? -value : value, 16);
      this.count(text.length);
      return tagged("int", (value < 0n ? "-0x" : "0x") + text);
    }
    case "function": return this.definition(value);
    case "symbol": throw new Refused("a symbol cannot be carried");
    }
    return value === null ? null : this.object(value, depth + 1);
  }

  number(value) {
    if (value !== value) return tagged("float", "nan");
    if (value - value !== 0) return tagged("float", value > 0 ? "inf" : "-inf");
    return value === 0 && 1 / value < 0 ? tagged("float", "-0.0") : value;
  }

  object(value, depth) {
    if (isProxy(value)) throw new Refused("a proxy cannot be carried");
    for (const [name, module] of this.modules) {
      const same = value === module || isModuleNamespaceObject(value) && value.default === module;
      if (same) return tagged("module", "node:" + name);
    }
    const shape = getPrototypeOf(value);
    if (isArray(value) && shape === listShape) return this.once(value, () => this.list(value, depth));
    if (isMap(value) && shape === Map.prototype) {
      return this.once(value, () => tagged("dict", this.entries(value, depth)));
    }
    if (isSet(value) && shape === Set.prototype) {
      return this.once(value, () => {
        const items = [];
        setEach(value, (item) => { items[items.length] = this.encode(item, depth); });
        return tagged("set", items);
      });
    }
    if (isDate(value) && shape === Date.prototype) {
      return this.once(value, () => tagged("instant", this.time(value)));
    }
    if (isRegExp(value) && shape === RegExp.prototype) {
      return this.once(value, () => tagged("regexp", [this.text(value.source), value.flags]));
    }
    if (isTypedArray(value) || isArrayBuffer(value)) return this.once(value, () => this.bytes(value, shape));
    if (isNativeError(value)) {
      return this.once(value, () => tagged("error", [this.text(String(value.name)), this.text(String(value.message))]));
    }
    if (shape === plainShape || shape === null) return this.once(value, () => this.record(value, depth));
    return this.instance(value, shape, depth);
  }

  list(value, depth) {
    const items = [];
    for (let i = 0; i < value.length; i++) {
      if (!hasOwn(value, i)) throw new Refused("it is an array with holes");
      items[i] = this.encode(value[i], depth);
    }
    if (ownKeys(value).length !== value.length + 1) throw new Refused("it is an array with properties");
    return items;
  }

  entries(value, depth) {
    const pairs = [];
    mapEach(value, (item, key) => { pairs[pairs.length] = [this.encode(key, depth), this.encode(item, depth)]; });
    return pairs;
  }

  time(value) {
    const time = dateTime(value);
    return time === time ? isoTime(value).replace("Z", "+00:00") : "invalid";
  }

  bytes(value, shape) {
    const kind = isArrayBuffer(value) ? ArrayBuffer : ARRAYS.find((kind) => kind.prototype === shape);
    if (kind === undefined) throw new Refused("its class extends one of typed arrays");
    this.count(value.byteLength * 4 / 3);
    const data = kind === ArrayBuffer ? bytesOf(value) : bytesOf(value.buffer, value.byteOffset, value.byteLength);
    return tagged("typed", [kind.name, textOf(data, "base64")]);
  }

  // fields returns pairs of the names and the values of an object.
  fields(value, depth) {
    const keys = ownKeys(value), pairs = [];
    for (let i = 0; i < keys.length; i++) {
      const own = getOwnPropertyDescriptor(value, keys[i]);
      const named = typeof keys[i] === "string" && own.enumerable;
      if (!named) throw new Refused("it has properties that are symbols or hidden");
      if (!hasOwn(own, "value")) throw new Refused("a property is computed by a getter: " + slice(keys[i], 0, 100));
      pairs[i] = [this.text(keys[i]), this.encode(own.value, depth)];
    }
    return pairs;
  }

  record(value, depth) {
    const pairs = this.fields(value, depth);
    const isPlain = ([key]) => typeof key === "string" && key[0] !== "$" && key !== "__proto__";
    return getPrototypeOf(value) !== null && pairs.every(isPlain) ? Object.fromEntries(pairs) : tagged("record", pairs);
  }

  instance(value, shape, depth) {
    const kind = getOwnPropertyDescriptor(shape, "constructor")?.value;
    const name = typeof kind === "function" ? kind.name : "";
    let found;
    try { found = NAME.test(name) && variable(name, this.lexical); } catch {}
    if (found !== kind || kind === undefined || kind.prototype !== shape) {
      throw new Refused("a value of class " + String(name).slice(0, 100) + " cannot be carried");
    }
    for (let k = kind; typeof k === "function" && k.prototype; k = getPrototypeOf(k)) {
      const text = functionText(k);
      if (text.includes("[native code]")) throw new Refused("its class " + name + " extends one of the language");
      if (PRIVATE.test(text)) throw new Refused("its class " + name + " has private members");
    }
    return this.once(value, () => tagged("object", { class: name, state: this.fields(value, depth) }));
  }

  // definition encodes a function or a class: by its text, or by the module of Node that has it.
  definition(value) {
    const { name } = value, text = functionText(value);
    if (stubHas(stubs, value)) throw new Refused("it is a tool");
    for (const [from, module] of this.modules) {
      if (NAME.test(name) && getOwnPropertyDescriptor(module, name)?.value === value) {
        return tagged("source", { name, from: "node:" + from });
      }
    }
    if (text.includes("[native code]")) throw new Refused("its source is not known");
    if (isProxy(value)) throw new Refused("a proxy cannot be carried");
    try {
      new vm.Script("(" + text + "\n)");
    } catch {
      throw new Refused("it is a method, whose text is no expression");
    }
    if (hasClosure(value)) throw new Refused("it has a closure");
    return tagged("source", { name: String(name), text: this.text(text), language: "javascript" });
  }
}

const functionText = (value) => apply(functionToString, value, []);

// hasClosure reports whether a function uses variables of a function or a block around it.
function hasClosure(value) {
  let scopes = [];
  defineProperty(world, "__state", { configurable: true, value });
  const properties = (objectId, then) => command("Runtime.getProperties", { objectId, ownProperties: true }, then);
  command("Runtime.evaluate", { expression: "__state", objectGroup: "run" }, (e, answer) => {
    if (e) return;
    properties(answer.result.objectId, (e, own) => {
      const found = e ? undefined : own.internalProperties?.find((p) => p.name === "[[Scopes]]");
      if (found?.value?.objectId) properties(found.value.objectId, (e, list) => { if (!e) scopes = list.result; });
    });
  });
  delete world.__state;
  return scopes.some((scope) => /^(?:Closure|Block|Catch|With|Module|Local)/.test(scope.value?.description ?? ""));
}

function documentOf(names) {
  const lexical = lexicalNames(), encoder = new Encoder(lexical), variables = {}, first = {}, missing = [];
  const isOfCode = (key) => typeof key === "string" && !setHas(ownNames, key);
  const all = names.length > 0 ? names : [...new Set([...ownKeys(world).filter(isOfCode), ...lexical])];
  for (const name of all) {
    const count = encoder.alive.length, { used } = encoder;
    let value;
    try {
      encoder.count(name.length);
      value = variable(name, lexical);
      if (names.length === 0 && typeof value === "function" && stubHas(stubs, value)) continue;
      defineProperty(variables, name, { enumerable: true, configurable: true, value: encoder.encode(value, 0) });
      first[name] = count;
    } catch (e) {
      encoder.undo(count, used);
      if (missing.length < MAX_ABSENT) {
        missing.push({ name: name.slice(0, 200), type: value === undefined ? "" : typeof value,
          reason: String(e instanceof Refused ? e.message : e).slice(0, 500) });
      }
    }
  }
  return { version: 1, language: "javascript", variables, first, missing };
}

class Decoder {
  constructor(lexical) {
    this.lexical = lexical;
    this.made = new Map();
    this.next = 0;
  }

  // keep numbers a value before its content is decoded, which may refer to it.
  keep(value, fill) {
    mapSet(this.made, this.next++, value);
    fill?.(value);
    return value;
  }

  decode(value, depth) {
    if (depth > 2 * MAX_DEPTH) throw new Refused("it is nested too deeply");
    if (value === null || typeof value !== "object") return value;
    if (isArray(value)) {
      return this.keep([], (out) => {
        for (let i = 0; i < value.length; i++) out[i] = this.decode(value[i], depth + 1);
      });
    }
    const keys = ownKeys(value);
    if (keys.length === 1 && keys[0][0] === "$") return this.tag(keys[0], value[keys[0]], depth + 1);
    return this.keep({}, (out) => this.fill(out, keys.map((key) => [key, value[key]]), depth));
  }

  fill(out, pairs, depth) {
    for (const [key, item] of pairs) {
      const name = String(this.decode(key, depth + 1)), value = this.decode(item, depth + 1);
      defineProperty(out, name, { configurable: true, enumerable: true, writable: true, value });
    }
  }

  tag(tag, value, depth) {
    switch (tag) {
    case "$undefined": return undefined;
    case "$float": return { nan: NaN, inf: Infinity, "-inf": -Infinity, "-0.0": -0 }[value] ?? Number(value);
    case "$int": return value[0] === "-" ? -BigInt(value.slice(1)) : BigInt(value);
    case "$utf16": return textOf(bytesOf(value, "base64"), "utf16le");
    case "$tuple": return value.map((item) => this.decode(item, depth)); // of Python, as are the next three
    case "$datetime": return new Date(value);
    case "$bytes": return new Uint8Array(bytesOf(value, "base64"));
    case "$bytearray": return this.keep(new Uint8Array(bytesOf(value, "base64")));
    case "$instant": return this.keep(new Date(value === "invalid" ? NaN : value));
    case "$regexp": return this.keep(new RegExp(this.decode(value[0], depth), value[1]));
    case "$typed": return this.keep(this.typed(value[0], bytesOf(value[1], "base64")));
    case "$error": return this.keep(this.error(this.decode(value[0], depth), this.decode(value[1], depth)));
    case "$set": return this.keep(new Set(), (out) => {
      for (const item of value) setAdd(out, this.decode(item, depth));
    });
    case "$dict": return this.keep(new Map(), (out) => {
      for (const [key, item] of value) mapSet(out, this.decode(key, depth), this.decode(item, depth));
    });
    case "$record": return this.keep({}, (out) => this.fill(out, value, depth));
    case "$object":
      return this.keep(objectOf(this.kind(value.class).prototype), (out) => this.fill(out, value.state, depth));
    case "$module": return this.module(value);
    case "$source": return this.definition(value);
    case "$ref":
      if (!mapHas(this.made, value)) throw new Refused("it refers to a value that was not carried");
      return mapGet(this.made, value);
    }
    throw new Refused("the tag " + tag.slice(0, 40) + " is unknown");
  }

  typed(name, data) {
    const copy = new Uint8Array(data).buffer;
    if (name === "ArrayBuffer") return copy;
    if (name === "Buffer") return bytesOf(copy);
    const kind = ARRAYS.find((kind) => kind.name === name);
    if (kind === undefined) throw new Refused("there is no array " + String(name).slice(0, 40));
    return new kind(copy);
  }

  error(name, message) {
    const kinds = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
    const kind = kinds.find((kind) => kind.name === name) ?? Error, e = new kind(message);
    if (kind.name !== name) defineProperty(e, "name", { configurable: true, writable: true, value: name });
    return e;
  }

  kind(name) {
    const kind = NAME.test(name) ? variable(name, this.lexical) : undefined;
    if (typeof kind === "function" && typeof kind.prototype === "object") return kind;
    throw new Refused("there is no class " + String(name).slice(0, 40));
  }

  module(name) {
    if (!isBuiltin(name)) throw new Refused(String(name).slice(0, 40) + " is no module of Node");
    return require(name);
  }

  definition(parts) {
    if (parts.from !== undefined) return this.module(parts.from)[parts.name];
    if (parts.language !== "javascript") throw new Refused("its source is not of JavaScript");
    const text = String(parts.text);
    const value = evaluate("(" + text + "\n)", true);
    if (typeof value !== "function") throw new Refused("its source is not that of a function or a class");
    return value;
  }
}

function setAll(document) {
  const { variables, first } = document ?? {};
  if (document?.version !== 1 || typeof variables !== "object" || variables === null || isArray(variables)) {
    throw new Error("this is not version 1 of a document of variables");
  }
  const lexical = lexicalNames(), decoder = new Decoder(lexical), set = [];
  let left = keysOf(variables), failures = {};
  for (let before = Infinity; left.length > 0 && left.length < before;) { // again, as long as that helps
    before = left.length;
    failures = { __proto__: null };
    for (const name of left) {
      try {
        if (!NAME.test(name) || startsWith(name, "__")) throw new Refused("this is not the name of a variable");
        decoder.next = first?.[name] ?? 0;
        assign(name, decoder.decode(variables[name], 0), lexical);
        set.push(name);
      } catch (e) {
        failures[name] = String(e instanceof Refused ? e.message : e).slice(0, 500);
      }
    }
    left = keysOf(failures);
  }
  const missing = left.map((name) => ({ name: name.slice(0, 200), type: "", reason: failures[name] }));
  return { set, missing: missing.slice(0, MAX_ABSENT) };
}

function assign(name, value, lexical) {
  const own = getOwnPropertyDescriptor(world, name);
  if (!lexical.includes(name)) {
    if (own?.writable) world[name] = value; // a variable of var cannot be defined again
    else defineProperty(world, name, { configurable: true, enumerable: true, writable: true, value });
    return;
  }
  defineProperty(world, "__state", { configurable: true, value });
  try {
    evaluate(name + " = __state", true);
  } finally {
    delete world.__state;
  }
}

// handleState answers an export or an import.
function handleState(kind, id, data) {
  let ok = "0", answer = bytesOf("interrupted");
  guard(() => {
    watchdog.seen();
    try {
      const request = parse(textOf(data));
      const text = bytesOf(stringify(kind === "export" ? documentOf(request) : setAll(request)));
      if (text.length > MAX_DOCUMENT) {
        throw new Refused("the document has " + text.length + " bytes, over " + MAX_DOCUMENT + "; name the variables");
      }
      [ok, answer] = ["1", text];
    } catch (e) {
      answer = cut(bytesOf(String(e)), 0, 4000);
    }
  });
  report("state", [id, ok, answer]);
  command("Runtime.releaseObjectGroup", { objectGroup: "run" });
}
