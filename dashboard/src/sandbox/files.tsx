// The files of a sandbox: browse, edit, upload, download, remove.
import { useRef, useState } from "preact/hooks";
import { get, sandboxPath, send } from "../api";
import { CodeEditor } from "../editor";
import { bytes, ErrorBox, Heads, useAction, usePolled } from "../parts";
import { download } from "../run";
import type { Editor } from "../../vendor/editor";
import type * as wire from "../generated/wire";

const root = "/workspace";
const maxEdited = 1 << 20; // bytes of a file in the editor

const pathOf = (name: string, path: string, more: Record<string, string> = {}) =>
  sandboxPath(name, "files") + "?" + new URLSearchParams({ path, ...more });

const languages: Record<string, string> = { py: "python", js: "javascript", mjs: "javascript", ts: "typescript",
  sh: "bash", c: "c", cpp: "cpp", go: "go", java: "java", lua: "lua", pl: "perl", r: "r", rb: "ruby", rs: "rust" };

export function Files({ name }: { name: string }) {
  const [folder, setFolder] = useState(root);
  const [edited, setEdited] = useState<{ path: string; text: string }>();
  const { value, error, reload } = usePolled(
    (signal) => get<wire.FileList>(pathOf(name, folder, { list: "1", depth: "1" }), signal), 5, [name, folder]);
  const { act, busy, error: failed } = useAction();
  const inFolder = (file: string) => (folder === "/" ? "" : folder) + "/" + file;
  const upload = (list: FileList | null) =>
    act(async () => {
      for (const f of list ?? []) await send(pathOf(name, inFolder(f.name)), { method: "PUT", body: f });
      reload();
    });
  const open = (f: wire.FileInfo, path: string) =>
    act(async () => {
      if (f.type === "folder") return setFolder(path);
      const blob = await (await send(pathOf(name, path))).blob();
      if (blob.size <= maxEdited) {
        try {
          const text = new TextDecoder("utf-8", { fatal: true }).decode(await blob.arrayBuffer());
          if (!text.includes("\0")) return setEdited({ path, text });
        } catch {
          // not text
        }
      }
      download(path.split("/").pop()!, blob);
    });
  const remove = (path: string, isFolder: boolean) =>
    confirm(`Remove ${path}?`) &&
    act(async () => {
      await send(pathOf(name, path, isFolder ? { recursive: "1" } : {}), { method: "DELETE" });
      reload();
    });
  const folders = folder.split("/").filter(Boolean);
  return (
    <>
      <ErrorBox error={failed ?? error} />
      <div class="bar">
        <nav aria-label="Folder">
          <button type="button" class="link" onClick={() => setFolder("/")}>/</button>
          {folders.map((part, i) => (
            <button type="button" class="link" onClick={() => setFolder("/" + folders.slice(0, i + 1).join("/"))}>
              <bdi>{part}</bdi>/
            </button>
          ))}
        </nav>
        <span class="grow" />
        <label class="field">
          <span>Upload</span>
          <input type="file" multiple disabled={busy}
            onChange={(e) => (upload(e.currentTarget.files), (e.currentTarget.value = ""))} />
        </label>
        <button type="button" disabled={busy} onClick={() => {
          const file = prompt("Name of the new file");
          if (file) setEdited({ path: inFolder(file), text: "" });
        }}>
          New file
        </button>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Files">
        <table>
          <Heads names={["Name", "Size", "Mode", "Changed", ""]} />
          <tbody>
            {value?.files.map((f) => {
              const base = f.path.replace(/\/$/, "").split("/").pop()!;
              const path = inFolder(base);
              return (
                <tr key={f.path}>
                  <th scope="row">
                    <button type="button" class="link" disabled={!["file", "folder"].includes(f.type)}
                      onClick={() => open(f, path)}>
                      <bdi>{base}</bdi>{f.type === "folder" ? "/" : ""}
                    </button>
                    {f.target && <> → <bdi>{f.target}</bdi></>}
                  </th>
                  <td class="number">{f.type === "file" ? bytes(f.size) : f.type}</td>
                  <td><code>{f.mode}</code></td>
                  <td>{f.modified_at ? new Date(f.modified_at).toLocaleString() : ""}</td>
                  <td>
                    {f.type === "file" && (
                      <button type="button" class="small" disabled={busy} aria-label={"Download " + base}
                        onClick={() => act(async () => download(base, await (await send(pathOf(name, path))).blob()))}>
                        Download
                      </button>
                    )}{" "}
                    <button type="button" class="small danger" disabled={busy} aria-label={"Remove " + base}
                      onClick={() => remove(path, f.type === "folder")}>
                      Remove
                    </button>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
        {value?.files.length === 0 && <p class="note">The folder is empty.</p>}
        {value?.more && <p class="note">There are more files than are listed.</p>}
      </div>
      {edited && (
        <EditFile key={edited.path} {...edited} onClose={() => (setEdited(undefined), reload())}
          onSave={async (text) => void (await send(pathOf(name, edited.path), { method: "PUT", body: new Blob([text]) }))} />
      )}
    </>
  );
}

function EditFile(p: { path: string; text: string; onClose: () => void; onSave: (text: string) => Promise<void> }) {
  const editor = useRef<Editor | undefined>(undefined);
  const [saved, setSaved] = useState("");
  const { act, busy, error } = useAction();
  const language = languages[p.path.split(".").pop() ?? ""] ?? "";
  return (
    <div class="edit">
      <div class="bar">
        <strong>
          <bdi>{p.path}</bdi>
        </strong>
        <span class="note" role="status">{saved}</span>
        <span class="grow" />
        <button type="button" class="primary" disabled={busy} onClick={() => act(async () => {
          await p.onSave(editor.current?.text() ?? p.text);
          setSaved("saved");
        })}>
          Save
        </button>
        <button type="button" onClick={p.onClose}>Close</button>
      </div>
      <ErrorBox error={error} />
      <CodeEditor text={p.text} language={language} label={"Content of " + p.path}
        onOpen={(e) => (editor.current = e)} onChange={() => setSaved("changed")} />
    </div>
  );
}
