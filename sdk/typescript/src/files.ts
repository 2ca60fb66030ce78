import { FumehoodError } from "./errors.js";
import { type CallOptions, sandboxPath, type Server } from "./server.js";
import type { FileInfo, FileList } from "./generated/wire.js";

/** Options of a listing. */
export interface ListOptions extends CallOptions {
  /** Folders below the path. Default: 1. */
  depth?: number;
  /** Most files of the answer. */
  limit?: number;
}

/** The files of a sandbox. Paths are absolute, or relative to the workspace. */
export class SandboxFiles {
  readonly #server: Server;
  readonly #sandbox: string;

  constructor(server: Server, sandbox: string) {
    this.#server = server;
    this.#sandbox = sandbox;
  }

  /** Returns a file as text. */
  async read(path: string, options: CallOptions = {}): Promise<string> {
    return (await this.stream(path, options)).text();
  }

  /** Returns the bytes of a file. */
  async readBytes(path: string, options: CallOptions = {}): Promise<Uint8Array> {
    return new Uint8Array(await (await this.stream(path, options)).arrayBuffer());
  }

  /** Returns the answer with a file as its body, for large files. */
  stream(path: string, options: CallOptions = {}): Promise<Response> {
    return this.#server.send(this.#path("files"), { ...options, query: { path } });
  }

  /** Creates or replaces a file, with missing folders. mode has the permission bits. */
  async write(path: string, content: BodyInit, options: CallOptions & { mode?: number } = {}): Promise<void> {
    const { mode, ...call } = options;
    const query: Record<string, string> = { path };
    if (mode !== undefined) {
      query["mode"] = mode.toString(8).padStart(4, "0");
    }
    await this.#server.done(this.#path("files"), { ...call, method: "PUT", query, body: content,
      headers: { "Content-Type": "application/octet-stream" } });
  }

  /** Describes a file. */
  stat(path: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.#server.json(this.#path("files"), { ...options, query: { path, stat: "1" } });
  }

  /** Returns whether a file or folder exists. */
  async exists(path: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (e) {
      if (!(e instanceof FumehoodError && e.kind === "not_found")) {
        throw e;
      }
      await this.#server.done(sandboxPath(this.#sandbox), options); // fails if the sandbox is the missing part
      return false;
    }
  }

  /** Lists a folder. */
  list(path = ".", options: ListOptions = {}): Promise<FileList> {
    const { depth, limit, ...call } = options;
    const query: Record<string, string> = { path, list: "1" };
    if (depth !== undefined) {
      query["depth"] = String(depth);
    }
    if (limit !== undefined) {
      query["limit"] = String(limit);
    }
    return this.#server.json(this.#path("files"), { ...call, query });
  }

  /** Removes a file, or with recursive a folder. */
  remove(path: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const { recursive, ...call } = options;
    const query = { path, ...(recursive ? { recursive: "1" } : {}) };
    return this.#server.done(this.#path("files"), { ...call, method: "DELETE", query });
  }

  /** Moves a file or folder. */
  move(from: string, to: string, options: CallOptions & { replace?: boolean } = {}): Promise<void> {
    const { replace = false, ...call } = options;
    return this.#server.done(this.#path("move"), { ...call, method: "POST", json: { from, to, replace } });
  }

  /** Creates a folder and its missing parents. */
  makeFolder(path: string, options: CallOptions = {}): Promise<void> {
    return this.#server.done(this.#path("mkdir"), { ...options, method: "POST", json: { path } });
  }

  #path(step: string): string {
    return sandboxPath(this.#sandbox, step);
  }
}
