"""What a host is expected to answer of its NVMe-oF paths: its inventory entry, flattened."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.quantity import counted
from kvgate.model.record import Value
from kvgate.spec.fabric import OFF, NvmePath, NvmeSubsystem
from kvgate.spec.inventory import Host
from kvgate.spec.requirement import Requirement

Expected = tuple[str, str, Requirement]  # measure, item, what it must be

HOST_NQN = "nvmeof.host_nqn"
HOST_ID = "nvmeof.host_id"
USABLE = ("optimized", "non-optimized")
"""ANA states in which a path carries I/O."""


def seconds(timeout: str) -> str:
    """Return a time-out as it is measured and declared: ``600 s``, or ``off``."""
    return timeout if timeout == OFF else f"{timeout} s"


def expected_of(host: Host) -> Iterator[Expected]:
    """Yield what is required of `host`'s NVMe-oF; nothing where none is declared.

    Every host that has subsystems needs a host NQN and a host ID of its own.
    """
    have = host.declared
    if have.nvmeof:
        nqn = have.host_nqn
        how, values = ("equals", (nqn,)) if nqn else ("unlike", ())
        yield HOST_NQN, "", Requirement(how, values, unlike="host NQN")
        yield HOST_ID, "", Requirement("unlike", (), unlike="host ID")
    for subsystem in have.nvmeof:
        given = (
            ("nvmeof.serial", subsystem.serial),
            ("nvmeof.iopolicy", subsystem.iopolicy),
            ("nvmeof.namespaces", counted(subsystem.namespaces)),
        )
        for measure, value in given:
            if value is not None:
                yield measure, subsystem.name, Requirement("equals", (value,))
        for path in subsystem.paths:
            yield from _of_path(subsystem, path)


def _of_path(subsystem: NvmeSubsystem, path: NvmePath) -> Iterator[Expected]:
    item = subsystem.item(path)
    ana = ("equals", (path.ana,)) if path.ana else ("one_of", USABLE)
    yield "nvmeof.path_ana", item, Requirement(*ana)
    given: tuple[tuple[str, Value | None], ...] = (
        ("nvmeof.path_source", path.host),
        ("nvmeof.queues", counted(subsystem.queues)),
        ("nvmeof.keep_alive", subsystem.keep_alive),
        ("nvmeof.ctrl_loss_tmo", _told(subsystem.ctrl_loss_tmo)),
        ("nvmeof.reconnect_delay", _told(subsystem.reconnect_delay)),
        ("nvmeof.fast_io_fail_tmo", _told(subsystem.fast_io_fail_tmo)),
    )
    for measure, value in given:
        if value is not None:
            yield measure, item, Requirement("equals", (value,))


def _told(timeout: str | None) -> str | None:
    return None if timeout is None else seconds(timeout)
