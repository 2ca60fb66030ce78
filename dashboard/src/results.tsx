// Values that code displayed. They come from a sandbox: no form of them may run a script on this page.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isDark } from "./theme";
import { Figure, figureOf } from "./plotly";
import { plain } from "./text";

export interface Result {
  main?: boolean;
  data: Record<string, string>;
}

export function ResultView({ result }: { result: Result }) {
  const d = result.data;
  const json = d["application/vnd.plotly.v1+json"];
  const figure = useMemo(() => (json === undefined ? undefined : figureOf(json)), [json]);
  if (figure) return <Figure figure={figure} />;
  for (const type of ["image/png", "image/jpeg"]) {
    if (d[type]) return <img class="result" alt="Image result" src={`data:${type};base64,${d[type]!.trim()}`} />;
  }
  if (d["image/svg+xml"]) {
    // Scripts in an image do not run, and it loads nothing.
    return <img class="result" alt="SVG result" src={"data:image/svg+xml," + encodeURIComponent(d["image/svg+xml"])} />;
  }
  if (d["text/html"]) return <HTMLFrame html={d["text/html"]} />;
  const type = Object.keys(d).find((t) => t !== "text/plain") ?? "text/plain";
  const text = d["text/plain"] ?? d[type] ?? "";
  return <pre class="result">{plain(text)}</pre>;
}

// HTML in a frame with an opaque origin, whose policy runs no script but our own.
function HTMLFrame({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(60);
  useEffect(() => {
    const receive = (e: MessageEvent) => {
      const target = frame.current?.contentWindow;
      if (!target || e.source !== target) return;
      if (e.data?.ready === true) target.postMessage({ html, dark: isDark() }, "*");
      const wanted = Number(e.data?.height);
      if (wanted > 0) setHeight(Math.min(600, wanted + 8));
    };
    addEventListener("message", receive);
    return () => removeEventListener("message", receive);
  }, [html]);
  return (
    <iframe
      ref={frame}
      class="result"
      title="HTML result"
      sandbox="allow-scripts"
      src="/ui/frame.html"
      style={{ height: height + "px" }}
    />
  );
}
