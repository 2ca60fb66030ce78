#!/usr/bin/env bash
# Tests what a Python context shows of pandas, matplotlib and pillow, with the packages that the index has of these versions.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly folder=$PWD/build/python-packages
readonly packages=(pandas==3.1.1 matplotlib==3.11.2 pillow==13.0.0)

if [ "$(cat "$folder/versions" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$folder"
  /usr/bin/python3 -m venv build/python-venv
  build/python-venv/bin/pip install --quiet --target "$folder" "${packages[@]}"
  echo "${packages[*]}" >"$folder/versions"
fi
out=$(GLOVEBOX_TEST_PYTHONPATH=$folder "${GO:-go}" test -count=1 -run '^TestDriverPackages$' -v ./internal/lang/python)
echo "$out"
if grep -q -- '--- SKIP' <<<"$out"; then
  exit 1
fi
