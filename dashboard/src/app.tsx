// The dashboard: login, navigation, and the page of the address's fragment.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem, get, keyOf, setKey, whenUnauthorized } from "./api";
import { ErrorBox } from "./parts";
import { Host } from "./host";
import { Playground } from "./playground";
import { SandboxPage } from "./sandbox/page";
import { Sandboxes } from "./sandboxes";
import { type Theme, applyTheme, setTheme, themeOf } from "./theme";
import type * as wire from "./generated/wire";

const pages = [
  ["playground", "Playground"],
  ["sandboxes", "Sandboxes"],
  ["host", "Host"],
] as const;

function useRoute(): string[] {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const update = () => setRoute(read());
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route[0] ? route : ["playground"];
}

function App() {
  const route = useRoute();
  const [capabilities, setCapabilities] = useState<wire.Capabilities>();
  const [locked, setLocked] = useState(false);
  const [error, setError] = useState<unknown>();
  const load = async () => {
    try {
      setCapabilities(await get<wire.Capabilities>("/v1/capabilities"));
      setLocked(false);
      setError(undefined);
    } catch (e) {
      setError(e instanceof Problem && e.status === 401 && !keyOf() ? undefined : e);
    }
  };
  useEffect(() => {
    whenUnauthorized(() => {
      setCapabilities(undefined);
      setLocked(true);
    });
    void load();
  }, []);
  const forget = () => {
    setKey("");
    location.reload();
  };
  if (locked) return <Login error={error} onKey={load} />;
  return (
    <>
      <header>
        <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>
          Skip to the content
        </a>
        <strong class="brand">Fumehood</strong>
        <nav aria-label="Pages">
          {pages.map(([name, title]) => (
            <a href={"#/" + name} aria-current={route[0] === name ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <ThemeSelect />
        {keyOf() && <button type="button" class="small" onClick={forget}>Log out</button>}
      </header>
      <main id="main" tabIndex={-1}>
        <ErrorBox error={error} />
        {capabilities && <Page route={route} capabilities={capabilities} />}
      </main>
    </>
  );
}

function Page({ route, capabilities }: { route: string[]; capabilities: wire.Capabilities }) {
  const title = route[1] ?? pages.find(([name]) => name === route[0])?.[1] ?? "Fumehood";
  useEffect(() => {
    document.title = title + " · Fumehood";
  }, [title]);
  switch (route[0]) {
    case "playground":
      return (
        <>
          <h1 class="hidden">Playground</h1>
          <Playground capabilities={capabilities} />
        </>
      );
    case "sandboxes":
      return route[1] ? <SandboxPage key={route[1]} name={route[1]} tab={route[2] ?? ""} /> : <Sandboxes operator={capabilities.operator ?? false} />;
    case "host":
      return <Host capabilities={capabilities} />;
  }
  return <p>No such page.</p>;
}

function Login({ error, onKey }: { error: unknown; onKey: () => void }) {
  const [key, setKeyText] = useState("");
  return (
    <main class="login" id="main">
      <h1>Fumehood</h1>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          setKey(key.trim());
          onKey();
        }}
      >
        <label class="field">
          <span>API key</span>
          <input type="password" autocomplete="off" required value={key}
            onInput={(e) => setKeyText(e.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">Log in</button>
      </form>
      <p class="note">The key stays in this browser tab. <code>fumehood keys create</code> makes one.</p>
      <ErrorBox error={error} />
    </main>
  );
}

function ThemeSelect() {
  const [theme, set] = useState<Theme>(themeOf());
  return (
    <select
      aria-label="Colors"
      value={theme}
      onChange={(e) => {
        const chosen = e.currentTarget.value as Theme;
        set(chosen);
        setTheme(chosen);
      }}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

applyTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
render(<App />, document.getElementById("app")!);
