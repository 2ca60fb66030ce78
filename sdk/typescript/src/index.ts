/**
 * The client of Fumehood, which runs untrusted code in sandboxes.
 *
 * Output, values and files come from a sandbox unmodified: treat them as hostile.
 */
export type { Tool, ToolFunction, Tools } from "./calls.js";
export { Context, type Missing, type StateDocument } from "./context.js";
export { type ErrorDetails, type ErrorKind, FumehoodError } from "./errors.js";
export type { ReconnectOptions, RunEvent } from "./events.js";
export { type ListOptions, SandboxFiles } from "./files.js";
export type { Files, IsolationOptions, Program, ProgramOptions } from "./program.js";
export { Result, RunResult } from "./result.js";
export { Run, type RunCallbacks, type SandboxRunOptions } from "./run.js";
export { type OneShotOptions, run, Sandbox, type SandboxOptions } from "./sandbox.js";
export type { CallOptions, ServerOptions } from "./server.js";
export { Volumes } from "./volumes.js";
export type * as wire from "./generated/wire.js";
