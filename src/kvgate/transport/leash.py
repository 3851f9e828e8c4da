"""The leash: what every command on a host is wrapped in, so that nothing of it can stay there.

A POSIX sh script (dash, bash, busybox) that reads nothing but its own stdin. It runs the command
in a session of its own and ends that session's process group (TERM, after `GRACE_S` KILL) when

- its stdin ends: the link was lost, we were killed, or we hung up at a deadline;
- its timer runs out: the link went silently, so that no end of stdin can arrive;
- a line ``TERM`` or ``KILL`` arrives on stdin (only where the command takes no stdin of its own).
  Every other line is handed on to a command that was started to be talked to.

When the command has ended, what it left behind in its group is killed too, and its status becomes
the script's. A process that leaves the group by itself (a daemon) is out of reach.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence

from kvgate.errors import CommandError

GRACE_S = 2
"""How long the group has between TERM and KILL, by the host's own clock."""

MARGIN_S = 5
"""How much later than our own deadline the host's own timer ends the command."""

LINE_CAP_BYTES = 120 * 1024
"""The longest command line: Linux takes no single argument over 128 KiB (MAX_ARG_STRLEN)."""

PID_LINE = re.compile(rb"^kvgate-leash pid (\d{1,10})\n", re.MULTILINE)
"""What a command made by `reporting` writes to stderr before anything of its own."""

REPORT = 'echo "kvgate-leash pid $$" >&2; exec "$@"'

# $1: bytes of stdin for the command, -1: lines as they come; $2: seconds until the timer ends it;
# then the command.
# - Only the script signals the command's group: it is the parent, so that the pid can't have been
#   given to another process. Its helpers (feed or watch, timer) only signal the script.
# - The helpers are in the script's own group and end with it by ALRM, which has no trap here: a
#   trapped signal is lost on a subshell that has been forked but has not reset its traps yet.
# - The feed is a background job of the pipeline's left side, as `wait PID` waits for all sides.
# - Its own stderr is closed to all but the command (4): bash comments on jobs that a signal ended.
# - `wait` is asked again after a trap: dash gives the status then, bash remembers it (or says 127).
# - A trap that runs while bash starts the pipeline makes it miss the end of its left side, and so
#   wait for ever (5.2.15): who is shot a second time waits no longer, all has been killed by then.
SCRIPT = f"""\
kill -0 "-$$" 2>/dev/null || {{
  echo "kvgate-leash: not the leader of its process group (a ForceCommand?)" >&2; exit 125; }}
size=$1 limit=$2 pid='' due='' shot=''
shift 2
for word in setsid "$1"; do
  command -v "$word" >/dev/null || {{ echo "kvgate-leash: $word: not found" >&2; exit 127; }}
done
end() {{ due=$1; [ -z "$pid" ] || kill "-$1" "-$pid" || kill "-$1" "$pid"; }}
over() {{ kill -TERM "$$"; sleep {GRACE_S}; kill -USR1 "$$"; sleep 1; kill -USR1 "$$"; }}
finish() {{ kill -KILL "-$pid"; trap '' ALRM; kill -ALRM "-$$"; exit "$1"; }}
trap 'end TERM' TERM
trap '[ -z "$shot" ] || finish 137; shot=yes; end KILL' USR1
exec 3<&0 </dev/null 4>&2 2>/dev/null
if [ "$size" -gt 0 ]; then
  {{ {{ head -c "$size" <&3; exec >/dev/null; cat <&3; over; }} 4>&- & }} |
    setsid -- "$@" 2>&4 3<&- 4>&- &
  pid=$!
elif [ "$size" -lt 0 ]; then
  {{ {{ trap '' PIPE
    while read -r word; do
      case $word in TERM) kill -TERM "$$" ;; KILL) kill -USR1 "$$" ;;
        *) printf '%s\\n' "$word" ;; esac
    done; exec >/dev/null; over; }} <&3 3<&- 4>&- & }} |
    setsid -- "$@" 2>&4 3<&- 4>&- &
  pid=$!
else
  setsid -- "$@" 2>&4 3<&- 4>&- &
  pid=$!
  {{ while read -r word; do
      case $word in TERM) kill -TERM "$$" ;; KILL) kill -USR1 "$$" ;; esac
    done; over; }} <&3 >/dev/null 3<&- 4>&- &
fi
{{ sleep "$limit"; over; }} >/dev/null 3<&- 4>&- &
exec 3<&- 4>&-
[ -z "$due" ] || end "$due"
wait "$pid"
status=$?
while [ "$status" -gt 128 ]; do
  alive=''
  kill -0 "$pid" && alive=yes
  wait "$pid"
  again=$?
  [ "$again" -ne 127 ] || break
  status=$again
  [ -n "$alive" ] || break
done
finish "$status"
"""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def command(
    host: str,
    argv: Sequence[str],
    *,
    deadline_s: float,
    stdin_bytes: int = 0,
    env: Mapping[str, str] | None = None,
    report_pid: bool = False,
    talks: bool = False,
) -> list[str]:
    """Return the argument list that runs `argv` on a leash.

    With `report_pid` the command's pid is on stderr (`PID_LINE`) before anything of its own. With
    `talks` every line of stdin but the leash's own words is handed on to the command. Raises
    CommandError where no shell could be handed it: no or an odd program name, a name in `env` that
    is none, a NUL byte, or more than `LINE_CAP_BYTES`.
    """
    program = argv[0] if argv else ""
    if not program or program.startswith("-") or (env and "=" in program):
        raise CommandError(host, f"'{program}' is not the name of a program")
    report = ["/bin/sh", "-c", REPORT, "kvgate-leash"] if report_pid else []
    wrapped = [*_assignments(host, env or {}), *report, *argv]
    if any("\0" in word for word in wrapped):
        raise CommandError(host, f"an argument of '{program}' holds a NUL byte")
    timer = math.ceil(deadline_s) + MARGIN_S
    size_word = "-1" if talks else str(stdin_bytes)
    whole = ["/bin/sh", "-c", SCRIPT, "kvgate-leash", size_word, str(timer), *wrapped]
    size = len(line(whole))
    if size > LINE_CAP_BYTES:
        raise CommandError(
            host,
            f"the command line of '{program}' has {size} bytes, over {LINE_CAP_BYTES}",
            hint="hand large data over by stdin or in a file",
        )
    return whole


def line(whole: Sequence[str]) -> bytes:
    """Return the argument list quoted for a login shell of the Bourne family, which it replaces."""
    return b"exec " + shlex.join(whole).encode("utf-8", "surrogateescape")


def _assignments(host: str, env: Mapping[str, str]) -> list[str]:
    for name in env:
        if not _NAME.fullmatch(name):
            raise CommandError(host, f"'{name}' is not the name of an environment variable")
    return ["env", *(f"{name}={value}" for name, value in env.items())] if env else []
