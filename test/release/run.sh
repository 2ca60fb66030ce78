#!/usr/bin/env bash
# Builds a release for this processor, and installs its deb in a bare Debian root. Only root can run it.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly release=$PWD/build/release-test

make release RELEASE="$release" RELEASE_TARGETS=linux/amd64
(cd "$release" && sha256sum -c --quiet SHA256SUMS)
bash test/release/root.sh "$release"
