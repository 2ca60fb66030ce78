// All of Preact that the pages use, as one module.
export { Fragment, createContext, render } from "preact";
export { useCallback, useContext, useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
export { jsx, jsxs } from "preact/jsx-runtime";
