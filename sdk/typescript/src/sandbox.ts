import { answering, toolRequests, type Tools } from "./calls.js";
import { Context } from "./context.js";
import { FumehoodError } from "./errors.js";
import { followRun, type RunEvent } from "./events.js";
import { SandboxFiles } from "./files.js";
import { defined, isolation, type IsolationOptions, oneShotRequest, type Program,
  type ProgramOptions } from "./program.js";
import { RunResult } from "./result.js";
import { collect, Run, type RunCallbacks, runIdOf, runIn, type SandboxRunOptions, sandboxRunRequest,
  streamIn } from "./run.js";
import { type CallOptions, sandboxPath, Server, type ServerOptions, signalOf } from "./server.js";
import type { Answer, CallLimitsRequest, Context as WireContext, ContextList, LifetimeRequest, NetworkReport,
  NetworkRequest, Run as WireRun, RunList, Sandbox as WireSandbox, SandboxList,
  SandboxUsage } from "./generated/wire.js";

/** The configuration of a new sandbox. */
export interface SandboxOptions extends ServerOptions, IsolationOptions, CallOptions {
  /** If a sandbox of this name exists, it is used. */
  name?: string;
  env?: Record<string, string>;
  metadata?: Record<string, string>;
  /** When the sandbox ends by itself. */
  lifetime?: LifetimeRequest;
}

/** Options of a run in a fresh sandbox. */
export interface OneShotOptions extends ProgramOptions, IsolationOptions, ServerOptions, CallOptions {}

/** Runs code or a command once, in a fresh sandbox. */
export async function run(program: Program, options: OneShotOptions = {}): Promise<RunResult> {
  const server = new Server(options);
  const call = { ...signalOf(options), method: "POST", json: oneShotRequest(program, options) };
  if (!options.tools) {
    return new RunResult(await server.json<Answer>("/v1/run", call));
  }
  const first = await server.send("/v1/run", { ...call, headers: { Accept: "text/event-stream" } });
  const broken = () => Promise.reject(new FumehoodError("the stream of events broke off; the server ended the run"));
  const events = followRun(first, broken, { reconnectMs: 0 }, options.signal);
  const path = `/v1/runs/${runIdOf(first)}`;
  return collect(answering(events, server, path, options.tools, options.signal), {});
}

/** A living sandbox: it keeps its files between runs, and its contexts keep their variables. */
export class Sandbox implements AsyncDisposable {
  readonly id: string;
  readonly name: string | undefined;
  readonly files: SandboxFiles;
  readonly #server: Server;

  private constructor(server: Server, sandbox: WireSandbox) {
    this.#server = server;
    this.id = sandbox.id;
    this.name = sandbox.name;
    this.files = new SandboxFiles(server, sandbox.id);
  }

  /** Creates a sandbox, or finds the one of its name. */
  static async create(options: SandboxOptions = {}): Promise<Sandbox> {
    const server = new Server(options);
    const request = defined({ ...isolation(options), name: options.name, env: options.env,
      metadata: options.metadata, lifetime: options.lifetime });
    return new Sandbox(server, await server.json<WireSandbox>("/v1/sandboxes",
      { ...signalOf(options), method: "POST", json: request }));
  }

  /** Finds a sandbox by its name or id. */
  static async connect(nameOrId: string, options: ServerOptions & CallOptions = {}): Promise<Sandbox> {
    const server = new Server(options);
    return new Sandbox(server, await server.json<WireSandbox>(sandboxPath(nameOrId), signalOf(options)));
  }

  /** Describes all sandboxes of the caller that have the metadata, the oldest first. */
  static async list(options: ServerOptions & CallOptions & { metadata?: Record<string, string> } = {}):
    Promise<WireSandbox[]> {
    const server = new Server(options);
    const all: WireSandbox[] = [];
    for (let after = ""; ;) {
      const query = new URLSearchParams({ limit: "500", ...(after ? { after } : {}) });
      for (const [key, value] of Object.entries(options.metadata ?? {})) {
        query.append("metadata", `${key}:${value}`);
      }
      const page = await server.json<SandboxList>("/v1/sandboxes", { ...signalOf(options), query });
      all.push(...page.sandboxes);
      after = page.sandboxes.at(-1)?.id ?? "";
      if (!page.more || !after) {
        return all;
      }
    }
  }

  /** Describes the sandbox. */
  info(options: CallOptions = {}): Promise<WireSandbox> {
    return this.#server.json(sandboxPath(this.id), options);
  }

