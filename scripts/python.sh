#!/usr/bin/env bash
# Builds the Python packages of the client into build/sdk, and tests them against a real server.
#
#   scripts/python.sh build [FUMEHOOD]   the pure wheel; with a program also the wheel that installs it
#   scripts/python.sh smoke FUMEHOOD     the tests of make test
#   scripts/python.sh test FUMEHOOD      all tests, and the checks of the source
set -euo pipefail
cd "$(dirname "$0")/.."

readonly tools=(hatchling==1.33.0) tests=(pytest==9.2.0 httpx==0.28.1) lints=(ruff==0.17.6 mypy==2.4.1)
readonly packages=$PWD/build/sdk folder=$PWD/build/python
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# environment NAME PACKAGE... makes a virtual environment, unless it has these packages, and prints its bin.
environment() {
  local place=$folder/$1
  shift
  if [ "$(cat "$place/packages" 2>/dev/null)" != "$*" ]; then
    rm -rf "$place"
    /usr/bin/python3 -m venv "$place"
    "$place/bin/pip" install --quiet "$@" >&2
    echo "$*" >"$place/packages"
  fi
  echo "$place/bin"
}

build() {
  local bin
  bin=$(environment build "${tools[@]}")
  mkdir -p "$packages"
  rm -f "$packages"/fumehood-*.whl
  (
    [ -z "${1:-}" ] || program=$(realpath "$1")
    cd sdk/python
    "$bin/hatchling" build -t wheel -d "$packages"
    [ -z "${1:-}" ] || FUMEHOOD_WHEEL_PROGRAM=$program "$bin/hatchling" build -t wheel -d "$packages"
  )
}

# tested NAME PACKAGE... makes an environment with the pure wheel and other packages, and prints its bin.
tested() {
  local bin
  bin=$(environment "$@")
  "$bin/pip" install --quiet --no-deps --force-reinstall "$packages"/fumehood-*-py3-none-any.whl >&2
  echo "$bin"
}

case $1 in
  build) build "${2:-}" ;;
  smoke | test)
    FUMEHOOD_PROGRAM=$(realpath "$2")
    export FUMEHOOD_PROGRAM
    build
    if [ "$1" = smoke ]; then
      bin=$(tested "$1" "${tests[@]}")
      cd sdk/python
      "$bin/python" -m pytest -m smoke
    else
      bin=$(tested "$1" "${tests[@]}" "${lints[@]}")
      cd sdk/python
      "$bin/ruff" check --no-cache
      "$bin/ruff" format --check --no-cache
      "$bin/mypy" --cache-dir "$folder/mypy"
      "$bin/python" -m pytest
    fi
    ;;
  *) echo "usage: $0 build [FUMEHOOD] | smoke FUMEHOOD | test FUMEHOOD" >&2 && exit 2 ;;
esac
