#!/bin/bash
# Runs a useful script with a file, three hostile ones, and two steps in a living sandbox. `make demo` calls it.
set -u
fumehood=${1:-bin/fumehood}
here=$(dirname "$0")
out=$(mktemp -d)
server=''
finish() {
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null
	rm -rf "$out"
}
trap finish EXIT

bold='' green='' red='' faint='' reset=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\033[1m' green=$'\033[32m' red=$'\033[31m' faint=$'\033[2m' reset=$'\033[0m'
fi

title() { printf '\n%s%s%s\n' "$bold" "$1" "$reset"; }

fail() {
	printf '%s%s%s\n' "$red" "$1" "$reset"
	exit 1
}

# show STATUS WORD... prints a command to paste, runs it, and requires this exit code.
show() {
	local wanted=$1 result word
	shift
	printf '%s$ %s' "$faint" "$fumehood"
	for word in "$@"; do
		[[ $word =~ ^[A-Za-z0-9_./:=-]+$ ]] || word="'$word'"
		printf ' %s' "$word"
	done
	printf '%s\n' "$reset"
	"$fumehood" "$@" 2>&1
	code=$?
	result="exit code $code"
	[ "$code" = "$wanted" ] || fail "$result, not $wanted"
	printf '%s%s%s\n' "$green" "$result" "$reset"
}

# The sandbox uses this host's programs, so the host must have the interpreter.
if [ ! -x /usr/bin/python3 ]; then
	if [ "$(id -u)" = 0 ]; then
		apt-get update -q && apt-get install -qy python3
	elif sudo -n true 2>/dev/null; then
		sudo -n apt-get update -q && sudo -n apt-get install -qy python3
	fi
	[ -x /usr/bin/python3 ] || fail 'The demo runs Python. Install it with: sudo apt-get install python3'
fi

doctor=$("$fumehood" doctor)
ready=$?
run=(run)
if [ "$ready" != 0 ]; then
	run=(run --allow-unenforced memory)
	title 'This host lacks something; fumehood doctor ends with the fix'
	sed -n '/^not ready/,$p' <<<"$doctor"
	echo 'The demo waives the limit by --allow-unenforced memory.'
fi
# tun is the fix of doctor if sandboxes can have no network.
tun=$(sed -n '/^  missing   gate /{n;s/^ *fix: *//p;q}' <<<"$doctor")

title '1. A script as a model writes it: a CSV goes in, a report comes out'
show 0 "${run[@]}" --file "$here/sales.csv" --out "$out" "$here/analysis.py"
printf '%s--- report.md, beside it summary.json%s\n' "$faint" "$reset"
[ -s "$out/summary.json" ] || fail 'summary.json is missing'
cat "$out/report.md" || exit 1

title '2. A hostile script looks for files of this host'
show 0 "${run[@]}" "$here/hostile_files.py"

title '3. A fork bomb, with 32 processes and 3 seconds'
bomb=forkbomb_$$_$RANDOM.py # a name of this demo alone, by which its processes are found
cp "$here/hostile_forkbomb.py" "$out/$bomb"
show 124 "${run[@]}" --pids 32 --timeout 3s "$out/$bomb"
left=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -cx "[/]workspace/$bomb")
[ "$left" = 0 ] || fail "$left of its processes remain on this host"
echo 'none of its processes remains on this host'

title '4. A memory bomb, with a limit of 128 MiB'
if [ "$ready" = 0 ]; then
	show 137 "${run[@]}" --memory 128MiB "$here/hostile_memory.py"
else
	echo 'skipped: this host cannot limit the memory of your processes'
fi

title '5. A living sandbox: step two uses what step one made (examples/steps.sh has more)'
export FUMEHOOD_SERVER=unix:$out/server.sock
"$fumehood" serve --quiet --listen "$FUMEHOOD_SERVER" --state-dir "$out/state" "${run[@]:1}" &
server=$!
for _ in $(seq 200); do
	[ -S "$out/server.sock" ] && break
	sleep 0.05
done
show 0 create --name demo
show 0 run --in demo -c 'total = 6*7'
show 0 run --in demo -c 'print("step two has", total)'
show 0 rm demo

# needs_tun runs an example, or prints what it needs.
needs_tun() {
	if [ -n "$tun" ]; then
		echo "skipped: networks and packages need /dev/net/tun; $tun"
	else
		bash "$here/$1" "$fumehood"
	fi
}

title '6. A network that reaches only the named address (examples/network.sh)'
needs_tun network.sh

title '7. A web server in a sandbox, reached from outside (examples/ports.sh)'
bash "$here/ports.sh" "$fumehood"

title '8. A package that the code imports and this host lacks (examples/packages.sh)'
needs_tun packages.sh

title '9. The host is unchanged'
show 0 "${run[@]}" -c 'print(6*7)'

# layers prints the isolation layers of the default backend in a state.
layers() {
	awk -v state="$1" '
		/^[^ ]/ { seen++ }
		seen == 1 && $1 == state { sub(/^  [^ ]+ +/, ""); sub(/  .*/, ""); printf "%s%s", sep, $0; sep = ", " }
	' <<<"$doctor"
}
title 'Isolation on this host'
echo "enforced: $(layers enforced)"
weaker=$(layers partial)
missing=$(layers missing)
echo "partial:  ${weaker:-nothing}; missing: ${missing:-nothing}"
grep -E '^(not )?ready: ' <<<"$doctor"

title 'Next'
echo "  make install                 puts it on the PATH"
echo "  $fumehood doctor    has the details of this host, $fumehood --help the rest"
