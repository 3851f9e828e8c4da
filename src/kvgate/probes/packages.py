"""Python packages of the serving software on a host: which versions, without importing any.

They are those that the host's declared Python sees (``python`` under ``tools``: the one of the
environment that serves).
"""

from __future__ import annotations

import re

from kvgate.parse.text import lines, refuse, shown
from kvgate.probes.base import NOT_FOUND, PLAIN, SHORT_S, Command, Probe, answer, reading, untold
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

PACKAGES = ("vllm", "lmcache")
MEASURES = tuple(f"tool.{name}.version" for name in PACKAGES)
SCRIPT = """\
import importlib.metadata as found
for name in {names!r}:
    try:
        print(name, found.version(name))
    except found.PackageNotFoundError:
        print(name)
"""
_LINE = re.compile(r"([a-z0-9_.-]{1,64})(?: (\S{1,64}))?", re.ASCII)


def _command(host: Host) -> tuple[str, ...]:
    python = "python" if "python" in host.tools else "python3"
    return (python, "-c", SCRIPT.format(names=PACKAGES))


def ask_packages(witness: Witness) -> Answer:
    """Return the version of each package; one that this Python does not see is a problem."""
    asked = witness.ask(_command(witness.host), timeout_s=SHORT_S, env=PLAIN)
    if asked.result.exit_status == NOT_FOUND:
        missing = f"'{asked.result.argv[0]}' is not there: name the serving Python under tools"
        return answer(untold(MEASURES, missing), asked)
    told: dict[str, str | None] = {}
    for line in filter(None, lines(asked.stdout, "Python packages")):
        match = _LINE.fullmatch(line)
        if not match:
            refuse("Python packages", f"{shown(line)} is not NAME VERSION")
        told[match[1]] = match[2]
    if set(told) != set(PACKAGES):
        refuse("Python packages", f"{shown(sorted(told))} are not those asked for")
    why = f"{asked.result.argv[0]} sees no package '{{}}': name the serving Python under tools"
    return answer(
        [reading(f"tool.{name}.version", told[name], why.format(name)) for name in PACKAGES],
        asked,
    )


PROBES: tuple[Probe, ...] = (
    Probe(
        name="Python packages",
        measures=MEASURES,
        ask=ask_packages,
        commands=lambda host: (Command(argv=_command(host)),),
        tools=("python",),
    ),
)
