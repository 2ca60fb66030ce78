#!/bin/bash
# Works in steps: a sandbox that lives keeps variables and files between them. It starts a server of its own, and removes all at the end.
# examples/steps.sh [GLOVEBOX]
set -eu
glovebox=${1:-bin/glovebox}
dir=$(mktemp -d)
export GLOVEBOX_SERVER=unix:$dir/server.sock
weaker=()
"$glovebox" doctor >"$dir/doctor" || weaker=(--allow-unenforced memory)

"$glovebox" serve --quiet --listen "$GLOVEBOX_SERVER" --state-dir "$dir/state" "${weaker[@]}" &
server=$!
finish() {
	"$glovebox" rm --all 2>"$dir/rm" || true
	if kill "$server" 2>/dev/null; then wait "$server" || true; fi
	rm -rf "$dir"
}
trap finish EXIT
for _ in $(seq 200); do
	[ -S "$dir/server.sock" ] && break
	kill -0 "$server" || exit 1
	sleep 0.05
done

"$glovebox" create --name steps

echo '1. read the data'
"$glovebox" cp "$(dirname "$0")/sales.csv" steps:sales.csv
"$glovebox" run --in steps -c '
import csv
rows = [r for r in csv.DictReader(open("sales.csv")) if r["units"].isdigit()]
len(rows)'

echo '2. what step 1 read is still there'
"$glovebox" run --in steps -c '
from collections import Counter
units = Counter()
for r in rows:
    units[r["product"]] += int(r["units"])
best = units.most_common(3)
best'

echo '3. write a report, and take it out'
"$glovebox" run --in steps -c '
with open("best.txt", "w") as f:
    print(*(f"{n:6} {product}" for product, n in best), sep="\n", file=f)'
"$glovebox" exec steps -- ls -A
"$glovebox" cp steps:best.txt -
"$glovebox" rm steps
