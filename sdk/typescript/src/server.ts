import { errorOf, FumehoodError } from "./errors.js";
import type { Problem } from "./generated/wire.js";

/** The address of a server, and how to call it. */
export interface ServerOptions {
  /** Default: FUMEHOOD_SERVER, else http://localhost:7070. */
  server?: string;
  /** The API key. Default: FUMEHOOD_KEY. */
  key?: string;
  /** Replaces the global fetch, such as one that connects to a Unix socket. */
  fetch?: typeof fetch;
}

/** Options of one call. */
export interface CallOptions {
  /** Ends the call. A run that is not in the background is cancelled. */
  signal?: AbortSignal;
}

/** One request. */
export interface Call extends CallOptions {
  method?: string;
  query?: Record<string, string> | URLSearchParams;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent unmodified. */
  body?: BodyInit;
}

const defaultServer = "http://localhost:7070";

/** A connection to a server. It has no state: fetch keeps the connections. */
export class Server {
  readonly url: string;
  readonly #key: string | undefined;
  readonly #fetch: typeof fetch;

  constructor(options: ServerOptions = {}) {
    const url = options.server ?? environment("FUMEHOOD_SERVER") ?? defaultServer;
    if (!/^https?:\/\/[^/?#@]+(?:[/?#]|$)/.test(url)) {
      const given = url.includes("@") ? "an address with a user" : url; // it may have a password
      throw new FumehoodError(`${given} is not the address of a server`,
        { kind: "invalid", hint: "write http://HOST:PORT or https://HOST:PORT" });
    }
    this.url = url.replace(/\/+$/, "");
    this.#key = options.key ?? environment("FUMEHOOD_KEY");
    this.#fetch = options.fetch ?? fetch;
  }

  /** Sends a request and returns the answer of a success, whose body the caller reads. */
  async send(path: string, call: Call = {}): Promise<Response> {
    const response = await this.sendAny(path, call);
    if (!response.ok) {
      throw await problemOf(response);
    }
    return response;
  }

  /** Sends a request and returns any answer. */
  async sendAny(path: string, call: Call): Promise<Response> {
    const headers = new Headers(call.headers);
    if (this.#key) {
      headers.set("Authorization", `Bearer ${this.#key}`);
    }
    if (call.json !== undefined) {
      headers.set("Content-Type", "application/json");
    }
    const query = call.query ? `?${new URLSearchParams(call.query)}` : "";
    const body = call.json === undefined ? call.body : JSON.stringify(call.json);
    // The key is for this server, so a redirect is not followed.
    const init: RequestInit & { duplex?: "half" } = { method: call.method ?? "GET", headers, redirect: "manual" };
    if (body !== undefined) {
      init.body = body;
      init.duplex = "half"; // required by fetch for a body that is a stream
    }
    if (call.signal) {
      init.signal = call.signal;
    }
    try {
      return await this.#fetch.call(undefined, this.url + path + query, init);
    } catch (cause) {
      call.signal?.throwIfAborted();
      throw unreachable(this.url, cause);
    }
  }

  /** Sends a request and returns its JSON answer. */
  async json<T>(path: string, call: Call = {}): Promise<T> {
    const response = await this.send(path, call);
    try {
      return await response.json() as T;
    } catch (cause) {
      call.signal?.throwIfAborted();
      throw new FumehoodError("the answer of the server broke off", { cause });
    }
  }

  /** Sends a request whose answer has no content. */
  async done(path: string, call: Call = {}): Promise<void> {
    await (await this.send(path, call)).arrayBuffer(); // read to its end, so that the connection can be used again
  }
}

/** Returns the path of an operation on a sandbox. */
export function sandboxPath(...steps: string[]): string {
  return ["/v1/sandboxes", ...steps.map(encodeURIComponent)].join("/");
}

/** Returns the signal of options, for a call that has no other option of theirs. */
export function signalOf(options: CallOptions): CallOptions {
  return options.signal ? { signal: options.signal } : {};
}

function environment(name: string): string | undefined {
  const process = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process;
  return process?.env?.[name] || undefined;
}

function unreachable(url: string, cause: unknown): FumehoodError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const why = inner instanceof Error ? inner.message : String(inner);
  return new FumehoodError(`no Fumehood server answered at ${url}: ${why}`,
    { cause, hint: "start one with: fumehood serve" });
}

async function problemOf(response: Response): Promise<FumehoodError> {
  let problem: Problem | undefined;
  try {
    problem = await response.json() as Problem;
  } catch {
    // It is reported below.
  }
  if (typeof problem?.detail !== "string" || typeof problem.kind !== "string") {
    return new FumehoodError(`the server answered ${response.status}, which is not an answer of Fumehood`,
      { hint: "check the address and the version of the server" });
  }
  if (/\bunknown field\b/.test(problem.detail)) {
    const hint = "the server may have another version than this client: install the same version of both";
    problem = { ...problem, hint: problem.hint ? `${problem.hint}; ${hint}` : hint };
  }
  const wait = Number(response.headers.get("Retry-After") ?? NaN);
  return errorOf(problem, Number.isFinite(wait) ? wait : undefined);
}
