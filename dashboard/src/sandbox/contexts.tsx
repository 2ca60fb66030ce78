// The contexts of a sandbox, and the variables of those of Python.
import { useState } from "preact/hooks";
import { get, sandboxPath, send } from "../api";
import { Badge, ErrorBox, Heads, useAction, usePolled } from "../parts";
import { plain } from "../text";
import type * as wire from "../generated/wire";

export function Contexts({ name }: { name: string }) {
  const { value, error, reload } = usePolled(
    async (signal) => (await get<wire.ContextList>(sandboxPath(name, "contexts"), signal)).contexts, 3, [name]);
  const [shown, setShown] = useState<{ context: string; variables: [string, string][] }>();
  const { act, busy, error: failed } = useAction();
  const post = (context: string, verb: string) => () =>
    act(async () => {
      await send(sandboxPath(name, "contexts", context, verb), { method: "POST" });
      reload();
    });
  const show = (context: string) =>
    act(async () => {
      const state = await get<Record<string, any>>(sandboxPath(name, "contexts", context, "state"));
      setShown({ context, variables: variablesOf(state) });
    });
  return (
    <>
      <ErrorBox error={failed ?? error} />
      <div class="scroll" tabIndex={0} role="region" aria-label="Contexts">
        <table>
          <Heads names={["Name", "Language", "State", "Runs", ""]} />
          <tbody>
            {value?.map((c) => (
              <tr key={c.name}>
                <th scope="row">{c.name}</th>
                <td>{c.language}</td>
                <td><Badge text={c.state} /> {c.waiting > 0 && `${c.waiting} wait`}</td>
                <td class="number">{c.runs}</td>
                <td>
                  {c.language === "python" && (
                    <button type="button" class="small" disabled={busy} onClick={() => show(c.name)}>Variables</button>
                  )}{" "}
                  <button type="button" class="small" disabled={busy} onClick={post(c.name, "interrupt")}>Interrupt</button>{" "}
                  <button type="button" class="small danger" disabled={busy} onClick={post(c.name, "restart")}>Restart</button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {value?.length === 0 && <p class="note">There are none. The first run of code creates one.</p>}
      </div>
      {shown && (
        <>
          <h2>Variables of {shown.context}</h2>
          <dl>
            {shown.variables.map(([variable, value]) => (
              <>
                <dt><bdi>{variable}</bdi></dt>
                <dd><code>{value}</code></dd>
              </>
            ))}
          </dl>
          {shown.variables.length === 0 && <p class="note">There are none.</p>}
        </>
      )}
    </>
  );
}

// variablesOf returns the variables of a state document with their values, shortened.
function variablesOf(state: Record<string, any>): [string, string][] {
  const list = Object.entries(state["variables"] ?? {}).map(([n, v]): [string, string] => [n, short(v)]);
  for (const m of state["missing"] ?? []) {
    list.push([String(m.name ?? m.path ?? "?"), "not shown: " + plain(String(m.reason ?? "")) ]);
  }
  return list.slice(0, 500);
}

function short(value: unknown): string {
  const text = plain(JSON.stringify(value) ?? "");
  return text.length > 300 ? text.slice(0, 300) + "…" : text;
}
