"""RoCE between declared pairs: the GID that belongs to an address, its kind and its index."""

from __future__ import annotations

from kvgate.errors import CommandError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import rdma_sysfs
from kvgate.parse.rdma_sysfs import Gid
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Probe,
    answer,
    asks,
    class_argv,
    if_declared,
    reading,
    untold,
)
from kvgate.witness import Answer, Testimony, Witness

ROCE_V2 = "RoCE v2"
MEASURES = ("fabric.gid_type", "fabric.gid_index")
GIDS = class_argv(
    rdma_sysfs.WHAT,
    "*/ports/*/gids/[0-9]",
    "*/ports/*/gids/[0-9][0-9]",
    "*/ports/*/gid_attrs/types/[0-9]",
    "*/ports/*/gid_attrs/types/[0-9][0-9]",
    "*/ports/*/gid_attrs/ndevs/[0-9]",
    "*/ports/*/gid_attrs/ndevs/[0-9][0-9]",
)


def look(witness: Witness) -> tuple[tuple[Gid, ...], Testimony]:
    """Return the GIDs in use on the host's RDMA devices; () where it has none."""
    told = witness.ask(GIDS, timeout_s=SHORT_S, env=PLAIN)
    found = rdma_sysfs.gids(told.result.stdout) if told.result.exit_status == 0 else ()
    return found, told


def gid_of(found: tuple[Gid, ...], nic: str, address: str) -> Gid | None:
    """Return the GID of `address` on the network port `nic`, RoCE v2 before any other kind."""
    mine = [each for each in found if each.netdev == nic and each.is_of(address)]
    return min(mine, key=lambda each: each.kind != ROCE_V2, default=None)


def end(witness: Witness, nic: str, address: str) -> tuple[Gid, Testimony]:
    """Return where RDMA of `address` begins: device and GID index.

    Raises CommandError where no RDMA device has a RoCE v2 GID of it.
    """
    found, told = look(witness)
    gid = gid_of(found, nic, address)
    if gid is None or gid.kind != ROCE_V2:
        raise CommandError(witness.host.name, no_gid(nic, address))
    return gid, told


def no_gid(nic: str, address: str) -> str:
    """Return the sentence for an address without RoCE v2, and what to look at."""
    return (
        f"no RDMA device has a RoCE v2 GID of {address} on {nic}: is the address set there, and "
        f"does `rdma link` show a device for {nic}?"
    )


def ask(witness: Witness) -> Answer:
    """Return for every declared pair the kind and index of the GID of this host's address."""
    links = witness.host.declared.fabric
    if not links:
        return Answer((), ())
    found, told = look(witness)
    readings: list[Reading] = []
    for link in links:
        gid = gid_of(found, link.nic, link.address)
        if gid is None:
            readings += untold(MEASURES, no_gid(link.nic, link.address), [link.name])
            continue
        readings.append(reading(MEASURES[0], gid.kind, item=link.name))
        readings.append(reading(MEASURES[1], Quantity.of(gid.index, ""), item=link.name))
    return answer(readings, told)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="roce gids",
        measures=MEASURES,
        ask=ask,
        commands=if_declared("link", asks(GIDS)),
        items="link",
    ),
)
