// What a sandbox tried to reach.
import { useState } from "preact/hooks";
import { get, sandboxPath } from "../api";
import { Badge, bytes, CopyButton, duration, ErrorBox, Field, Heads, usePolled } from "../parts";
import { plain } from "../text";
import type * as wire from "../generated/wire";

// ruleOf returns the rule that allows an attempt.
function ruleOf(a: wire.NetworkAttempt): string {
  const host = a.name || (a.address?.includes(":") ? `[${a.address}]` : (a.address ?? ""));
  return a.port && a.protocol !== "dns" ? `${host}:${a.port}` : host;
}

export function Network({ name, mode }: { name: string; mode: string }) {
  if (mode !== "none") return <Attempts name={name} />;
  return <p class="note">The sandbox has no network. Create one with allowed hosts to give it one.</p>;
}

function Attempts({ name }: { name: string }) {
  const [text, setText] = useState("");
  const [decision, setDecision] = useState("all");
  const [protocol, setProtocol] = useState("all");
  const { value, error } = usePolled(
    (signal) => get<wire.NetworkReport>(sandboxPath(name, "network") + "?last=1000", signal), 2, [name]);
  const fits = (a: wire.NetworkAttempt) =>
    (decision === "all" || (decision === "allowed") === a.allowed) &&
    (protocol === "all" || a.protocol === protocol) &&
    `${a.name ?? ""} ${a.address ?? ""} ${a.path ?? ""} ${a.reason ?? ""}`.includes(text);
  const attempts = [...(value?.attempts ?? [])].reverse().filter(fits);
  return (
    <>
      <ErrorBox error={error} />
      {value && (
        <p class="note">
          {value.allowed} allowed, {value.refused} refused · {bytes(value.sent_bytes)} sent,{" "}
          {bytes(value.received_bytes)} received · {value.open.length} open · allow:{" "}
          {value.policy.allow?.join(", ") || value.policy.mode}
        </p>
      )}
      <div class="bar">
        <Field label="Host, path or reason">
          <input type="search" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </Field>
        <Field label="Decision">
          <select value={decision} onChange={(e) => setDecision(e.currentTarget.value)}>
            {["all", "allowed", "refused"].map((d) => <option>{d}</option>)}
          </select>
        </Field>
        <Field label="Protocol">
          <select value={protocol} onChange={(e) => setProtocol(e.currentTarget.value)}>
            {["all", "tcp", "udp", "dns", "http", "https", "ip"].map((d) => <option>{d}</option>)}
          </select>
        </Field>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Attempts">
        <table>
          <Heads names={["Time", "Decision", "Protocol", "Target", "Rule or reason", "Bytes", "Took", ""]} />
          <tbody>
            {attempts.slice(0, 300).map((a) => (
              <tr key={a.id}>
                <td class="number">{new Date(a.time).toLocaleTimeString()}</td>
                <td><Badge text={a.allowed ? "allowed" : "refused"} /></td>
                <td>{a.protocol}</td>
                <td>
                  <bdi>{plain(ruleOf(a))}</bdi> {a.method} {plain(a.path ?? "")} {a.status}
                </td>
                <td>{plain(a.allowed ? (a.rule ?? "") : (a.reason ?? a.rule ?? ""))}</td>
                <td class="number">{a.sent_bytes || a.received_bytes
                  ? `${bytes(a.sent_bytes ?? 0)} / ${bytes(a.received_bytes ?? 0)}` : ""}</td>
                <td class="number">{duration(a.took_ms)}</td>
                <td>{!a.allowed && <CopyButton text={ruleOf(a)} label="Copy the rule" />}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {attempts.length === 0 && <p class="note">There are none.</p>}
      </div>
    </>
  );
}
