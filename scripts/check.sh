#!/usr/bin/env bash
# Everything that Glovebox can be put to here, section by section; one that fails does not stop the rest. `make check` calls it, by hand,
# before an issue is called resolved. The table at the end is also in build/check.md.
#
#   scripts/check.sh [SECTION,...]   some sections alone, each with what it needs; `scripts/check.sh list` names them
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/steps.sh
. scripts/steps.sh

go=${GO:-go}
export GLOVEBOX_LIBEXEC=$PWD/internal/libexec/bin
readonly glovebox=bin/glovebox
export BACKENDTEST_ENGINES=$PWD/build/no-engines

# section NAME SECONDS COMMAND... is a step, unless others are asked for.
asked=${1:-}
names=()
section() {
  names+=("$1")
  [ "$asked" != list ] || return 0
  [ -z "$asked" ] || grep -qxF -- "$1" <<<"${asked//,/$'\n'}" || return 0
  step "$@" || true
}

# tested NAME SECONDS FLAG|PACKAGE... runs all tests of the packages with the race detector, none of them from a cache.
tested() { section "$1" "$2" "$go" test -race -count=1 -timeout "$2s" "${@:3}"; }

# engined NAME SECONDS COMMAND... is a section for which the engines of the tests run; where none asks for them there are none.
engined() { section "$1" "$2" bash scripts/test-engines.sh with "${@:3}"; }

# Whoever is not root may have no control groups and no engines.
[ "$(id -u)" != 0 ] || export BACKENDTEST_REQUIRE=native,limits,forks,gvisor,docker,podman

if [ "$asked" != list ]; then
  trap 'bash scripts/test-engines.sh stop' EXIT
  step 'what the tests need' 900 bash scripts/install-test-deps.sh --all
  step build 900 make build programs
fi

mapfile -t units < <("$go" list ./... | grep -vE '/(internal/backend/(native|gvisor|docker|backendtest)|test/podman|cmd/glovebox)$')

section lint 1800 bash scripts/lint.sh
tested units 1800 -p 2 "${units[@]}"
tested native 900 ./internal/backend/native
tested corpus 1800 ./internal/backend/backendtest
tested gvisor 1800 ./internal/backend/gvisor
tested program 1200 ./cmd/glovebox
section verify-native 600 "$glovebox" verify --backend native
section verify-gvisor 900 "$glovebox" verify --backend gvisor
section fuzz 3600 env FUZZTIME=30s bash scripts/fuzz.sh
section torture 600 "$go" run ./test/torture -n 100 -glovebox "$glovebox"
section torture-gvisor 600 "$go" run ./test/torture -n 20 -c 4 -backend gvisor -glovebox "$glovebox"
section soak 900 "$go" run ./test/soak -n 2000 -glovebox "$glovebox"
section bench 1200 "$go" run ./bench -quick -glovebox "$glovebox"
engined docker 2400 "$go" test -race -count=1 -timeout 40m ./internal/backend/docker
engined podman 2400 "$go" test -race -count=1 -timeout 40m ./test/podman
engined verify-docker 1200 "$glovebox" verify --backend docker --container-image localhost/glovebox-test:latest
engined verify-podman 1200 "$glovebox" verify --backend podman --container-image localhost/glovebox-test:latest
section vm 2700 bash test/vm/run.sh

if [ "$asked" = list ]; then
  printf '%s\n' "${names[@]}"
  exit
fi
steps_table build/check.md
! steps_failed
