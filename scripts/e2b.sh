#!/usr/bin/env bash
# Tests E2B's wire with E2B's published SDKs: Python, and with `all` also JavaScript.
#
#   scripts/e2b.sh FUMEHOOD [all]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PYTHON=2.63.0 INTERPRETER=2.11.5 JS=2.51.0 JS_INTERPRETER=2.8.0
readonly START_SECONDS=30 # bound on the server's start
readonly folder=build/e2b
fumehood=$(realpath "$1")
readonly fumehood

if ! "$folder/bin/pip" show e2b-code-interpreter 2>/dev/null | grep -qx "Version: $INTERPRETER"; then
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet "e2b==$PYTHON" "e2b-code-interpreter==$INTERPRETER"
fi
if [ "${2:-}" = all ] && ! grep -qF "\"$JS\"" "$folder/node_modules/e2b/package.json" 2>/dev/null; then
  npm install --prefix "$folder" --no-fund --no-audit --loglevel error "e2b@$JS" \
    "@e2b/code-interpreter@$JS_INTERPRETER"
fi

rm -rf "$folder/state" "$folder/keys"
key=$("$fumehood" --quiet keys create alice --file "$folder/keys")
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

export E2B_API_URL=${url%/} E2B_SANDBOX_URL=${url%/} E2B_API_KEY=$key E2B_VALIDATE_API_KEY=false
"$folder/bin/python" test/e2b/client.py
[ "${2:-}" = all ] || exit 0
cp test/e2b/client.mjs "$folder/client.mjs"
node "$folder/client.mjs"
