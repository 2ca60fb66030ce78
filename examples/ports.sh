#!/bin/bash
# Connects to a web server in a sandbox without a network: by the API, and from a port of this machine. It starts its
# own Fumehood server, and removes everything at the end. examples/ports.sh [FUMEHOOD]
set -eu
fumehood=${1:-bin/fumehood}
dir=$(mktemp -d)
export FUMEHOOD_SERVER=unix:$dir/server.sock
weaker=()
"$fumehood" doctor >"$dir/doctor" || weaker=(--allow-unenforced memory)

"$fumehood" serve --quiet --listen "$FUMEHOOD_SERVER" --state-dir "$dir/state" "${weaker[@]}" &
server=$!
forward=
finish() {
	for process in $forward $server; do
		if kill "$process" 2>/dev/null; then wait "$process" || true; fi
	done
	rm -rf "$dir"
}
trap finish EXIT
# until_true repeats a command until it succeeds, while the server runs.
until_true() {
	until "$@" >"$dir/said" 2>&1; do
		kill -0 "$server" || exit 1
		sleep 0.05
	done
}
until_true test -S "$dir/server.sock"

"$fumehood" create --name web
"$fumehood" exec web -- sh -c 'echo "hello from inside" >hello.txt'
"$fumehood" exec --detach web -- python3 -m http.server --bind 127.0.0.1 8000 >"$dir/id"

echo '1. by the API'
ask=(curl -sS --fail-with-body --unix-socket "$dir/server.sock")
until_true "${ask[@]}" "http://localhost/v1/sandboxes/web/ports/8000/hello.txt"
"${ask[@]}" "http://localhost/v1/sandboxes/web/ports/8000/hello.txt"

echo '2. if nothing listens, the answer reports it'
if "${ask[@]}" "http://localhost/v1/sandboxes/web/ports/8001/" 2>"$dir/error" >"$dir/problem"; then exit 1; fi
grep -o '"hint":"[^"]*"' "$dir/problem"

echo '3. from a port of this machine'
"$fumehood" port-forward web 0:8000 >"$dir/forward" &
forward=$!
until_true grep -q forwarding "$dir/forward"
address=$(grep -oE '127\.0\.0\.1:[0-9]+' "$dir/forward")
curl -sS --fail "http://$address/hello.txt"

"$fumehood" rm web
