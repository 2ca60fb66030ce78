// Describes exceptions as Node prints them, without frames of the driver. Part of driver.js, whose constants it uses.

// nodeErrorMark is the symbol that marks errors of Node itself, whose traces also begin with their code.
const nodeErrorMark = (() => {
  try { path.join(0); } catch (e) { return ownKeys(e).find((key) => String(key) === "Symbol(kIsNodeError)"); }
})();

function firstLine(error) {
  try {
    if (nodeErrorMark !== undefined && hasOwn(error, nodeErrorMark)) return `${error.name} [${error.code}]: ${error.message}`;
    return apply(errorToString, error, []);
  } catch {
    return "<error>";
  }
}
const errorToString = Error.prototype.toString;

// Traces contain no frames of the driver or its callers.
defineProperty(Error, "prepareStackTrace", { configurable: true, writable: true, value: (error, frames) => {
  const lines = [];
  for (let i = 0; i < frames.length; i++) {
    const file = frames[i].getScriptNameOrSourceURL() ?? "";
    if (file !== OWN) lines[lines.length] = [file, "\n    at " + frames[i]];
    else if (lines.length > 0) break;
  }
  while (lines.length > 0 && startsWith(lines[lines.length - 1][0], "node:inspector")) lines.length--;
  let text = firstLine(error);
  for (let i = 0; i < lines.length; i++) text += lines[i][1];
  return text;
} });

// describe returns the fields of an error, and the text that Node would print above and below it.
function describe(thrown, details) {
  let name = "Uncaught", value, trace;
  try {
    if (isNativeError(thrown) || thrown instanceof Error) {
      name = String(thrown.name || "Error");
      value = String(thrown.message);
      trace = inspect(thrown);
      if (trace[0] === "[") trace = slice(trace, 1, -1); // without frames
    }
  } catch {}
  try {
    value ??= typeof thrown === "string" ? thrown : inspect(thrown);
    trace ??= "Uncaught " + inspect(thrown);
  } catch {
    value ??= "a value that cannot be shown";
    trace ??= "Uncaught " + value;
  }
  return { name, value, trace, printed: place(thrown, trace, details) + trace + "\n" };
}

// place returns the line of the code that threw, as Node prints it.
function place(thrown, trace, details) {
  if (run === null) return "";
  const name = fileName(run), at = indexOf(trace, name + ":");
  const found = at < 0 ? null : exec(/^:(\d+):(\d+)/, slice(trace, at + name.length, at + name.length + 24));
  let line = found && Number(found[1]), column = found && Number(found[2]);
  if (!found && details && startsWith(trace, "SyntaxError") && indexOf(trace, "\n    at ") < 0) { // a syntax error has no frames
    line = details.lineNumber + 1;
    column = details.columnNumber + 1;
  }
  if (!line) return "";
  const source = split(run.code, "\n", line)[line - 1] ?? "";
  if (source.length > MAX_SOURCE_LINE) return `${name}:${line}\n\n`;
  return `${name}:${line}\n${source}\n${repeat(" ", min(column - 1, source.length))}^\n\n`;
}
