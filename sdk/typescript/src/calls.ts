import { FumehoodError } from "./errors.js";
import { pause, type RunEvent } from "./events.js";
import type { Server } from "./server.js";
import type { CallEvent, ToolRequest } from "./generated/wire.js";

/** Receives the object of arguments, and returns JSON or a promise of it. The code gets an error that it throws. */
export type ToolFunction = (given: any) => unknown;

/** A function of this program that code in a sandbox can call. */
export interface Tool {
  call: ToolFunction;
  /** Documentation for who writes the code. */
  description?: string;
  /** JSON Schema of the object of arguments. Default: any object. */
  schema?: object;
}

/** Functions by their names in the sandbox. */
export type Tools = Record<string, ToolFunction | Tool>;

const maxAnswer = 8 << 20; // bytes; the server's
const maxError = 4000; // characters of the text of an error
const retryMs = 60_000; // for which an answer is sent again to a server that restarts

/** Returns tools as the API has them. */
export function toolRequests(tools: Tools | undefined): ToolRequest[] | undefined {
  const list = Object.entries(tools ?? {}).map(([name, tool]) => typeof tool === "function" ? { name }
    : { name, ...(tool.description ? { description: tool.description } : {}),
      ...(tool.schema ? { schema: tool.schema } : {}) });
  return list.length > 0 ? list as ToolRequest[] : undefined;
}

/** Yields the events of a run, and answers the calls among them. path is that of the run. */
export async function* answering(events: AsyncIterable<RunEvent>, server: Server, path: string,
  tools: Tools | undefined, signal?: AbortSignal): AsyncGenerator<RunEvent> {
  for await (const event of events) {
    if (event.name === "call" && tools && Object.hasOwn(tools, event.data.name)) { // else another client has it
      void answer(server, `${path}/calls/${event.data.call}`, tools[event.data.name]!, event.data, signal);
    }
    yield event;
  }
}

/** Calls a tool and sends its answer. It does not throw. */
async function answer(server: Server, path: string, tool: ToolFunction | Tool, call: CallEvent,
  signal?: AbortSignal): Promise<void> {
  let text: string;
  try {
    const value = await (typeof tool === "function" ? tool : tool.call)(call.arguments);
    text = `{"value":${JSON.stringify(value ?? null) ?? "null"}}`;
    if (text.length > maxAnswer) {
      text = failure(new RangeError(`the tool returned ${text.length} characters; an answer has at most ${maxAnswer}`));
    }
  } catch (e) {
    text = failure(e);
  }
  try {
    await send(server, path, text, signal);
  } catch (e) {
    if (e instanceof FumehoodError && (e.kind === "too_large" || e.kind === "invalid")) {
      await send(server, path, failure(e), signal).catch(() => {});
    } // else the run ended, or another client was first
  }
}

function failure(error: unknown): string {
  return JSON.stringify({ error: String(error).slice(0, maxError) || "Error" });
}

/** Sends an answer, again if the server restarts. */
async function send(server: Server, path: string, body: string, signal?: AbortSignal): Promise<void> {
  const until = Date.now() + retryMs;
  for (let wait = 50; ; wait = Math.min(wait * 2, 2000)) {
    try {
      return await server.done(path, { method: "POST", body, headers: { "Content-Type": "application/json" },
        ...(signal ? { signal } : {}) });
    } catch (e) {
      if (!(e instanceof FumehoodError && e.kind === "unavailable") || Date.now() > until) {
        throw e;
      }
      await pause(wait, signal);
    }
  }
}
