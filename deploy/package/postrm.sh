#!/bin/sh
# dpkg calls it with "remove" or "purge", rpm with 0 or 1. Only a purge removes the state; rpm has no purge.
set -e

case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
rm -rf /run/fumehood-service /var/cache/fumehood
if rmdir /run/fumehood/instances 2>/dev/null; then # nothing of root runs
	rm -rf /run/fumehood
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/fumehood /etc/fumehood
	if getent passwd fumehood >/dev/null; then
		userdel fumehood # with its subordinate ids
	fi
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload
