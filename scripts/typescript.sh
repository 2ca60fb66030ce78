#!/usr/bin/env bash
# Builds the npm package of the TypeScript client into build/sdk, and tests the package against a real server.
#
#   scripts/typescript.sh build [VERSION]
#   scripts/typescript.sh test FUMEHOOD [RUNTIME...]   node, deno, bun; the default is node
set -euo pipefail
cd "$(dirname "$0")/.."

readonly DENO=2.9.6 BUN=1.4.5
readonly packages=$PWD/build/sdk tested=$PWD/build/typescript

# build [VERSION] replaces the package.
build() {
  local staged=$PWD/build/typescript/package
  mkdir -p "$packages"
  rm -f "$packages"/fumehood-*.tgz
  cd sdk/typescript
  cmp -s package-lock.json node_modules/.lock || {
    npm ci --no-fund --no-audit --loglevel error
    cp package-lock.json node_modules/.lock
  }
  npm run --silent build
  rm -rf "$staged"
  mkdir -p "$staged"
  cp -r package.json README.md dist "$staged"
  cd "$staged"
  [ -z "${1:-}" ] || npm pkg set version="$1"
  npm pack --silent --pack-destination "$packages"
  cd ../../..
}

# install RUNTIME prints the path of its program.
install() {
  local version=$1
  [ "$1" = deno ] && version+=@$DENO || version+=@$BUN
  [ -x "$tested/tools/node_modules/.bin/$1" ] ||
    npm install --prefix "$tested/tools" --no-fund --no-audit --loglevel error "$version" >&2
  echo "$tested/tools/node_modules/.bin/$1"
}

case $1 in
  build) build "${2:-}" ;;
  test)
    TESTED_PROGRAM=$(realpath "$2")
    export TESTED_PROGRAM TESTED_DOCS=$PWD/docs/typescript.md TESTED_EXAMPLE=$PWD/examples/typescript_client.mjs
    shift 2
    build
    mkdir -p "$tested/project"
    cd "$tested/project"
    rm -rf node_modules package-lock.json ./*.mjs
    echo '{"type": "module"}' >package.json
    npm install --no-fund --no-audit --loglevel error "$packages"/fumehood-*.tgz
    cp ../../../sdk/typescript/test/*.mjs .
    for runtime in "${@:-node}"; do
      echo "== $runtime"
      case $runtime in
        node) node --test --test-reporter=spec ./*.test.mjs ;;
        deno) "$(install deno)" test --allow-all --no-check --node-modules-dir=manual ./*.test.mjs ;;
        bun) "$(install bun)" test ./*.test.mjs ;;
        *) echo "typescript: no runtime $runtime" >&2 && exit 2 ;;
      esac
    done
    ;;
  *) echo "usage: $0 build [VERSION] | test FUMEHOOD [node|deno|bun...]" >&2 && exit 2 ;;
esac
