// The playground: runs code once and shows all that the answer has.
import { useEffect, useRef, useState } from "preact/hooks";
import { events, get, sandboxPath, send } from "./api";
import { copyAs, forms } from "./copyas";
import { CodeEditor } from "./editor";
import { CopyButton, ErrorBox, Field, Tabs } from "./parts";
import { PolicyView, RunView, type RunState, follow, newRun } from "./run";
import { base64Of } from "./text";
import type { Editor } from "../vendor/editor";
import type * as wire from "./generated/wire";

const samples: Record<string, string> = {
  python: 'print("Hello from a sandbox")\n[n * n for n in range(10)]\n',
  javascript: 'console.log("Hello from a sandbox");\n[1, 2, 3].map((n) => n * n)\n',
  typescript: 'const words: string[] = ["Hello", "from", "a", "sandbox"];\nconsole.log(words.join(" "));\n',
  bash: 'echo "Hello from a sandbox"\nid; uname -r\n',
};

type Choice = Pick<wire.Language, "name" | "title"> & Partial<wire.Language>;

// Kept while the user looks at other pages.
const kept = { language: "python", code: samples["python"]!, packages: "", allow: "", mode: "none", timeout: "",
  memory: "", backend: "", returned: "", fresh: "" };

// The living sandbox whose contexts keep variables between runs, and whose runs have values.
const home = "playground";

