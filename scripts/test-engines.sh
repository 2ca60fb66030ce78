#!/usr/bin/env bash
# Runs Docker and Podman for the tests, each with its own socket, files and run folder, and one image: a Debian with the
# programs that tests use. They do not touch the machine's own engines. Requires root and writable control groups.
#
#   scripts/test-engines.sh start             starts both engines and loads the image, which is built once and kept
#   scripts/test-engines.sh with COMMAND...   starts them and runs the command with their addresses in its environment
#   scripts/test-engines.sh stop              stops both and removes their mounts
#   scripts/test-engines.sh status            reports which engines run; status 1 unless both do
set -euo pipefail
cd "$(dirname "$0")/.."

readonly DIR=$PWD/build/engines
readonly IMAGE=localhost/fumehood-test:latest
readonly SUITE=bookworm
PACKAGES=apt,python3,bash,procps,nodejs,python3-pip,npm,ca-certificates,curl,git,python3-requests,python3-aiohttp,tzdata
readonly PACKAGES
readonly START_SECONDS=30  # bound on an engine's first answer, and on its end
readonly BUILD_SECONDS=1200 # bound on building the image, on a busy host
readonly LOAD_SECONDS=120  # bound on loading it into an engine

# A unix address has 107 bytes.
if [ ${#DIR} -gt 90 ]; then
  echo "the path of this checkout is too long for a socket: $DIR" >&2
  exit 1
fi


# runs NAME reports whether the process of NAME.pid is alive and is the engine.
runs() {
  local pid
  pid=$(cat "$DIR/$1.pid" 2>/dev/null) && grep -q "$1" "/proc/$pid/cmdline" 2>/dev/null
}

answers() {
  curl --silent --fail --max-time 2 --unix-socket "$DIR/$1.sock" http://engine/_ping >/dev/null 2>&1
}

await() {
  local name=$1 tries
  for ((tries = START_SECONDS * 10; tries > 0; tries--)); do
    answers "$name" && return
    [ -d "/proc/$(cat "$DIR/$name.pid")" ] || break # it may not have executed the engine yet
    sleep 0.1
  done
  echo "the engine of $name does not answer; the end of its log:" >&2
  tail -n 20 "$DIR/$name.log" >&2
  exit 1
}

start_docker() {
  if runs docker && answers docker; then return; fi
  rm -f "$DIR/docker.sock" "$DIR/dockerd-own.pid"
  # No bridge and no rules: test containers have no network.
  setsid dockerd --host "unix://$DIR/docker.sock" --data-root "$DIR/docker/data" --exec-root "$DIR/docker/exec" \
    --pidfile "$DIR/dockerd-own.pid" \
    --bridge=none --iptables=false --ip-forward=false --ip-masq=false >"$DIR/docker.log" 2>&1 </dev/null &
  echo $! >"$DIR/docker.pid"
  await docker
}

start_podman() {
  if runs podman && answers podman; then return; fi
  rm -f "$DIR/podman.sock"
  # runc works with both engines; crun 1.8 refuses mixed control group versions.
  # Its conmon leaves a file named oom in its working directory.
  (cd "$DIR/podman" && exec setsid podman --root "$DIR/podman/root" --runroot "$DIR/podman/run" \
    --cgroup-manager cgroupfs --events-backend file --runtime runc \
    system service --time 0 "unix://$DIR/podman.sock") >"$DIR/podman.log" 2>&1 </dev/null &
  echo $! >"$DIR/podman.pid"
  await podman
}

# built reports whether the image was built with these packages.
built() { [ -s "$DIR/image.tar" ] && [ "$(cat "$DIR/image.packages" 2>/dev/null)" = "$PACKAGES" ]; }

build_image() {
  ! built || return 0
  echo "building the image of the tests"
  timeout --kill-after=10 "$BUILD_SECONDS" mmdebstrap --quiet --mode=auto --variant=essential --format=tar \
    --aptopt='Acquire::Retries "3"' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --include="$PACKAGES" \
    "$SUITE" "$DIR/image.tar.new" ${FUMEHOOD_TEST_MIRROR:+"$FUMEHOOD_TEST_MIRROR"} \
    </dev/null >"$DIR/image.log" 2>&1 ||
    { tail -n 20 "$DIR/image.log" >&2; exit 1; }
  mv "$DIR/image.tar.new" "$DIR/image.tar"
  echo "$PACKAGES" >"$DIR/image.packages"
}

# load NAME loads the image, unless the engine has it.
load() {
  local url=http://engine/v1.41 loaded=$DIR/$1.packages
  [ "$(cat "$loaded" 2>/dev/null)" = "$PACKAGES" ] &&
    curl --silent --fail --max-time 10 --unix-socket "$DIR/$1.sock" "$url/images/$IMAGE/json" >/dev/null 2>&1 && return
  build_image
  curl --silent --show-error --fail --max-time "$LOAD_SECONDS" --unix-socket "$DIR/$1.sock" \
    --header 'Content-Type: application/x-tar' --upload-file "$DIR/image.tar" \
    --request POST "$url/images/create?fromSrc=-&repo=${IMAGE%:*}&tag=${IMAGE#*:}" >/dev/null
  echo "$PACKAGES" >"$loaded"
}

end() {
  local name=$1 pid tries
  runs "$name" || return 0
  pid=$(cat "$DIR/$name.pid")
  kill "$pid"
  for ((tries = START_SECONDS * 10; tries > 0; tries--)); do
    [ -d "/proc/$pid" ] || break
    sleep 0.1
  done
  [ ! -d "/proc/$pid" ] || kill -9 "$pid"
  rm -f "$DIR/$name.pid" "$DIR/$name.sock"
}

# unmount removes the mounts that the engines left below their folders.
unmount() {
  local point
  awk -v dir="$DIR/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | tac |
    while read -r point; do umount -l "$point" || true; done
}

start() {
  if [ "$(id -u)" != 0 ]; then
    echo "the engines of the tests need root; without it the tests of docker and podman are skipped" >&2
    return
  fi
  mkdir -p "$DIR/docker" "$DIR/podman"
  start_docker
  start_podman
  load docker
  load podman
  echo "engines: $DIR/docker.sock, $DIR/podman.sock"
}

case "${1:-}" in
start) start ;;
with)
  start
  export BACKENDTEST_ENGINES=$DIR DOCKER_HOST=unix://$DIR/docker.sock CONTAINER_HOST=unix://$DIR/podman.sock
  "${@:2}"
  ;;
stop)
  end docker
  end podman
  unmount
  ;;
status)
  for name in docker podman; do
    answers "$name" || { echo "$name does not run"; exit 1; }
    echo "$name runs"
  done
  ;;
*)
  echo "usage: $0 start|with COMMAND...|stop|status" >&2
  exit 2
  ;;
esac
