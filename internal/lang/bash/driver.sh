# The functions of the driver of a context (internal/driver specifies the protocol). The code runs in the same shell, so
# that variables, functions, options and the working folder persist. It may define a function of any name, so the driver
# calls builtins explicitly.
#
# A shell that ends (exit, set -e, set -u, an interrupt) cannot be stopped. Its EXIT trap replaces it, in the same
# process, by a new shell that restores variables, functions, aliases and options. Jobs remain children of the process,
# but lose their numbers.
#
# The channel moves to descriptors 240 and 241, because code often uses low ones (exec 3>file). Children inherit it.
# Closing it around the code would leave copies at descriptors from 10 on, which exec 10>file would destroy, and the
# EXIT trap would not find them.

__fumehood_start() {
  __fumehood_bash=$BASH __fumehood_loop=$BASH_EXECUTION_STRING
  __fumehood_check=${4-$1}
  builtin readonly __fumehood_check __fumehood_bash __fumehood_loop __fumehood_source
  builtin shopt -s extglob # needed to parse functions below
  if (( $# == 1 )); then
    builtin set --
    exec 240<&3 241>&4 3<&- 4>&- 5>&- # builtin exec would undo it
  else
    __fumehood_id=$1 __fumehood_status=$2 __fumehood_trace=$3 __fumehood_message=$5
    builtin read -r -N 1000000000 -u 242 __fumehood_state # to the end of file
    exec 242<&-
    builtin set --
  fi
}

__fumehood_ready() {
  builtin unset -v __fumehood_state
  builtin trap '{ __fumehood_leave $?; builtin eval "$__fumehood_check"; } 2>/dev/null; __fumehood_exit' EXIT
  if [[ -n ${__fumehood_id-} ]]; then
    builtin trap __fumehood_interrupt INT
    __fumehood_done "$__fumehood_status" keep
  else
    builtin shopt -u extglob
    builtin printf 'ready %d\n%s' ${#BASH_VERSION} "$BASH_VERSION" >&241
  fi
}

__fumehood_interrupt() {
  [[ -z ${__fumehood_id-} ]] || builtin exit 130
}

# __fumehood_next waits for the next run, and answers other requests in between.
__fumehood_next() {
  builtin local - LC_ALL=C IFS=' ' kind a b c id text cursor
  builtin set +eux
  __fumehood_id=
  __fumehood_pairs=()
  builtin trap __fumehood_interrupt INT
  while [[ 1 ]]; do
    builtin read -r -u 240 kind a b c || __fumehood_end 0
    [[ $a$b$c != *[!0-9\ ]* ]] || __fumehood_end 1
    case $kind in
      run)
        builtin read -r -N "$a" -u 240 id
        builtin read -r -N "$b" -u 240 __fumehood_code
        for cursor in $c; do
          builtin read -r -N "$cursor" -u 240 text
          __fumehood_pairs+=("$text")
        done
        __fumehood_id=$id
        [[ -z $__fumehood_trace ]] || __fumehood_code="builtin set -x;$__fumehood_code"
        builtin return 0
        ;;
      complete)
        builtin read -r -N "$a" -u 240 id
        builtin read -r -N "$b" -u 240 text
        builtin read -r -N "$c" -u 240 cursor
        __fumehood_complete "$id" "${text:0:cursor}"
        ;;
      *) __fumehood_end 1 ;;
    esac
  done
}