export function Playground({ capabilities }: { capabilities: wire.Capabilities }) {
  const [form, setForm] = useState(kept);
  const [languages, setLanguages] = useState<wire.Language[]>([]);
  const [files, setFiles] = useState<wire.File[]>([]);
  const [run, setRun] = useState<RunState>();
  const [error, setError] = useState<unknown>();
  const [place, setPlace] = useState<wire.Sandbox>();
  const [copying, setCopying] = useState<string>(forms[0]);
  const editor = useRef<Editor | undefined>(undefined);
  const abort = useRef<AbortController | undefined>(undefined);
  const change = (part: Partial<typeof kept>) => setForm((f) => Object.assign(kept, f, part) && { ...kept });

  useEffect(() => {
    get<wire.Languages>("/v1/languages").then((l) => setLanguages(l.languages), setError);
    return () => abort.current?.abort();
  }, []);

  const code = () => editor.current?.text() ?? form.code;
  const request = (): wire.RunRequest => {
    const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    const limits = { ...(form.timeout && { timeout_s: Number(form.timeout) }),
      ...(form.memory && { memory_mib: Number(form.memory) }) };
    const allow = words(form.allow);
    return {
      language: form.language,
      code: code(),
      ...(form.backend && { backend: form.backend }),
      ...(words(form.packages).length && { packages: words(form.packages) }),
      ...(form.mode !== "none" && { network: { mode: form.mode, ...(allow.length && { allow }) } }),
      ...(Object.keys(limits).length && { limits }),
      ...(files.length && { files }),
      ...(form.fresh && words(form.returned).length && { return_files: words(form.returned) }),
    } as wire.RunRequest;
  };

  // in returns the request for a run in the living sandbox, which it creates if need be.
  const inHome = async (signal: AbortSignal) => {
    const { language, code, packages, files, limits, network, backend } = request();
    const answer = await send("/v1/sandboxes", { method: "POST", signal, json: { name: home, if_exists: "use", network,
      backend, include: ["policy"], ...(limits?.memory_mib && { limits: { memory_mib: limits.memory_mib } }) } });
    setPlace(await answer.json());
    return { language, code, packages, files, ...(limits?.timeout_s && { limits: { timeout_s: limits.timeout_s } }) };
  };
  const start = async () => {
    abort.current?.abort();
    const mine = (abort.current = new AbortController());
    setRun(newRun());
    setError(undefined);
    setPlace(undefined);
    try {
      const json = form.fresh ? { ...request(), include: ["policy"] } : await inHome(mine.signal);
      const answer = await send(form.fresh ? "/v1/run" : sandboxPath(home, "run"),
        { method: "POST", json, accept: "text/event-stream", signal: mine.signal });
      const id = answer.headers.get("Fumehood-Run-Id"); // a run in a living sandbox continues without us
      if (id) {
        mine.signal.addEventListener("abort", () => void send(sandboxPath(home, "runs", id), { method: "DELETE" }));
      }
      await follow(newRun(), events(answer), (now) => (abort.current ?? mine) === mine && setRun(now));
    } catch (e) {
      if (!mine.signal.aborted) setError(e);
    } finally {
      if (abort.current === mine) abort.current = undefined;
      setRun((r) => r && { ...r });
    }
  };
  const cancel = () => {
    abort.current?.abort();
    abort.current = undefined;
    setRun((r) => r && { ...r });
  };
  const select = (language: string) => {
    const untouched = Object.values(samples).includes(code()) || !code().trim();
    if (untouched) editor.current?.setText(samples[language] ?? "");
    change({ language });
  };
  const addFiles = async (list: FileList | null) => {
    const added = await Promise.all([...(list ?? [])].map(async (f) => ({ path: f.name,
      content_base64: base64Of(new Uint8Array(await f.arrayBuffer())) })));
    setFiles((now) => [...now.filter((f) => !added.some((a) => a.path === f.path)), ...added] as wire.File[]);
  };
  const running = abort.current !== undefined;
  const input = (name: keyof typeof kept, extra: object = {}) => (
    <input value={form[name]} onInput={(e) => change({ [name]: e.currentTarget.value })} {...extra} />
  );
  return (
    <div class="playground">
      <section aria-label="Program">
        <div class="bar">
          <Field label="Language">
            <select value={form.language} onChange={(e) => select(e.currentTarget.value)}>
              {(languages.length ? languages : [{ name: form.language, title: form.language }]).map((l: Choice) => (
                <option value={l.name} disabled={!!l.error}>
                  {l.title} {l.version ?? ""}
                </option>
              ))}
            </select>
          </Field>
          <Field label="Sandbox">
            <select value={form.fresh} onChange={(e) => change({ fresh: e.currentTarget.value })}>
              <option value="">keeps variables</option>
              <option value="1">fresh for each run</option>
            </select>
          </Field>
          <span class="grow" />
          {running ? (
            <button type="button" onClick={cancel}>Cancel</button>
          ) : (
            <button type="button" class="primary" onClick={start} title="Control-Enter">Run</button>
          )}
        </div>
        <CodeEditor text={form.code} language={form.language} label="Code" onRun={start}
          onOpen={(e) => (editor.current = e)} onChange={() => change({ code: code() })} />
        <details class="options">
          <summary>Packages, network, files, limits</summary>
          <div class="fields">
            <Field label="Packages">{input("packages", { placeholder: "auto, or names with versions" })}</Field>
            <Field label="Network">
              <select value={form.mode} onChange={(e) => change({ mode: e.currentTarget.value })}>
                {capabilities.network.map((m) => (
                  <option>{m}</option>
                ))}
              </select>
            </Field>
            {form.mode !== "none" && (
              <Field label="Allow">{input("allow", { placeholder: "api.example.org:443 ..." })}</Field>
            )}
            <Field label="Timeout, seconds">
              {input("timeout", { type: "number", min: 1, placeholder: capabilities.defaults.timeout_s })}
            </Field>
            <Field label="Memory, MiB">
              {input("memory", { type: "number", min: 1, placeholder: capabilities.defaults.memory_mib })}
            </Field>
            <Field label="Backend">
              <select value={form.backend} onChange={(e) => change({ backend: e.currentTarget.value })}>
                <option value="">default ({capabilities.default_backend})</option>
                {capabilities.backends.map((b) => (
                  <option disabled={!b.usable}>{b.name}</option>
                ))}
              </select>
            </Field>
            <Field label="Files to send">
              <input type="file" multiple onChange={(e) => addFiles(e.currentTarget.files)} />
            </Field>
            {form.fresh && <Field label="Files to return">{input("returned", { placeholder: "**/*.png" })}</Field>}
          </div>
          <ul class="files">
            {files.map((f) => (
              <li>
                <bdi>{f.path}</bdi>{" "}
                <button type="button" class="small" aria-label={"Remove " + f.path}
                  onClick={() => setFiles(files.filter((o) => o !== f))}>
                  Remove
                </button>
              </li>
            ))}
          </ul>
        </details>
        <details class="copyas">
          <summary>Copy as curl, Python, TypeScript or CLI</summary>
          <Tabs names={forms} current={copying} onSelect={setCopying} label="Form" />
          <div class="copy">
            <CopyButton text={copyAs(copying, request(), location.origin)} />
            <pre tabIndex={0} aria-label={"The request for " + copying}>
              {copyAs(copying, request(), location.origin)}
            </pre>
          </div>
        </details>
      </section>
      <section aria-label="Answer" aria-busy={running}>
        <ErrorBox error={error} />
        {run && <RunView run={run} />}
        {!run && <p class="note">Output, values and hints appear here. Control-Enter runs the code.</p>}
        {place && <Home place={place} />}
        {running && !run?.output.parts.length && <p class="note" role="status">Running…</p>}
      </section>
    </div>
  );
}

function Home({ place }: { place: wire.Sandbox }) {
  return (
    <>
      {place.differences?.length ? (
        <aside class="hint" aria-label="Settings">
          <p>
            The sandbox {home} exists with other settings: {place.differences.map((d) => d.name).join(", ")}. End it to
            use new ones.
          </p>
        </aside>
      ) : null}
      {place.policy && <PolicyView policy={place.policy} />}
      <p class="note">
        In the sandbox <a href={"#/sandboxes/" + home}>{home}</a>.
      </p>
    </>
  );
}
