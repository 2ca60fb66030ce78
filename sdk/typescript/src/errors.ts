import type { Hint, Problem } from "./generated/wire.js";

/** What kind of failure a problem is. A newer server may send others. */
export type ErrorKind =
  | "internal" | "invalid" | "not_found" | "exists" | "busy" | "quota" | "unauthorized" | "unsupported"
  | "unavailable" | "too_large" | (string & {});

/** Details of a FumehoodError. */
export interface ErrorDetails {
  kind?: ErrorKind;
  hint?: string | undefined;
  problem?: Problem;
  retryAfter?: number | undefined;
  cause?: unknown;
}

/** Fumehood failed, or cannot serve a request. A failed program is a status of its answer and never an error. */
export class FumehoodError extends Error {
  /** The class of the failure. */
  readonly kind: ErrorKind;
  /** The fix in one sentence. */
  readonly hint: string | undefined;
  /** The server's whole answer; undefined if this client found the failure. */
  readonly problem: Problem | undefined;
  /** Seconds until a retry may succeed. */
  readonly retryAfter: number | undefined;

  constructor(message: string, details: ErrorDetails = {}) {
    super(details.hint ? `${message} (${details.hint})` : message, { cause: details.cause });
    this.name = "FumehoodError";
    this.kind = details.kind ?? "unavailable";
    this.hint = details.hint;
    this.problem = details.problem;
    this.retryAfter = details.retryAfter;
  }

  /** The wrong part of the request. */
  get param(): string | undefined {
    return this.problem?.param;
  }

  /** The hint in parts with their facts. */
  get hints(): Hint[] {
    return this.problem?.hints ?? [];
  }
}

/** Returns the error of a problem. */
export function errorOf(problem: Problem, retryAfter?: number): FumehoodError {
  return new FumehoodError(problem.detail, { kind: problem.kind, hint: problem.hint, problem, retryAfter });
}
