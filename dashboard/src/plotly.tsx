// Figures in Plotly's JSON, drawn by uPlot: lines, points and bars over numbers or categories. Plotly itself is larger
// than the rest of the dashboard. Other kinds of traces are shown as their JSON.
import { useEffect, useRef } from "preact/hooks";

interface Trace {
  name: string;
  x: number[];
  y: number[];
  bars: boolean;
  points: boolean;
}

export interface ParsedFigure {
  title: string;
  traces: Trace[];
  labels: string[] | undefined;
  note: string;
}

const colors = ["#1f77b4", "#d95f02", "#2ca02c", "#d62728", "#9467bd", "#8c564b"];

// figureOf returns undefined for a figure that cannot be drawn. It may be hostile.
export function figureOf(json: string): ParsedFigure | undefined {
  try {
    return parse(JSON.parse(json));
  } catch {
    return undefined;
  }
}

function parse(figure: any): ParsedFigure | undefined {
  if (!Array.isArray(figure?.data)) return undefined;
  const labels = new Map<string, number>();
  const traces: Trace[] = [];
  let skipped = 0;
  for (const t of figure.data.slice(0, 20)) {
    const y = numbers(t?.y);
    const kind = t?.type ?? "scatter";
    if (!y || !["scatter", "scattergl", "bar"].includes(kind)) {
      skipped++;
      continue;
    }
    const x = numbers(t.x) ?? categories(t.x, labels) ?? y.map((_, i) => i);
    const mode = String(t.mode ?? "lines");
    traces.push({ name: String(t.name ?? `y${traces.length + 1}`), x, y, bars: kind === "bar",
      points: kind !== "bar" && !mode.includes("lines") });
  }
  if (!traces.length) return undefined;
  const title = figure.layout?.title;
  return {
    title: String(title?.text ?? title ?? "Figure"),
    traces,
    labels: labels.size ? [...labels.keys()] : undefined,
    note: skipped ? `${skipped} traces of other kinds are not drawn.` : "",
  };
}

// numbers reads a list, or Plotly's base64 form of typed arrays.
function numbers(values: any): number[] | undefined {
  if (typeof values?.bdata === "string") {
    const data = Uint8Array.from(atob(values.bdata), (c) => c.charCodeAt(0)).buffer;
    const kinds: Record<string, any> = { f8: Float64Array, f4: Float32Array, i4: Int32Array, i2: Int16Array,
      i1: Int8Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array };
    const kind = kinds[values.dtype];
    return kind && data.byteLength % kind.BYTES_PER_ELEMENT === 0
      ? Array.from<number>(new kind(data)).slice(0, 100_000) : undefined;
  }
  if (!Array.isArray(values) || !values.every((v) => v === null || typeof v === "number")) return undefined;
  return values.slice(0, 100_000);
}

// categories maps texts to their positions in labels, which it extends.
function categories(values: any, labels: Map<string, number>): number[] | undefined {
  if (!Array.isArray(values)) return undefined;
  return values.slice(0, 10_000).map((v) => {
    const text = String(v);
    if (!labels.has(text)) labels.set(text, labels.size);
    return labels.get(text)!;
  });
}

export function Figure({ figure }: { figure: ParsedFigure }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let chart: { destroy(): void } | undefined;
    let left = false;
    void import("../vendor/chart").then(({ Chart }) => {
      if (left || !host.current) return;
      const xs = [...new Set(figure.traces.flatMap((t) => t.x))].sort((a, b) => a - b);
      const rows = figure.traces.map((t) => {
        const of = new Map(t.x.map((x, i) => [x, t.y[i] ?? null]));
        return xs.map((x) => of.get(x) ?? null);
      });
      const labels = figure.labels;
      const bars = figure.traces.some((t) => t.bars);
      const spread = bars || labels !== undefined;
      const ink = getComputedStyle(host.current).color;
      const axis = { stroke: ink, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" } };
      chart = new Chart(
        {
          width: Math.max(300, host.current.clientWidth),
          height: 260,
          title: figure.title,
          scales: {
            x: {
              time: false,
              range: (_u: unknown, low: number, high: number) => (spread ? [low - 0.6, high + 0.6] : [low, high]),
            },
            y: {
              range: (_u: unknown, low: number, high: number) => {
                const pad = (high - low || 1) / 20;
                return [bars && low > 0 ? 0 : low - pad, high + pad];
              },
            },
          },
          axes: [
            labels
              ? {
                  ...axis,
                  splits: () => labels.map((_, i) => i),
                  values: (_u: unknown, at: number[]) => at.map((i) => labels[i] ?? ""),
                }
              : axis,
            axis,
          ],
          series: [
            {},
            ...figure.traces.map((t, i) => {
              const color = colors[i % colors.length]!;
              return {
                label: t.name,
                stroke: color,
                width: t.points ? 0 : 2,
                ...(t.bars ? { paths: Chart.paths.bars!({ size: [0.7, 60] }), fill: color + "99" } : {}),
                points: { show: t.points, size: 6, fill: color },
              };
            }),
          ],
        },
        [xs, ...rows] as any,
        host.current,
      );
    });
    return () => {
      left = true;
      chart?.destroy();
    };
  }, [figure]);
  return (
    <figure class="result">
      <div ref={host} role="img" aria-label={`Chart: ${figure.title}`} />
      {figure.note && <figcaption>{figure.note}</figcaption>}
    </figure>
  );
}
