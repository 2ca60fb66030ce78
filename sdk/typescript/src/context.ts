import type { Tools } from "./calls.js";
import type { RunResult } from "./result.js";
import { runIn, type SandboxRunOptions } from "./run.js";
import { type CallOptions, sandboxPath, type Server } from "./server.js";
import type { Completion } from "./generated/wire.js";

/** A variable that is not carried. */
export interface Missing {
  name: string;
  type: string;
  reason: string;
}

/** Variables of a context; docs/state.md describes them. */
export interface StateDocument {
  version: number;
  language: string;
  variables: Record<string, unknown>;
  first?: Record<string, number>;
  missing?: Missing[];
}

/** An interpreter of a sandbox that keeps its variables between runs. */
export class Context {
  readonly name: string;
  readonly #server: Server;
  readonly #sandbox: string;
  readonly #tools: Tools | undefined;

  constructor(server: Server, sandbox: string, name: string, tools?: Tools) {
    this.#tools = tools;
    this.#server = server;
    this.#sandbox = sandbox;
    this.name = name;
  }

  /** Runs code in this context. */
  run(code: string, options: SandboxRunOptions = {}): Promise<RunResult> {
    const tools = this.#tools || options.tools ? { ...this.#tools, ...options.tools } : undefined;
    return runIn(this.#server, this.#sandbox, code, { ...options, context: this.name }, tools);
  }

  /**
   * Returns the variables, or those of these names, as a document that another sandbox can load. Its missing lists what
   * cannot be carried. It comes from the sandbox: treat it as hostile.
   */
  export(names: string[] = [], options: CallOptions = {}): Promise<StateDocument> {
    const query = new URLSearchParams(names.map((name) => ["name", name]));
    return this.#server.json(this.#path("state"), { ...options, query });
  }

  /** Sets the variables of a document, and returns those that could not be set. */
  async load(document: StateDocument, options: CallOptions = {}): Promise<Missing[]> {
    const call = { ...options, method: "PUT", json: document };
    return (await this.#server.json<{ missing: Missing[] }>(this.#path("state"), call)).missing;
  }

  /** Interrupts the running code. The variables are kept. */
  interrupt(options: CallOptions = {}): Promise<void> {
    return this.#server.done(this.#path("interrupt"), { ...options, method: "POST" });
  }

  /** Restarts the interpreter. Its variables are lost. */
  restart(options: CallOptions = {}): Promise<void> {
    return this.#server.done(this.#path("restart"), { ...options, method: "POST" });
  }

  /** Returns the names that complete code at a cursor, a byte offset in its UTF-8. */
  complete(code: string, cursor?: number, options: CallOptions = {}): Promise<Completion> {
    return this.#server.json(this.#path("complete"), { ...options, method: "POST",
      json: { code, ...(cursor === undefined ? {} : { cursor }) } });
  }

  /** Ends the interpreter. */
  remove(options: CallOptions = {}): Promise<void> {
    return this.#server.done(this.#path(), { ...options, method: "DELETE" });
  }

  #path(...steps: string[]): string {
    return sandboxPath(this.#sandbox, "contexts", this.name, ...steps);
  }
}
