# The functions of the driver of a context (internal/driver has the protocol). The code runs in the same shell, so that variables,
# functions, options and the folder stay. It may define a function of any name, so the driver calls builtins as such.
#
# A shell that ends (exit, set -e, set -u, an interrupt) cannot be held. Its EXIT trap replaces it, in the same process, by a new one that
# takes over variables, functions, aliases and options. Jobs stay children of the process, but the shell forgets their numbers.
#
# The channel is moved to 240 and 241, out of the way of exec 3>file. Children inherit it: closing it around the code would leave copies
# at descriptors from 10 on, which exec 10>file would destroy, and which the EXIT trap could not find.

__glovebox_start() {
  __glovebox_bash=$BASH __glovebox_loop=$BASH_EXECUTION_STRING
  __glovebox_check=${4-$1}
  builtin readonly __glovebox_check __glovebox_bash __glovebox_loop __glovebox_source
  builtin shopt -s extglob # before functions that need it are read
  if (( $# == 1 )); then
    builtin set --
    exec 240<&3 241>&4 3<&- 4>&- # builtin exec would undo it
  else
    __glovebox_id=$1 __glovebox_status=$2 __glovebox_trace=$3 __glovebox_message=$5
    builtin read -r -N 1000000000 -u 242 __glovebox_state # to the end of file
    exec 242<&-
    builtin set --
  fi
}

__glovebox_ready() {
  builtin unset -v __glovebox_state
  builtin trap '{ __glovebox_leave $?; builtin eval "$__glovebox_check"; } 2>/dev/null; __glovebox_exit' EXIT
  if [[ -n ${__glovebox_id-} ]]; then
    builtin trap __glovebox_interrupt INT
    __glovebox_done "$__glovebox_status" keep
  else
    builtin shopt -u extglob
    builtin printf 'ready %d\n%s' ${#BASH_VERSION} "$BASH_VERSION" >&241
  fi
}

__glovebox_interrupt() {
  [[ -z ${__glovebox_id-} ]] || builtin exit 130
}

# __glovebox_next waits for the next run, and answers other requests meanwhile.
__glovebox_next() {
  builtin local - LC_ALL=C IFS=' ' kind a b c id text cursor
  builtin set +eux
  __glovebox_id=
  builtin trap __glovebox_interrupt INT
  while [[ 1 ]]; do
    builtin read -r -u 240 kind a b c || __glovebox_end 0
    [[ $a$b$c != *[!0-9]* ]] || __glovebox_end 1
    case $kind in
      run)
        builtin read -r -N "$a" -u 240 id
        builtin read -r -N "$b" -u 240 __glovebox_code
        __glovebox_id=$id
        [[ -z $__glovebox_trace ]] || __glovebox_code="builtin set -x;$__glovebox_code"
        builtin return 0
        ;;
      complete)
        builtin read -r -N "$a" -u 240 id
        builtin read -r -N "$b" -u 240 text
        builtin read -r -N "$c" -u 240 cursor
        __glovebox_complete "$id" "${text:0:cursor}"
        ;;
      *) __glovebox_end 1 ;;
    esac
  done
}

__glovebox_end() {
  __glovebox_id=
  builtin exit "$1"
}

# __glovebox_own removes a function of the code that is named builtin. In POSIX mode unset is found before functions.
__glovebox_own() {
  __glovebox_probe=
  builtin printf -v __glovebox_probe 1
  [[ $__glovebox_probe != 1 ]] || builtin return 0
  POSIXLY_CORRECT=1
  unset -f builtin
  unset -v POSIXLY_CORRECT
} >/dev/null

# __glovebox_done reports the end of a run with its exit code, and before it the message of a syntax error.
__glovebox_done() {
  __glovebox_own
  case $- in
    *x*) builtin set +x; __glovebox_trace=1 ;;
    *) [[ -n ${2-} ]] || __glovebox_trace= ;;
  esac
  builtin local - LC_ALL=C IFS=' ' value "id=$__glovebox_id"
  builtin set +eu
  if [[ -n ${__glovebox_message-} ]]; then
    value=${__glovebox_message%%$'\n'*}
    value=${value#*syntax error}
    value=${value#"${value%%[!: ]*}"}
    builtin printf 'error %d 12 %d %d\n%s%s%s%s' ${#id} ${#value} ${#__glovebox_message} \
      "$id" 'syntax error' "$value" "$__glovebox_message" >&241
  fi
  __glovebox_id=
  builtin unset -v __glovebox_code __glovebox_message
  builtin printf 'done %d %d\n%s%s' ${#id} ${#1} "$id" "$1" >&241 || builtin exit 1
}

# __glovebox_leave keeps the status and the options of a shell that ends.
__glovebox_leave() {
  __glovebox_own
  __glovebox_status=$1
  __glovebox_set=$(builtin set +o) __glovebox_shopt=$(builtin shopt -p)
  case $- in *x*) __glovebox_trace=1 ;; *) __glovebox_trace= ;; esac
  case $- in *e*) __glovebox_set+=$'\nset -o errexit' ;; esac # command substitution has it off
  builtin set +eux
}

# __glovebox_exit is the rest of the EXIT trap. Without a run under way the driver ends.
__glovebox_exit() {
  if [[ -n ${__glovebox_at_exit-} ]]; then
    (__glovebox_return "$__glovebox_status"; builtin eval "$__glovebox_at_exit")
    __glovebox_at_exit=
  fi
  [[ -n $__glovebox_id ]] || builtin return
  builtin exec "$__glovebox_bash" -c "$__glovebox_loop" bash "$__glovebox_source" \
    "$__glovebox_id" "$__glovebox_status" "$__glovebox_trace" "$__glovebox_check" "${__glovebox_message:0:4096}" \
    242< <(__glovebox_dump 2>/dev/null)
}

__glovebox_return() { builtin return "$1"; }

# __glovebox_dump writes the state of the shell as code. Options are last: aliases and set -e would change how the rest is read.
__glovebox_dump() {
  builtin declare -f
  builtin declare -p
  builtin alias -p
  builtin printf '%s\n' "$__glovebox_shopt" "${__glovebox_set/set -o xtrace/}"
}

# trap keeps the code's own EXIT trap, as the driver needs the shell's. It runs when the shell would end.
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
      EXIT | exit | SIGEXIT | 0) __glovebox_at_exit=${action#-} ;;
      *) others+=("$name") ;;
    esac
  done
  (( ${#others[@]} == 0 )) || builtin trap -- "$action" "${others[@]}"
}

# __glovebox_complete answers with at most 60 names, as a frame has 64 fields.
__glovebox_complete() {
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
    [[ -z ${seen[$name]-} && $name != *__glovebox* ]] || builtin continue
    (( ${#seen[@]} < 60 && ${#name} < 1000 )) || builtin break
    seen[$name]=1 names+=$name sizes+=" ${#name}"
  done
  builtin printf 'matches %d %d%s\n%s%s%s' ${#id} ${#start} "$sizes" "$id" "$start" "$names" >&241
}
