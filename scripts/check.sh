#!/usr/bin/env bash
# Runs all tests, section by section. A failing section does not stop the rest. `make check` calls it before a piece of
# work is done. build/check.md has the final table.
#
#   scripts/check.sh [SECTION,...]   runs only these sections, with their dependencies
#   scripts/check.sh list            lists the sections
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/steps.sh
. scripts/steps.sh

go=${GO:-go}
export FUMEHOOD_LIBEXEC=$PWD/internal/libexec/bin
readonly fumehood=bin/fumehood
export BACKENDTEST_ENGINES=$PWD/build/no-engines

# section NAME SECONDS COMMAND... runs a step, unless only other sections are requested.
asked=${1:-}
names=()
section() {
  names+=("$1")
  [ "$asked" != list ] || return 0
  [ -z "$asked" ] || [[ ,$asked, == *",$1,"* ]] || return 0
  step "$@" || true
}

# tests FLAG|PACKAGE... runs all tests of the packages with the race detector, uncached.
readonly TEST_SECONDS=2400 # per package, less than the step's, so that Go reports where a test hangs
tests=("$go" test -race -count=1 -timeout "${TEST_SECONDS}s")
tested() { section "$1" $((TEST_SECONDS + 300)) "${tests[@]}" "${@:2}"; }

# Sections that need the engines, which start only for them. Only root can start them.
engined() {
  if [ "$(id -u)" = 0 ]; then
    section "$1" "$2" env BACKENDTEST_REQUIRE="$BACKENDTEST_REQUIRE,docker,podman" \
      bash scripts/test-engines.sh with "${@:3}"
  else
    section "$1" "$2" echo 'NOT RUN: the engines of the tests need root'
  fi
}

# An ordinary user may have no control groups.
export BACKENDTEST_REQUIRE=
[ "$(id -u)" != 0 ] || BACKENDTEST_REQUIRE=native,limits,forks,gvisor

if [ "$asked" != list ]; then
  known=$(bash scripts/check.sh list)
  for name in ${asked//,/ }; do
    grep -qx -- "$name" <<<"$known" || { echo "check: no section $name; use one of ${known//$'\n'/ }" >&2 && exit 2; }
  done
  asked=${asked// /,}
  bash scripts/test-engines.sh status >/dev/null || trap 'bash scripts/test-engines.sh stop' EXIT
  step 'dependencies of the tests' 900 bash scripts/install-test-deps.sh --all
  step build 900 make build programs
fi

packages=$("$go" list ./...) || exit
units=$(grep -vE '/(internal/backend/(native|gvisor|docker)|test/(backendtest|podman)|cmd/fumehood)$' <<<"$packages")

section lint 1800 bash scripts/lint.sh
# shellcheck disable=SC2086 # a list of packages is words
tested units -p 2 $units
tested native ./internal/backend/native
tested corpus ./test/backendtest
tested gvisor ./internal/backend/gvisor
tested program ./cmd/fumehood
# Requires every toolchain, and runs each language on native and gvisor.
section languages 900 env CGO_ENABLED=0 BACKENDTEST_REQUIRE="$BACKENDTEST_REQUIRE,languages" \
  "$go" test -count=1 -timeout 800s -run 'TestLanguages/(native|gvisor)' ./cmd/fumehood
section verify-native 600 "$fumehood" verify --backend native
section verify-gvisor 1200 "$fumehood" verify --backend gvisor
section schemathesis 600 bash scripts/schemathesis.sh "$fumehood"
section mcp 600 bash scripts/mcp.sh "$fumehood"
section e2b 600 bash scripts/e2b.sh "$fumehood" all
section e2b-suites 2400 bash scripts/e2b.sh "$fumehood" suites
section openai 300 bash scripts/openai.sh "$fumehood"
section typescript 600 bash scripts/typescript.sh test "$fumehood" node deno bun
section dashboard 900 bash scripts/dashboard.sh test "$fumehood"
section python 1800 bash scripts/python.sh test "$fumehood"
section fuzz 3600 env FUZZTIME=30s bash scripts/fuzz.sh
section torture 600 "$go" run ./test/torture -n 100 -fumehood "$fumehood"
section restarts 3600 "$go" run ./test/torture -restart -n 500 -fumehood "$fumehood"
section restarts-gvisor 900 "$go" run ./test/torture -restart -n 40 -sandboxes 2 -backend gvisor -fumehood "$fumehood"
section torture-gvisor 600 "$go" run ./test/torture -n 20 -c 4 -backend gvisor -fumehood "$fumehood"
section soak 900 "$go" run ./test/soak -n 2000 -fumehood "$fumehood"
section charges 900 "$go" run ./test/charges -fumehood "$fumehood"
section held 1800 "$go" run ./test/charges -held -fumehood "$fumehood"
section bench 1200 "$go" run ./bench -quick -fumehood "$fumehood"
engined docker $((TEST_SECONDS + 300)) "${tests[@]}" ./internal/backend/docker
engined podman $((TEST_SECONDS + 300)) "${tests[@]}" ./test/podman
engined python-packages 1200 bash scripts/python-packages.sh
engined program-engines 900 "${tests[@]}" \
  -run 'TestLanguages|TestDowngrades|TestCanariesOfRun|TestGateKilled' ./cmd/fumehood
engined images 1200 "$go" test -count=1 -timeout 1100s -run TestTemplateEverywhere ./cmd/fumehood
engined verify-image 2400 bash scripts/images.sh "$fumehood"
engined verify-docker 1200 "$fumehood" verify --backend docker --container-image localhost/fumehood-test:latest
engined verify-podman 1200 "$fumehood" verify --backend podman --container-image localhost/fumehood-test:latest
section release 3600 bash test/release/run.sh
section vm 3600 env VM_DEB="$(find build/release-test -name 'fumehood_*_amd64.deb' 2>/dev/null)" bash test/vm/run.sh

if [ "$asked" = list ]; then
  printf '%s\n' "${names[@]}"
  exit
fi
steps_table build/check.md
! steps_failed
