// Ports on which programs of a sandbox listen, as they are in /proc/net/tcp, with their pages.
import { useState } from "preact/hooks";
import { sandboxPath, send, keyOf } from "../api";
import { CopyButton, ErrorBox, Heads, useAction, usePolled } from "../parts";
import { type Result, ResultView } from "../results";
import { base64Of } from "../text";

// Listening sockets have the state 0A; the second column is ADDRESS:PORT in hexadecimal (proc_pid_net(5)).
function portsOf(table: string): number[] {
  const ports = new Set<number>();
  for (const line of table.split("\n")) {
    const columns = line.trim().split(/\s+/);
    const port = parseInt(columns[1]?.split(":").pop() ?? "", 16);
    if (columns[3] === "0A" && port > 0) ports.add(port);
  }
  return [...ports].sort((a, b) => a - b);
}

async function load(name: string, signal: AbortSignal): Promise<number[]> {
  const answer = await send(sandboxPath(name, "run"), { method: "POST", signal,
    json: { command: ["sh", "-c", "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true"] } });
  return portsOf((await answer.json()).stdout);
}

const maxPage = 1 << 20; // bytes of a page that are shown; a program may send without end

// pageOf fetches a page of a program, as a value that runs no script here.
async function pageOf(path: string): Promise<Result> {
  const answer = await send(path, { signal: AbortSignal.timeout(30_000) });
  const reader = answer.body!.getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let size = 0; size < maxPage; ) {
    const { value, done } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  void reader.cancel().catch(() => {});
  const data = new Uint8Array(await new Blob(parts).arrayBuffer());
  const type = (answer.headers.get("Content-Type") ?? "").split(";")[0]!.trim();
  if (["image/png", "image/jpeg"].includes(type)) return { data: { [type]: base64Of(data) } };
  const text = new TextDecoder().decode(data);
  return { data: ["text/html", "image/svg+xml"].includes(type) ? { [type]: text } : { "text/plain": text } };
}

export function Ports({ name }: { name: string }) {
  const { value, error, reload } = usePolled((signal) => load(name, signal), 0, [name]);
  const [page, setPage] = useState<{ path: string; result: Result }>();
  const { act, busy, error: failed } = useAction();
  const show = (path: string) => act(async () => {
    setPage(undefined);
    setPage({ path, result: await pageOf(path) });
  });
  return (
    <>
      <ErrorBox error={failed ?? error} />
      <div class="bar">
        <button type="button" onClick={reload}>Refresh</button>
      </div>
      <table>
        <Heads names={["Port", "Page", "On this machine"]} />
        <tbody>
          {value?.map((port) => {
            const path = sandboxPath(name, "ports", String(port)) + "/";
            const forward = `fumehood port-forward ${name} ${port}`;
            return (
              <tr key={port}>
                <th scope="row">{port}</th>
                <td>
                  {keyOf() ? <code>{path}</code> : <a href={path} target="_blank" rel="noreferrer">{path}</a>}{" "}
                  <button type="button" class="small" disabled={busy} aria-label={"Show port " + port}
                    onClick={() => show(path)}>
                    Show
                  </button>
                </td>
                <td><code>{forward}</code> <CopyButton text={forward} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {value?.length === 0 && <p class="note">No program listens on a port.</p>}
      <p class="note">
        A page is shown here without its scripts, images and links. <code>port-forward</code> passes everything.
        {keyOf() && " The path needs the API key, which a link cannot send; Show sends it."}
      </p>
      {page && (
        <>
          <h2>{page.path}</h2>
          <ResultView result={page.result} />
        </>
      )}
    </>
  );
}
