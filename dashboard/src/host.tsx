// The host: what its backends enforce, languages, images, volumes, packages, the use of slots, and latencies.
import { type ComponentChildren } from "preact";
import { Problem, get, send } from "./api";
import { Badge, bytes, duration, ErrorBox, Heads, since, usePolled } from "./parts";
import { type Histogram, histograms, parse, quantile, valueOf } from "./metrics";
import { plain } from "./text";
import type * as wire from "./generated/wire";

export function Host({ capabilities: c }: { capabilities: wire.Capabilities }) {
  return (
    <>
      <h1>Host</h1>
      <Load capabilities={c} />
      {c.backends.map((b) => (
        <Backend backend={b} isDefault={b.name === c.default_backend} />
      ))}
      <Limits capabilities={c} />
      <Languages />
      <Images />
      <Volumes />
      <Packages />
      <p class="note">Fumehood {c.version}</p>
    </>
  );
}

function Load({ capabilities: c }: { capabilities: wire.Capabilities }) {
  const { value, error } = usePolled(
    async (signal) => parse(await (await send("/metrics", { signal })).text()), 3, []);
  const ready = usePolled(async (signal) => (await fetch("/readyz", { signal })).ok, 10, []);
  const of = (name: string) => value && (valueOf(value, name) ?? 0);
  return (
    <div class="panel">
      <h2>Load</h2>
      <ErrorBox error={error} />
      <p>
        <Badge text={ready.value === undefined ? "checking" : ready.value ? "ready" : "refused"} />
        default requests are {ready.value === false ? "refused" : "served"}
      </p>
      <dl>
        <dt>Slots</dt>
        <dd>
          <meter min={0} max={c.slots} value={of("fumehood_engine_running") ?? 0} aria-label="Used slots" />{" "}
          {of("fumehood_engine_running") ?? "–"} of {c.slots}
        </dd>
        <dt>Queue</dt>
        <dd>
          <meter min={0} max={Math.max(1, c.queue)} value={of("fumehood_engine_queued") ?? 0} aria-label="Waiting runs" />{" "}
          {of("fumehood_engine_queued") ?? "–"} of {c.queue}
        </dd>
        <dt>Sandboxes</dt>
        <dd>
          {of("fumehood_engine_sandboxes") ?? "–"} living, {of("fumehood_engine_warm_boxes") ?? "–"} warm
        </dd>
        <dt>CPU time</dt>
        <dd>{duration((of("fumehood_engine_cpu_seconds_total") ?? NaN) * 1000)}</dd>
        <dt>Logs</dt>
        <dd>{bytes(of("fumehood_engine_log_bytes"))}</dd>
      </dl>
      {value && <Latencies title="Runs" list={histograms(value, "fumehood_run_seconds")} />}
      {value && (
        <Latencies title="Requests"
          list={histograms(value, "fumehood_http_request_seconds").filter((h) => h.of.includes("/v1/"))} />
      )}
    </div>
  );
}

