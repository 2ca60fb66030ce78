// The list of living sandboxes.
import { useState } from "preact/hooks";
import { get, sandboxPath, send } from "./api";
import { Badge, bytes, duration, ErrorBox, Field, Heads, since, useAction, useNow, usePolled } from "./parts";
import type * as wire from "./generated/wire";

// endOf returns when a sandbox ends by itself, unless it is used.
function endOf(s: wire.Sandbox): number {
  const ends = [s.idle_ends_at, s.lifetime.ends_at].filter(Boolean).map((t) => Date.parse(t!));
  return ends.length ? Math.min(...ends) : Infinity;
}

export const nameOf = (s: wire.Sandbox) => s.name || s.id;

export function Countdown({ sandbox }: { sandbox: wire.Sandbox }) {
  const left = endOf(sandbox) - useNow();
  return <>{left === Infinity ? "never" : left <= 0 ? "now" : "in " + duration(left)}</>;
}

// listOf returns the sandboxes of the key, or with all those of all keys.
async function listOf(all: boolean, signal: AbortSignal) {
  const list: wire.Sandbox[] = [];
  for (let more = true; more; ) {
    const query = new URLSearchParams({ ...(all && { all: "1" }), ...(list.length && { after: list.at(-1)!.id }) });
    const page = await get<wire.SandboxList>("/v1/sandboxes?" + query, signal);
    list.push(...page.sandboxes);
    more = page.more && page.sandboxes.length > 0;
  }
  return list;
}

// load lists the sandboxes, with what each uses. An operator may describe and end those of others, but not use them.
async function load(operator: boolean, signal: AbortSignal) {
  const own = await listOf(false, signal);
  const list = operator ? await listOf(true, signal) : own;
  const usage = await Promise.all(
    list.slice(0, 50).map((s) => get<wire.SandboxUsage>(sandboxPath(s.id, "stats"), signal).catch(() => undefined)),
  );
  const ids = new Set(own.map((s) => s.id));
  return list.map((sandbox, i) => ({ sandbox, usage: usage[i], own: ids.has(sandbox.id) }));
}

export function Sandboxes({ operator }: { operator: boolean }) {
  const { value, error, reload } = usePolled((signal) => load(operator, signal), 3, []);
  const owners = value?.some((v) => v.sandbox.owner) ?? false;
  const headings = ["Name", ...(owners ? ["Owner"] : []), "State", "Backend", "Age", "Ends", "Runs", "Memory", "CPU", ""];
  const { act, busy, error: failed } = useAction();
  return (
    <>
      <h1>Sandboxes</h1>
      <ErrorBox error={failed ?? error} />
      <Create onDone={reload} />
      <div class="panel scroll" tabIndex={0} role="region" aria-label="Living sandboxes">
        <table>
          <Heads names={headings} />
          <tbody>
            {value?.map(({ sandbox: s, usage, own }) => (
              <tr key={s.id}>
                <th scope="row">
                  {own ? (
                    <a href={"#/sandboxes/" + encodeURIComponent(nameOf(s))}>
                      <bdi>{nameOf(s)}</bdi>
                    </a>
                  ) : (
                    <bdi>{nameOf(s)}</bdi>
                  )}
                </th>
                {owners && <td>{s.owner}</td>}
                <td>
                  <Badge text={s.state} />
                </td>
                <td>{s.backend}</td>
                <td class="number">{since(s.created_at)}</td>
                <td class="number">
                  <Countdown sandbox={s} />
                </td>
                <td class="number">{s.running}</td>
                <td class="number">{bytes(usage?.memory_bytes)}</td>
                <td class="number">{duration(usage?.cpu_ms)}</td>
                <td>
                  <button type="button" class="small danger" disabled={busy} aria-label={"End " + nameOf(s)}
                    onClick={() => confirm(`End ${nameOf(s)}? Its files are lost.`) && act(async () => {
                      await send(sandboxPath(s.id), { method: "DELETE" });
                      reload();
                    })}>
                    End
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {value?.length === 0 && <p class="note">There are none.</p>}
      </div>
    </>
  );
}

function Create({ onDone }: { onDone: () => void }) {
  const [name, setName] = useState("");
  const [network, setNetwork] = useState("");
  const { act, busy, error } = useAction();
  const create = (e: Event) => {
    e.preventDefault();
    const allow = network.split(/[\s,]+/).filter(Boolean);
    void act(async () => {
      await send("/v1/sandboxes", { method: "POST", json: { if_exists: "fail", ...(name && { name }),
        ...(allow.length && { network: { mode: "restricted", allow } }) } });
      setName("");
      onDone();
    });
  };
  return (
    <form class="bar" onSubmit={create}>
      <Field label="Name of a new sandbox">
        <input value={name} placeholder="none" pattern="[a-z0-9]([a-z0-9._\-]{0,61}[a-z0-9])?"
          onInput={(e) => setName(e.currentTarget.value)} />
      </Field>
      <Field label="Allowed hosts">
        <input value={network} placeholder="none" onInput={(e) => setNetwork(e.currentTarget.value)} />
      </Field>
      <button type="submit" disabled={busy}>Create</button>
      <ErrorBox error={error} />
    </form>
  );
}
