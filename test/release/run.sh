#!/usr/bin/env bash
# Builds a release for this processor twice, the second time from a copy of the source in another folder and without
# caches, and compares all bytes. Then it installs the deb in a bare Debian root. Only root can run it.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly release=$PWD/build/release-test
readonly MOST_BYTES=53000000 # of the program
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

echo '== the tests of the release program'
(cd deploy && "${GO:-go}" test -count=1 ./...)

echo '== the linker leaves out unused methods (RATIONALE.md)'
linked=$(CGO_ENABLED=0 "${GO:-go}" build -buildvcs=false -ldflags=-dumpdep -o /dev/null ./cmd/fumehood 2>&1)
if grep -m 3 ReflectMethod <<<"$linked"; then exit 1; fi

echo '== a release'
make release RELEASE="$release" RELEASE_TARGETS=linux/amd64
(cd "$release" && sha256sum -c --quiet SHA256SUMS)
[ "$(stat -c %s build/release-programs/linux-amd64/fumehood)" -lt "$MOST_BYTES" ]

echo '== the formula'
ruby -c "$release/fumehood.rb"
sums=$(grep -oE '\b[0-9a-f]{64}\b' "$release/fumehood.rb")
while read -r sum; do grep -q "^$sum " "$release/SHA256SUMS"; done <<<"$sums"

echo '== the same release, from a copy and without caches'
version=$(git describe --tags --always --dirty)
git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - | tar -C "$copy" -xf -
cp -r .git "$copy/.git"
mkdir "$copy/cache"
GOCACHE=$copy/cache make -C "$copy" release RELEASE="$copy/again" RELEASE_TARGETS=linux/amd64 VERSION="$version"
diff "$release/SHA256SUMS" "$copy/again/SHA256SUMS"

echo '== the deb, the rpm and the wheel'
bash test/release/root.sh "$release"
