#!/bin/bash
# Works in steps: a living sandbox keeps variables and files between them. It starts its own server, and removes
# everything at the end. examples/steps.sh [FUMEHOOD]
set -eu
fumehood=${1:-bin/fumehood}
dir=$(mktemp -d)
export FUMEHOOD_SERVER=unix:$dir/server.sock
weaker=()
"$fumehood" doctor >"$dir/doctor" || weaker=(--allow-unenforced memory)

"$fumehood" serve --quiet --listen "$FUMEHOOD_SERVER" --state-dir "$dir/state" "${weaker[@]}" &
server=$!
finish() {
	"$fumehood" rm --all 2>"$dir/rm" || true
	if kill "$server" 2>/dev/null; then wait "$server" || true; fi
	rm -rf "$dir"
}
trap finish EXIT
for _ in $(seq 200); do
	[ -S "$dir/server.sock" ] && break
	kill -0 "$server" || exit 1
	sleep 0.05
done

"$fumehood" create --name steps

echo '1. read the data'
"$fumehood" cp "$(dirname "$0")/sales.csv" steps:sales.csv
"$fumehood" run --in steps -c '
import csv
rows = [r for r in csv.DictReader(open("sales.csv")) if r["units"].isdigit()]
len(rows)'

echo '2. use what step 1 read'
"$fumehood" run --in steps -c '
from collections import Counter
units = Counter()
for r in rows:
    units[r["product"]] += int(r["units"])
best = units.most_common(3)
best'

echo '3. write a report, and copy it out'
"$fumehood" run --in steps -c '
with open("best.txt", "w") as f:
    print(*(f"{n:6} {product}" for product, n in best), sep="\n", file=f)'
"$fumehood" exec steps -- ls -A
"$fumehood" cp steps:best.txt -
"$fumehood" rm steps
