// Ports on which programs of a sandbox listen, as they are in /proc/net/tcp, with links.
import { sandboxPath, send, keyOf } from "../api";
import { CopyButton, ErrorBox, Heads, usePolled } from "../parts";

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

export function Ports({ name }: { name: string }) {
  const { value, error, reload } = usePolled((signal) => load(name, signal), 0, [name]);
  return (
    <>
      <ErrorBox error={error} />
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
                  {keyOf() ? <code>{path}</code> : <a href={path} target="_blank" rel="noreferrer">{path}</a>}
                </td>
                <td><code>{forward}</code> <CopyButton text={forward} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {value?.length === 0 && <p class="note">No program listens on a port.</p>}
      <p class="note">
        A page behind a link is shown without its scripts. <code>port-forward</code> passes everything.
        {keyOf() && " The path needs the API key, which a link cannot send."}
      </p>
    </>
  );
}
