// Calls of version 1 of the HTTP API, with the key of this browser tab.

const keyName = "fumehood-key";

export const keyOf = () => sessionStorage.getItem(keyName) ?? "";
export const setKey = (key: string) =>
  key ? sessionStorage.setItem(keyName, key) : sessionStorage.removeItem(keyName);

// A refusal of the server (RFC 9457), or a failed connection (status 0).
export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

export interface Call {
  method?: string;
  json?: unknown;
  body?: Blob;
  accept?: string;
  signal?: AbortSignal;
}

export async function send(path: string, call: Call = {}): Promise<Response> {
  const headers = new Headers();
  if (keyOf()) headers.set("Authorization", "Bearer " + keyOf());
  if (call.json !== undefined) headers.set("Content-Type", "application/json");
  if (call.body) headers.set("Content-Type", "application/octet-stream");
  if (call.accept) headers.set("Accept", call.accept);
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: call.method ?? "GET",
      headers,
      body: call.json !== undefined ? JSON.stringify(call.json) : (call.body ?? null),
      signal: call.signal ?? null,
    });
  } catch (e) {
    if (call.signal?.aborted) throw e;
    throw new Problem(0, "The server does not answer.", "Check that fumehood serve runs.");
  }
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 401) onUnauthorized();
  throw new Problem(answer.status, String(problem.detail ?? answer.statusText), String(problem.hint ?? ""));
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, signal ? { signal } : {})).json();
}

let onUnauthorized = () => {};
// The app shows the login when a request lacks a valid key.
export const whenUnauthorized = (f: () => void) => (onUnauthorized = f);

export interface Event {
  id: number;
  name: string;
  // eslint-disable-next-line: events come from the server, whose types are in generated/wire.ts
  data: any;
}

// events yields the server-sent events of an answer.
export async function* events(answer: Response): AsyncGenerator<Event> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
        const event = parse(rest.slice(0, end));
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

function parse(block: string): Event | undefined {
  let [id, name, data] = [0, "", ""];
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    const value = line.slice(at + 2);
    switch (line.slice(0, at)) {
      case "id":
        id = Number(value);
        break;
      case "event":
        name = value;
        break;
      case "data":
        data += value;
    }
  }
  return name ? { id, name, data: JSON.parse(data || "null") } : undefined;
}

// at joins the segments of a path, escaped.
const at = (...segments: string[]) => segments.map(encodeURIComponent).join("/");

export const sandboxPath = (name: string, ...rest: string[]) => "/v1/sandboxes/" + at(name, ...rest);
