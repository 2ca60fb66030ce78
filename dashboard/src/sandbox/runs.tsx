// The runs of a sandbox, with logs that follow.
import { useEffect, useState } from "preact/hooks";
import { events, get, sandboxPath, send } from "../api";
import { Badge, ErrorBox, Field, since, useAction, usePolled } from "../parts";
import { type RunState, RunView, follow, newRun } from "../run";
import { plain } from "../text";
import type * as wire from "../generated/wire";

export function Runs({ name }: { name: string }) {
  const [selected, setSelected] = useState("");
  const { value, error, reload } = usePolled(
    async (signal) => (await get<wire.RunList>(sandboxPath(name, "runs"), signal)).runs.reverse(), 2, [name]);
  const run = value?.find((r) => r.id === selected) ?? value?.[0];
  return (
    <>
      <ErrorBox error={error} />
      <StartRun name={name} onStart={(id) => (setSelected(id), reload())} />
      <div class="split">
        <ul class="list" aria-label="Runs">
          {value?.map((r) => (
            <li key={r.id}>
              <button type="button" aria-pressed={r.id === run?.id} onClick={() => setSelected(r.id)}>
                <Badge text={r.status} />
                <span class="what">{plain(whatOf(r))}</span>
                <span class="note">{since(r.began_at)} ago</span>
              </button>
            </li>
          ))}
          {value?.length === 0 && <li class="note">There are none.</li>}
        </ul>
        {run && <RunLog key={run.id} name={name} run={run} />}
      </div>
    </>
  );
}

const whatOf = (r: wire.Run) => r.command?.join(" ") || `${r.language ?? "code"}${r.context ? " in " + r.context : ""}`;

function StartRun({ name, onStart }: { name: string; onStart: (id: string) => void }) {
  const [line, setLine] = useState("");
  const { act, busy, error } = useAction();
  const start = (e: Event) => {
    e.preventDefault();
    void act(async () => {
      const answer = await send(sandboxPath(name, "run"), { method: "POST",
        json: { command: ["sh", "-c", line], background: true } });
      onStart((await answer.json()).id);
      setLine("");
    });
  };
  return (
    <form class="bar" onSubmit={start}>
      <Field label="Command line to start" wide>
        <input value={line} required autocomplete="off" spellcheck={false} onInput={(e) => setLine(e.currentTarget.value)} />
      </Field>
      <button type="submit" disabled={busy}>Start</button>
      <ErrorBox error={error} />
    </form>
  );
}

// The log of a run, from its start and as it goes on.
function RunLog({ name, run }: { name: string; run: wire.Run }) {
  const [state, setState] = useState<RunState>(newRun);
  const [error, setError] = useState<unknown>();
  const { act, busy, error: failed } = useAction();
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      let now = newRun();
      const show = (run: RunState) => abort.signal.aborted || setState((now = run));
      while (!abort.signal.aborted && !now.done && !now.problem) {
        try {
          const path = sandboxPath(name, "runs", run.id, "events") + "?after=" + now.last;
          const answer = await send(path, { accept: "text/event-stream", signal: abort.signal });
          await follow(now, events(answer), show);
          setError(undefined);
        } catch (e) {
          if (abort.signal.aborted) return;
          setError(e);
          if ((e as { status?: number }).status) return; // a refusal; a broken connection is tried again
        }
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    };
    void read();
    return () => abort.abort();
  }, [name, run.id]);
  const running = run.status === "running";
  return (
    <div class="log" role="region" aria-label="Log">
      <div class="bar">
        <code>{run.id}</code>
        <span class="grow" />
        {running && (
          <>
            <button type="button" class="small" disabled={busy} onClick={() => act(() =>
              send(sandboxPath(name, "runs", run.id, "signal"), { method: "POST", json: { signal: "SIGINT" } }))}>
              Interrupt
            </button>
            <button type="button" class="small danger" disabled={busy} onClick={() => act(() =>
              send(sandboxPath(name, "runs", run.id), { method: "DELETE" }))}>
              Cancel
            </button>
          </>
        )}
      </div>
      <ErrorBox error={failed ?? error} />
      <RunView run={state} />
      {running && <p class="note" role="status">Running…</p>}
    </div>
  );
}
