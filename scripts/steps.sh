# Runs steps one after another, each with a time limit, and summarizes their times. Source it from bash.
#
#   step NAME SECONDS COMMAND...   runs the command with this time limit, and returns its status
#   steps_table FILE               prints a table of all steps, and writes it to the file as Markdown
#   steps_verdicts                 prints go test's result for each package in all steps, failures last
#   steps_failed                   returns 0 if a step failed or was not run
#
# STEPS_DEADLINE, in seconds since 1970, limits all steps together, including those of scripts that a step starts.
# shellcheck shell=bash

readonly KILL_SECONDS=20    # from a step's SIGTERM to its SIGKILL
readonly TICK=0.2           # seconds between reads of a step's output
readonly SUMMARY_SECONDS=30 # reserved for a script that is a step to summarize its own steps
steps=()                    # name|outcome|seconds
logs=()
step_pid=
tail_pid=

# Each script has its own folder, since one may be a step of another.
steps_folder=build/steps/$(basename "$0" .sh)

# Bash hides Ctrl-C from background commands, so end_step ends the running step.
end_step() {
  if [ -n "$step_pid" ]; then
    kill "$step_pid" 2>/dev/null
    wait "$step_pid"
  fi
  exit "$1"
}
trap 'end_step 130' INT
trap 'end_step 143' TERM

step() {
  local name=$1 bound=$2 begun=$SECONDS status=0 outcome=passed log
  shift 2
  if [ -n "${STEPS_DEADLINE:-}" ]; then
    local left=$((STEPS_DEADLINE - $(date +%s)))
    [ "$left" -ge "$bound" ] || bound=$left
  fi
  if [ "$bound" -le 0 ]; then
    printf '\n===== NOT RUN: %s: the time limit of all steps expired\n' "$name"
    steps+=("$name|not run|0")
    return 1
  fi
  printf '\n===== %s (at most %d s)\n' "$name" "$bound"
  # The output goes through a file: a process that outlives the command must not block the next step.
  mkdir -p "$steps_folder"
  log=$steps_folder/${name//[^a-zA-Z0-9]/-}.log
  logs+=("$log")
  : >"$log"
  ${STEPS_DEADLINE:+env STEPS_DEADLINE=$((STEPS_DEADLINE - SUMMARY_SECONDS))} \
    timeout --kill-after="$KILL_SECONDS" "$bound" "$@" </dev/null >"$log" 2>&1 &
  step_pid=$!
  tail -n +1 -s "$TICK" -f --pid="$step_pid" "$log" &
  tail_pid=$!
  wait "$step_pid" || status=$?
  step_pid=
  wait "$tail_pid" || true
  [ "$status" = 0 ] || outcome="FAILED ($status)"
  [ "$status" = 0 ] || [ $((SECONDS - begun)) -lt "$bound" ] || outcome="FAILED (over $bound s)"
  steps+=("$name|$outcome|$((SECONDS - begun))")
  printf '===== %s: %s, %d s\n' "$name" "$outcome" $((SECONDS - begun))
  return "$status"
}

steps_table() {
  local row name outcome seconds
  printf '| step | outcome | seconds |\n|---|---|---|\n' >"$1"
  printf '\n%-28s %-22s %7s\n' step outcome seconds
  for row in "${steps[@]}" "total| |$SECONDS"; do
    IFS='|' read -r name outcome seconds <<<"$row"
    printf '%-28s %-22s %7d\n' "$name" "$outcome" "$seconds"
    printf '| %s | %s | %d |\n' "$name" "$outcome" "$seconds" >>"$1"
  done
}

steps_verdicts() {
  local pattern
  [ ${#logs[@]} != 0 ] || return 0
  for pattern in '^ok ' '^(FAIL|--- FAIL|panic:)'; do
    cat "${logs[@]}" | grep -E "$pattern" | sort -u || true
  done
}

steps_failed() {
  local row
  for row in "${steps[@]}"; do
    [[ $row == *'|passed|'* ]] || return 0
  done
  return 1
}
