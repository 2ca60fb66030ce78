#!/usr/bin/env bash
# Installs the missing packages that the tests need, on Debian 12, Ubuntu 24.04 or newer.
#
#   scripts/install-test-deps.sh [--all]            installs as root or through sudo -n, or prints the command to run
#   scripts/install-test-deps.sh --check [--all]    only lists missing packages; status 1 if any
#
# --all adds the packages for `make check` and `make bench`: engines, a virtual machine, peers to compare with.
set -euo pipefail

readonly ATTEMPTS=3         # a failed download often succeeds the next time
readonly APT_SECONDS=600    # bound on one attempt
readonly UPDATE_SECONDS=180 # bound on one refresh of the lists

# package # its use
PACKAGES=(
  ca-certificates # the certificates that sandboxes see
  bash python3    # languages of the sandbox
  python3-venv    # the Python client
  python3-numpy   # native code, threads and much memory in ordinary programs
  gcc libc6-dev   # the race detector, and C in a sandbox
  perl            # a language of the sandbox
  iproute2 curl   # the internet of the network's tests, and a client of it
  procps          # ps and pgrep find leftover processes
  uidmap          # subordinate ids for an ordinary user
  shellcheck      # scripts
)
command -v node >/dev/null || PACKAGES+=(nodejs) # any Node on PATH will do
command -v npm >/dev/null || PACKAGES+=(npm)     # the TypeScript client

check='' all=''
for flag in "$@"; do
  case $flag in
  --check) check=1 ;;
  --all) all=1 ;;
  *) echo "usage: $0 [--check] [--all]" >&2 && exit 2 ;;
  esac
done
if [ -n "$all" ]; then
  PACKAGES+=(
    bubblewrap slirp4netns # the peers that benchmarks compare with
    redis-server # packages that machines share; the tests start their own

    # The other languages of the sandbox.
    g++ golang rustc ruby php-cli lua5.4 r-base-core default-jdk-headless

    # For scripts/test-engines.sh; their services are not used, nor started in a container.
    docker.io podman runc

    musl-tools # programs of an image with another C library

    chromium # the dashboard

    # Programs that use the network in sandboxes.
    git python3-pip python3-requests python3-aiohttp

    # The virtual machine of `make test-vm`.
    qemu-system-x86 mmdebstrap e2fsprogs
  )
  grep -q '^ID=debian$' /etc/os-release || PACKAGES+=(debian-archive-keyring) # the virtual machine is a Debian
fi

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

try() {
  local seconds=$1 attempt
  shift
  for attempt in $(seq "$ATTEMPTS"); do
    timeout --kill-after=10 "$seconds" "$@" </dev/null && return
    echo "attempt $attempt of $ATTEMPTS failed: $*" >&2
    sleep $((attempt * 2))
  done
  return 1
}

if ! command -v apt-get >/dev/null; then
  echo "This is not Debian or Ubuntu. Install the equivalent of these packages: ${PACKAGES[*]}" >&2
  exit 1
fi

missing=()
for package in "${PACKAGES[@]}"; do
  installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "all packages for the tests are installed"
  exit 0
fi

if [ -n "$check" ]; then
  echo "missing: ${missing[*]}"
  exit 1
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo 'The tests need a few packages. Run this once:' >&2
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi

echo "installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3)
# A stale package list may still suffice; the installation decides.
try "$UPDATE_SECONDS" "${apt[@]}" update || true
try "$APT_SECONDS" "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
