"""The watcher of paths that runs on a host: shell builtins that read sysfs, a line a change.

With bash nothing is forked, so that a host of one processor is not slowed; any other sh forks a
sleep and a date each time. A line is printed when a path's state changes, and twice a second with
how many I/Os each path has carried. Its clock is the host's uptime.
"""

from __future__ import annotations

BEGIN = "kvgate-paths"

_BOOT = r"""
script=$1; shift
bash=$(command -v bash) && exec "$bash" -c "$script" kvgate-paths "$@"
exec sh -c "$script" kvgate-paths "$@"
"""

# $1: /sys, $2: /proc, $3: NQN, $4: the namespace's number, $5: seconds between looks, $6: how many
# looks make about half a second. Every path is seven words: controller, transport, address, state,
# ANA state, reads and writes that were completed; '-' where the kernel tells none.
_SCRIPT = r"""
LC_ALL=C; export LC_ALL
sys=$1 proc=$2 nqn=$3 ns=$4 every=$5 beat=$6 before=none left=0
if [ -n "$BASH_VERSION" ]; then
  eval 'exec 9<> <(:)'
  pause() { read -rt "$every" _ <&9; }
else
  pause() { sleep "$every" || sleep 1; }
fi
if [ -n "$EPOCHREALTIME" ]; then clock() { at=$EPOCHREALTIME; }
else clock() { at=$(date +%s.%N); }; fi
while :; do
  line='' key=''
  for s in "$sys"/class/nvme-subsystem/*; do
    q=''
    { read -r q <"$s/subsysnqn"; } 2>/dev/null
    [ "$q" = "$nqn" ] || continue
    for c in "$s"/nvme*; do
      [ -e "$c/transport" ] || continue
      state='' transport='' address='' ana='' r='' w=''
      { read -r transport <"$c/transport"; read -r address <"$c/address"
        read -r state <"$c/state"; } 2>/dev/null
      for p in "$c"/nvme*n"$ns"; do
        [ -e "$p/stat" ] || continue
        { read -r ana <"$p/ana_state"; } 2>/dev/null
        { read -r r _ _ _ w _ <"$p/stat"; } 2>/dev/null
        break
      done
      key="$key ${c##*/} ${address:--} ${state:--} ${ana:--}"
      line="$line ${c##*/} ${transport:--} ${address:--} ${state:--} ${ana:--} ${r:--} ${w:--}"
    done
  done
  if [ "$key" != "$before" ] || [ "$left" -le 0 ]; then
    read -r up _ <"$proc/uptime"
    clock
    printf 'kvgate-paths %s %s%s\n' "$up" "$at" "$line" || exit 1
    before=$key left=$beat
  fi
  left=$((left - 1))
  pause
done
"""


def command(
    nqn: str, namespace: int, *, every_s: float, sys: str = "/sys", proc: str = "/proc"
) -> list[str]:
    """Return the command that watches the paths of subsystem `nqn` every `every_s` seconds."""
    looks = max(round(0.5 / every_s), 1)
    words = [sys, proc, nqn, str(namespace), f"{every_s:.2f}", str(looks)]
    return ["sh", "-c", _BOOT, "kvgate-paths", _SCRIPT, *words]
