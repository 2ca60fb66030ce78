// A CodeMirror editor in a shadow root. There, CodeMirror uses constructed style sheets, which a strict
// Content-Security-Policy allows.
import { indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { python } from "@codemirror/lang-python";
import {
  HighlightStyle, StreamLanguage, type StreamParser, indentUnit, syntaxHighlighting,
} from "@codemirror/language";
import { c, cpp, java } from "@codemirror/legacy-modes/mode/clike";
import { go } from "@codemirror/legacy-modes/mode/go";
import { lua } from "@codemirror/legacy-modes/mode/lua";
import { perl } from "@codemirror/legacy-modes/mode/perl";
import { r } from "@codemirror/legacy-modes/mode/r";
import { ruby } from "@codemirror/legacy-modes/mode/ruby";
import { rust } from "@codemirror/legacy-modes/mode/rust";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { EditorView, basicSetup } from "codemirror";

// The colors are those of the page, whose properties a shadow root inherits.
const highlight = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--number)" },
  { tag: [tags.comment, tags.meta], color: "var(--soft)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.className, tags.definition(tags.variableName)], color: "var(--accent)" },
]);

const look = (dark: boolean) =>
  EditorView.theme(
    {
      "&": { height: "100%", fontSize: "14px", color: "var(--ink)", backgroundColor: "var(--code)" },
      ".cm-scroller": { overflow: "auto" },
      ".cm-content": { caretColor: "var(--ink)" },
      ".cm-gutters": { backgroundColor: "var(--code)", color: "var(--soft)", borderColor: "var(--line)" },
      ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
      ".cm-cursor": { borderLeftColor: "var(--ink)" },
      ".cm-panels, .cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)" },
    },
    { dark },
  );

const modes: Record<string, StreamParser<unknown>> = {
  bash: shell, c, cpp, go, java, lua, perl, r, ruby, rust,
};

function languageOf(name: string): Extension {
  switch (name) {
    case "python":
      return [python(), indentUnit.of("    ")];
    case "javascript":
      return javascript();
    case "typescript":
      return javascript({ typescript: true });
  }
  const mode = modes[name];
  return mode ? StreamLanguage.define(mode) : [];
}

export interface Editor {
  text(): string;
  setText(text: string): void;
  setLanguage(name: string): void;
  setDark(dark: boolean): void;
  focus(): void;
  close(): void;
}

export interface EditorOptions {
  text: string;
  language: string;
  dark: boolean;
  label: string;
  // Control-Enter or Command-Enter.
  onRun?: () => void;
  onChange?: () => void;
}

export function openEditor(host: HTMLElement, options: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const language = new Compartment();
  const theme = new Compartment();
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        keymap.of([{ key: "Mod-Enter", run: () => (options.onRun?.(), true) }]),
        basicSetup,
        // Escape, then Tab leaves the editor by keyboard.
        keymap.of([indentWithTab]),
        language.of(languageOf(options.language)),
        theme.of(look(options.dark)),
        EditorView.contentAttributes.of({ "aria-label": options.label, tabindex: "0" }),
        EditorView.updateListener.of((u) => u.docChanged && options.onChange?.()),
        syntaxHighlighting(highlight),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    setLanguage: (name) => view.dispatch({ effects: language.reconfigure(languageOf(name)) }),
    setDark: (dark) => view.dispatch({ effects: theme.reconfigure(look(dark)) }),
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}
