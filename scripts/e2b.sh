#!/usr/bin/env bash
# Tests E2B's wire with E2B's published SDKs: Python, and with `all` also JavaScript, smolagents and LiteLLM.
#
#   scripts/e2b.sh FUMEHOOD [all] | environment
#   scripts/e2b.sh FUMEHOOD suites   E2B's own suites, if E2B_SUITES names a folder with clones, or their .git, of
#                                    e2b-dev/E2B and e2b-dev/code-interpreter as E2B and code-interpreter
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PYTHON=2.63.0 INTERPRETER=2.11.5 JS=2.51.0 JS_INTERPRETER=2.8.0
readonly SMOLAGENTS=1.26.0 LITELLM=1.110.2
readonly START_SECONDS=30 # bound on the server's start
readonly folder=build/e2b suites=build/e2b/suites
readonly E2B_REVISION=b8029973 INTERPRETER_REVISION=7df1757 # of the suites
fumehood=$(realpath "$1")
readonly fumehood

if [ "${2:-}" = suites ] && [ -z "${E2B_SUITES:-}" ]; then
  echo 'NOT RUN: E2B_SUITES names no folder with the sources of the suites, which no registry has'
  exit 0
fi
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
if [ "${2:-}" = suites ]; then # earlier SDKs require this form
  key=e2b_$(od -An -N20 -tx1 /dev/urandom | tr -d ' \n')
  echo "alice sha256:$(printf %s "$key" | sha256sum | cut -d ' ' -f 1)" >"$folder/keys"
  chmod 600 "$folder/keys"
else
  key=$("$fumehood" --quiet keys create alice --file "$folder/keys")
fi
"$fumehood" --quiet certs create sandbox.test --dir "$folder/certs" >/dev/null
trap 'kill $(jobs -p) 2>/dev/null; wait || true' EXIT

# start NAME FLAG...: starts a server, and sets url.
start() {
  local log=$folder/$1.log name=$1
  shift
  : >"$log" # is read below, perhaps before the server opens it
  "$fumehood" serve --listen 127.0.0.1:0 --state-dir "$folder/state-$name" --no-local-socket \
    --api-key-file "$folder/keys" "$@" 2>"$log" &
  url=
  for _ in $(seq $((START_SECONDS * 10))); do
    url=$(sed -n 's/^.*listening on \(https\{0,1\}:[^ ]*\).*$/\1/p' "$log")
    [ -z "$url" ] || return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  cat "$log" >&2 && exit 1
}

export E2B_API_KEY=$key E2B_VALIDATE_API_KEY=false
# sources NAME REVISION PATH... unpacks files of a clone.
sources() {
  local name=$1 from=$E2B_SUITES/$1
  [ ! -e "$from/.git" ] || from=$from/.git
  mkdir -p "$suites/$name"
  git --git-dir "$from" archive "$2" "${@:3}" | tar -x -C "$suites/$name"
}

# packages_of FOLDER PACKAGE... installs the dependencies of a JavaScript suite.
packages_of() {
  cp test/e2b/vitest.config.mts "$1"
  (cd "$1" && npm pkg delete scripts devDependencies packageManager && npm install --no-fund --no-audit \
    --loglevel error vitest@4.1.10 dotenv@16.4.5 "${@:2}")
}

# suite LIST FOLDER PROGRAM...: the suite of a folder.
suite() {
  echo "== $1"
  (cd "$suites/$2" && python3 "$OLDPWD/test/e2b/suites.py" "$OLDPWD/test/e2b/suites/$1.txt" "${@:3}") || failed=1
}

# run_suites runs the four suites over TLS, as the variables E2B_API_URL and E2B_SANDBOX_URL name no ports.
run_suites() {
  local bin=$PWD/$suites/venv/bin here=$PWD sdk=E2B/packages
  rm -rf "$suites/E2B" "$suites/code-interpreter"
  sources E2B "$E2B_REVISION" packages/python-sdk packages/js-sdk
  sources code-interpreter "$INTERPRETER_REVISION" python js
  [ -x "$bin/pytest" ] || /usr/bin/python3 -m venv "$suites/venv"
  "$bin/pip" install --quiet e2b==2.45.1 e2b-code-interpreter==2.9.1 pytest==9.2.0 pytest-asyncio==1.5.0 \
    pytest-timeout==2.4.0 pytest-xdist==3.8.0
  packages_of "$suites/$sdk/js-sdk" msw@2.12.10 error-stack-parser-es@1.0.5 @types/node@20.19.19
  packages_of "$suites/code-interpreter/js" e2b@2.45.0
  export E2B_DOMAIN=sandbox.test:${url##*:} SSL_CERT_FILE=$here/$folder/certs/ca.pem PYTHONDONTWRITEBYTECODE=1
  export NODE_EXTRA_CA_CERTS=$SSL_CERT_FILE PYTHONPATH=$here/test/e2b
  local pytest=("$bin/python" -m pytest -p names -p no:cacheprovider --numprocesses 3 --timeout 300)
  local vitest=(node_modules/.bin/vitest run --config vitest.config.mts)
  unset E2B_VALIDATE_API_KEY
  # Tracebacks of two threads at once can end pytest: https://github.com/python/cpython/issues/106905
  export PYTHONNODEBUGRANGES=1
  failed=
  suite python $sdk/python-sdk "${pytest[@]}"
  suite interpreter-python code-interpreter/python "${pytest[@]}"
  export NODE_OPTIONS="--import=$here/test/e2b/names.mjs"
  suite javascript $sdk/js-sdk "${vitest[@]}"
  suite interpreter-javascript code-interpreter/js "${vitest[@]}"
  [ -z "$failed" ]
}

start domain --domain sandbox.test --tls-cert "$folder/certs/cert.pem" --tls-key "$folder/certs/key.pem"
if [ "${2:-}" = suites ]; then
  run_suites
  exit
fi
in_domain() { E2B_DOMAIN=sandbox.test:${url##*:} SSL_CERT_FILE=$folder/certs/ca.pem "$folder/bin/python" "$@"; }
in_domain test/e2b/domain.py
[ "${2:-}" != all ] || in_domain test/e2b/frameworks.py

start plain
export E2B_API_URL=${url%/} E2B_SANDBOX_URL=${url%/}
"$folder/bin/python" test/e2b/client.py
[ "${2:-}" = all ] || exit 0
"$folder/bin/python" examples/e2b_sdk.py | grep -x 42
cp test/e2b/client.mjs "$folder/client.mjs"
node "$folder/client.mjs"
