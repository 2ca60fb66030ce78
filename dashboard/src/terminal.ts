// The page of a terminal in a sandbox: terminal.html?name=NAME, in a frame of the dashboard or by itself.
import { keyOf, sandboxPath } from "./api";
import { base64Of } from "./text";
import { FitAddon, Terminal } from "../vendor/xterm";

const name = new URLSearchParams(location.search).get("name") ?? "";
const host = document.getElementById("terminal")!;
document.title = name + " · Terminal";

// The most bytes of one message to the server.
const maxTyped = 16 << 10;

const base64url = (text: string) =>
  base64Of(new TextEncoder().encode(text)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

// The sequences of a terminal that act outside of it are not supported by xterm.js without its add-ons: links open
// nothing, and the clipboard stays as it is.
const terminal = new Terminal({ cursorBlink: true, fontSize: 14, scrollback: 10_000, screenReaderMode: true,
  fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', linkHandler: { activate() {} } });
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.open(host);
fit.fit();

function connect() {
  const size = new URLSearchParams({ rows: String(terminal.rows), columns: String(terminal.cols) });
  const url = new URL(sandboxPath(name, "terminal") + "?" + size, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  // A page cannot set headers of a WebSocket, so the key is one of the offered protocols.
  const protocols = ["fumehood.terminal"];
  if (keyOf()) protocols.push("fumehood.key." + base64url(keyOf()));
  const socket = new WebSocket(url, protocols);
  socket.binaryType = "arraybuffer";
  let end = "";
  const type = (data: Uint8Array<ArrayBuffer>) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    for (let at = 0; at < data.length; at += maxTyped) socket.send(data.subarray(at, at + maxTyped));
  };
  const control = (message: object) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));
  const typed = terminal.onData((text) => type(new TextEncoder().encode(text)));
  const bytes = terminal.onBinary((text) => type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  const sized = terminal.onResize(({ rows, cols }) => control({ rows, columns: cols }));
  socket.onopen = () => {
    host.dataset["state"] = "open";
    terminal.focus();
  };
  socket.onmessage = (e) => {
    if (typeof e.data !== "string") return terminal.write(new Uint8Array(e.data));
    const message = JSON.parse(e.data);
    end = message.problem?.detail ?? (message.exit_code !== undefined && message.exit_code !== null
      ? `ended with exit code ${message.exit_code}` : `ended: ${message.status}`);
  };
  socket.onclose = () => {
    for (const listener of [typed, bytes, sized]) listener.dispose();
    host.dataset["state"] = "closed";
    terminal.write(`\r\n\x1b[7m ${end || "the connection ended"}; Enter starts a new shell \x1b[0m\r\n`);
    const again = terminal.onData((text) => {
      if (text !== "\r") return;
      again.dispose();
      terminal.reset();
      connect();
    });
  };
}

connect();
let timer = 0;
new ResizeObserver(() => {
  clearTimeout(timer);
  timer = setTimeout(() => fit.fit(), 100) as unknown as number;
}).observe(host);