  /**
   * Runs code, a command or a file of the workspace, and waits for its end. With a callback the run is a stream: it
   * continues over a restart of the server. So does a run with tools. A failed program is a status of the result.
   */
  run(program: Program, options: SandboxRunOptions = {}): Promise<RunResult> {
    return runIn(this.#server, this.id, program, options, options.tools);
  }

  /** Runs a command. */
  exec(command: string[], options: SandboxRunOptions = {}): Promise<RunResult> {
    return this.run({ command }, options);
  }

  /**
   * Runs a program and yields its events, and answers calls of its tools. It reconnects after a break and loses no
   * event. The run continues if the caller stops reading.
   */
  stream(program: Program, options: SandboxRunOptions = {}): AsyncGenerator<RunEvent> {
    return streamIn(this.#server, this.id, program, options, options.tools);
  }

  /** Starts a program in the background. */
  async start(program: Program, options: Omit<SandboxRunOptions, keyof RunCallbacks> = {}): Promise<Run> {
    const run = await this.#server.json<WireRun>(sandboxPath(this.id, "run"), { ...signalOf(options),
      method: "POST", json: { ...sandboxRunRequest(program, options), background: true } });
    return new Run(this.#server, this.id, run.id, options.tools);
  }

  /** Returns the run of an id. */
  getRun(id: string): Run {
    return new Run(this.#server, this.id, id);
  }

  /** Lists the active runs and the last that ended, the oldest first. */
  async runs(options: CallOptions = {}): Promise<WireRun[]> {
    return (await this.#server.json<RunList>(sandboxPath(this.id, "runs"), options)).runs;
  }

  /** Returns the context of a name. Its first run creates it, if createContext did not. */
  context(name: string): Context {
    return new Context(this.#server, this.id, name);
  }

  /** Creates a context. All its runs can call its tools. */
  async createContext(name: string, options: CallOptions & { language?: string; dir?: string; tools?: Tools;
    callLimits?: CallLimitsRequest } = {}): Promise<Context> {
    const { signal: _, tools, callLimits, ...wanted } = options;
    await this.#server.done(sandboxPath(this.id, "contexts"), { ...signalOf(options), method: "POST",
      json: defined({ name, ...wanted, tools: toolRequests(tools), call_limits: callLimits }) });
    return new Context(this.#server, this.id, name, tools);
  }

  /** Describes the contexts. */
  async contexts(options: CallOptions = {}): Promise<WireContext[]> {
    return (await this.#server.json<ContextList>(sandboxPath(this.id, "contexts"), options)).contexts;
  }

  /** Changes the lifetime or replaces the metadata or the network rules. */
  update(changes: { lifetime?: LifetimeRequest; metadata?: Record<string, string>; network?: NetworkRequest },
    options: CallOptions = {}): Promise<WireSandbox> {
    return this.#server.json(sandboxPath(this.id), { ...options, method: "PATCH", json: changes });
  }

  /** Reports the network policy, with the last attempts. */
  network(options: CallOptions & { last?: number } = {}): Promise<NetworkReport> {
    const { last, ...call } = options;
    return this.#server.json(sandboxPath(this.id, "network"),
      { ...call, query: last === undefined ? {} : { last: String(last) } });
  }

  /** Reports the resources that the sandbox uses. */
  stats(options: CallOptions = {}): Promise<SandboxUsage> {
    return this.#server.json(sandboxPath(this.id, "stats"), options);
  }

  /** Sends a request to an HTTP server on a port in the sandbox. A path that leads out of the port is refused. */
  async fetch(port: number, path = "/", options: CallOptions & { method?: string; headers?: Record<string, string>;
    body?: BodyInit } = {}): Promise<Response> {
    const root = `${sandboxPath(this.id, "ports", String(port))}/`;
    const whole = root + path.replace(/^\//, "");
    // A link of a program could lead to an operation of the server, which the key permits.
    if (!new URL(whole, "http://localhost").pathname.startsWith(root)) {
      throw new FumehoodError("path: it leads out of the port", { kind: "invalid" });
    }
    return this.#server.sendAny(whole, options);
  }

  /** Empties the workspace. */
  clean(options: CallOptions = {}): Promise<void> {
    return this.#server.done(sandboxPath(this.id, "clean"), { ...options, method: "POST", json: {} });
  }

  /** Ends the sandbox, unless it has ended. Its files are lost. */
  async close(options: CallOptions = {}): Promise<void> {
    try {
      await this.#server.done(sandboxPath(this.id), { ...options, method: "DELETE" });
    } catch (e) {
      if (!(e instanceof FumehoodError && e.kind === "not_found")) {
        throw e;
      }
    }
  }

  /** Ends the sandbox at the end of `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
