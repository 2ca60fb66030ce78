// The code editor as a component.
import { useEffect, useRef } from "preact/hooks";
import { isDark } from "./theme";
import type { Editor } from "../vendor/editor";

export function CodeEditor(p: {
  text: string;
  language: string;
  label: string;
  onOpen: (editor: Editor) => void;
  onRun?: () => void;
  onChange?: () => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);
  const latest = useRef(p);
  latest.current = p;
  useEffect(() => {
    let left = false;
    void import("../vendor/editor").then(({ openEditor }) => {
      if (left || !host.current) return;
      const now = latest.current;
      editor.current = openEditor(host.current, {
        text: now.text,
        language: now.language,
        dark: isDark(),
        label: now.label,
        onRun: () => latest.current.onRun?.(),
        onChange: () => latest.current.onChange?.(),
      });
      now.onOpen(editor.current);
    });
    const recolor = () => editor.current?.setDark(isDark());
    addEventListener("themechange", recolor);
    return () => {
      left = true;
      removeEventListener("themechange", recolor);
      editor.current?.close();
    };
  }, []);
  useEffect(() => editor.current?.setLanguage(p.language), [p.language]);
  return <div class="editor" ref={host} />;
}
