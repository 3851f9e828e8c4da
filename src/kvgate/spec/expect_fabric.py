"""What a host is expected to answer of its NVMe-oF paths: its inventory entry, flattened."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Value
from kvgate.spec.fabric import OFF, FabricLink, NvmePath, NvmeSubsystem
from kvgate.spec.inventory import Host
from kvgate.spec.requirement import Requirement, given

Expected = tuple[str, str, Requirement]  # measure, item, what it must be

HOST_NQN = "nvmeof.host_nqn"
HOST_ID = "nvmeof.host_id"
USABLE = ("optimized", "non-optimized")
"""ANA states in which a path carries I/O."""


def seconds(timeout: str | None) -> str | None:
    """Return a time-out as it is measured and declared: ``600 s``, or ``off``; None: none is."""
    return timeout if timeout in (None, OFF) else f"{timeout} s"


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
        yield "nvmeof.native_multipath", "", Requirement("equals", (True,))
        yield "nvmeof.discovery_stuck", "", Requirement("equals", (Quantity.of(0, ""),))
        yield "nvmeof.kernel_messages", "", Requirement("equals", (Quantity.of(0, ""),))
    for subsystem in have.nvmeof:
        yield from _equals(
            subsystem.name,
            ("nvmeof.serial", subsystem.serial),
            ("nvmeof.iopolicy", subsystem.iopolicy),
            ("nvmeof.namespaces", counted(subsystem.namespaces)),
        )
        for path in subsystem.paths:
            yield from _of_path(subsystem, path)
    for link in have.fabric:
        mtu = mtu_of(host, link)
        yield from _equals(
            link.name,
            ("fabric.gid_index", counted(link.gid_index)),
            ("fabric.mtu_out", mtu),
            ("fabric.mtu_back", mtu),
        )


def mtu_of(host: Host, link: FabricLink) -> Quantity | None:
    """Return what a pair has to carry in one piece: its own MTU, else that of the declared port."""
    nics = {nic.name: nic.mtu for nic in host.declared.nics}
    return link.mtu or nics.get(link.nic)


def line_rate(host: Host, link: FabricLink) -> Quantity | None:
    """Return what a pair is held against: its own rate, else the declared port's speed."""
    speeds = {nic.name: nic.speed for nic in host.declared.nics}
    return link.rate or speeds.get(link.nic)


def _of_path(subsystem: NvmeSubsystem, path: NvmePath) -> Iterator[Expected]:
    item = subsystem.item(path)
    ana = ("equals", (path.ana,)) if path.ana else ("one_of", USABLE)
    yield "nvmeof.path_ana", item, Requirement(*ana)
    yield from _equals(
        item,
        ("nvmeof.path_source", path.host),
        ("nvmeof.path_mtu", subsystem.mtu),
        ("nvmeof.queues", counted(subsystem.queues)),
        ("nvmeof.keep_alive", subsystem.keep_alive),
        ("nvmeof.ctrl_loss_tmo", seconds(subsystem.ctrl_loss_tmo)),
        ("nvmeof.reconnect_delay", seconds(subsystem.reconnect_delay)),
        ("nvmeof.fast_io_fail_tmo", seconds(subsystem.fast_io_fail_tmo)),
        ("nvmeof.discovered", True if subsystem.discovery else None),
    )


def _equals(item: str, *pairs: tuple[str, Value | None]) -> Iterator[Expected]:
    for measure, _, value in given(item, *pairs):
        yield measure, item, Requirement("equals", (value,))
