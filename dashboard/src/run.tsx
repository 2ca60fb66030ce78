// A run: its state while events arrive, and its view.
import { type Event, Problem } from "./api";
import { Badge, bytes, duration, ErrorBox, Heads } from "./parts";
import { type Result, ResultView } from "./results";
import { Output, bytesOf, plain } from "./text";
import type * as wire from "./generated/wire";

export interface RunState {
  id: string;
  last: number; // the id of the last event
  output: Output;
  results: Result[];
  progress: string;
  exception?: wire.Exception;
  done?: wire.Done;
  problem?: wire.Problem;
}

export const newRun = (): RunState => ({ id: "", last: 0, output: new Output(), results: [], progress: "" });

// apply adds an event to a run. Values of the result are changed in place; the copy makes the page update.
function apply(before: RunState, e: Event): RunState {
  const run = { ...before, last: e.id || before.last };
  switch (e.name) {
    case "started":
      return { ...run, id: e.data.id };
    case "progress":
      return { ...run, progress: String(e.data.text) };
    case "stdout":
    case "stderr":
      run.output.add(e.name, e.data);
      return run;
    case "result":
      return { ...run, results: [...run.results, e.data] };
    case "exception":
      return { ...run, exception: e.data };
    case "done":
      return { ...run, done: e.data, progress: "" };
    case "problem":
      return { ...run, problem: e.data, progress: "" };
  }
  return run;
}

const frame = 50; // ms between two states of a run that are shown

// follow applies events to a run until they end. It shows the state at most once per frame: a log has thousands of
// events, and each view of it costs as much as its length.
export async function follow(run: RunState, list: AsyncIterable<Event>, show: (run: RunState) => void) {
  let timer = 0;
  try {
    for await (const e of list) {
      run = apply(run, e);
      timer ||= window.setTimeout(() => {
        timer = 0;
        show(run);
      }, frame);
    }
  } finally {
    clearTimeout(timer);
    show(run);
  }
}

export function RunView({ run }: { run: RunState }) {
  const done = run.done;
  return (
    <div class="run">
      {run.progress && <p class="progress" role="status">{plain(run.progress)}</p>}
      <OutputView output={run.output} />
      {run.results.map((r) => (
        <ResultView result={r} />
      ))}
      {run.exception && !hasTraceback(run) && (
        <pre class="stderr">{plain(run.exception.traceback ?? `${run.exception.name}: ${run.exception.value}`)}</pre>
      )}
      <ErrorBox error={run.problem && new Problem(run.problem.status, run.problem.detail, run.problem.hint)} />
      {done && <Outcome done={done} />}
    </div>
  );
}

const hasTraceback = (run: RunState) =>
  run.output.parts.some((p) => p.stream === "stderr" && p.text.includes("Traceback"));

function OutputView({ output }: { output: Output }) {
  if (!output.parts.length) return null;
  return (
    <>
      {output.dropped > 0 && <p class="note">{bytes(output.dropped)} of the output were dropped.</p>}
      <pre class="output" tabIndex={0} aria-label="Output">
        {output.parts.map((p) => (
          <span class={p.stream}>{plain(p.text)}</span>
        ))}
      </pre>
    </>
  );
}

function Outcome({ done }: { done: wire.Done }) {
  const hints = done.hints?.map((h) => h.text).filter(Boolean) ?? (done.hint ? [done.hint] : []);
  const ended = done.signal ? `signal ${done.signal}` : done.exit_code !== null ? `exit code ${done.exit_code}` : "";
  return (
    <>
      {hints.length > 0 && (
        <aside class="hint" aria-label="Hint">
          {hints.map((h) => (
            <p>{h}</p>
          ))}
        </aside>
      )}
      <p class="outcome" role="status">
        <Badge text={done.status} /> {ended}
        {done.phase && <> in the phase {done.phase}</>} · {duration(done.usage.wall_ms)} · CPU{" "}
        {duration(done.usage.cpu_ms)} · {bytes(done.usage.peak_memory_bytes)}
        {done.packages && <> · packages {done.packages.map((p) => `${p.name} ${p.version ?? ""}`).join(", ")}</>}
      </p>
      {done.files.length > 0 && (
        <ul class="files">
          {done.files.map((f) => (
            <li>
              <button type="button" class="link" onClick={() => save(f)}>
                <bdi>{f.path}</bdi>
              </button>
            </li>
          ))}
        </ul>
      )}
      {done.policy && <PolicyView policy={done.policy} />}
    </>
  );
}

function save(f: wire.File) {
  const content = f.content_base64 !== undefined ? bytesOf(f.content_base64) : (f.content ?? "");
  download(f.path.split("/").pop() || "file", new Blob([content]));
}

export function download(name: string, data: Blob) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}

const limitNames: Record<string, string> = {
  timeout_s: "timeout", memory_mib: "memory", cpus: "cpus", disk_mib: "disk", pids: "pids", output_kib: "output",
  inodes: "inodes", open_files: "open_files",
};

const networkOf = (n: wire.Network) => n.mode + (n.allow?.length ? ": " + n.allow.join(", ") : "");

export function PolicyView({ policy }: { policy: wire.Policy }) {
  const { requested, effective } = policy;
  const rows: [string, string, string, string][] = [
    ["backend", requested.backend, policy.backend, effective.kernel + " kernel"],
    ["network", networkOf(requested.network), networkOf(effective.network), ""],
    ["user", String(requested.user.uid), String(effective.user.uid), `host user: ${effective.host_uid}`],
  ];
  for (const [field, name] of Object.entries(limitNames)) {
    const key = field as keyof wire.Limits;
    rows.push([field, String(requested.limits[key] ?? "–"), String(effective.limits[key] ?? "not enforced"),
      effective.enforcers[name] ?? ""]);
  }
  return (
    <details class="policy">
      <summary>
        Requested and enforced{policy.differences.length > 0 && ` · ${policy.differences.length} differences`}
      </summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Policy">
        <table>
          <Heads names={["Limit", "Requested", "Enforced", "By"]} />
          <tbody>
            {rows.map(([name, asked, got, by]) => (
              <tr class={got === "not enforced" ? "differs" : ""}>
                <th scope="row">{name}</th>
                <td>{asked}</td>
                <td>{got}</td>
                <td>{by}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p>
        Isolation:{" "}
        {Object.entries(effective.isolation).map(([name, state]) => (
          <Badge text={`${name}: ${state}`} state={state} />
        ))}
      </p>
      {effective.warnings.map((w) => (
        <p class="note">{w}</p>
      ))}
    </details>
  );
}
