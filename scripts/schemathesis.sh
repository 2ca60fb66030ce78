#!/usr/bin/env bash
# Sends requests that schemathesis generates from our OpenAPI document to a server on loopback. Every answer must match
# the document.
#
#   scripts/schemathesis.sh FUMEHOOD [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VERSION=4.32.5
readonly START_SECONDS=30 # bound on a server's start
readonly fumehood=$1 seconds=${2:-120}
readonly folder=build/schemathesis

if ! "$folder/bin/schemathesis" --version 2>/dev/null | grep -qF "$VERSION"; then
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet "schemathesis==$VERSION"
fi

rm -rf "$folder/state"
: >"$folder/serve.log" # is read below, perhaps before the server opens it
"$fumehood" serve --listen 127.0.0.1:0 --max-timeout 10s --timeout 1s --state-dir "$folder/state" --no-local-socket \
  --sandboxes 50 2>"$folder/serve.log" &
server=$!
url=
# Sandboxes would outlive the server.
stop() {
  for id in $(curl -s "${url%/}/v1/sandboxes" |
    grep -oE '\{"id":"[a-z2-7]{26}",("name":"[^"]*",)?"state"' | cut -d '"' -f 4); do
    curl -s -X DELETE "${url%/}/v1/sandboxes/$id" || true
  done
  kill "$server" 2>/dev/null
  wait "$server" || true
}
trap stop EXIT
for _ in $(seq $((START_SECONDS * 10))); do
  url=$(sed -n 's/^.*listening on \(http:[^ ]*\).*$/\1/p' "$folder/serve.log")
  [ -z "$url" ] || break
  kill -0 "$server" || { cat "$folder/serve.log" >&2 && exit 1; }
  sleep 0.1
done
[ -n "$url" ] || { cat "$folder/serve.log" >&2 && exit 1; }

cd "$folder" # schemathesis writes into the working directory
bin/schemathesis --config-file ../../scripts/schemathesis.toml run "${url%/}/openapi.json" --max-time "$seconds" \
  --continue-on-failure --warnings off
