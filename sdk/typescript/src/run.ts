import { answering, type Tools } from "./calls.js";
import { FumehoodError } from "./errors.js";
import { followRun, type OpenStream, type ReconnectOptions, type RunEvent } from "./events.js";
import { defined, type Program, type ProgramOptions, runRequest } from "./program.js";
import { Collector, RunResult } from "./result.js";
import { type CallOptions, sandboxPath, type Server, signalOf } from "./server.js";
import type { Answer, Run as WireRun, TerminalSizeRequest } from "./generated/wire.js";

const runHeader = "Fumehood-Run-Id";

/** Callbacks of a run, called as its events arrive. */
export interface RunCallbacks {
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  /** Every event, after the other callbacks. */
  onEvent?: (event: RunEvent) => void;
}

/** Options of a run in a sandbox. */
export interface SandboxRunOptions extends ProgramOptions, RunCallbacks, ReconnectOptions, CallOptions {
  /** Name of the context of code. Default: the language's default context. */
  context?: string;
  /** Working directory of a command or an entry. */
  dir?: string;
  /** Keep the standard input of a command or an entry open for Run.write. */
  interactive?: boolean;
  /** Give a command a terminal of this size, which Run.write types into. */
  terminal?: TerminalSizeRequest;
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
      ...signalOf(options),
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

/** Returns the request for a run in a living sandbox, in a context or with the options of a command. */
export function sandboxRunRequest(program: Program, options: SandboxRunOptions): object {
  return defined({ ...runRequest(program, options), context: options.context, dir: options.dir,
    interactive: options.interactive, terminal: options.terminal });
}

/** Returns the id of the run of a stream. */
export function runIdOf(stream: Response): string {
  const id = stream.headers.get(runHeader);
  if (!id) {
    void stream.body?.cancel();
    throw new FumehoodError(`the answer of the server has no header ${runHeader}`,
      { hint: "let proxies in front of the server pass it" });
  }
  return id;
}

/** Runs a program in a sandbox. It answers the calls of these tools: those of the run and of its context. */
export async function runIn(server: Server, sandbox: string, program: Program, options: SandboxRunOptions,
  tools: Tools | undefined): Promise<RunResult> {
  if (options.onStdout || options.onStderr || options.onEvent || tools) {
    return collect(streamIn(server, sandbox, program, options, tools), options);
  }
  return new RunResult(await server.json<Answer>(sandboxPath(sandbox, "run"),
    { ...signalOf(options), method: "POST", json: sandboxRunRequest(program, options) }));
}

/** Runs a program in a sandbox and yields its events. It answers the calls of these tools. */
export async function* streamIn(server: Server, sandbox: string, program: Program, options: SandboxRunOptions,
  tools: Tools | undefined): AsyncGenerator<RunEvent> {
  const first = await server.send(sandboxPath(sandbox, "run"), { ...signalOf(options), method: "POST",
    json: sandboxRunRequest(program, options), headers: { Accept: "text/event-stream" } });
  const run = new Run(server, sandbox, runIdOf(first));
  yield* run.answered(run.follow(first, options), tools, options.signal);
}
