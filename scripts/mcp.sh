#!/usr/bin/env bash
# Tests the MCP server with published clients: the Python client over stdio and HTTP, and the protocol's conformance
# suite.
#
#   scripts/mcp.sh FUMEHOOD
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CLIENT=2.3.0 CONFORMANCE=0.1.16
readonly NODE=22.23.3     # the suite needs 22, which Debian 12 lacks
readonly START_SECONDS=30 # bound on a server's start
readonly folder=build/mcp
fumehood=$(realpath "$1")
readonly fumehood

if ! "$folder/bin/pip" show mcp 2>/dev/null | grep -qx "Version: $CLIENT"; then
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet "mcp==$CLIENT"
fi
if ! grep -qF "\"$CONFORMANCE\"" "$folder/node_modules/@modelcontextprotocol/conformance/package.json" 2>/dev/null; then
  npm install --prefix "$folder" --no-fund --no-audit --loglevel error \
    "@modelcontextprotocol/conformance@$CONFORMANCE" "node@$NODE"
fi

"$folder/bin/python" test/mcp/client.py "$fumehood"
"$folder/bin/python" examples/mcp_client.py "$fumehood" | grep -x 'run_code: => 42'

servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait || true' EXIT
serve() { # NAME FLAG...: starts a server and sets url
  local name=$1 server
  shift
  rm -rf "${folder:?}/$name"
  : >"$folder/$name.log" # is read below, perhaps before the server opens it
  "$fumehood" serve --listen 127.0.0.1:0 --state-dir "$folder/$name" --no-local-socket "$@" 2>"$folder/$name.log" &
  server=$!
  servers+=("$server")
  url=
  for _ in $(seq $((START_SECONDS * 10))); do
    url=$(sed -n 's/^.*listening on \(http:[^ ]*\).*$/\1/p' "$folder/$name.log")
    [ -z "$url" ] || return 0
    kill -0 "$server" || break
    sleep 0.1
  done
  cat "$folder/$name.log" >&2
  return 1
}

rm -f "$folder/keys"
key=$("$fumehood" --quiet keys create alice --file "$folder/keys")
serve keyed --api-key-file "$folder/keys"
"$folder/bin/python" test/mcp/client.py "${url%/}/mcp" "$key"

serve open
"$folder/node_modules/.bin/node" "$folder/node_modules/.bin/conformance" server --url "${url%/}/mcp" --suite all \
  --expected-failures scripts/mcp-conformance.yaml |
  sed -n '/=== SUMMARY ===/,$p'
