#!/usr/bin/env bash
# Tests E2B's wire with E2B's published SDKs: Python, and with `all` also JavaScript, smolagents and LiteLLM.
#
#   scripts/e2b.sh FUMEHOOD [all] | environment
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PYTHON=2.63.0 INTERPRETER=2.11.5 JS=2.51.0 JS_INTERPRETER=2.8.0
readonly SMOLAGENTS=1.26.0 LITELLM=1.110.2
readonly START_SECONDS=30 # bound on the server's start
readonly folder=build/e2b
fumehood=$(realpath "$1")
readonly fumehood

if ! "$folder/bin/pip" show e2b-code-interpreter 2>/dev/null | grep -qx "Version: $INTERPRETER"; then
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet "e2b==$PYTHON" "e2b-code-interpreter==$INTERPRETER"
fi
if [ "$1" = environment ]; then # only makes it, and prints the folder of its programs
  echo "$PWD/$folder/bin"
  exit 0
fi
if [ "${2:-}" = all ]; then
  "$folder/bin/pip" install --quiet "smolagents==$SMOLAGENTS" "litellm==$LITELLM"
fi
if [ "${2:-}" = all ] && ! grep -qF "\"$JS\"" "$folder/node_modules/e2b/package.json" 2>/dev/null; then
  npm install --prefix "$folder" --no-fund --no-audit --loglevel error "e2b@$JS" \
    "@e2b/code-interpreter@$JS_INTERPRETER"
fi

rm -rf "$folder"/state* "$folder/keys" "$folder/certs"
key=$("$fumehood" --quiet keys create alice --file "$folder/keys")
"$fumehood" --quiet certs create sandbox.test --dir "$folder/certs" >/dev/null
trap 'kill $(jobs -p) 2>/dev/null; wait || true' EXIT

# start NAME FLAG...: starts a server, and sets url.
start() {
  local log=$folder/$1.log name=$1
  shift
  "$fumehood" serve --listen 127.0.0.1:0 --state-dir "$folder/state-$name" --no-local-socket \
    --api-key-file "$folder/keys" "$@" 2>"$log" &
  url=
  for _ in $(seq $((START_SECONDS * 10))); do
    url=$(sed -n 's/^.*listening on \(https\{0,1\}:[^ ]*\).*$/\1/p' "$log")
    [ -z "$url" ] || return 0
    kill -0 $!
    sleep 0.1
  done
  cat "$log" >&2 && exit 1
}

export E2B_API_KEY=$key E2B_VALIDATE_API_KEY=false
start domain --domain sandbox.test --tls-cert "$folder/certs/cert.pem" --tls-key "$folder/certs/key.pem"
in_domain() { E2B_DOMAIN=sandbox.test:${url##*:} SSL_CERT_FILE=$folder/certs/ca.pem "$folder/bin/python" "$@"; }
in_domain test/e2b/domain.py
[ "${2:-}" != all ] || in_domain test/e2b/frameworks.py

start plain
export E2B_API_URL=${url%/} E2B_SANDBOX_URL=${url%/}
"$folder/bin/python" test/e2b/client.py
[ "${2:-}" = all ] || exit 0
cp test/e2b/client.mjs "$folder/client.mjs"
node "$folder/client.mjs"
