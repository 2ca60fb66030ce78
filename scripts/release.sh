#!/usr/bin/env bash
# Makes the files of a release from the programs that `make release-programs` built. `make release` calls it.
#
#   scripts/release.sh DIR VERSION 'OS/PROCESSOR ...'
#
# The same source, version and time give the same bytes. Variables:
#
#   SOURCE_DATE_EPOCH      the time of all files
#   RELEASE_KEY            a file with a minisign key, which RELEASE_KEY_PASSWORD decrypts
#   RELEASE_BASE           a tar of a root file system, on which the container image is built
#   RELEASE_URL            the address of the release's files, for install.sh and Homebrew
#   RELEASE_CLIENTS=no     leaves out the packages of the clients, which need Python and npm
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
readonly pages=$PWD/build/release-pages programs=$PWD/build/release-programs
mkdir -p "$1"
out=$(realpath "$1")
flags=()

rm -rf "$pages"
CGO_ENABLED=0 "$go" run -tags manpages ./cmd/fumehood "$pages"
if [ "${RELEASE_CLIENTS:-}" != no ]; then
  rm -rf build/sdk
  bash scripts/typescript.sh build "$("$go" run -C deploy ./release -version "$2" -print-version)"
  FUMEHOOD_VERSION=$2 bash scripts/python.sh build "$programs"/linux-*/fumehood
  flags+=(-clients "$PWD/build/sdk")
fi
[ -z "${RELEASE_KEY:-}" ] || flags+=(-key "$(realpath "$RELEASE_KEY")")
[ -z "${RELEASE_BASE:-}" ] || flags+=(-base "$(realpath "$RELEASE_BASE")")
"$go" run -C deploy ./release -version "$2" -commit "$(git rev-parse HEAD)" -epoch "$SOURCE_DATE_EPOCH" \
  -url "${RELEASE_URL:-https://github.com/fumehood-dev/fumehood/releases/download/$2}" -source "$PWD" \
  -goroot "$("$go" env GOROOT)" -modules "$("$go" env GOMODCACHE)" -programs "$programs" -pages "$pages" \
  -out "$out" -targets "$3" "${flags[@]}"
ls -l "$out"
