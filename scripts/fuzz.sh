#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (whole seconds, default 10s), one after the other. It leaves crashers in
# testdata/fuzz beside the test: commit them as cases.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzztime=${FUZZTIME:-10s}
readonly COMPILE_SECONDS=600 # one package with instrumentation, nothing cached
readonly GRACE=60            # seconds that a target may take to start and end, beyond FUZZTIME
go=${GO:-go}

if ! [[ $fuzztime =~ ^[1-9][0-9]*s$ ]]; then
  echo "fuzz: FUZZTIME is $fuzztime; write whole seconds, as 30s" >&2
  exit 2
fi

# Keep generated inputs for one run only: they would fill a cache without limit.
work=$(mktemp -d "${TMPDIR:-/tmp}/fumehood-fuzz.XXXXXXXX")
trap 'rm -rf "$work"' EXIT

passed=0
failed=()

# run DIRECTORY TARGET runs a target with an outer time limit, so that a hanging target does not hang this script. It
# does not shorten inputs that reach new code: Go (1.26) spends up to a minute on each, which is FUZZTIME and more.
run() {
  (cd "$1" && timeout --foreground --kill-after=10 "$((${fuzztime%s} + GRACE))" "$work/fuzz.test" -test.run='^$' \
    -test.fuzz="^$2\$" -test.fuzztime="$fuzztime" -test.fuzzminimizetime=1x \
    -test.fuzzcachedir="$work/inputs" </dev/null >"$work/log" 2>&1)
}

# ended_late reports whether the last run fuzzed for its whole time and only its end failed. Go (1.26) reports a failure
# if the time ends while a worker starts. A real finding names its file or its entry of the seed corpus.
ended_late() {
  [ "$(grep -A1 '^--- FAIL' "$work/log" | tail -n 1)" = '    context deadline exceeded' ] &&
    grep -q 'now fuzzing with' "$work/log" && ! grep -qE 'Failing input written|seed corpus entry|^panic' "$work/log"
}

# fuzz DIRECTORY TARGET... compiles the package once and runs its targets where their testdata is.
fuzz() {
  local dir=$1 target
  shift
  if ! timeout "$COMPILE_SECONDS" "$go" test -c -fuzz=. -o "$work/fuzz.test" "./$dir" </dev/null; then
    failed+=("$dir: does not compile")
    return
  fi
  for target in "$@"; do
    echo "--- $dir $target"
    if run "$dir" "$target" || ended_late; then
      tail -n 2 "$work/log"
      passed=$((passed + 1))
    else
      cat "$work/log"
      failed+=("$dir $target")
    fi
  done
}

while read -r dir; do
  mapfile -t targets < <(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$dir"/*_test.go)
  fuzz "$dir" "${targets[@]}"
done < <(git ls-files -z --cached --others --exclude-standard '*_test.go' | xargs -0 grep -lE '^func Fuzz' |
  xargs -n1 dirname | sort -u)

if [ "$passed" = 0 ] && [ ${#failed[@]} = 0 ]; then
  echo 'fuzz: found no fuzz targets' >&2
  exit 1
fi
[ ${#failed[@]} = 0 ] || printf 'fuzz: FAILED %s\n' "${failed[@]}"
echo "fuzz: $passed passed, ${#failed[@]} failed, $fuzztime each"
[ ${#failed[@]} = 0 ]
