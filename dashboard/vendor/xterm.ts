export { FitAddon } from "@xterm/addon-fit";
export { Terminal } from "@xterm/xterm";
