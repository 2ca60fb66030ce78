// Charts by uPlot, which is loaded with the first one.
import { useEffect, useRef } from "preact/hooks";
import type { Chart as ChartOf } from "../vendor/chart";

type Options = ConstructorParameters<typeof ChartOf>[0];
export type Axis = NonNullable<Options["axes"]>[number];
export type Data = (number | null | undefined)[][]; // first the positions, then the values of each series

// Chart draws a chart anew when draw changes, and its data when they change. draw receives the common style of an axis.
export function Chart(p: {
  label: string;
  height: number;
  draw: (axis: Axis, library: typeof ChartOf) => Omit<Options, "width" | "height">;
  data: Data;
}) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<ChartOf | undefined>(undefined);
  const data = useRef(p.data as any);
  data.current = p.data;
  useEffect(() => {
    let left = false;
    void import("../vendor/chart").then(({ Chart: Library }) => {
      if (left || !host.current) return;
      const lines = { stroke: "#8884" };
      const axis = { stroke: getComputedStyle(host.current).color, grid: lines, ticks: lines };
      chart.current = new Library({ width: Math.max(300, host.current.clientWidth), height: p.height,
        ...p.draw(axis, Library) }, data.current, host.current);
    });
    return () => {
      left = true;
      chart.current?.destroy();
      chart.current = undefined;
    };
  }, [p.draw]);
  useEffect(() => chart.current?.setData(data.current), [p.data]);
  return <div ref={host} role="img" aria-label={p.label} />;
}
