"""The slow tools of a host, run by the sampler that travels: SMART, and ports' own counters.

A part of the sampler (`telemetry.source`): standard library only, Python 3.8.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvgate.telemetry.hostread import numbers, statistics  # joined by `source`

if TYPE_CHECKING:
    from kvgate.telemetry.hostread import Values

TOOL_S = 30.0
MOST_TOLD = 1 << 20  # bytes: what tells more is ended, and tells nothing


class Tool:
    """A slow tool: started when its minute has come, looked after at every tick, never awaited."""

    def __init__(self, name: str, argv: Sequence[str], form: str) -> None:
        self.name, self.argv, self.form = name, argv, form
        self.child: subprocess.Popen[bytes] | None = None
        self.told = bytearray()
        self.until = 0.0
        self.why = "" if shutil.which(argv[0]) else "not installed"

    def start(self) -> None:
        """Start it, unless it runs or is not there."""
        if self.why or self.child is not None:
            return
        quiet, self.told = subprocess.DEVNULL, bytearray()
        self.child = subprocess.Popen(self.argv, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet)
        os.set_blocking(self.child.stdout.fileno(), False)  # type: ignore[union-attr]
        self.until = time.monotonic() + TOOL_S

    def poll(self) -> Values | None:
        """Return what it told once it has ended, None before, and {} where it told nothing."""
        child = self.child
        if child is None or child.stdout is None:
            return None
        whole = self._read(child.stdout.fileno())
        if not whole and len(self.told) <= MOST_TOLD and time.monotonic() <= self.until:
            return None
        child.stdout.close()  # whoever writes on ends by it
        child.kill()
        child.wait()
        self.child = None
        return self._values(self.told.decode("utf-8", "replace")) if whole else {}

    def _read(self, fd: int) -> bool:
        """Read what is there; tell whether that was the end."""
        while len(self.told) <= MOST_TOLD:
            try:
                piece = os.read(fd, 65536)
            except BlockingIOError:
                return False
            if not piece:
                return True
            self.told += piece
        return False

    def _values(self, text: str) -> Values:
        try:
            if self.form == "lines":
                return statistics(text, self.name)
            return numbers(json.loads(text), self.name)
        except (ValueError, RecursionError):
            return {}


def tools(also: Sequence[tuple[str, Sequence[str], str]], *, sudo: bool = False) -> list[Tool]:
    """Return the slow tools of this host: SMART, its ports' own counters, and `also`.

    SMART wants root: it is asked by sudo where that is allowed, and else only by root.
    """
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
    for tool in found[len(also) :]:
        if prefix and not sudo:
            tool.why = "wants root, and the inventory allows no sudo there"
    for path in sorted(glob.glob("/sys/class/net/*/device")):
        name = path.split("/")[4]
        found.append(Tool("ethtool." + name, ["ethtool", "-S", name], "lines"))
    return found
