#!/usr/bin/env bash
# Tests the containers of OpenAI's API with OpenAI's published Python SDK.
#
#   scripts/openai.sh FUMEHOOD
set -euo pipefail
cd "$(dirname "$0")/.."

readonly OPENAI=3.57.0
readonly START_SECONDS=30 # bound on the server's start
readonly folder=build/openai
fumehood=$(realpath "$1")
readonly fumehood

if ! "$folder/bin/pip" show openai 2>/dev/null | grep -qx "Version: $OPENAI"; then
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet "openai==$OPENAI"
fi

rm -rf "$folder/state" "$folder/keys"
key=$("$fumehood" --quiet keys create alice --file "$folder/keys")
: >"$folder/server.log" # is read below, perhaps before the server opens it
"$fumehood" serve --listen 127.0.0.1:0 --state-dir "$folder/state" --no-local-socket --api-key-file "$folder/keys" \
  2>"$folder/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait || true' EXIT
url=
for _ in $(seq $((START_SECONDS * 10))); do
  url=$(sed -n 's/^.*listening on \(http:[^ ]*\).*$/\1/p' "$folder/server.log")
  [ -z "$url" ] || break
  kill -0 "$server"
  sleep 0.1
done
[ -n "$url" ] || { cat "$folder/server.log" >&2 && exit 1; }

export OPENAI_BASE_URL=${url%/}/openai/v1 OPENAI_API_KEY=$key
"$folder/bin/python" test/openai/client.py
"$folder/bin/python" examples/openai_sdk.py | grep -xF "['42']"
