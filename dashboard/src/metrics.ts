// Metrics in the text format of Prometheus (exposition format 0.0.4).

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parse(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const row of text.split("\n")) {
    const found = line.exec(row);
    if (!found) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(label)) {
      labels[name!] = value!.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    samples.push({ name: found[1]!, labels, value: Number(found[3]) });
  }
  return samples;
}

export const valueOf = (samples: Sample[], name: string) => samples.find((s) => s.name === name)?.value;

export interface Histogram {
  of: string; // the labels besides le
  count: number;
  buckets: [bound: number, count: number][]; // cumulative
}

// histograms returns those of a name, the most counted first.
export function histograms(samples: Sample[], name: string): Histogram[] {
  const found = new Map<string, Histogram>();
  for (const s of samples) {
    if (s.name !== name + "_bucket") continue;
    const { le, ...rest } = s.labels;
    const of = Object.values(rest).join(" ");
    const h = found.get(of) ?? { of, count: 0, buckets: [] };
    found.set(of, h);
    h.buckets.push([le === "+Inf" ? Infinity : Number(le), s.value]);
    h.count = Math.max(h.count, s.value);
  }
  return [...found.values()].filter((h) => h.count > 0).sort((a, b) => b.count - a.count);
}

// quantile estimates a quantile as histogram_quantile of Prometheus does: linearly within its bucket.
export function quantile(h: Histogram, q: number): number {
  const rank = q * h.count;
  let [low, below] = [0, 0];
  for (const [bound, count] of h.buckets) {
    if (count >= rank) {
      if (bound === Infinity) return low;
      return count === below ? bound : low + ((bound - low) * (rank - below)) / (count - below);
    }
    [low, below] = [bound, count];
  }
  return low;
}
