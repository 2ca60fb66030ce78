// One sandbox: its facts, and a tab for each thing that it has.
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, sandboxPath, send } from "../api";
import { type Axis, Chart } from "../chart";
import { Badge, ErrorBox, Tabs, bytes, duration, since, useAction, usePolled } from "../parts";
import { PolicyView } from "../run";
import { Countdown, nameOf } from "../sandboxes";
import { Contexts } from "./contexts";
import { Files } from "./files";
import { Network } from "./network";
import { Ports } from "./ports";
import { Runs } from "./runs";
import type * as wire from "../generated/wire";

const tabs = ["runs", "terminal", "files", "contexts", "network", "ports", "usage"] as const;

export function SandboxPage({ name, tab }: { name: string; tab: string }) {
  const current = tabs.includes(tab as (typeof tabs)[number]) ? tab : "runs";
  const { value: s, error, reload } = usePolled(
    (signal) => get<wire.Sandbox>(sandboxPath(name) + "?include=policy", signal), 3, [name]);
  const usage = useUsage(name);
  const { act, busy, error: failed } = useAction();
  const end = () =>
    confirm(`End ${name}? Its files are lost.`) &&
    act(async () => {
      await send(sandboxPath(name), { method: "DELETE" });
      location.hash = "#/sandboxes";
    });
  const extend = () =>
    act(async () => {
      const idle = Math.max(3600, 2 * (s?.lifetime.idle_s ?? 0));
      const ends = new Date(Math.max(Date.now() + 86_400_000, Date.parse(s?.lifetime.ends_at ?? "") || 0));
      await send(sandboxPath(name), { method: "PATCH",
        json: { lifetime: { idle_s: s?.lifetime.idle_s === 0 ? 0 : idle, ends_at: ends.toISOString() } } });
      reload();
    });
  return (
    <>
      <div class="bar">
        <h1>
          <a href="#/sandboxes">Sandboxes</a> / <bdi>{s ? nameOf(s) : name}</bdi>
        </h1>
        <span class="grow" />
        {s && <button type="button" disabled={busy} onClick={extend}>Extend</button>}
        {s && <button type="button" class="danger" disabled={busy} onClick={end}>End</button>}
      </div>
      <ErrorBox error={failed ?? error} />
      {s && (
        <>
          <p class="note">
            <Badge text={s.state} /> {s.backend} · created {since(s.created_at)} ago · ends <Countdown sandbox={s} />
            {s.lifetime.idle_s ? `, or after ${duration(s.lifetime.idle_s * 1000)} without use` : ""} ·{" "}
            {bytes(usage.at(-1)?.memory)} of memory · CPU {duration(usage.at(-1)?.cpu)} · network {s.network.mode}
          </p>
          <Tabs names={tabs} current={current} label="Parts of the sandbox"
            onSelect={(t) => (location.hash = `#/sandboxes/${encodeURIComponent(name)}/${t}`)} />
          <div class="panel" role="tabpanel" aria-label={current}>
            {current === "runs" && <Runs name={name} />}
            {current === "terminal" && (
              <iframe class="terminal" title="Terminal" src={"/ui/terminal.html?" + new URLSearchParams({ name })} />
            )}
            {current === "files" && <Files name={name} />}
            {current === "contexts" && <Contexts name={name} />}
            {current === "network" && <Network name={name} mode={s.network.mode} />}
            {current === "ports" && <Ports name={name} />}
            {current === "usage" && (
              <>
                <UsageChart usage={usage} />
                {s.policy && <PolicyView policy={s.policy} />}
              </>
            )}
          </div>
        </>
      )}
    </>
  );
}

interface Sample {
  time: number;
  memory: number;
  cpu: number;
}

// useUsage samples what the sandbox uses while the page is open.
function useUsage(name: string): Sample[] {
  const [samples, setSamples] = useState<Sample[]>([]);
  useEffect(() => setSamples([]), [name]);
  usePolled(
    async (signal) => {
      const u = await get<wire.SandboxUsage>(sandboxPath(name, "stats"), signal);
      const sample = { time: Date.now() / 1000, memory: u.memory_bytes ?? 0, cpu: u.cpu_ms ?? 0 };
      setSamples((list) => [...list.slice(-600), sample]);
    }, 2, [name]);
  return samples;
}

const drawUsage = (axis: Axis) => ({
  scales: {
    x: { time: true },
    percent: { range: (_u: unknown, _low: number, high: number): [number, number] => [0, Math.max(100, high)] },
  },
  axes: [axis, { ...axis, label: "MiB" }, { ...axis, scale: "percent", side: 1 as const, label: "% of a CPU" }],
  series: [
    {},
    { label: "Memory, MiB", stroke: "#1f9aa3", width: 2 },
    { label: "CPU, %", stroke: "#d9822b", width: 2, scale: "percent" },
  ],
});

function UsageChart({ usage }: { usage: Sample[] }) {
  const data = useMemo(() => [
    usage.map((u) => u.time),
    usage.map((u) => u.memory / 2 ** 20),
    usage.map((u, i) => {
      const before = usage[i - 1];
      return before ? Math.max(0, (u.cpu - before.cpu) / 10 / (u.time - before.time)) : null;
    }),
  ], [usage]);
  const label = `Usage over time; memory now: ${bytes(usage.at(-1)?.memory)}`;
  return <Chart label={label} height={280} draw={drawUsage} data={data} />;
}
