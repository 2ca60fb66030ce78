#!/usr/bin/env bash
# Builds the virtual machine's disk and kernel: an ordinary Debian with systemd, on ext4, and Debian's own cloud kernel.
#
#   test/vm/image.sh DIRECTORY        leaves DIRECTORY/root.img and DIRECTORY/vmlinuz
#
# It needs no root if the user has subordinate ids: mmdebstrap then works in a user namespace. The kernel has NVMe and
# ext4 built in, so it needs no initramfs, in which pivot_root would fail.
set -euo pipefail

readonly SUITE=bookworm
readonly DISK_SIZE=2G      # sparse; the space of the tests
readonly BUILD_SECONDS=900 # bound on downloading and unpacking

# Parts of a Debian server that the tests need, and the sandboxes' interpreters.
PACKAGES=(
  systemd systemd-sysv           # init, and the owner of the cgroup tree
  dbus dbus-user-session         # to request a delegated scope from systemd
  libpam-systemd                 # a login gets a session and a user manager
  uidmap                         # newuidmap and newgidmap
  kmod                           # tun, overlay and fuse are modules
  iproute2 procps                # to find what a test left behind
  ca-certificates tzdata         # files that a generated /etc refers to
  bash python3 nodejs            # the languages
  podman crun                    # containers of an ordinary user, with the limits that cgroup v2 permits
)

out=${1:?usage: test/vm/image.sh DIRECTORY}

# in_chroot ROOT prepares the unpacked tree and writes the disk; mmdebstrap calls it as a hook, as the (mapped) root.
in_chroot() {
  local root=$1 kernel
  kernel=$(APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-cache depends linux-image-cloud-amd64 |
    awk '/Depends: linux-image/ {print $2; exit}')
  (cd "$VM_DROP" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -o APT::Sandbox::User=root download "$kernel")
  # Not directly into the tree: the package's lib/ would replace the link to usr/lib.
  dpkg -x "$VM_DROP"/linux-image-*.deb "$VM_DROP/kernel"
  cp -r "$VM_DROP/kernel/lib/modules" "$root/usr/lib/"
  mv "$VM_DROP"/kernel/boot/vmlinuz-* "$VM_DROP/vmlinuz"
  chroot "$root" depmod "${kernel#linux-image-}"
  rm -rf "$VM_DROP"/*.deb "$VM_DROP/kernel" "$root"/usr/share/{doc,man,locale,icons} "$root"/var/cache/apt/*

  echo fumehood-vm >"$root/etc/hostname"
  echo '127.0.0.1 localhost fumehood-vm' >"$root/etc/hosts"
  : >"$root/etc/resolv.conf"
  : >"$root/etc/machine-id"
  # Two ordinary users: one as made by adduser, with subordinate ids, and one without.
  chroot "$root" useradd --create-home --shell /bin/bash --uid 1000 tester
  chroot "$root" useradd --create-home --shell /bin/bash --uid 1001 plain
  printf 'tester:100000:65536\n' | tee "$root/etc/subuid" >"$root/etc/subgid"

  cat >"$root/etc/systemd/system/vm-tests.service" <<'UNIT'
[Unit]
Description=Runs what the second disk holds, then powers off
After=multi-user.target systemd-user-sessions.service dbus.socket
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStartPre=/bin/mkdir -p /opt/fumehood
ExecStartPre=/bin/tar -xf /dev/nvme1n1 -C /opt/fumehood
ExecStart=/bin/bash /opt/fumehood/test/vm/inside.sh
StandardOutput=file:/dev/ttyS1
StandardError=inherit

[Install]
WantedBy=default.target
UNIT
  systemctl --root="$root" -q enable vm-tests.service
  systemctl --root="$root" -q set-default multi-user.target
  # No timers and services that compete with the tests for two emulated processors.
  systemctl --root="$root" -q mask getty.target serial-getty@ttyS0.service systemd-timesyncd.service \
    systemd-update-utmp.service systemd-update-utmp-runlevel.service apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer man-db.timer motd-news.timer
  # mmdebstrap still has /proc and /sys mounted in there; a bind mount over the tree shows it without them.
  # shellcheck disable=SC2016
  unshare --mount sh -ec 'mount --bind "$1" "$1"; exec mkfs.ext4 -q -F -L root -d "$1" "$2" "$3"' \
    sh "$root" "$VM_DROP/root.img" "$DISK_SIZE" >/dev/null
}

if [ "${VM_IN_HOOK:-}" = yes ]; then
  in_chroot "$1"
  exit
fi

# The mapped root of a user namespace writes here, so it is open to all, below a folder that nobody else can list.
# It is below /tmp because that user may not be allowed to enter the caller's home directory.
hidden=$(mktemp -d /tmp/fumehood-vm.XXXXXXXX)
trap 'rm -rf "$hidden"' EXIT
chmod 0711 "$hidden"
VM_DROP=$(mktemp -d "$hidden/drop.XXXXXXXX")
chmod 0777 "$VM_DROP"
install -m 0755 "$0" "$hidden/hook"
export VM_DROP VM_IN_HOOK=yes TMPDIR=/tmp

include=$(IFS=,; echo "${PACKAGES[*]}")
# shellcheck disable=SC2016 # mmdebstrap's shell expands $1
timeout "$BUILD_SECONDS" mmdebstrap --quiet --mode=auto --variant=essential --format=null \
  --aptopt='Acquire::Retries "3"' --include="$include" --customize-hook="$hidden/hook"' "$1"' \
  "$SUITE" - ${FUMEHOOD_VM_MIRROR:+"$FUMEHOOD_VM_MIRROR"} </dev/null >/dev/null

mkdir -p "$out"
# Copied, not moved: the files belong to the mapped root.
cp --sparse=always "$VM_DROP/root.img" "$VM_DROP/vmlinuz" "$out/"
