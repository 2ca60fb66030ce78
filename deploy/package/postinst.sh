#!/bin/sh
# dpkg calls it with "configure", rpm with a number.
set -e

case "$1" in
configure | [0-9]*) ;;
*) exit 0 ;;
esac

if ! getent passwd fumehood >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/fumehood --no-create-home --shell /usr/sbin/nologin \
		--comment 'Fumehood sandboxes' fumehood
fi
# Sandboxes run under subordinate ids, above every range that is assigned.
for kind in uid gid; do
	file=/etc/sub$kind
	[ -e "$file" ] || install -m 644 /dev/null "$file"
	grep -q '^fumehood:' "$file" && continue
	first=$(awk -F: 'BEGIN { next_id = 524288 } $2 + $3 > next_id { next_id = $2 + $3 } END { print next_id }' "$file")
	usermod "--add-sub${kind}s" "$first-$((first + 65535))" fumehood
done

# The settings may have a password. The package cannot have this group, which is made only now.
settings=/etc/fumehood/fumehood.toml
if [ -f "$settings" ] && [ "$(stat -c %G:%a "$settings")" = root:644 ]; then
	chgrp fumehood "$settings"
	chmod 640 "$settings"
fi

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if systemctl is-active --quiet fumehood.service; then
	systemctl restart fumehood.service # an upgrade; living sandboxes survive it
fi
