// rewrite converts code for a context: import(x) becomes a call of IMPORT, a static import becomes a declaration with
// await, an export becomes what it exports, and a constant of the script becomes a variable, because V8 lets a later
// run redeclare let as let and const as const, but not one as the other. Lines stay the same. Like package lex, it
// skips comments, strings, templates and regular expressions without parsing the language.
const IMPORT = "\u0131mport"; // as long as the keyword, so that columns in traces are right

const rewrite = (() => {
  const word = /[\w$\u0080-\uffff]+/y, space = /(?:[ \t\r\n\ufeff\u2028\u2029]|\/\/[^\n]*|\/\*[^]*?\*\/)+/y;
  const string = /"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?/y, pattern = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])*\/?/y;
  const template = /(?:\\[^]|\$(?!\{)|[^`\\$])*(?:`|\$\{)?/y;
  const clauses = /import\b(?:([\s\w$\u0080-\uffff*{},"'-]+?)\bfrom\b|)/.source, source = /\s*("[^"\n]*"|'[^'\n]*')/.source;
  const options = /(?:\s*(?:with|assert)\s*(\{[^}]*\}))?[ \t]*;?/.source;
  const declaration = new RegExp(clauses + source + options, "y");
  const listed = /export\s*(?:\{[^}]*\}|\*(?:\s*as\s+[\w$\u0080-\uffff]+)?)/.source;
  const exported = new RegExp(listed + "(?:\\s*from" + source + ")?" + options, "y");
  const letter = /[\w$\u0080-\uffff]/.source;
  const named = new RegExp(`\\s*(?:(?:async\\s+)?function\\s*\\*?\\s*|class\\s+(?!extends\\b))${letter}`, "y");
  const brackets = /^([^{]*)(\{[^]*\})?\s*$/;
  const beforePattern = new Set("return typeof case in of delete void throw new do else instanceof yield await".split(" "));

  // declare returns the declaration for an import clause such as `a, {b as c}` or `* as d`.
  const declare = (clause, source) => {
    const [, names, inBraces] = brackets.exec(clause);
    const fields = inBraces ? [inBraces.slice(1, -1).replace(/\bas\b/g, ":")] : [];
    let whole = "";
    for (const part of names.split(",")) {
      const name = part.trim();
      if (name.startsWith("*")) whole = name.replace(/^\*\s*as\s+/, "");
      else if (name) fields.unshift("default: " + name);
    }
    const taken = "{" + fields.join(", ") + "}";
    if (!whole) return `let ${taken} = ${source};`;
    return `let ${whole} = ${source}` + (fields.length > 0 ? `, ${taken} = ${whole};` : ";");
  };

  return (code) => {
    if (!code.includes("import") && !code.includes("const") && !code.includes("export")) return code;
    let out = "", done = 0, at = 0, depth = 0, before = "", wasWord = false, fresh = true;
    const templates = []; // the depth at each open expression of a template
    const match = (re) => {
      re.lastIndex = at;
      const found = re.exec(code);
      if (found) at = re.lastIndex;
      return found;
    };
    const edit = (from, to, text) => {
      out += code.slice(done, from) + text;
      done = to;
    };
    const inTemplate = () => {
      if (!match(template)[0].endsWith("${")) return false;
      templates.push(depth++);
      return true;
    };
    if (code.startsWith("#!")) while (at < code.length && code[at] !== "\n") at++;
    for (;;) {
      const skipped = match(space);
      fresh ||= skipped !== null && skipped[0].includes("\n");
      if (at >= code.length) return out + code.slice(done);
      const start = at, first = code[at], found = match(word);
      if (found) {
        const statement = depth === 0 && (fresh || before === ";" || before === "}");
        fresh = false;
        if (statement && found[0] === "const") edit(start, at, "let  ");
        if (statement && found[0] === "export") {
          at = start;
          const clause = match(exported);
          if (clause) {
            const [text, source, options] = clause;
            const call = source ? `await ${IMPORT}(${source}${options ? `, {with: ${options}}` : ""});` : ";";
            edit(start, at, call + "\n".repeat(text.split("\n").length - 1));
          } else {
            at = start + 6;
            const space = match(/\s+default\b/y);
            const value = space && (named.lastIndex = at, !named.test(code));
            const blank = code.slice(start, at).replace(/\S/g, " ");
            edit(start, at, value ? "void" + blank.slice(4) : blank);
          }
          before = ";";
          fresh = true;
          wasWord = false;
          continue;
        }
        if (found[0] === "import" && before !== ".") {
          match(space);
          if (code[at] === "(" || code[at] === ".") {
            edit(start, start + 6, IMPORT);
          } else if (statement) {
            at = start;
            const clause = match(declaration);
            if (clause) {
              const [text, names, source, options] = clause;
              const call = `await ${IMPORT}(${source}${options ? `, {with: ${options}}` : ""})`;
              const made = names ? declare(names, call) : call + ";";
              edit(start, at, made + "\n".repeat(text.split("\n").length - made.split("\n").length));
              before = ";";
              wasWord = false;
              continue;
            }
            at = start + 6;
          }
        }
        before = found[0];
        wasWord = true;
        continue;
      }
      fresh = false;
      const value = wasWord ? !beforePattern.has(before) : before === ")" || before === "]" || before === "value";
      wasWord = false;
      if (first === '"' || first === "'") {
        match(string);
        before = "value";
      } else if (first === "`") {
        at++;
        before = inTemplate() ? "{" : "value";
      } else if (first === "/" && !value) {
        match(pattern);
        before = "value";
      } else {
        at++;
        before = first;
        if (first === "{" || first === "(" || first === "[") depth++;
        if (first === "}" || first === ")" || first === "]") depth--;
        if (first === "}" && templates[templates.length - 1] === depth) {
          templates.pop();
          before = inTemplate() ? "{" : "value";
        }
      }
    }
  };
})();
