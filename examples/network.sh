#!/bin/bash
# Opens the network of a sandbox to one address, and shows what was refused. The server runs on this host, at an address
# that a sandbox cannot reach unless a rule names it.
# examples/network.sh [FUMEHOOD]
set -eu
fumehood=${1:-bin/fumehood}
address=$(hostname -I | tr ' ' '\n' | grep -m1 -E '^[0-9.]+$') ||
	{ echo "this host has no IPv4 address but loopback"; exit 0; }
[ -w /dev/net/tun ] || { echo "sandboxes have no network here: /dev/net/tun cannot be opened"; exit 0; }
dir=$(mktemp -d)
weaker=()
"$fumehood" doctor >"$dir/doctor" || weaker=(--allow-unenforced memory)

mkdir "$dir/www"
echo 'hello from outside' >"$dir/www/hello.txt"
/usr/bin/python3 -u -m http.server --directory "$dir/www" --bind "$address" 0 >"$dir/port" 2>"$dir/served" &
server=$!
finish() {
	if kill "$server"; then wait "$server" || true; fi
	rm -rf "$dir"
}
trap finish EXIT
until port=$(grep -oE -m1 'port [0-9]+' "$dir/port"); do
	kill -0 "$server" || exit 1
	sleep 0.05
done
port=${port#port }

fetch='import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode().strip())
except OSError as e:
    sys.exit(str(e))'

echo "1. a sandbox reaches an allowed address: --allow $address:$port"
"$fumehood" run "${weaker[@]}" --allow "$address:$port" -c "$fetch" "http://$address:$port/hello.txt"

echo '2. another name is refused, and the hint says how to allow it'
if "$fumehood" run "${weaker[@]}" --allow "$address:$port" -c "$fetch" http://example.org/; then exit 1; fi

echo '3. --network full does not reach this host'
if "$fumehood" run "${weaker[@]}" --network full -c "$fetch" "http://$address:$port/hello.txt"; then exit 1; fi

echo '4. nor the metadata service of a cloud'
if "$fumehood" run "${weaker[@]}" --network full -c "$fetch" http://169.254.169.254/latest/meta-data/; then exit 1; fi

[ "$(grep -c GET "$dir/served")" = 1 ] || { echo "the server was reached more than once"; exit 1; }
echo 'the server was reached once'
