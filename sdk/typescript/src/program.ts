import { base64Of } from "./result.js";
import { toolRequests, type Tools } from "./calls.js";
import type { CallLimitsRequest, File, FileRequest, LimitsRequest, NetworkRequest, RunRequest, VolumeMountRequest,
  SandboxRunRequest } from "./generated/wire.js";

/** The content of files by path: text, or bytes. */
export type Files = Record<string, string | Uint8Array>;

/** What is common to runs in living and in fresh sandboxes. */
export interface ProgramOptions {
  /** Name or alias of a language. Default: that of the context, else python. */
  language?: string;
  /** Arguments of a program; code in a context has none. */
  args?: string[];
  /** Standard input; code in a context has none. */
  stdin?: string | Uint8Array;
  /** Files that are written to the workspace first. */
  files?: Files;
  env?: Record<string, string>;
  /** Patterns of files to return, such as "**" + "/*.png". */
  returnFiles?: string[];
  /** Packages to install first; "auto" installs those that the code imports. */
  packages?: string[];
  /** Whether packages may run code while they are installed. */
  allowBuild?: boolean;
  metadata?: Record<string, string>;
  /** Functions of this program that the code can call, in Python and JavaScript. */
  tools?: Tools | undefined;
  /** Limits of the calls. */
  callLimits?: CallLimitsRequest;
  /** Seconds. */
  timeout?: number;
}

/** The isolation of a new sandbox. */
export interface IsolationOptions {
  /** Default: the server's. */
  backend?: string;
  /** An image of the server, on backends with images. */
  image?: string;
  limits?: LimitsRequest;
  network?: NetworkRequest;
  /** Storage besides the sandbox's own: named volumes, directories of the server's host, memory. */
  volumes?: VolumeMountRequest[];
  /** Names of limits that this host need not enforce. */
  allowUnenforced?: string[];
}

/** Code, a command, or a file of the workspace. */
export type Program = string | { code: string } | { command: string[] } | { entry: string };

/** Returns the request for a run in a living sandbox. */
export function runRequest(program: Program, o: ProgramOptions): SandboxRunRequest {
  const { timeout } = o;
  return defined({ ...programOf(program), ...common(o), limits: timeout === undefined ? undefined
    : { timeout_s: timeout } }) as SandboxRunRequest;
}

/** Returns the request for a run in a fresh sandbox. */
export function oneShotRequest(program: Program, o: ProgramOptions & IsolationOptions): RunRequest {
  const limits = { ...o.limits, ...(o.timeout === undefined ? {} : { timeout_s: o.timeout }) };
  const language = o.language ?? (typeof program === "string" || "code" in program ? "python" : undefined);
  return defined({ ...programOf(program), ...common(o), ...isolation(o), limits, language }) as RunRequest;
}

/** Returns the part of a request about isolation. */
export function isolation(o: IsolationOptions): object {
  return { backend: o.backend, image: o.image, limits: o.limits, network: o.network,
    volumes: o.volumes, allow_unenforced: o.allowUnenforced };
}

/** Returns an object without its undefined fields. */
export function defined<T extends object>(o: T): T {
  return Object.fromEntries(Object.entries(o).filter(([, value]) => value !== undefined)) as T;
}

function programOf(program: Program): object {
  return typeof program === "string" ? { code: program } : program;
}

function common(o: ProgramOptions): object {
  return {
    language: o.language, args: o.args, env: o.env, return_files: o.returnFiles, packages: o.packages,
    allow_build: o.allowBuild, metadata: o.metadata, tools: toolRequests(o.tools), call_limits: o.callLimits,
    files: o.files && Object.entries(o.files).map(([path, content]) => fileOf(path, content)),
    ...(typeof o.stdin === "string" || o.stdin === undefined ? { stdin: o.stdin }
      : { stdin_base64: base64Of(o.stdin) }),
  };
}

function fileOf(path: string, content: string | Uint8Array): FileRequest {
  const file: Partial<File> = typeof content === "string" ? { path, content }
    : { path, content_base64: base64Of(content) };
  return file as FileRequest;
}
