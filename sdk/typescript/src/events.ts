import { errorOf, FumehoodError } from "./errors.js";
import type { AnsweredEvent, CallEvent, Done, Exception, Problem, Progress, ResultEvent, OutputPiece,
  Started } from "./generated/wire.js";

/** One event of a run. A stream can continue after any id. */
export type RunEvent = { id: number } & (
  | { name: "started"; data: Started }
  | { name: "progress"; data: Progress }
  | { name: "stdout" | "stderr"; data: OutputPiece }
  | { name: "result"; data: ResultEvent }
  | { name: "exception"; data: Exception & { time_ms: number } }
  | { name: "call"; data: CallEvent }
  | { name: "answered"; data: AnsweredEvent }
  | { name: "done"; data: Done }
);

/** One server-sent event. */
export interface ServerEvent {
  id: number;
  name: string;
  data: unknown;
}

const maxEvent = 256 << 20; // characters; the server sends shorter ones

/** Reads server-sent events (HTML Living Standard, section 9.2). The end of the stream within an event drops it. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = []; // of an event that is not complete
  let size = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) {
        return;
      }
      const text = decoder.decode(value, { stream: true });
      const joint = (parts.at(-1)?.slice(-1) ?? "") + text;
      parts.push(text);
      size += text.length;
      if (!joint.includes("\n\n")) { // a large event arrives in many chunks
        if (size > maxEvent) {
          throw new FumehoodError(`an event is longer than ${maxEvent} characters`);
        }
        continue;
      }
      const blocks = parts.join("").split("\n\n");
      const rest = blocks.pop() ?? "";
      parts = rest ? [rest] : [];
      size = rest.length;
      for (const block of blocks) {
        const event = parseBlock(block);
        if (event) {
          yield event;
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // a stream that failed cannot be cancelled
  }
}

function parseBlock(block: string): ServerEvent | undefined {
  let id = 0, name = "", data = "";
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (field === "id") {
      id = Number(value);
    } else if (field === "event") {
      name = value;
    } else if (field === "data") {
      data += value;
    }
  }
  return name ? { id, name, data: JSON.parse(data) as unknown } : undefined; // without a name it is a comment
}

/** How long a stream waits for a server that does not answer. */
export interface ReconnectOptions {
  /** Milliseconds without a connection until the stream fails. Default: 60,000. */
  reconnectMs?: number;
}

/** Opens a stream of events after an id. */
export type OpenStream = (after: number) => Promise<Response>;

/**
 * Yields the events of a run up to done. After a break it continues behind the last event; a problem is thrown.
 * first is the stream that is open already; open opens the next ones.
 */
export async function* followRun(first: Response | undefined, open: OpenStream, options: ReconnectOptions,
  signal?: AbortSignal): AsyncGenerator<RunEvent> {
  const limit = options.reconnectMs ?? 60_000;
  let after = 0;
  let response = first;
  let brokenSince: number | undefined;
  for (let wait = 50; ; wait = Math.min(wait * 2, 2000)) {
    let problem: Problem | undefined;
    let cause: unknown;
    try {
      response ??= await open(after);
      for await (const event of readEvents(response.body!)) {
        brokenSince = undefined;
        wait = 50;
        after = event.id || after;
        if (event.name === "problem") {
          problem = event.data as Problem;
          break;
        }
        yield event as RunEvent;
        if (event.name === "done") {
          return;
        }
      }
    } catch (e) {
      signal?.throwIfAborted();
      if (e instanceof FumehoodError && e.kind !== "unavailable" && e.kind !== "busy") {
        throw e;
      }
      cause = e;
    }
    if (problem) {
      throw errorOf(problem);
    }
    response = undefined;
    brokenSince ??= Date.now();
    if (Date.now() - brokenSince >= limit) {
      throw new FumehoodError("the stream of events broke off, and the server does not answer", { cause });
    }
    await pause(wait, signal);
  }
}

/** Waits, unless the signal ends the call. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