# __fumehood_enter sets the variables of a run, and keeps the code that restores those of before. It has no local
# variables, as they would hide those of the code.
__fumehood_enter() {
  builtin local -
  builtin set +eux
  __fumehood_restore=
  for ((__fumehood_at = 0; __fumehood_at < ${#__fumehood_pairs[@]}; __fumehood_at += 2)); do
    __fumehood_name=${__fumehood_pairs[__fumehood_at]}
    __fumehood_before=$(builtin declare -p -- "$__fumehood_name" 2>/dev/null) ||
      __fumehood_before="builtin unset -v $__fumehood_name"
    __fumehood_restore+=${__fumehood_before/#declare/builtin declare -g}$'\n'
    builtin export "$__fumehood_name=${__fumehood_pairs[__fumehood_at + 1]}"
  done
  builtin unset -v __fumehood_pairs __fumehood_at __fumehood_name __fumehood_before
}

__fumehood_end() {
  __fumehood_id=
  builtin exit "$1"
}

# __fumehood_own removes a function of the code that is named builtin. In POSIX mode unset is found before functions.
__fumehood_own() {
  __fumehood_probe=
  builtin printf -v __fumehood_probe 1
  [[ $__fumehood_probe != 1 ]] || builtin return 0
  POSIXLY_CORRECT=1
  unset -f builtin
  unset -v POSIXLY_CORRECT
} >/dev/null

# __fumehood_done reports the end of a run with its exit code, and before it the message of a syntax error.
__fumehood_done() {
  __fumehood_own
  [[ -z ${__fumehood_restore-} ]] || builtin eval "$__fumehood_restore"
  builtin unset -v __fumehood_restore
  case $- in
    *x*) builtin set +x; __fumehood_trace=1 ;;
    *) [[ -n ${2-} ]] || __fumehood_trace= ;;
  esac
  builtin local - LC_ALL=C IFS=' ' value "id=$__fumehood_id"
  builtin set +eu
  if [[ -n ${__fumehood_message-} ]]; then
    value=${__fumehood_message%%$'\n'*}
    value=${value#*syntax error}
    value=${value#"${value%%[!: ]*}"}
    builtin printf 'error %d 12 %d %d\n%s%s%s%s' ${#id} ${#value} ${#__fumehood_message} \
      "$id" 'syntax error' "$value" "$__fumehood_message" >&241
  fi
  __fumehood_id=
  builtin unset -v __fumehood_code __fumehood_message
  builtin printf 'done %d %d\n%s%s' ${#id} ${#1} "$id" "$1" >&241 || builtin exit 1
}

# __fumehood_leave keeps the status and the options of a shell that ends.
__fumehood_leave() {
  __fumehood_own
  __fumehood_status=$1
  __fumehood_set=$(builtin set +o) __fumehood_shopt=$(builtin shopt -p)
  case $- in *x*) __fumehood_trace=1 ;; *) __fumehood_trace= ;; esac
  case $- in *e*) __fumehood_set+=$'\nset -o errexit' ;; esac # command substitution has it off
  builtin set +eux
}

# __fumehood_exit is the rest of the EXIT trap. Without a current run, the driver ends.
__fumehood_exit() {
  if [[ -n ${__fumehood_at_exit-} ]]; then
    (__fumehood_return "$__fumehood_status"; builtin eval "$__fumehood_at_exit")
    __fumehood_at_exit=
  fi
  [[ -n $__fumehood_id ]] || builtin return
  builtin exec "$__fumehood_bash" -c "$__fumehood_loop" bash "$__fumehood_source" \
    "$__fumehood_id" "$__fumehood_status" "$__fumehood_trace" "$__fumehood_check" "${__fumehood_message:0:4096}" \
    242< <(__fumehood_dump 2>/dev/null)
}

__fumehood_return() { builtin return "$1"; }

# __fumehood_dump prints the state of the shell as code. Options are last: set -e and aliases affect the rest.
__fumehood_dump() {
  builtin declare -f
  builtin declare -p
  builtin alias -p
  builtin printf '%s\n' "$__fumehood_shopt" "${__fumehood_set/set -o xtrace/}"
}

# trap stores the EXIT trap of the code, because the driver uses that of the shell. It runs when the shell would end.
trap() {
  if (( BASH_SUBSHELL > 0 || $# < 2 )) || [[ $1 == -[lp]* ]]; then
    builtin trap "$@"
    builtin return
  fi
  [[ $1 != -- ]] || shift
  builtin local "action=$1" name
  builtin local -a others
  others=()
  builtin shift
  for name; do
    case $name in
      EXIT | exit | SIGEXIT | 0) __fumehood_at_exit=${action#-} ;;
      *) others+=("$name") ;;
    esac
  done
  (( ${#others[@]} == 0 )) || builtin trap -- "$action" "${others[@]}"
}

# __fumehood_complete answers with at most 60 names, as a frame has 64 fields.
__fumehood_complete() {
  builtin local "id=$1" "before=$2" word sizes= names= name start IFS=$'\n'
  builtin local -A seen
  seen=()
  word=${before##*[$' \t\n;|&()<>=`"\'']}
  start=$(( ${#before} - ${#word} ))
  before=${before:0:start}
  before=${before%"${before##*[!$' \t']}"}
  case $word in
    '$'*) start=$((start + 1)) word=${word#?} name=$(builtin compgen -v -- "$word") ;;
    *)
      case $before in
        '' | *[$';|&(\n']) name=$(builtin compgen -c -- "$word"; builtin compgen -f -- "$word") ;;
        *) name=$(builtin compgen -f -- "$word") ;;
      esac
      ;;
  esac
  builtin set -f
  for name in $name; do
    [[ -z ${seen[$name]-} && $name != *__fumehood* ]] || builtin continue
    (( ${#seen[@]} < 60 && ${#name} < 1000 )) || builtin break
    seen[$name]=1 names+=$name sizes+=" ${#name}"
  done
  builtin printf 'matches %d %d%s\n%s%s%s' ${#id} ${#start} "$sizes" "$id" "$start" "$names" >&241
}
