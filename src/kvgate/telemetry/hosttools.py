"""The slow tools of a host, run by the sampler that travels: SMART, and ports' own counters.

A part of the sampler (`telemetry.source`): standard library only, Python 3.8.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvgate.telemetry.hostread import numbers, statistics  # joined by `source`

if TYPE_CHECKING:
    from kvgate.telemetry.hostread import Values

TOOL_S = 30.0


class Tool:
    """A slow tool: started when its minute has come, looked after at every tick, never awaited."""

    def __init__(self, name: str, argv: Sequence[str], form: str) -> None:
        self.name, self.argv, self.form = name, argv, form
        self.child: subprocess.Popen[bytes] | None = None
        self.file: Any = None
        self.until = 0.0
        self.why = "" if shutil.which(argv[0]) else "not installed"

    def start(self) -> None:
        """Start it, unless it runs or is not there."""
        if self.why or self.child is not None:
            return
        self.file = tempfile.TemporaryFile()
        quiet = subprocess.DEVNULL
        self.child = subprocess.Popen(self.argv, stdin=quiet, stdout=self.file, stderr=quiet)
        self.until = time.monotonic() + TOOL_S

    def poll(self) -> Values | None:
        """Return what it told once it has ended, None before, and {} where it told nothing."""
        if self.child is None:
            return None
        if self.child.poll() is None:
            if time.monotonic() > self.until:
                self.child.kill()
            return None
        self.file.seek(0)
        text = self.file.read(1 << 20).decode("utf-8", "replace")
        self.file.close()
        self.child = None
        try:
            return (
                statistics(text, self.name)
                if self.form == "lines"
                else numbers(json.loads(text), self.name)
            )
        except ValueError:
            return {}


def tools(also: Sequence[tuple[str, Sequence[str], str]]) -> list[Tool]:
    """Return the slow tools of this host: SMART, its ports' own counters, and `also`."""
    found = [Tool(name, argv, form) for name, argv, form in also]
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]  # where sudo asks, nothing is told
    for path in sorted(glob.glob("/sys/class/nvme/nvme*/transport")):
        name = path.split("/")[4]
        with open(path) as file:
            if file.read().strip() == "pcie":
                argv = [*prefix, "nvme", "smart-log", "-o", "json", "/dev/" + name]
                found.append(Tool("smart." + name, argv, "json"))
    for path in sorted(glob.glob("/sys/block/sd*")):
        name = path.split("/")[3]
        found.append(
            Tool("smart." + name, [*prefix, "smartctl", "-j", "-A", "/dev/" + name], "json")
        )
    for path in sorted(glob.glob("/sys/class/net/*/device")):
        name = path.split("/")[4]
        found.append(Tool("ethtool." + name, ["ethtool", "-S", name], "lines"))
    return found
