#!/bin/bash
# Shows what glovebox does: a useful script with a file sent along, then three hostile ones. make demo builds and runs it.
set -u
glovebox=${1:-bin/glovebox}
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

title() {
	if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
		printf '\n\033[1m== %s\033[0m\n' "$1"
	else
		printf '\n== %s\n' "$1"
	fi
}

# show prints a command line as a user would type it, runs it and says how it ended.
show() {
	printf '$ glovebox'
	printf ' %s' "${@//$out/results}"
	printf '\n'
	"$glovebox" "$@" 2>&1
	code=$?
	printf '[exit code %d]\n' "$code"
}

# The sandbox sees this host's own programs, so the host must have the interpreter.
if [ ! -x /usr/bin/python3 ]; then
	if [ "$(id -u)" = 0 ]; then
		apt-get update -q && apt-get install -qy python3
	elif sudo -n true 2>/dev/null; then
		sudo -n apt-get update -q && sudo -n apt-get install -qy python3
	fi
	[ -x /usr/bin/python3 ] || { echo 'The demo runs Python. Install it with: sudo apt-get install python3'; exit 1; }
fi

title 'The walls that stand on this host'
"$glovebox" doctor
ready=$?
weaker=()
if [ "$ready" != 0 ]; then
	title 'This host cannot bound memory for this user, so the demo goes without, by name'
	weaker=(--allow-unenforced memory)
fi

title 'A script of the kind a model writes, with a CSV sent along'
show run "${weaker[@]}" --verbose --file "$here/sales.csv" --out "$out" "$here/analysis.py"
[ "$code" = 0 ] || { echo 'The script should have succeeded.'; exit 1; }
title 'The files it made'
for file in report.md summary.json; do
	echo "--- results/$file"
	cat "$out/$file" || exit 1
done

title 'Hostile 1: it looks for files of the host'
show run "${weaker[@]}" "$here/hostile_files.py"
[ "$code" = 0 ] || { echo 'It found something.'; exit 1; }

title 'Hostile 2: a fork bomb, with 32 processes and 3 seconds'
show run "${weaker[@]}" --pids 32 --timeout 3s "$here/hostile_forkbomb.py"
[ "$code" = 124 ] || { echo 'It should have ended at its time limit.'; exit 1; }
left=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -c '^/workspace/hostile_forkbomb.py$')
echo "processes of it that are left on this host: $left"
[ "$left" = 0 ] || exit 1

title 'Hostile 3: a memory bomb, with 128 MiB and the least disk there is'
if [ "$ready" = 0 ]; then
	show run --memory 128MiB --disk 1MiB "$here/hostile_memory.py"
	[ "$code" = 137 ] || { echo 'It should have been killed at its memory limit.'; exit 1; }
else
	echo 'left out: nothing bounds memory here, as said above'
fi

title 'And the host is as it was'
show run "${weaker[@]}" -c 'print(6*7)'
[ "$code" = 0 ]
