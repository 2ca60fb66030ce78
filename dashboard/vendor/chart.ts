export { default as Chart } from "uplot";
