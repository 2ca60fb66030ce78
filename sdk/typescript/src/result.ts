import type { Answer, Done, Exception, File, Hint, OutputPiece, Result as WireResult,
  Usage } from "./generated/wire.js";
import type { RunEvent } from "./events.js";

/** A value that the code displayed. It comes from the sandbox: treat it as hostile. */
export class Result {
  /** Whether it is the value of the last expression. */
  readonly main: boolean;
  /** The value by media type; base64 for image/png and image/jpeg. */
  readonly data: Record<string, string>;

  constructor(result: WireResult) {
    this.main = result.main;
    this.data = result.data;
  }

  get text(): string | undefined { return this.data["text/plain"]; }
  get html(): string | undefined { return this.data["text/html"]; }
  get markdown(): string | undefined { return this.data["text/markdown"]; }
  get svg(): string | undefined { return this.data["image/svg+xml"]; }
  /** The picture in base64. */
  get png(): string | undefined { return this.data["image/png"]; }
  /** The picture in base64. */
  get jpeg(): string | undefined { return this.data["image/jpeg"]; }
  get json(): unknown {
    const text = this.data["application/json"];
    return text === undefined ? undefined : JSON.parse(text);
  }
}

/** How a run ended, with what it wrote and displayed. */
export class RunResult {
  /** The whole answer of the server. */
  readonly answer: Answer;
  readonly results: Result[];

  constructor(answer: Answer) {
    this.answer = answer;
    this.results = answer.results.map((r) => new Result(r));
  }

  /** How the run ended: succeeded, failed, timed_out, ... */
  get status(): Answer["status"] { return this.answer.status; }
  get ok(): boolean { return this.answer.status === "succeeded"; }
  /** null if a signal ended the program or nothing ran. */
  get exitCode(): number | null { return this.answer.exit_code; }
  get stdout(): string { return this.answer.stdout; }
  get stderr(): string { return this.answer.stderr; }
  /** The uncaught exception. */
  get exception(): Exception | null { return this.answer.exception; }
  /** What would help, in one or two sentences. */
  get hint(): string | null { return this.answer.hint; }
  get hints(): Hint[] { return this.answer.hints ?? []; }
  get usage(): Usage { return this.answer.usage; }
  /** The files that match returnFiles. */
  get files(): File[] { return this.answer.files; }
  /** The value of the last expression as text. */
  get text(): string | undefined { return this.results.find((r) => r.main)?.text; }
  /** The first picture, in base64. */
  get png(): string | undefined { return this.results.find((r) => r.png)?.png; }

  /** Returns the bytes of a returned file. */
  file(path: string): Uint8Array | undefined {
    const file = this.files.find((f) => f.path === path);
    if (!file) {
      return undefined;
    }
    return file.content_base64 == null ? new TextEncoder().encode(file.content ?? "") : bytesOf(file.content_base64);
  }
}

/** Collects the events of a run into its result. */
export class Collector {
  readonly #stdout = new OutputText();
  readonly #stderr = new OutputText();
  readonly #results: WireResult[] = [];
  #done: Done | undefined;

  /** Adds an event, and returns the text of output. */
  add(event: RunEvent): string {
    switch (event.name) {
      case "stdout":
        return this.#stdout.add(event.data);
      case "stderr":
        return this.#stderr.add(event.data);
      case "result":
        this.#results.push({ main: event.data.main, data: event.data.data });
        break;
      case "done":
        this.#done = event.data;
    }
    return "";
  }

  /** Returns the result, once done was added. */
  result(): RunResult {
    const { time_ms: _, ...outcome } = this.#done!;
    return new RunResult({ ...outcome, stdout: this.#stdout.text(), stderr: this.#stderr.text(),
      results: this.#results } as Answer);
  }
}

/** The text of one output stream, whose pieces may end within a character. */
class OutputText {
  readonly #decoder = new TextDecoder();
  #text = "";
  #end = 0; // offset of the next byte

  add(piece: OutputPiece): string {
    const bytes = piece.base64 == null ? new TextEncoder().encode(piece.text) : bytesOf(piece.base64);
    let text = "";
    if (piece.offset > this.#end) { // output past the limit was dropped, as the answer of a plain run shows it
      text = this.#decoder.decode();
      text += (this.#text + text && !(this.#text + text).endsWith("\n") ? "\n" : "")
        + `[... ${piece.offset - this.#end} bytes dropped ...]\n`;
    }
    this.#end = piece.offset + bytes.length;
    text += this.#decoder.decode(bytes, { stream: true });
    this.#text += text;
    return text;
  }

  text(): string {
    return this.#text + this.#decoder.decode();
  }
}

/** Returns the bytes of base64. */
export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

/** Returns bytes as base64. */
export function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) { // more arguments overflow the stack
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}
