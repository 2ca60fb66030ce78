# Runs steps one after another, each within a bound, and sums up what each took. To be sourced by bash.
#
#   step NAME SECONDS COMMAND...   runs the command for at most so many seconds; the status is the command's
#   steps_table FILE               one table of all steps; into the file as well, as Markdown
#   steps_verdicts NAME...         what go test said of each package in those steps, failures last
#   steps_failed                   the status is 0 where a step failed
#
# STEPS_DEADLINE, in seconds since 1970, bounds all steps together, those of scripts that a step starts included.
# shellcheck shell=bash

readonly KILL_SECONDS=20    # what a step that was told to end may take until it is killed
readonly TICK=0.2           # how often its output is looked at, in seconds
readonly SUMMARY_SECONDS=30 # what a script that is a step has left to sum up its own
steps=()

# log_of NAME is where the output of a step is.
log_of() { echo "build/steps/${1//[^a-zA-Z0-9]/-}.log"; }

# Bash keeps Ctrl-C from what it runs in the background, so the step in progress is ended by hand.
step_pid=
trap '[ -z "$step_pid" ] || kill "$step_pid" 2>/dev/null; exit 130' INT TERM

step() {
  local name=$1 bound=$2 begun=$SECONDS status=0 outcome=passed log
  shift 2
  if [ -n "${STEPS_DEADLINE:-}" ]; then
    local left=$((STEPS_DEADLINE - $(date +%s)))
    [ "$left" -ge "$bound" ] || bound=$left
  fi
  if [ "$bound" -le 0 ]; then
    printf '\n===== NOT RUN: %s: the time of all steps together is over\n' "$name"
    steps+=("$name|not run|0")
    return 1
  fi
  printf '\n===== %s (at most %d s)\n' "$name" "$bound"
  # The output goes through a file: whoever outlives the command and holds it open must not hold up the next step.
  mkdir -p build/steps
  log=$(log_of "$name")
  : >"$log" # it is there before tail looks for it
  ${STEPS_DEADLINE:+env STEPS_DEADLINE=$((STEPS_DEADLINE - SUMMARY_SECONDS))} \
    timeout --kill-after="$KILL_SECONDS" "$bound" "$@" </dev/null >"$log" 2>&1 &
  step_pid=$!
  tail -n +1 -s "$TICK" -f --pid="$step_pid" "$log"
  wait "$step_pid" || status=$?
  step_pid=
  case $status in
  0) ;;
  124 | 137) outcome="FAILED (over $bound s)" ;;
  *) outcome="FAILED ($status)" ;;
  esac
  steps+=("$name|$outcome|$((SECONDS - begun))")
  printf '===== %s: %s, %d s\n' "$name" "$outcome" $((SECONDS - begun))
  return "$status"
}

steps_table() {
  local row
  printf '\n%-28s %-22s %7s\n' step outcome seconds
  for row in "${steps[@]}"; do
    IFS='|' read -r name outcome seconds <<<"$row"
    printf '%-28s %-22s %7d\n' "$name" "$outcome" "$seconds"
  done
  printf '%-28s %-22s %7d\n' total '' "$SECONDS"
  {
    printf '| step | outcome | seconds |\n|---|---|---|\n'
    printf '%s\n' "${steps[@]}" | sed 's/|/ | /g; s/^/| /; s/$/ |/'
    printf '| total | | %d |\n' "$SECONDS"
  } >"$1"
}

steps_verdicts() {
  local name
  for name in "$@"; do cat "$(log_of "$name")" 2>/dev/null || true; done | grep -E '^(ok|FAIL|--- FAIL|panic:)' | sort -ru
}

steps_failed() { printf '%s\n' "${steps[@]}" | grep -qv '|passed|'; }
