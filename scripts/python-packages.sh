#!/usr/bin/env bash
# Tests with real packages of fixed versions: the results that a Python context displays for pandas, matplotlib and
# pillow; installation by uv; and that common imports are found and installed on each backend. Archives are downloaded
# once; the index of the tests serves them.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly folder=$PWD/build/python-packages venv=$PWD/build/python-venv
readonly packages=(pandas==3.1.1 matplotlib==3.11.2 pillow==13.0.0) uv=uv==0.13.9

if [ "$(cat "$folder/versions" 2>/dev/null)" != "${packages[*]} $uv" ]; then
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --target "$folder" "${packages[@]}"
  "$venv/bin/pip" install --quiet "$uv"
  echo "${packages[*]} $uv" >"$folder/versions"
fi
# The imports of the script of TestRealPackages, for this machine's interpreter and that of the engines' image.
readonly archives=$PWD/build/real-packages
readonly real=(
  numpy==2.3.5 pandas==2.3.3 matplotlib==3.10.7 requests==2.32.5 beautifulsoup4==4.14.2 PyYAML==6.0.3 pillow==12.0.0
)
readonly real_npm=(lodash@4.17.21 zod@4.1.12)
if [ "$(cat "$archives.versions" 2>/dev/null)" != "${real[*]} ${real_npm[*]}" ]; then
  rm -rf "$archives"
  mkdir -p "$archives"
  ours=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  for version in $(printf '%s\n' "$ours" 3.11 | sort -u); do
    "$venv/bin/pip" download --quiet --only-binary :all: --python-version "$version" --dest "$archives" "${real[@]}"
  done
  (cd "$archives" && npm pack --silent "${real_npm[@]}" >/dev/null)
  echo "${real[*]} ${real_npm[*]}" >"$archives.versions"
fi

# tested TEST PACKAGE runs a test and fails if it was skipped.
tested() {
  local out status=0
  out=$("${GO:-go}" test -count=1 -timeout 1200s -run "$1" -v "$2") || status=$?
  echo "$out"
  if [ "$status" != 0 ] || grep -q '^--- SKIP' <<<"$out"; then
    return 1
  fi
}
export FUMEHOOD_LIBEXEC=${FUMEHOOD_LIBEXEC:-$PWD/internal/libexec/bin}
FUMEHOOD_TEST_PYTHONPATH=$folder tested '^TestDriverPackages$' ./internal/lang/python
PACKAGETEST_UV=$venv/bin/uv tested 'OfUV$' ./cmd/fumehood
PACKAGETEST_ARCHIVES=$archives tested '^TestRealPackages' ./cmd/fumehood
