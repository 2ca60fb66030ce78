import { answering, type Tools } from "./calls.js";
import { followRun, type OpenStream, type ReconnectOptions, type RunEvent } from "./events.js";
import { Collector, type RunResult } from "./result.js";
import { type CallOptions, sandboxPath, type Server } from "./server.js";
import type { Run as WireRun, TerminalSizeRequest } from "./generated/wire.js";

/** Callbacks of a run, called as its events arrive. */
export interface RunCallbacks {
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  /** Every event, after the other callbacks. */
  onEvent?: (event: RunEvent) => void;
}

/** A run in a living sandbox that continues without its client. */
export class Run {
  readonly id: string;
  readonly #server: Server;
  readonly #sandbox: string;
  readonly #tools: Tools | undefined;

  constructor(server: Server, sandbox: string, id: string, tools?: Tools) {
    this.#tools = tools;
    this.#server = server;
    this.#sandbox = sandbox;
    this.id = id;
  }

  /** Describes the run. */
  info(options: CallOptions = {}): Promise<WireRun> {
    return this.#server.json(this.#path(), options);
  }

  /** Yields the run's events from its start to its end. It reconnects after a break and loses no event. */
  events(options: CallOptions & ReconnectOptions = {}): AsyncGenerator<RunEvent> {
    return this.follow(undefined, options);
  }

  /** Waits for the end of the run. It answers calls of its tools: those of start, or of these names. */
  async wait(options: CallOptions & ReconnectOptions & RunCallbacks & { tools?: Tools } = {}): Promise<RunResult> {
    return collect(this.answered(this.events(options), options.tools ?? this.#tools, options.signal), options);
  }

  /** Yields events of the run, and answers the calls among them. */
  answered(events: AsyncIterable<RunEvent>, tools: Tools | undefined, signal?: AbortSignal): AsyncGenerator<RunEvent> {
    return answering(events, this.#server, this.#path(), tools, signal);
  }

  /** Appends to the standard input of an interactive run; eof closes it. */
  write(data: string | Uint8Array, options: CallOptions & { eof?: boolean } = {}): Promise<void> {
    const { eof, ...call } = options;
    return this.#server.done(this.#path("stdin"), { ...call, method: "POST", body: data as BodyInit,
      headers: { "Content-Type": "application/octet-stream" }, query: eof ? { eof: "1" } : {} });
  }

  /** Changes the size of the terminal of a command that has one. */
  resize(size: TerminalSizeRequest, options: CallOptions = {}): Promise<void> {
    return this.#server.done(this.#path("terminal"), { ...options, method: "POST", json: size });
  }

  /** Sends a signal, such as SIGINT. */
  signal(signal: string, options: CallOptions = {}): Promise<void> {
    return this.#server.done(this.#path("signal"), { ...options, method: "POST", json: { signal } });
  }

  /** Ends the run. */
  cancel(options: CallOptions = {}): Promise<void> {
    return this.#server.done(this.#path(), { ...options, method: "DELETE" });
  }

  /** Yields the events of a stream, and of further streams of this run if it breaks. */
  follow(first: Response | undefined, options: CallOptions & ReconnectOptions): AsyncGenerator<RunEvent> {
    const open: OpenStream = (after) => this.#server.send(this.#path("events"), {
      ...(options.signal ? { signal: options.signal } : {}),
      headers: { Accept: "text/event-stream", ...(after ? { "Last-Event-ID": String(after) } : {}) } });
    return followRun(first, open, options, options.signal);
  }

  #path(...steps: string[]): string {
    return sandboxPath(this.#sandbox, "runs", this.id, ...steps);
  }
}

/** Collects events into a result. */
export async function collect(events: AsyncIterable<RunEvent>, callbacks: RunCallbacks): Promise<RunResult> {
  const collector = new Collector();
  for await (const event of events) {
    const text = collector.add(event);
    if (text) {
      (event.name === "stdout" ? callbacks.onStdout : callbacks.onStderr)?.(text);
    }
    callbacks.onEvent?.(event);
  }
  return collector.result();
}
