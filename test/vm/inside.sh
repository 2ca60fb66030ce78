#!/usr/bin/env bash
# Runs every suite of the plan as each of its users. vm-tests.service starts it in the virtual machine, as root. The
# last line is the mark that run.sh waits for, with the number of failed suites.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
here=$PWD
failed=0

# as USER COMMAND... runs the command as root within a service, or as an ordinary user within a login session.
as() {
  local user=$1
  local -a session=()
  shift
  [ "$user" = root ] || session=(--uid="$user" --property=PAMName=login)
  systemd-run --quiet --wait --pipe --collect "${session[@]}" --property=Delegate=yes --working-directory="$PWD" \
    --setenv=LANG=C.UTF-8 --setenv=FUMEHOOD_VM_USER="$user" --setenv=BACKENDTEST_REQUIRE=native,limits,gvisor \
    --setenv=FUMEHOOD_LIBEXEC="$here/bin" -- "$@"
}

# report PACKAGE USER STATUS SECONDS prints the skips and a line of a passing suite, and the whole log of a failing one.
report() {
  local package=$1 user=$2 status=$3 seconds=$4 passed skipped
  passed=$(grep -c '^--- PASS' "$log")
  skipped=$(grep -c '^ *--- SKIP' "$log")
  if [ "$status" = 0 ] && [ "$passed" = 0 ]; then
    echo "no test of $package ran as $user"
    status=1
  fi
  if [ "$status" = 0 ]; then
    grep -B 2 '^ *--- SKIP' "$log"
    echo "ok    $package as $user: $passed passed, $skipped skipped, $seconds s"
    return
  fi
  cat "$log"
  echo "FAIL  $package as $user: status $status, $seconds s"
  failed=$((failed + 1))
}

modprobe -a tun overlay fuse
log=/var/tmp/suite.log
while read -r -u 3 package users flags; do
  cd "$here/$package" || exit 1
  for user in ${users//,/ }; do
    started=$SECONDS
    echo "run   $package as $user"
    # shellcheck disable=SC2086 # flags are words
    as "$user" ./suite.test -test.v $flags </dev/null >"$log" 2>&1
    report "$package" "$user" $? $((SECONDS - started))
  done
done 3<"$here/test/vm/plan"
echo "$(cat "$here/test/vm/mark") $failed"
