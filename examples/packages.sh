#!/bin/bash
# Runs code that imports a package which this host lacks. Fumehood finds it, installs it once, keeps it, and mounts it
# into runs without a network. This script serves an index with one package, so the example needs no internet.
# examples/packages.sh [FUMEHOOD]
set -eu
fumehood=${1:-bin/fumehood}
address=$(hostname -I | tr ' ' '\n' | grep -m1 -E '^[0-9.]+$') ||
	{ echo "this host has no IPv4 address but loopback"; exit 0; }
[ -w /dev/net/tun ] || { echo "packages are not installed here: /dev/net/tun cannot be opened"; exit 0; }
/usr/bin/python3 -c 'import pip' 2>/dev/null || { echo "packages are not installed here: there is no pip"; exit 0; }
dir=$(mktemp -d)
weaker=()
"$fumehood" doctor >"$dir/doctor" || weaker=(--allow-unenforced memory)

mkdir -p "$dir/www/simple/moonphase"
/usr/bin/python3 - "$dir/www/simple/moonphase" <<'PYTHON'
import sys, zipfile
name, info = "moonphase-1.2-py3-none-any.whl", "moonphase-1.2.dist-info/"
with zipfile.ZipFile(sys.argv[1] + "/" + name, "w") as wheel:
    wheel.writestr("moonphase.py", "def phase(day):\n    return 'full' if day % 29 == 14 else 'not full'\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: moonphase\nVersion: 1.2\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: example\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
PYTHON
/usr/bin/python3 -u -m http.server --directory "$dir/www" --bind "$address" 0 >"$dir/port" 2>"$dir/served" &
server=$!
finish() {
	if kill "$server"; then wait "$server" || true; fi
	chmod -R u+w "$dir"
	rm -rf "$dir"
}
trap finish EXIT
until port=$(grep -oE -m1 'port [0-9]+' "$dir/port"); do
	kill -0 "$server" || exit 1
	sleep 0.05
done
export FUMEHOOD_PACKAGE_INDEX="python=http://$address:${port#port }/simple" FUMEHOOD_PACKAGE_CACHE="$dir/cache"
printf 'import moonphase\nprint("the moon is", moonphase.phase(14))\n' >"$dir/moon.py"

echo '1. the code imports a missing package; --packages auto finds and installs it'
"$fumehood" run "${weaker[@]}" --packages auto "$dir/moon.py"

echo '2. the second run uses the cache, and does not contact the index'
requests=$(wc -l <"$dir/served")
"$fumehood" run "${weaker[@]}" --packages auto "$dir/moon.py"
[ "$(wc -l <"$dir/served")" = "$requests" ] || { echo "the index was contacted again"; exit 1; }

echo '3. the contents of the cache'
"$fumehood" deps ls

echo '4. a lock repeats it exactly'
"$fumehood" deps lock "${weaker[@]}" "$dir/moon.py" | tee "$dir/moon.lock"
"$fumehood" run "${weaker[@]}" --lock "$dir/moon.lock" "$dir/moon.py"
