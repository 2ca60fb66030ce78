// Calls tools: functions of the client. Part of driver.js, whose constants it uses.

const MAX_ARGUMENTS = 1 << 20; // bytes, as in package toolcall
const { Promise: OwnPromise } = globalThis, { parse } = JSON, { keys: keysOf } = Object;

let calls = { __proto__: null }, made = 0; // the calls of the run that wait, by id; the number of all

// defineTools defines a global function for each tool.
function defineTools(text) {
  const tools = parse(text);
  for (let i = 0; i < tools.length; i++) {
    const { name, description, schema } = tools[i];
    const properties = typeof schema?.properties === "object" && schema.properties !== null ? keysOf(schema.properties) : [];
    const stub = { [name]: (...given) => call(name, argumentsOf(given, properties)) }[name];
    stubAdd(stubs, stub);
    defineProperty(stub, "description", { value: description });
    defineProperty(stub, "schema", { value: schema });
    try {
      defineProperty(world, name, { configurable: true, writable: true, value: stub });
    } catch {} // the code made a constant of this name
  }
}

// argumentsOf returns the object of arguments: the only argument, if it is one, or else the arguments by position.
function argumentsOf(given, properties) {
  const only = given[0];
  if (given.length === 1 && typeof only === "object" && only !== null && !isArray(only)) return only;
  if (given.length > properties.length) throw new TypeError("the tool has " + properties.length + " parameters");
  const named = {};
  for (let i = 0; i < given.length; i++) named[properties[i]] = given[i];
  return named;
}

function call(name, given) {
  return new OwnPromise((resolve, reject) => {
    if (!isOwn()) throw new Error("the run that called the tool has ended");
    const data = bytesOf(stringify(given));
    if (data.length > MAX_ARGUMENTS) throw new Error("the arguments of a tool have at most " + MAX_ARGUMENTS + " bytes");
    const id = String(++made);
    calls[id] = { resolve, reject };
    report("call", [run.id, id, name, data]);
  });
}

// takeAnswer settles the promise of a call.
function takeAnswer(id, ok, data) {
  const waiting = calls[id];
  if (waiting === undefined || run === null) return;
  delete calls[id];
  hint = run.number;
  if (others) forget(++hints, HOPS);
  if (ok === "1") return waiting.resolve(parse(textOf(data)));
  const e = new Error(textOf(data));
  e.name = "ToolError";
  waiting.reject(e);
}
