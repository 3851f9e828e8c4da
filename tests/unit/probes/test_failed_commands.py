"""No value rests on a command that failed: each one that a probe asks fails, with a fine answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from kvgate.errors import KvgateError
from kvgate.probes import ALL
from kvgate.transport.base import CommandResult


class Failing:
    """A server of which one command fails with `status`, its output as if all were well."""

    name = "h1"

    def __init__(self, real: Any, failing: tuple[str, ...], status: int | None) -> None:
        self.real, self.failing, self.status = real, failing, status

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        result: CommandResult = self.real.run(argv, **options)
        if tuple(argv) != self.failing:
            return result
        return dataclasses.replace(result, exit_status=self.status, stderr=b"it failed")


SAYS_ITSELF = ("smartctl",)
"""Probes of tools whose output tells whether they read what they were asked; their exit status
is bits that tell of the drive."""


@pytest.mark.parametrize("status", [1, None], ids=["exit 1", "no exit status"])
@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
def test_a_failed_command_takes_its_values_with_it(
    probe: Any, server: Any, composed: Any, status: int | None
) -> None:
    if probe in composed.UNGATHERED:
        pytest.skip("it is timed alone")
    witness = server()
    healthy = values(probe.ask(witness).readings)
    if not healthy:
        pytest.skip("nothing of this server is declared that it would answer for")
    if probe.name in SAYS_ITSELF and status is not None:
        pytest.skip("its output says so itself: test_nvme_tools")
    server_ = witness.transport
    for argv in dict.fromkeys(server_.asked):
        if not server_.run(argv).ok:
            continue  # it is not there on this server
        failing = Failing(server_, argv, status)
        try:
            told = probe.ask(dataclasses.replace(witness, transport=failing)).readings
        except KvgateError:
            continue
        assert values(told) != healthy, f"all the same although `{' '.join(argv)[:200]}` failed"


def values(readings: Sequence[Any]) -> dict[tuple[str, str], object]:
    return {(r.name, r.item): r.value for r in readings if r.value is not None}
