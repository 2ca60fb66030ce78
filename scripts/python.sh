#!/usr/bin/env bash
# Builds the Python packages of the client into build/sdk, and tests them against a real server, also through the
# frameworks that they plug into.
#
#   scripts/python.sh build [FUMEHOOD...]  the pure wheel; for each program also the wheel that installs it
#   scripts/python.sh client             prints the bin of an environment with the pure wheel alone
#   scripts/python.sh prepare            makes the environment of smoke and test
#   scripts/python.sh smoke FUMEHOOD     the tests of make test
#   scripts/python.sh test FUMEHOOD      all tests, of both wheels, and the checks of the source
set -euo pipefail
cd "$(dirname "$0")/.."

readonly tools=(hatchling==1.33.0) client=(httpx==0.28.1)
readonly suite=("${client[@]}" pytest==9.2.0 langchain-tests==1.1.9)
readonly tests=(
  "${suite[@]}" ruff==0.17.6 mypy==2.4.1 trio==0.35.0 smolagents==1.26.0 deepagents==0.7.32 tomli-w==1.2.0
  pandas==3.1.1 openai-agents==0.24.0 anthropic==2.14.0
)
readonly code=deepagents-code==0.1.57 # of it, the registry of sandboxes: without its dependencies, except tomli-w
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

# build [FUMEHOOD...] replaces the wheels.
build() {
  local bin program
  bin=$(environment build "${tools[@]}")
  mkdir -p "$packages"
  rm -f "$packages"/fumehood-*.whl
  cd sdk/python
  "$bin/hatchling" build -t wheel -d "$packages"
  for program in "$@"; do
    FUMEHOOD_WHEEL_PROGRAM=$program "$bin/hatchling" build -t wheel -d "$packages"
  done
  cd ../..
}

# installed WHEEL NAME PACKAGE... makes an environment with a wheel of build, and prints its bin.
installed() {
  local bin
  bin=$(environment "${@:2}")
  "$bin/pip" install --quiet --no-deps --force-reinstall "$1" >&2
  echo "$bin"
}

# tested makes the environment of the tests, and prints its bin.
tested() {
  local bin
  bin=$(installed "$packages"/fumehood-*-any.whl tests "${tests[@]}")
  "$bin/pip" install --quiet --no-deps "$code" >&2
  echo "$bin"
}

program=${2:+$(realpath "$2")} programs=()
case $1 in
  build)
    shift
    [ $# = 0 ] || mapfile -t programs < <(realpath "$@")
    build "${programs[@]}"
    ;;
  client)
    build >&2
    installed "$packages"/fumehood-*-any.whl client "${client[@]}"
    ;;
  prepare) environment tests "${tests[@]}" ;;
  smoke)
    build
    bin=$(tested)
    cd sdk/python
    FUMEHOOD_PROGRAM=$program "$bin/python" -m pytest -m smoke
    ;;
  test)
    build "$program"
    alone=$(installed "$packages"/fumehood-*linux*.whl alone "${client[@]}")
    bin=$(tested)
    cd sdk/python
    "$bin/ruff" check --no-cache
    "$bin/ruff" format --check --no-cache
    "$bin/mypy" --cache-dir "$folder/mypy"
    FUMEHOOD_PROGRAM=$program "$bin/python" -m pytest
    echo '== the suite for sandboxes of langchain-tests, with the Deep Agents that it describes'
    bin=$(installed "$packages"/fumehood-*-any.whl suite "${suite[@]}" deepagents==0.6.12)
    FUMEHOOD_PROGRAM=$program "$bin/python" -m pytest tests/test_langchain_suite.py
    echo '== the wheel with the program'
    PATH=/usr/bin:/bin "$alone/python" tests/alone.py
    ;;
  *) echo "usage: $0 build [FUMEHOOD] | client | prepare | smoke FUMEHOOD | test FUMEHOOD" >&2 && exit 2 ;;
esac
