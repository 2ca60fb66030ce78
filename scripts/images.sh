#!/usr/bin/env bash
# Attacks sandboxes of native and gvisor on an image: that of the tests' engines. Needs DOCKER_HOST.
#
#   scripts/images.sh FUMEHOOD
set -euo pipefail
cd "$(dirname "$0")/.."

fumehood=$(realpath "$1")
HOME=$(mktemp -d)
export HOME
trap 'rm -rf "$HOME"' EXIT
"$fumehood" image import docker:localhost/fumehood-test:latest --name base
for backend in native gvisor; do
  "$fumehood" verify --backend "$backend" --image base
done
