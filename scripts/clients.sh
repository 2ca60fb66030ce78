#!/usr/bin/env bash
# Runs the quick tests of the clients at the same time, since they wait more than they compute. Prints the output of
# each when all have ended.
#
#   scripts/clients.sh FUMEHOOD
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
fumehood=$1
names=() pids=()
mkdir -p build/clients

client() {
  bash "scripts/$1.sh" "${@:2}" >"build/clients/$1.log" 2>&1 </dev/null &
  names+=("$1")
  pids+=($!)
}
trap 'kill "${pids[@]}" 2>/dev/null; exit 143' INT TERM
client e2b "$fumehood"
client openai "$fumehood"
client typescript test "$fumehood"
client python smoke "$fumehood"

failed=()
for i in "${!names[@]}"; do
  wait "${pids[i]}" || failed+=("${names[i]}")
  echo "== ${names[i]}"
  cat "build/clients/${names[i]}.log"
done
[ ${#failed[@]} = 0 ] || { echo "FAIL: ${failed[*]}" && exit 1; }