function Latencies({ title, list }: { title: string; list: Histogram[] }) {
  if (!list.length) return null;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Latency of ${title.toLowerCase()}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{title}</th>
            {["Count", "p50", "p90", "p99"].map((h) => (
              <th scope="col" class="number">{h}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {list.slice(0, 12).map((h) => (
            <tr>
              <th scope="row">{h.of}</th>
              <td class="number">{h.count}</td>
              {[0.5, 0.9, 0.99].map((q) => (
                <td class="number">{duration(quantile(h, q) * 1000)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Backend({ backend: b, isDefault }: { backend: wire.Backend; isDefault: boolean }) {
  return (
    <div class="panel">
      <h2>
        Backend {b.name} <Badge text={b.usable ? "usable" : "missing"} />
        {isDefault && <Badge text="default" />}
      </h2>
      <ErrorBox error={b.error && new Problem(0, b.error, b.hint)} />
      {b.isolation.length > 0 && (
        <details open={isDefault}>
          <summary>Isolation and features</summary>
          <div class="scroll" tabIndex={0} role="region" aria-label={"Isolation of " + b.name}>
            <table>
              <Heads names={["Layer", "State", "Detail"]} />
              <tbody>
                {b.isolation.map((w) => (
                  <tr>
                    <th scope="row">{w.name}</th>
                    <td><Badge text={w.state} /></td>
                    <td>{w.detail}{w.fix && <> Fix: {w.fix}</>}</td>
                  </tr>
                ))}
                {b.features.map((f) => (
                  <tr>
                    <th scope="row">{f.name}</th>
                    <td><Badge text={f.has ? "usable" : "missing"} /></td>
                    <td>{f.detail}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </div>
  );
}

function Limits({ capabilities: c }: { capabilities: wire.Capabilities }) {
  return (
    <div class="panel">
      <h2>Limits of a run</h2>
      <table>
        <Heads names={["Limit", "Default", "Maximum"]} />
        <tbody>
          {Object.keys(c.defaults).map((name) => (
            <tr>
              <th scope="row">{name}</th>
              <td>{c.defaults[name as keyof wire.Limits] ?? "–"}</td>
              <td>{c.max[name as keyof wire.Limits] ?? "none"}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">network</th>
            <td>none</td>
            <td>
              {c.network.at(-1)}
              {c.network_allow && ": " + c.network_allow.join(", ")}
            </td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}

function Languages() {
  const { value, error } = usePolled(
    async (signal) => (await get<wire.Languages>("/v1/languages", signal)).languages, 0, []);
  return (
    <div class="panel">
      <h2>Languages</h2>
      <ErrorBox error={error} />
      <table>
        <tbody>
          {value?.map((l) => (
            <tr>
              <th scope="row">{l.title}</th>
              <td>{l.version ?? l.error ?? "unknown"}</td>
              <td>
                {l.modules.length > 0 && (
                  <details>
                    <summary>{l.modules.length} modules</summary>
                    {l.modules.map((m) => m.name + (m.version ? " " + m.version : "")).join(", ")}
                  </details>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Stored lists what the server keeps. A server that keeps no such things (status 422) is no error.
function Stored<T>(p: { title: string; heads: string[]; load: (signal: AbortSignal) => Promise<T[]>;
  row: (item: T) => ComponentChildren; size: (item: T) => number }) {
  const { value, error } = usePolled(p.load, 10, []);
  const lacks = error instanceof Problem && error.status === 422;
  return (
    <div class="panel">
      <h2>{p.title}</h2>
      {lacks ? <p class="note">{error.message}.</p> : <ErrorBox error={error} />}
      {value?.length === 0 && <p class="note">There are none.</p>}
      {value && value.length > 0 && (
        <>
          <div class="scroll" tabIndex={0} role="region" aria-label={p.title}>
            <table>
              <Heads names={p.heads} />
              <tbody>{value.slice(0, 200).map((item) => <tr>{p.row(item)}</tr>)}</tbody>
            </table>
          </div>
          <p class="note">
            Together {bytes(value.reduce((sum, item) => sum + p.size(item), 0))}
            {value.length > 200 && `. The first 200 of ${value.length} are listed.`}
          </p>
        </>
      )}
    </div>
  );
}

const Images = () => (
  <Stored<wire.StoredImage> title="Images and templates" heads={["Name", "Size", "Added", "Last use", "Sandboxes"]}
    size={(i) => i.bytes}
    load={async (signal) => (await get<wire.ImageList>("/v1/images", signal)).images}
    row={(i) => (
      <>
        <th scope="row">
          <bdi>{i.name}</bdi> {i.template && <Badge text="template" />} {i.owner && <>of <bdi>{i.owner}</bdi></>}
        </th>
        <td class="number">{bytes(i.bytes)}</td>
        <td class="number">{since(i.added_at)} ago</td>
        <td class="number">{since(i.used_at)} ago</td>
        <td class="number">{i.sandboxes.length}</td>
      </>
    )} />
);

const Volumes = () => (
  <Stored<wire.Volume> title="Volumes" heads={["Name", "Used", "Size", "Created", "Sandboxes"]}
    size={(v) => v.used_bytes ?? 0}
    load={async (signal) => (await get<wire.VolumeList>("/v1/volumes", signal)).volumes}
    row={(v) => (
      <>
        <th scope="row">{v.name}</th>
        <td class="number">{bytes(v.used_bytes)}</td>
        <td class="number">{v.size_mib} MiB</td>
        <td class="number">{since(v.created_at)} ago</td>
        <td class="number">{v.sandboxes.length}</td>
      </>
    )} />
);

const Packages = () => (
  <Stored<wire.PackageLayer> title="Packages" heads={["Layer", "Language", "Size", "Last use", "Uses", "Sandboxes"]}
    size={(l) => l.bytes}
    load={async (signal) => (await get<wire.PackageList>("/v1/packages", signal)).layers}
    row={(l) => (
      <>
        <th scope="row"><Names list={l.packages.map((p) => plain(`${p.name} ${p.version}`))} /></th>
        <td>{l.language}</td>
        <td class="number">{bytes(l.bytes)}</td>
        <td class="number">{since(l.used_at)} ago</td>
        <td class="number">{l.hits + 1}</td>
        <td class="number">{l.sandboxes.length}</td>
      </>
    )} />
);

// Names shows the first of a long list, and the others on demand.
function Names({ list }: { list: string[] }) {
  if (list.length <= 6) return <bdi>{list.join(", ")}</bdi>;
  return (
    <details>
      <summary><bdi>{list.slice(0, 5).join(", ")}</bdi> and {list.length - 5} more</summary>
      <bdi>{list.slice(5).join(", ")}</bdi>
    </details>
  );
}
