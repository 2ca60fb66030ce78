#!/usr/bin/env bash
# Installs the deb of a release in a bare Debian root, uses it, and removes it without a trace. Then it installs and
# removes the rpm, installs the wheel, and runs the Python example of the README. Only root can run it.
#
#   test/release/root.sh RELEASE
#
# The root is built once per version of this script and kept in the user's cache.
set -euo pipefail

readonly SUITE=bookworm BUILD_SECONDS=900
readonly PACKAGES=uidmap,python3-venv,man-db,bash-completion,rpm

readonly as_service=(setpriv --reuid fumehood --regid fumehood --clear-groups
  env HOME=/var/lib/fumehood XDG_RUNTIME_DIR=/run/fumehood-service)

# inside runs a command in the root, in new mount and pid namespaces.
inside() {
  local before after
  before=$(inventory)
  dpkg -i /release/fumehood_*_amd64.deb
  fumehood version
  getent passwd fumehood
  grep '^fumehood:' /etc/subuid /etc/subgid
  man -w fumehood-serve
  grep -q __start_fumehood /usr/share/bash-completion/completions/fumehood

  echo '== a sandbox of the service user'
  for folder in /run/fumehood-service /var/lib/fumehood; do # as systemd does
    mkdir -m 700 "$folder" && chown fumehood: "$folder"
  done
  # This host may delegate no control groups. The virtual machine tests the limits.
  "${as_service[@]}" fumehood run --allow-unenforced memory,pids,cpus -c 'import os; print(6 * 7, os.getuid())' |
    tee /tmp/out
  grep -qx '42 1000' /tmp/out
  rm /tmp/out

  echo '== the dashboard and a run of the service user'
  "${as_service[@]}" fumehood serve --listen 127.0.0.1:7071 --allow-unenforced memory,pids,cpus &
  local server=$! url=http://127.0.0.1:7071
  timeout 60 sh -c "until python3 -c 'import urllib.request as u; u.urlopen(\"$url/readyz\")'; do sleep 1; done" \
    2>/dev/null
  python3 - "$url" <<'END'
import json, sys, urllib.request as u

url = sys.argv[1]
page = u.urlopen(url + "/").read().decode()
assert "<title>Fumehood" in page, page[:500]
run = u.Request(url + "/v1/run", json.dumps({"language": "python", "code": "print(6 * 7)"}).encode(),
                {"Content-Type": "application/json"})
answer = json.load(u.urlopen(run))
assert answer["stdout"] == "42\n", answer
END
  kill "$server" && wait "$server"

  echo '== verify'
  fumehood verify --backend native --quiet

  echo '== the same version again, then removal'
  dpkg -i /release/fumehood_*_amd64.deb
  [ "$(grep -c '^fumehood:' /etc/subuid)" = 1 ]
  dpkg --purge fumehood
  after=$(inventory)
  diff <(echo "$before") <(echo "$after")
  echo 'removed without a trace'

  echo '== the rpm'
  rpm --checksig /release/fumehood-*.x86_64.rpm
  rpm --install --nodeps /release/fumehood-*.x86_64.rpm # no rpm provides what it depends on here
  rpm --verify --nodeps fumehood
  getent passwd fumehood
  fumehood version
  rpm --query --list fumehood >/tmp/files
  rpm --erase fumehood
  while read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || { echo "left: $file" >&2 && exit 1; }
  done </tmp/files
  rm /tmp/files

  echo '== the wheel'
  ls /release/wheels
  python3 -m venv /tmp/venv
  /tmp/venv/bin/pip install --quiet --no-index --find-links /release/wheels fumehood
  cd /tmp
  PATH=/tmp/venv/bin:$PATH python /release/example.py | tee /tmp/out
  grep -q 42 /tmp/out
}

# inventory lists all files with mode, owner and digest, except what dpkg and shadow keep of former versions.
inventory() {
  find / -xdev \( -path /proc -o -path /release -o -path /var/lib/dpkg -o -path /var/log -o -path '/etc/*-' \
    -o -path /var/cache -o -path /root/.cache \) -prune -o -printf '%p %M %u:%g %l\n' | sort
  sha256sum /etc/passwd /etc/group /etc/shadow /etc/gshadow /etc/subuid /etc/subgid
}

if [ "$1" = --inside ]; then
  inside
  exit
fi

release=$(realpath "$1") script=$(realpath "$0")
cd "$(dirname "$0")/../.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fumehood/release
key=$(grep -E '^readonly' "$script" | sha256sum | cut -c1-16)
mkdir -p "$cache"
if [ ! -e "$cache/$key.tar" ]; then
  timeout "$BUILD_SECONDS" mmdebstrap --quiet --variant=minbase --include="$PACKAGES" --aptopt='Acquire::Retries "3"' \
    "$SUITE" "$cache/$key.new.tar" ${FUMEHOOD_VM_MIRROR:+"$FUMEHOOD_VM_MIRROR"} </dev/null
  mv "$cache/$key.new.tar" "$cache/$key.tar"
fi

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
tar -C "$root" -xf "$cache/$key.tar" --exclude=./dev/\*
mkdir -p "$root/release/wheels"
python3 -m pip download --quiet --dest "$root/release/wheels" httpx==0.28.1
cp "$release"/fumehood-*-py3-none-manylinux*x86_64*.whl "$root/release/wheels/"
# shellcheck disable=SC2016 # backquotes of Markdown
sed -n '/^from fumehood import Sandbox$/,/^```$/ { /^```$/ !p }' README.md >"$root/release/example.py"
cp "$release"/fumehood_*_amd64.deb "$release"/fumehood-*.x86_64.rpm "$root/release/"
cp "$script" "$root/release/test"
# Not chroot: the kernel refuses user namespaces there.
# shellcheck disable=SC2016 # the inner shell expands $1
unshare --mount --pid --fork --propagation private sh -euc '
  mount --bind "$1" "$1"
  mount --rbind /dev "$1/dev"
  mount --rbind /sys "$1/sys"
  cd "$1"
  mount -t proc proc proc # of the new pid namespace
  mkdir old
  pivot_root . old
  umount -l /old
  rmdir /old
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash /release/test --inside' sh "$root"
