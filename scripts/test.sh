#!/usr/bin/env bash
# Runs the tests for every change and for CI: source guards, unit tests, the contract suite and the attack corpus on
# native, the core of both on gvisor. They use no engine, virtual machine or network. `make check` runs everything.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/steps.sh
. scripts/steps.sh

go=${GO:-go}
# The programs of sandboxes, built by make, so that no test builds them.
export FUMEHOOD_LIBEXEC=$PWD/internal/libexec/bin
export BACKENDTEST_ENGINES=$PWD/build/no-engines

packages=$("$go" list ./...)
# among PATHS prints the packages that end with one of the paths, which bars separate.
among() { grep -E "/($1)\$" <<<"$packages"; }

# Code with many goroutines, for which the race detector costs seconds.
raced=$(among 'engine|host/fork|host/cgroup|host/instance|guest/wire|guest/client|guest/server|guest/server/files')
native=$(among 'backend/native')
# backendtest has the corpus on native. These load the machine with sandboxes, but wait more than they compute.
full=$(among 'test/backendtest|backend/gvisor|cmd/fumehood')
rest=$(grep -vxF "$raced"$'\n'"$native"$'\n'"$full" <<<"$packages")

# Most of the step of the Python client is the download of frameworks, which may as well happen beside the tests.
mkdir -p build
bash scripts/python.sh prepare >build/python.log 2>&1 &
prepared=$!

# Without cgo, like the programs, so that both share compiled packages. The guards vet, so tests need not.
# shellcheck disable=SC2086 # lists of packages are words
{
  step 'source guards' 300 bash scripts/lint.sh --quick || true
  step 'unit tests, raced' 480 "$go" test -vet=off -short -race -p 2 -timeout 6m $raced || true
  step 'unit tests' 600 env CGO_ENABLED=0 "$go" test -vet=off -short -p 2 -timeout 6m $rest || true
  step 'native' 420 "$go" test -vet=off -short -race -count=1 -timeout 6m $native || true
  step 'corpus, gvisor, program' 600 \
    env CGO_ENABLED=0 "$go" test -vet=off -short -count=1 -p 2 -timeout 6m $full || true
  # For an ordinary user, requests would need waivers.
  [ "$(id -u)" != 0 ] || step 'restarts' 240 env CGO_ENABLED=0 \
    "$go" run ./test/torture -restart -n 5 -fumehood build/bin/fumehood || true
  wait "$prepared" || true # the step repeats what failed
  step clients 480 bash scripts/clients.sh build/bin/fumehood || true
}

steps_table build/test.md
echo
steps_verdicts
! steps_failed
