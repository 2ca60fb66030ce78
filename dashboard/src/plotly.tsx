// Figures in Plotly's JSON, drawn by uPlot: lines, points and bars over numbers or categories. Plotly itself is larger
// than the rest of the dashboard. Other kinds of traces are shown as their JSON. A figure may be hostile, so all of it
// is bounded: a browser's tab has one thread.
import { useMemo } from "preact/hooks";
import { type Axis, Chart } from "./chart";
import { bytesOf } from "./text";

const maxJSON = 8 << 20; // characters
const maxTraces = 20;
const maxPoints = 50_000; // of all traces
const maxLabels = 1000;
const maxText = 80; // characters of a name or label
const maxValue = 1e30; // beyond it, uPlot finds no marks for an axis

interface Trace {
  name: string;
  x: (number | null)[];
  y: (number | null)[];
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

// figureOf returns undefined for a figure that cannot be drawn.
export function figureOf(json: string): ParsedFigure | undefined {
  if (json.length > maxJSON) return undefined;
  try {
    return parse(JSON.parse(json));
  } catch {
    return undefined; // not JSON, or nested too deeply
  }
}

function parse(figure: any): ParsedFigure | undefined {
  if (!Array.isArray(figure?.data)) return undefined;
  const labels = new Map<string, number>();
  const traces: Trace[] = [];
  let left = maxPoints;
  for (const t of figure.data.slice(0, maxTraces)) {
    const y = numbers(t?.y, left);
    const kind = t?.type ?? "scatter";
    if (!y || !["scatter", "scattergl", "bar"].includes(kind)) continue;
    const x = numbers(t.x, left) ?? categories(t.x, left, labels) ?? y.map((_, i) => i);
    left -= y.length;
    const mode = text(t.mode ?? "lines");
    traces.push({ name: text(t.name ?? `y${traces.length + 1}`), x, y, bars: kind === "bar",
      points: kind !== "bar" && !mode.includes("lines") });
  }
  if (!traces.length) return undefined;
  const title = figure.layout?.title;
  const skipped = figure.data.length - traces.length;
  return {
    title: text(title?.text ?? title ?? "Figure"),
    traces,
    labels: labels.size ? [...labels.keys()] : undefined,
    note: [skipped > 0 && `Not drawn: ${skipped} traces, of other kinds or too many.`,
      left <= 0 && `Only ${maxPoints} points are drawn.`].filter(Boolean).join(" "),
  };
}

// text returns the begin of a text or a number; "" for what is neither.
const text = (value: any): string =>
  ["string", "number"].includes(typeof value) ? String(value).slice(0, maxText) : "";

// numbers reads a list, or Plotly's base64 form of typed arrays. Values that cannot be drawn are gaps.
function numbers(values: any, most: number): (number | null)[] | undefined {
  let list = values;
  if (typeof values?.bdata === "string") {
    const data = bytesOf(values.bdata).buffer;
    const kinds: Record<string, any> = { f8: Float64Array, f4: Float32Array, i4: Int32Array, i2: Int16Array,
      i1: Int8Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array };
    const kind = Object.hasOwn(kinds, values.dtype) ? kinds[values.dtype] : undefined;
    if (!kind || data.byteLength % kind.BYTES_PER_ELEMENT !== 0) return undefined;
    list = Array.from<number>(new kind(data));
  }
  if (!Array.isArray(list) || !list.every((v) => v === null || typeof v === "number")) return undefined;
  return list.slice(0, most).map((v) => (v !== null && Math.abs(v) <= maxValue ? v : null));
}

// categories maps texts to their positions in labels, which it extends.
function categories(values: any, most: number, labels: Map<string, number>): (number | null)[] | undefined {
  if (!Array.isArray(values)) return undefined;
  return values.slice(0, most).map((v) => {
    const label = text(v);
    if (!labels.has(label) && labels.size < maxLabels) labels.set(label, labels.size);
    return labels.get(label) ?? null;
  });
}

// rangeOf widens the range of an axis. uPlot steps through an axis: a range in which a step is less than the precision
// of its numbers would never end.
function rangeOf(low: number, high: number, pad: number): [number, number] {
  const least = Math.max(Math.abs(low), Math.abs(high)) * 1e-6;
  return [low - Math.max(pad, least), high + Math.max(pad, least)];
}

// dataOf aligns the traces. undefined is no value of a trace at that position, and null is a gap in its line.
function dataOf(figure: ParsedFigure) {
  const xs = [...new Set(figure.traces.flatMap((t) => t.x))].filter((x) => x !== null).sort((a, b) => a - b);
  return [xs, ...figure.traces.map((t) => {
    const of = new Map(t.x.map((x, i) => [x, t.y[i] ?? null]));
    return xs.map((x) => of.get(x));
  })];
}

const drawOf = (figure: ParsedFigure) => (axis: Axis, library: typeof import("../vendor/chart").Chart) => {
  const labels = figure.labels;
  const bars = figure.traces.some((t) => t.bars);
  const marks = Math.ceil((labels?.length ?? 0) / 40); // every so many labels are shown
  return {
    title: figure.title,
    scales: {
      x: {
        time: false,
        range: (_u: unknown, low: number, high: number) => rangeOf(low, high, bars || labels ? 0.6 : 0),
      },
      y: {
        range: (_u: unknown, low: number, high: number) => {
          const [least, most] = rangeOf(low, high, (high - low || 1) / 20);
          return [bars && low > 0 ? 0 : least, most] as [number, number];
        },
      },
    },
    axes: [
      labels
        ? {
            ...axis,
            splits: () => labels.map((_, i) => i).filter((i) => i % marks === 0),
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
          ...(t.bars ? { paths: library.paths.bars!({ size: [0.7, 60] }), fill: color + "99" } : {}),
          points: { show: t.points, size: 6, fill: color },
        };
      }),
    ],
  };
};

export function Figure({ figure }: { figure: ParsedFigure }) {
  const draw = useMemo(() => drawOf(figure), [figure]);
  const data = useMemo(() => dataOf(figure), [figure]);
  return (
    <figure class="result">
      <Chart label={`Chart: ${figure.title}`} height={260} draw={draw} data={data} />
      {figure.note && <figcaption>{figure.note}</figcaption>}
    </figure>
  );
}
