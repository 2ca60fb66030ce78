// Small parts that several pages use.
import { type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";

export function ErrorBox({ error }: { error: unknown }) {
  if (!error) return null;
  const text = error instanceof Error ? error.message : String(error);
  const hint = error instanceof Problem ? error.hint : "";
  return (
    <div class="error" role="alert">
      <strong>{text}</strong>
      {hint && <div>{hint}</div>}
    </div>
  );
}

// usePolled loads a value, again every few seconds while the page is visible, and after reload.
export function usePolled<T>(load: (signal: AbortSignal) => Promise<T>, seconds: number, deps: unknown[]) {
  const [value, setValue] = useState<T>();
  const [error, setError] = useState<unknown>();
  const [turn, setTurn] = useState(0);
  useEffect(() => setValue(undefined), deps); // it is of another object
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const next = async () => {
      try {
        if (!document.hidden) setValue(await load(abort.signal));
        setError(undefined);
      } catch (e) {
        if (!abort.signal.aborted) setError(e);
      }
      if (seconds && !abort.signal.aborted) timer = window.setTimeout(next, seconds * 1000);
    };
    void next();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [...deps, turn]);
  return { value, error, reload: () => setTurn((t) => t + 1) };
}

// useAction runs an action of a button, and keeps its error.
export function useAction() {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const act = async (action: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await action();
      setError(undefined);
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return { act, busy, error };
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" class="small" onClick={copy}>
      <span aria-live="polite">{copied ? "Copied" : label}</span>
    </button>
  );
}

// A menu of tabs, by the pattern of the ARIA Authoring Practices: arrow keys move, Tab leaves.
export function Tabs(p: {
  names: readonly string[];
  current: string;
  onSelect: (name: string) => void;
  label: string;
}) {
  const list = useRef<HTMLDivElement>(null);
  const move = (e: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    const next = (p.names.indexOf(p.current) + step + p.names.length) % p.names.length;
    p.onSelect(p.names[next]!);
    (list.current?.children[next] as HTMLElement | undefined)?.focus();
  };
  return (
    <div role="tablist" aria-label={p.label} class="tabs" onKeyDown={move} ref={list}>
      {p.names.map((name) => (
        <button
          type="button"
          role="tab"
          aria-selected={name === p.current}
          tabIndex={name === p.current ? 0 : -1}
          onClick={() => p.onSelect(name)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

export function Field(p: { label: string; children: ComponentChildren; wide?: boolean }) {
  return (
    <label class={p.wide ? "field wide" : "field"}>
      <span>{p.label}</span>
      {p.children}
    </label>
  );
}

// Heads is the head of a table. The name of a column of buttons is "".
export function Heads({ names }: { names: string[] }) {
  return (
    <thead>
      <tr>
        {names.map((name) => <th scope="col">{name || <span class="hidden">Actions</span>}</th>)}
      </tr>
    </thead>
  );
}

// Badge shows a state, in the color of that state.
export function Badge({ text, state = text }: { text: string; state?: string }) {
  return <span class={"badge " + state.replace(/[^a-z]/g, "")}>{text}</span>;
}

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return (unit === "B" ? n : n.toFixed(1)) + " " + unit;
    n /= 1024;
  }
  return "";
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  const s = ms / 1000;
  if (Math.abs(s) < 1) return Math.round(ms) + " ms";
  if (s < 90) return s.toFixed(s < 10 ? 1 : 0) + " s";
  if (s < 5400) return Math.round(s / 60) + " min";
  if (s < 129600) return (s / 3600).toFixed(1) + " h";
  return Math.round(s / 86400) + " d";
}

export const since = (time: string) => duration(Date.now() - Date.parse(time));

// useNow changes once per second, for ages and countdowns.
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
