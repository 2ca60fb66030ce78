// The tests of E2B's suites that run in Node, all in one project.
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

const setup = 'tests/globalFetchFallback.setup.ts'
export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    exclude: ['tests/runtimes/**'],
    setupFiles: existsSync(setup) ? [setup] : [],
    testTimeout: 60_000,
    maxWorkers: 3,
    deps: { interopDefault: true },
    env: { ...process.env },
  },
})
