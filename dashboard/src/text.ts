// Output of a program as text that is safe to show.

// Control sequences of terminals: CSI, OSC and other strings, two-character escapes (ECMA-48), and their C1 forms.
const sequences = new RegExp(
  "(?:\\x1b\\[|\\x9b)[0-?]*[ -/]*[@-~]" +
    "|(?:\\x1b[\\]PX^_]|[\\x90\\x98\\x9d-\\x9f])[^\\x07\\x1b\\x9c]*(?:\\x07|\\x1b\\\\|\\x9c)?" +
    "|\\x1b[ -/]*[0-~]",
  "g",
);
const controls = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

// plain removes control sequences, and reduces lines that a carriage return overwrites to their last state.
export function plain(text: string): string {
  const clean = text.replace(sequences, "").replace(/\r+\n/g, "\n");
  const kept = clean.includes("\r")
    ? clean
        .split("\n")
        .map((line) => line.replace(/\r+$/, "").replace(/^.*\r/s, ""))
        .join("\n")
    : clean;
  return kept.replace(controls, "\ufffd");
}

interface Piece {
  offset: number;
  text: string;
  base64?: string;
  dropped_bytes?: number;
}

interface Part {
  stream: "stdout" | "stderr";
  text: string;
}

// The most characters that a page keeps of one run. Older ones are dropped, with a note.
const most = 2_000_000;

// Output collects the pieces of both streams in the order of their arrival.
export class Output {
  parts: Part[] = [];
  dropped = 0;
  private size = 0;
  private readonly decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };

  add(stream: "stdout" | "stderr", piece: Piece) {
    this.dropped += piece.dropped_bytes ?? 0;
    let text = piece.text;
    if (piece.base64) {
      text = this.decoders[stream].decode(bytesOf(piece.base64), { stream: true });
    }
    const last = this.parts[this.parts.length - 1];
    if (last?.stream === stream) last.text += text;
    else this.parts.push({ stream, text });
    for (this.size += text.length; this.size > most; ) {
      const first = this.parts[0]!;
      const cut = Math.min(first.text.length, this.size - most / 2);
      first.text = first.text.slice(cut);
      this.size -= cut;
      this.dropped += cut;
      if (!first.text) this.parts.shift();
    }
  }
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

export function base64Of(data: Uint8Array): string {
  let text = "";
  for (let i = 0; i < data.length; i += 0x8000) {
    text += String.fromCharCode(...data.subarray(i, i + 0x8000));
  }
  return btoa(text);
}
