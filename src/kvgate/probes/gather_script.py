"""The sh script that asks a host many commands in one channel, and frames each answer.

Answers come as they end, each behind a header of the run's own random word with the lengths of
what follows, each part on lines of its own: no output can be taken for another's frame, nor read
together with another's. POSIX sh (dash, bash, busybox); beyond
POSIX it relies on Linux's /proc/uptime and on ``head -c``, as the leash does.

A command that hangs gets TERM at its time-out, KILL `GRACE_S` later, and is given up after as
much again: one in an uninterruptible sleep (a dead drive) holds up nothing but its place. The
``timeout`` of coreutils is not used: it moves the command to a process group that the leash can't
reach.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from kvgate.probes.base import Command

AT_ONCE = 8
"""How many commands run side by side."""

GRACE_S = 2
"""How long a command that is over its time has between TERM, KILL and being given up."""

HELD_BYTES = 2**20
"""How much of what is told already may lie on the host before it is removed."""

BLOCK = 512
"""The unit of POSIX ``ulimit -f``, bytes."""

# Positional: none. Words put in: token, stop (seconds after which nothing new is begun), commands.
# - main reads its own fifo: numbers of jobs that ended, and a tick a second. It never waits for a
#   job, whose pid can thus not have been given to another process when it is signalled.
# - A job is the parent of its command, and the only one to signal that.
# - Nothing but main has stdout; nothing reads stdin, which the script itself comes by.
# - `ulimit -f` stops a command one block over its cap, so that too much can be told from enough.
_HEAD = r"""# shellcheck disable=SC2016  # scripts among the words of commands are quoted on purpose
set -u
LC_ALL=C; export LC_ALL
token={token}
now() {{ read -r clock rest </proc/uptime; }}

job() {{ # number index blocks value command…
  number=$1 index=$2 blocks=$3 value=$4 command='' late=0
  shift 4
  trap 'late=1; [ -z "$command" ] || kill -TERM "$command"' TERM
  trap '[ -z "$command" ] || kill -KILL "$command"' USR1
  now; began=$clock
  echo "$value" >"$dir/$number.out"
  ( ulimit -f "$blocks" 2>/dev/null; exec "$@" ) >>"$dir/$number.out" 2>"$dir/$number.err" 3>&- &
  command=$!
  wait "$command"; status=$?
  while [ "$status" -gt 128 ] && kill -0 "$command"; do
    wait "$command"; again=$?
    [ "$again" -ne 127 ] || break
    status=$again
  done
  command=''
  now
  cd "$dir" || exit
  # shellcheck disable=SC2046  # two lengths, each before a name of digits, and their sum
  set -- $(wc -c "$number.out" "$number.err")
  echo "$index ${{#value}} $status $began $clock $late $(($1 - ${{#value}} - 1)) $3" >"$number.end"
  echo "$number" >&3
}}

ask() {{ # index seconds blocks value command…
  now
  [ "${{clock%.*}}" -lt "$stop" ] || return 0
  while [ "$active" -ge {at_once} ]; do step; done
  now
  asked=$((asked + 1)) active=$((active + 1))
  index=$1 due=$((${{clock%.*}} + $2 + 1)) blocks=$3 value=$4
  shift 4
  job "$asked" "$index" "$blocks" "$value" "$@" </dev/null >/dev/null 2>&1 &
  running="$running $asked:$!:$due:$index:${{#value}}:$clock"
}}

