#!/usr/bin/env bash
# Runs the suites of test/vm/suites in a virtual machine with Debian's kernel, only cgroup v2, and systemd; as root and
# as ordinary users. qemu emulates the processor (TCG), so it needs no /dev/kvm and no privilege. `make test-vm` calls
# it.
#
#   test/vm/run.sh [SUITES]     runs another file instead of test/vm/suites
#
# VM_DEB=FILE is the deb for the tests of the service. Without it they are skipped.
#
# The disk is built once per version of image.sh and kept in the user's cache. A run writes to a snapshot of it.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly BOOT_AND_RUN_SECONDS=${VM_SECONDS:-3400} # bound on the whole life of the machine
readonly SUITE_TIMEOUT=${VM_SUITE_TIMEOUT:-20m}   # bound on one suite as one user; emulation is 10 to 20 times slower
readonly MEMORY=2G

suites=${1:-test/vm/suites}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fumehood/vm
go=${GO:-go}

die() {
  echo "test-vm: $*" >&2
  exit 1
}

# image puts root.img and vmlinuz into a directory named after the build script's digest, and removes older ones.
image() {
  local key dir old
  key=$(sha256sum test/vm/image.sh | cut -c1-16)
  dir=$cache/$key
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock -w 1200 9 || die "another build of the disk has held $cache/lock for 20 minutes"
  if [ ! -e "$dir/root.img" ]; then
    echo "test-vm: building the disk (once; kept in $cache)" >&2
    rm -rf "$dir.new"
    test/vm/image.sh "$dir.new" >&2 || die "the disk could not be built"
    for old in "$cache"/*/; do
      [ "$old" = "$dir.new/" ] || rm -rf "$old"
    done
    mv "$dir.new" "$dir"
  fi
  flock -u 9
  echo "$dir"
}

# payload packs the test binaries, their data and the programs that they start into a tar file, the second disk.
payload() {
  local tree=$1 tar=$2 package users flags binary
  mkdir -p "$tree/bin" "$tree/test/vm"
  CGO_ENABLED=0 "$go" build -trimpath -buildvcs=false -o "$tree/bin/fumehood-guest" ./cmd/fumehood-guest
  ln "$tree/bin/fumehood-guest" "$tree/bin/fumehood-guest-linux-amd64"
  cp internal/libexec/bin/fumehood-runsc-linux-amd64 "$tree/bin/"
  [ ! -x bin/fumehood ] || cp bin/fumehood "$tree/bin/"
  [ -z "${VM_DEB:-}" ] || cp "$VM_DEB" "$tree/test/vm/fumehood.deb"
  while read -r package users flags; do
    binary=$tree/$package/suite.test
    mkdir -p "$(dirname "$binary")"
    CGO_ENABLED=0 "$go" test -c -tags vm -o "$binary" "$package"
    [ -x "$binary" ] || die "$package has no tests"
    [ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$tree/$package/"
    printf '%s %s -test.timeout=%s %s\n' "$package" "$users" "$SUITE_TIMEOUT" "$flags" >>"$tree/test/vm/plan"
  done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$suites")
  cp test/vm/inside.sh "$tree/test/vm/"
  echo "$mark" >"$tree/test/vm/mark"
  tar -C "$tree" --owner=0 --group=0 --mode=go-w -cf "$tar" .
}

# boot runs the machine until it powers off. ttyS1 has the output of the suites, ttyS0 that of the kernel and systemd.
boot() {
  timeout --foreground --kill-after=10 "$BOOT_AND_RUN_SECONDS" \
    qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m "$MEMORY" \
    -display none -monitor none -nic none -no-reboot -kernel "$1/vmlinuz" \
    -append 'root=/dev/nvme0n1 rootwait rw console=ttyS0 quiet panic=-1 systemd.show_status=0' \
    -drive "if=none,id=root,format=raw,snapshot=on,file=$1/root.img" -device nvme,serial=root,drive=root \
    -drive "if=none,id=tests,format=raw,readonly=on,file=$work/tests.tar" -device nvme,serial=tests,drive=tests \
    -serial "file:$work/console" -serial "pipe:$work/out" </dev/null
}

[ "$(uname -m)" = x86_64 ] || die "the virtual machine requires x86_64"
command -v qemu-system-x86_64 >/dev/null || die "qemu-system-x86_64 is missing: run scripts/install-test-deps.sh --all"

work=$(mktemp -d "${TMPDIR:-/tmp}/fumehood-vm-run.XXXXXXXX")
trap 'rm -rf "$work"' EXIT
mark=fumehood-vm-exit-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')

started=$SECONDS
disk=$(image)
payload "$work/tree" "$work/tests.tar"
built=$SECONDS

mkfifo "$work/out.in" "$work/out.out"
tr -d '\r' <"$work/out.out" | tee "$work/transcript" | grep -a --line-buffered -v "^$mark" &
reader=$!
status=0
boot "$disk" || status=$?
wait "$reader" || true
echo "test-vm: $((built - started)) s to build, $((SECONDS - built)) s in the machine"

verdict=$(sed -n "s/^$mark //p" "$work/transcript")
[ "$verdict" = 0 ] && exit 0
mkdir -p build
cp "$work/console" build/vm-console.log
tail -n 40 "$work/console" | tr -d '\r'
console='build/vm-console.log has the console'
case $verdict in
'') die "the machine ended before the suites (status $status; 124 means after $BOOT_AND_RUN_SECONDS s); $console" ;;
*) die "$verdict suites failed; $console" ;;
esac
