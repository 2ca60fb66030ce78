#!/bin/bash
# Installs bin/fumehood into a folder, or prints the command that does it as root.
set -eu
bin=$1
target=$bin/fumehood

above=$bin
until [ -e "$above" ]; do above=$(dirname "$above"); done
if [ ! -w "$above" ]; then
	echo "error: no permission to write to $above" >&2
	echo "fix: sudo install -D -m 755 bin/fumehood $target" >&2
	exit 1
fi
install -D -m 755 bin/fumehood "$target"
echo "installed $target"
case ":$PATH:" in
*":$bin:"*) echo 'it is on the PATH; next: fumehood doctor' ;;
*) echo "it is not on the PATH; next: export PATH=\"$bin:\$PATH\"" ;;
esac
