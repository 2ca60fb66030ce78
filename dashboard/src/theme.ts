// The colors: those of the system, or of a choice that this browser keeps.
const name = "fumehood-theme";

export type Theme = "system" | "light" | "dark";

export const themeOf = (): Theme => (localStorage.getItem(name) as Theme | null) ?? "system";

export function setTheme(theme: Theme) {
  if (theme === "system") localStorage.removeItem(name);
  else localStorage.setItem(name, theme);
  applyTheme();
}

export function applyTheme() {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  dispatchEvent(new Event("themechange"));
}

export function isDark(): boolean {
  const theme = themeOf();
  return theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}
