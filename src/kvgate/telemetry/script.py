"""The sampler that runs on a host: POSIX sh that reads /proc and sleeps to the next tick.

It needs sh, cat, date and sleep. Its clock is the host's uptime, which no clock step moves: a
sample falls on every multiple of the interval; one that came too late is left out, never made up.
"""

from __future__ import annotations

BEGIN = b"#kvgate-sample "
END = b"#kvgate-end"

_SCRIPT = r"""
LC_ALL=C; export LC_ALL
now() { read -r up rest </proc/uptime; cs=$(( ${up%.*} * 100 + 1${up#*.} - 100 )); }
while :; do
  now
  read -r cpu </proc/stat
  printf '#kvgate-sample %s %s\n' "$cs" "$(date +%s.%N)"
  printf '%s\n' /sys/block/* "$cpu"
  cat /proc/loadavg /proc/meminfo /proc/diskstats /proc/net/dev
  printf '#kvgate-end\n'
  now
  w=$(( $1 - cs % $1 ))
  sleep "$(( w / 100 )).$(( w / 10 % 10 ))$(( w % 10 ))" || sleep 1 || exit 1
done
"""


def command(every_cs: int) -> list[str]:
    """Return the command that samples every `every_cs` hundredths of a second (10 or more)."""
    if every_cs < 10:
        raise ValueError(f"a sample every {every_cs} hundredths of a second is too often")
    return ["sh", "-c", _SCRIPT, "kvgate-sampler", str(every_cs)]
