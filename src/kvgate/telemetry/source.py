"""The text of the sampler that travels, and the command that runs it on a host."""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvgate.telemetry.hostread import PROC, SLOW, SYS

_PARTS = ("hostread.py", "hosttools.py", "hostgpu.py", "hostsampler.py")
_JOINT = re.compile(r"^( *)from kvgate\.telemetry\.\w+ import .*$", re.MULTILINE)
_FUTURE = "from __future__ import annotations\n"

_SHELL = r"""
LC_ALL=C; export LC_ALL
for python in python3 /usr/bin/python3 /usr/libexec/platform-python; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    exec "$python" -ISEB -c "$1" "$2"
  fi
done
now() { read -r up rest </proc/uptime; ms=$(( ${up%.*} * 1000 + (1${up#*.} - 100) * 10 )); }
read -r boot </proc/sys/kernel/random/boot_id
printf 'H {"sampler": 2, "python": "", "boot": "%s", "absent": {WANTS}}\n' "$boot"
slow=0
while :; do
  now
  if [ "$ms" -ge "$slow" ]; then
    slow=$(( ms + $4 ))
    set -- "$1" "$2" "$3" "$4" FILES
    was=$ms; clock=$(date +%s.%N)
  fi
  read -r cpu </proc/stat
  printf 'B %s %s %s\n/proc/stat:%s\n' "$ms" "$was" "$clock" "$cpu"
  printf '%s:\n' /sys/block/*
  a=$1; b=$2; c=$3; d=$4; shift 4
  grep -sH '' "$@"
  set -- "$a" "$b" "$c" "$d" "$@"
  printf 'F\n'
  now
  w=$(( $3 - ms % $3 ))
  f=00$(( w % 1000 )); f=${f#"${f%???}"}
  sleep "$(( w / 1000 )).$f" || sleep 1 || exit 1
done
""".replace("FILES", " ".join((*PROC[1:], *SYS, *SLOW))).replace(  # of /proc/stat the first line
    "WANTS", '"slow tools, the kernel log, engines and amd-smi": "want Python 3.8"'
)
"""Runs the Python of a host where it is at least 3.8; else it samples by itself: a `grep` and a
`sleep` each second, and a `date` a minute. It has no slow tools and no kernel log."""


@functools.cache
def text() -> str:
    """Return the sampler's source: its parts as one, without the imports that join them."""
    package = importlib.resources.files(__package__)
    sources = [package.joinpath(name).read_text("utf-8") for name in _PARTS]
    joined = _JOINT.sub(r"\1pass", "".join(sources).replace(_FUTURE, ""))
    return _FUTURE + joined + '\n\nif __name__ == "__main__":\n    main()\n'


def command(
    *,
    every_ms: int = 1000,
    slow_ms: int = 60_000,
    metrics: Mapping[str, str] | None = None,
    tools: Sequence[tuple[str, Sequence[str], str]] = (),
    gpu: str = "sysfs",
    sudo: bool = False,
    kernel: Mapping[str, str | int] | None = None,
    shell_only: bool = False,
) -> list[str]:
    """Return the command that samples a host every `every_ms` (100 or more).

    `metrics` maps an engine's name to the URL of its /metrics as the host reaches it. `tools` are
    more slow tools: a name, the command, and ``json`` or ``lines`` (``name: number``). `gpu` is
    ``amd-smi`` to have its monitor watched beside sysfs, `sudo` whether SMART may be asked by it.
    `kernel` is where the sampler before left the kernel log: ``boot``, ``seq``, ``us``.
    With `shell_only` no Python of the host is used.
    """
    if every_ms < 100:
        raise ValueError(f"a sample every {every_ms} ms is too often")
    settings: dict[str, Any] = {
        "every_ms": every_ms,
        "slow_ms": slow_ms,
        "metrics": dict(metrics or {}),
        "tools": [[name, list(argv), form] for name, argv, form in tools],
        "gpu": gpu,
        "sudo": sudo,
        "kernel": dict(kernel or {}),
    }
    script = _SHELL.partition("\ndone\n")[2] if shell_only else _SHELL
    words = ["sh", "-c", script, "kvgate-sampler", "" if shell_only else text()]
    return [*words, json.dumps(settings), str(every_ms), str(slow_ms)]
