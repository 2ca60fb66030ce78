#!/usr/bin/env bash
# Builds the dashboard's scripts, and tests it in Chromium.
#
#   scripts/dashboard.sh build           writes internal/dashboard/dist: libraries from npm, pages from dashboard/src
#   scripts/dashboard.sh test FUMEHOOD   checks types, compares dist with its sources, runs dashboard/test in Chromium;
#                                        pictures of the pages are in build/dashboard
set -euo pipefail
cd "$(dirname "$0")/.."

install() {
  cmp -s dashboard/package-lock.json dashboard/node_modules/.lock || {
    npm ci --prefix dashboard --no-fund --no-audit --loglevel error
    cp dashboard/package-lock.json dashboard/node_modules/.lock
  }
}

case $1 in
  build)
    install
    "${GO:-go}" run ./internal/dashboard/bundle --vendor
    ;;
  test)
    TESTED_CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
      echo 'NOT RUN: Chromium is missing; apt-get install chromium' >&2
      exit 1
    }
    TESTED_PROGRAM=$(realpath "$2")
    TESTED_PICTURES=$PWD/build/dashboard
    export TESTED_CHROMIUM TESTED_PROGRAM TESTED_PICTURES
    install
    before=$(cat internal/dashboard/dist/* | sha256sum)
    "${GO:-go}" run ./internal/dashboard/bundle --vendor
    [ "$before" = "$(cat internal/dashboard/dist/* | sha256sum)" ] || {
      echo 'dashboard: internal/dashboard/dist did not match its sources; commit the new one' >&2
      exit 1
    }
    cd dashboard
    npm run --silent types >/dev/null
    npm run --silent check
    # One browser at a time.
    node --test --test-concurrency=1 --test-reporter=spec test/*.test.mjs
    ;;
  *) echo "usage: $0 build | test FUMEHOOD" >&2 && exit 2 ;;
esac
