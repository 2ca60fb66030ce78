#!/usr/bin/env bash
# Makes the files of a release from the programs that `make release-programs` built. `make release` calls it.
#
#   scripts/release.sh DIR VERSION 'OS/PROCESSOR ...'
#
# SOURCE_DATE_EPOCH is the time of all files. The same source, version and time give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
readonly pages=$PWD/build/release-pages
mkdir -p "$1"
out=$(realpath "$1")

rm -rf "$pages"
CGO_ENABLED=0 "$go" run -tags manpages ./cmd/fumehood "$pages"
"$go" run -C deploy ./release -version "$2" -commit "$(git rev-parse HEAD)" -epoch "$SOURCE_DATE_EPOCH" \
  -source "$PWD" -programs "$PWD/build/release-programs" -pages "$pages" -out "$out" -targets "$3"
ls -l "$out"
