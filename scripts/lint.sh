#!/usr/bin/env bash
# Static checks: gofmt, commit subjects, shellcheck, vet, size guards, golangci-lint, govulncheck. A failure does not
# stop the rest. The tools are pinned in tools/go.mod and built into build/tools.
# --quick runs only the first four, which need no extra tools.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

readonly TOOL_SECONDS=1200 # bound on building the tools, 2 processors and nothing cached
readonly LINT_SECONDS=900
readonly VULN_SECONDS=300
readonly FIRST_SUBJECT=0961bb5 # older commits are exempt
readonly SUBJECT_CHARACTERS=72
go=${GO:-go}
failed=()

check() {
  local name=$1 started=$SECONDS
  shift
  echo "--- $name"
  "$@" || failed+=("$name")
  echo "    $((SECONDS - started)) s"
}

formatted() {
  local files
  files=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 -r gofmt -l)
  [ -z "$files" ] || { echo "gofmt -w wants to change:" "$files" && return 1; }
}

# subjects checks the commits after FIRST_SUBJECT, which a shallow clone may lack.
subjects() {
  local long
  if ! git merge-base --is-ancestor "$FIRST_SUBJECT" HEAD 2>/dev/null; then
    echo "NOT RUN: commit $FIRST_SUBJECT is not in the history of this clone"
    return
  fi
  long=$(git log --format='%h %s' "$FIRST_SUBJECT..HEAD" |
    awk -v max="$SUBJECT_CHARACTERS" 'length(substr($0, index($0, " ") + 1)) > max')
  [ -z "$long" ] || { echo "commit subjects above $SUBJECT_CHARACTERS characters:" "$long" && return 1; }
}

tools() {
  mkdir -p build/tools
  timeout "$TOOL_SECONDS" "$go" build -C tools -o "$PWD/build/tools/" tool
}

shell() {
  if ! command -v shellcheck >/dev/null; then
    echo 'NOT RUN: shellcheck is missing; scripts/install-test-deps.sh installs it'
    return
  fi
  # Only scripts that people or scripts start; those that tests run in sandboxes are test data.
  shellcheck -x .ci/run scripts/*.sh test/vm/*.sh test/release/*.sh deploy/package/*.sh examples/*.sh
}

# elsewhere builds the program for other supported systems and processors.
elsewhere() {
  local target
  for target in linux/arm64 darwin/arm64 darwin/amd64 windows/amd64; do
    GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 \
      timeout "$LINT_SECONDS" "$go" build -o /dev/null ./cmd/fumehood || return
  done
}

# deploy checks the module of the releases and of the documentation's site, which ./... leaves out.
deploy() {
  timeout "$LINT_SECONDS" "$go" vet -C deploy ./... && timeout "$LINT_SECONDS" "$go" test -C deploy -short ./...
}

# vulnerabilities fails on a finding (status 3) and only warns if the database is unreachable, so that a host without a
# network can lint.
vulnerabilities() {
  local log=build/govulncheck.log status=0
  timeout "$VULN_SECONDS" build/tools/govulncheck ./... >"$log" 2>&1 || status=$?
  case $status in
  0 | 3)
    cat "$log"
    return "$status"
    ;;
  esac
  if [ "$status" = 124 ] || grep -q '^govulncheck: fetching vulnerabilities' "$log"; then
    echo '*************************************************************************'
    echo '* NOT CHECKED for known vulnerabilities: their database did not answer. *'
    echo '*************************************************************************'
    tail -n 3 "$log"
    return
  fi
  cat "$log"
  return "$status"
}

# vetted PACKAGE... vets without cgo, as the programs are built. The virtual machine's tests have their own tag.
vetted() {
  CGO_ENABLED=0 timeout "$LINT_SECONDS" "$go" vet "$@" &&
    CGO_ENABLED=0 timeout "$LINT_SECONDS" "$go" vet -tags vm ./test/vm ./internal/backend/docker
}

packages=$("$go" list ./...) || exit
quick=
if [ "${1:-}" = --quick ]; then
  quick=1
  # Its vet would read all of gVisor for one file, 80 s uncached.
  packages=$(grep -v '/cmd/fumehood-runsc$' <<<"$packages")
fi

check gofmt formatted
check 'commit subjects' subjects
check shellcheck shell
# shellcheck disable=SC2086 # a list of packages is words
check 'go vet' vetted $packages
if [ -z "$quick" ]; then
  check 'other systems' elsewhere
  check 'size guards' timeout "$LINT_SECONDS" "$go" test ./internal
  check 'build of the tools' tools
  check golangci-lint timeout "$LINT_SECONDS" build/tools/golangci-lint run ./...
  check deploy deploy
  check govulncheck vulnerabilities
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf 'lint: FAILED %s\n' "${failed[@]}"
  exit 1
fi
echo 'lint: all passed'