step() {{ # takes the next word of the fifo
  read -r word <&3 || exit 74
  now
  left=''
  for each in $running; do
    number=${{each%%:*}} rest=${{each#*:}}
    job=${{rest%%:*}} rest=${{rest#*:}}
    due=${{rest%%:*}} rest=${{rest#*:}}
    over=$((${{clock%.*}} - due))
    if [ "$number" = "$word" ]; then
      frame "$number"
      continue
    elif [ "$word" = tick ] && [ "$over" -ge {given_up} ]; then
      given_up "$number" "$rest"
      continue
    elif [ "$word" = tick ] && [ "$over" -ge {grace} ]; then
      kill -USR1 "$job" 2>/dev/null
    elif [ "$word" = tick ] && [ "$over" -ge 0 ]; then
      kill -TERM "$job" 2>/dev/null
    fi
    left="$left $each"
  done
  running=$left
}}

frame() {{ # number
  read -r header <"$dir/$1.end"
  echo "$token $header"
  rest=${{header#* }} out=${{header% *}} err=${{header##* }}
  out=$((${{out##* }} + ${{rest%% *}} + 1))  # with the value and its line's end before it
  head -c "$out" "$dir/$1.out"
  echo
  [ "$err" = 0 ] || head -c "$err" "$dir/$1.err"
  echo
  ended="$ended $1.end $1.out $1.err" held=$((held + out + err)) active=$((active - 1))
  [ "$held" -lt {held} ] || sweep
}}

sweep() {{ # removes what is told, many files at once
  # shellcheck disable=SC2086  # names of digits
  (cd "$dir" && exec rm -f $ended)
  ended='' held=0
}}

given_up() {{ # number index:length:began
  index=${{2%%:*}} rest=${{2#*:}}
  echo "$token $index ${{rest%%:*}} - ${{rest#*:}} $clock 1 0 0"
  head -c $((${{rest%%:*}} + 1)) "$dir/$1.out"
  printf '\n\n'
  active=$((active - 1))
}}

# shellcheck disable=SC2317  # it is called, by a trap
gone() {{ # a job that is being ended may still write into the folder while it is removed
  for _ in 1 2 3 4 5; do
    rm -rf "$dir" 2>/dev/null
    [ -e "$dir" ] || return 0
  done
  sleep 1
  rm -rf "$dir"
}}

main() {{
  [ -r /proc/uptime ] || {{
    echo 'kvgate: /proc/uptime is not there: is /proc mounted?' >&2
    exit 69
  }}
  umask 077
  dir=''
  for folder in "${{TMPDIR:-/tmp}}" /dev/shm /var/tmp; do
    dir=$folder/kvgate-facts-$token
    mkdir "$dir" 2>/dev/null && break
    dir=''
  done
  [ -n "$dir" ] || {{
    echo 'kvgate: no folder can be made in /tmp, /dev/shm or /var/tmp' >&2
    exit 73
  }}
  trap gone EXIT
  trap 'exit 143' HUP INT TERM
  mkfifo "$dir/fifo" || exit 73
  exec 3<>"$dir/fifo"
  active=0 asked=0 running='' ended='' held=0
  now; stop=$((${{clock%.*}} + {stop}))
  echo "$token begin $clock"
  {{ while sleep 1; do echo tick >&3; done; }} </dev/null >/dev/null 2>&1 &
  ticker=$!
"""
_TAIL = r"""
  while [ "$active" -gt 0 ]; do step; done
  kill "$ticker" 2>/dev/null
  echo "$token end $asked"
}}
main </dev/null
exit
"""


def script(commands: Sequence[Command], token: str, *, stop_s: float = 60.0) -> bytes:
    """Return the script that asks `commands`, given to ``sh -s`` by stdin.

    `token` is the word of this run (letters and digits). After `stop_s` nothing new is begun.
    Those that may take longest are begun first, so that none of them is waited for alone.
    What the words of a command hold reaches the shell quoted; globs of ``each`` do as they are.
    """
    words = {
        "token": token,
        "at_once": AT_ONCE,
        "grace": GRACE_S,
        "given_up": 2 * GRACE_S,
        "held": HELD_BYTES,
        "stop": math.ceil(stop_s),
    }
    slow_first = sorted(enumerate(commands), key=lambda each: -each[1].timeout_s)
    asked = [f"  {_asked(index, command)}" for index, command in slow_first]
    whole = _HEAD.format(**words) + "\n".join(asked) + _TAIL.format()
    return whole.encode("utf-8", "surrogateescape")


def _asked(index: int, command: Command) -> str:
    """Return the line that asks a command, or one a file that is there."""
    blocks = math.ceil(command.cap_bytes / BLOCK) + 1
    head = f"ask {index} {math.ceil(command.timeout_s)} {blocks}"
    if not command.each:
        return f"{head} '' {shlex.join(command.argv)}"
    words = " ".join(_filled(word) for word in command.argv)
    return (
        f'for file in {" ".join(command.each)}; do [ ! -e "$file" ] || '
        f'{head} "${{file##*/}}" {words}; done'
    )


def _filled(word: str) -> str:
    return '"${file##*/}"'.join(shlex.quote(part) if part else "" for part in word.split("{}"))
