"""Purges a drive, as SNIA's tests begin: NVMe format, NVMe sanitize, or (no purge) an unmap of all.

Each command is started by a guard on a device that was cleared for writing, and only where what
it erases is that device alone: never a drive that has a second namespace.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Sequence

from kvgate.errors import HarnessError, NotRunError, ParseError
from kvgate.model.record import EvidenceRef, Reading
from kvgate.parse import nvme_ctrl
from kvgate.spec.pts import Purge
from kvgate.transport.base import CommandResult
from kvgate.untrusted import plain
from kvgate.witness import Witness, as_evidence
from kvgate.workloads.devices import KnownDevice
from kvgate.workloads.devices_runner import Look, refuse_unstarted
from kvgate.workloads.devices_script import FD_PATH
from kvgate.workloads.host_runner import ENV

TOLD = {
    "format": "NVMe format, user data erased (ses 1)",
    "sanitize": "NVMe sanitize, block erase",
    "unmap": "not purged: all of it unmapped (blkdiscard)",
}
"""What a report says of each."""

_ASK_S = 30.0
_ERASE_S = 6 * 3600.0
_POLL_S = 5.0
_FORMAT, _BLOCK_ERASE = 1 << 1, 1 << 1  # OACS bit 1; SANICAP bit 1 (NVMe Base, Identify Controller)
_DONE, _DONE_UNWRITTEN = 1, 4  # SSTAT bits 2:0 (NVMe Base, Sanitize Status log)
_UNDER_WAY = 2
_PAGE_BYTES = 32
_NAMESPACE = re.compile(r"^\[\s*\d+\]\s*:\s*(?:0x)?[0-9a-f]+$", re.MULTILINE)


def purge(
    witness: Witness, look: Look, method: Purge, *, cancel: threading.Event | None = None
) -> tuple[Reading, tuple[EvidenceRef, ...]]:
    """Purge the device that `look` finds; return how, and the evidence.

    1. NVMe only: the drive must be able to, and have no other namespace. 2. The command runs under
    the device's guard. 3. A sanitize goes on in the drive and is waited for.

    Raises DeviceRefusedError, NotRunError (it can't be done, or the tool refused), HarnessError
    (cancelled, or it does not end), ParseError, TransportError.
    """
    device = look()
    refs: list[EvidenceRef] = [*device.evidence]
    if method != "unmap":
        refs += _may(witness, device, method)  # 1.
        device = look()
        refs += device.evidence
    refs += _erase(witness, device, _command(device, method))  # 2.
    if method == "sanitize":
        refs += _waited(witness, device, cancel or threading.Event())  # 3.
    return Reading(name="pts.purge", value=TOLD[method]), tuple(refs)


def _command(device: KnownDevice, method: Purge) -> list[str]:
    if method == "unmap":  # the guard holds it exclusively, which blkdiscard would ask for too
        return ["blkdiscard", "--force", FD_PATH]
    if method == "format":
        return ["nvme", "format", device.node, "--ses=1", "--force"]
    return ["nvme", "sanitize", device.node, "--sanact=2"]


def _may(witness: Witness, device: KnownDevice, method: Purge) -> tuple[EvidenceRef, ...]:
    """Return the evidence that the drive can be purged so, and holds nothing else; or raise."""
    where = f"{witness.host.name}: {device.id} ({device.node})"
    ident = _nvme(witness, "id-ctrl", device.node, "-o", "json")
    spaces = _nvme(witness, "list-ns", device.node, "--all")
    able = nvme_ctrl.controller(ident[0])
    count = namespaces(spaces[0])
    reasons = []
    if count != 1:
        reasons.append(f"{where}: has {count} namespaces; {method} could erase the others too")
    if method == "format" and not (able.oacs or 0) & _FORMAT:
        reasons.append(f"{where}: the drive has no format command (OACS bit 1)")
    if method == "sanitize" and not (able.sanicap or 0) & _BLOCK_ERASE:
        reasons.append(f"{where}: the drive has no sanitize by block erase (SANICAP bit 1)")
    if reasons:
        raise NotRunError(tuple(reasons), hint="choose another purge in workloads.pts")
    return ident[1], spaces[1]


def namespaces(answer: bytes) -> int:
    """Return how many namespaces ``nvme list-ns --all`` lists; raises ParseError for none."""
    text = answer.decode("utf-8", "replace").strip()
    count = len(_NAMESPACE.findall(text))
    if text.startswith("{"):
        try:
            listed = json.loads(text)["nsid_list"]
            count = len(listed) if isinstance(listed, list) else 0
        except (ValueError, KeyError, RecursionError) as err:
            raise ParseError(f"nvme list-ns: {type(err).__name__}: {err}") from err
    if not count or (count != len(text.splitlines()) and not text.startswith("{")):
        raise ParseError(f"nvme list-ns: {plain(text[:120])!r} is no list of namespaces")
    return count


def _nvme(witness: Witness, *words: str) -> tuple[bytes, EvidenceRef]:
    told = witness.ask(witness.host.as_root("nvme", *words), timeout_s=_ASK_S, env=ENV)
    if not told.result.ok:
        raise NotRunError(
            (f"{witness.host.name}: {told.result.describe()}",),
            hint="install nvme-cli there, and let this login be root (sudo: passwordless)",
        )
    return told.stdout, told.ref


def _erase(
    witness: Witness, device: KnownDevice, command: Sequence[str]
) -> tuple[EvidenceRef, ...]:
    """Run `command` under the device's guard; return the evidence of its end."""
    process = witness.transport.start(device.guarded(command), deadline_s=_ERASE_S, env=ENV)
    result: CommandResult = process.wait(_ERASE_S + _ASK_S)
    ref = witness.keep(as_evidence(result))
    refuse_unstarted(result, device, (ref,))
    if not result.ok:
        said = plain(result.stderr.decode("utf-8", "replace")).strip()[:400]
        raise NotRunError(
            (
                f"{witness.host.name}: {device.id}: `{' '.join(command)}` "
                f"ended with {result.exit_status}: {said or 'nothing said'}",
            ),
            hint="the purge is part of the test; choose another one in workloads.pts",
        )
    return (ref,)


def _waited(
    witness: Witness, device: KnownDevice, cancel: threading.Event
) -> tuple[EvidenceRef, ...]:
    """Ask the drive until its sanitize is done; return the last answer."""
    until = time.monotonic() + _ERASE_S
    while time.monotonic() < until:
        answer, ref = _nvme(witness, "sanitize-log", device.node, "--raw-binary")
        status = sanitize_status(answer)
        if status in (_DONE, _DONE_UNWRITTEN):
            return (ref,)
        if status != _UNDER_WAY:
            raise NotRunError((f"{witness.host.name}: {device.id}: sanitize status is {status}",))
        if cancel.wait(_POLL_S):
            raise HarnessError(f"{witness.host.name}: the wait for {device.id} was cancelled")
    raise HarnessError(f"{witness.host.name}: {device.id}: its sanitize does not end")


def sanitize_status(page: bytes) -> int:
    """Return SSTAT bits 2:0 of the Sanitize Status log page (little-endian, bytes 2 and 3)."""
    if len(page) < _PAGE_BYTES:
        raise ParseError(f"nvme sanitize-log: {len(page)} B are no log page")
    return int.from_bytes(page[2:4], "little") & 7
