"""Lets fiopy run on a device: every start of fio is a guarded one, after a look of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fiopy
from kvgate.transport.base import CommandResult
from kvgate.witness import Witness
from kvgate.workloads.devices import DeviceRefusedError, KnownDevice
from kvgate.workloads.devices_script import REFUSED, SAYS
from kvgate.workloads.host_runner import ENV, HostRunner, HostRunning

Look = Callable[[], KnownDevice]
"""Looks at the device now; raises DeviceRefusedError."""

_MOST_REASONS = 20


class DeviceRunner(HostRunner):
    """A fiopy.Runner whose `start` gives the device that `look` finds to fio, and no other.

    A device that was not cleared for writing is given to ``fio --readonly``. `start`, and waiting
    for what it started, raise DeviceRefusedError too.
    """

    def __init__(self, witness: Witness, look: Look) -> None:
        super().__init__(witness)
        self._look = look

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
    ) -> HostRunning:
        """Look, then start fio under the guard of what was found."""
        device = self._look()
        self.evidence += device.evidence
        tool, *rest = argv
        words = [tool, *([] if device.may_write else ["--readonly"]), *rest]
        process = self._witness.transport.start(
            device.guarded(words), deadline_s=deadline_s, on_stdout=on_stdout, env=ENV
        )

        def kept(result: CommandResult) -> fiopy.Finished:
            finished = self._kept(result)
            refuse_unstarted(result, device, tuple(self.evidence[-1:]))
            return finished

        return HostRunning(process, kept)


def refuse_unstarted(
    result: CommandResult, device: KnownDevice, evidence: tuple[str, ...] = ()
) -> None:
    """Raise DeviceRefusedError if `result` is of a guard that did not start its tool."""
    said = result.stderr.decode("utf-8", "replace").splitlines()
    why = [line.removeprefix(SAYS) for line in said if line.startswith(SAYS)]
    if result.exit_status != REFUSED or not why:
        return
    raise DeviceRefusedError(
        tuple(
            f"{device.host.name}: {device.id} ({device.node}): right before the write: {each}"
            for each in why[:_MOST_REASONS]
        ),
        hint="nothing was written; find out who changed it, then start again",
        evidence=evidence,
    )
