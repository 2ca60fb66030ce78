#!/bin/sh
# dpkg calls it with "remove" or "upgrade", rpm with 0 or 1. An upgrade leaves the server running.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now --quiet fumehood.service || true
# All sandboxes are in scopes of this user's manager.
loginctl disable-linger fumehood || true
systemctl stop "user@$(id -u fumehood).service" || true
