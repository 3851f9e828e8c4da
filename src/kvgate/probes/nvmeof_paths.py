"""Declared NVMe-oF subsystems and paths held against what a host has: states, settings, names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import sysfs
from kvgate.parse.nvmeof_sysfs import Controller, NamespacePath, Subsystem
from kvgate.probes import nvmeof
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
from kvgate.probes.nvmeof import SYSFS, Matched
from kvgate.spec.expect_fabric import HOST_ID, HOST_NQN, seconds
from kvgate.spec.fabric import NvmePath, NvmeSubsystem
from kvgate.witness import Answer, Witness

PATH = (
    "nvmeof.path_state",
    "nvmeof.path_ana",
    "nvmeof.path_source",
    "nvmeof.queues",
    "nvmeof.keep_alive",
    "nvmeof.ctrl_loss_tmo",
    "nvmeof.reconnect_delay",
    "nvmeof.fast_io_fail_tmo",
)
SUBSYSTEM = (
    "nvmeof.serial",
    "nvmeof.iopolicy",
    "nvmeof.namespaces",
    "nvmeof.identities_agree",
    "nvmeof.optimized_paths",
    "nvmeof.unexpected_paths",
)
HOST = (HOST_NQN, HOST_ID, "nvmeof.native_multipath", "nvmeof.discovery_stuck")
MULTIPATH = class_argv("/sys/module", "nvme_core/parameters/multipath")
HOST_NQN_FILE = ("cat", "/etc/nvme/hostnqn")
ABSENT, NONE = "absent", "none"


def ask_paths(witness: Witness) -> Answer:
    """Return state, ANA state and settings of every declared path; its state is absent if it is.

    Paths are found by their addresses, so that a controller which was renumbered over a reconnect
    is the same path, and one that came back under another address is not.
    """
    if not witness.host.declared.nvmeof:
        return Answer((), ())
    found, asked = nvmeof.look(witness)
    readings: list[Reading] = []
    for declared in witness.host.declared.nvmeof:
        matched = nvmeof.match(declared, found)
        for path in declared.paths:
            readings += _path(declared, path, matched)
    return answer(readings, *asked)


def _path(declared: NvmeSubsystem, path: NvmePath, matched: Matched) -> Iterable[Reading]:
    item, controller = declared.item(path), matched.by_path.get(path.name)
    if controller is None:
        elsewhere = f"; there is {_named(matched.unexpected)}" if matched.unexpected else ""
        why = f"no controller to {declared.nqn} by {declared.transport}, {path}{elsewhere}"
        return (reading(PATH[0], ABSENT, item=item), *untold(PATH[1:], why, [item]))
    name = controller.name
    state = controller.state
    queues = None if not controller.queue_count else controller.queue_count - 1
    kept = controller.keep_alive_s
    why = f"{name} ({path}): the kernel does not tell it"
    return (
        reading(PATH[0], state, f"{name} ({path}) vanished while it was asked", item=item),
        reading(PATH[1], _ana(controller), f"{name} ({path}) shows no namespace", item=item),
        reading(PATH[2], controller.source, why, item=item),
        reading(PATH[3], counted(queues), why, item=item),
        reading(PATH[4], None if kept is None else Quantity.of(kept, "s"), why, item=item),
        *(
            reading(measure, seconds(told), why, item=item)
            for measure, told in zip(
                PATH[5:],
                (
                    controller.ctrl_loss_tmo,
                    controller.reconnect_delay,
                    controller.fast_io_fail_tmo,
                ),
                strict=True,
            )
        ),
    )


def _ana(controller: Controller) -> str | None:
    """Return the ANA state of the path's namespaces; all of them where they differ.

    A controller that reports none has nothing but optimized paths (NVMe base, 8.1: no ANA).
    """
    states = {each or "optimized" for each in controller.ana_states}
    return ", ".join(sorted(states)) or None


def ask_subsystems(witness: Witness) -> Answer:
    """Return what every declared subsystem is, how I/O is spread on it, and which paths are odd."""
    if not witness.host.declared.nvmeof:
        return Answer((), ())
    found, asked = nvmeof.look(witness)
    readings: list[Reading] = []
    for declared in witness.host.declared.nvmeof:
        shown = tuple(each for each in found if each.nqn == declared.nqn)
        if not shown:
            why = f"{witness.host.name} is connected to no subsystem {declared.nqn}"
            readings += untold(SUBSYSTEM, why, [declared.name])
        else:
            readings += _subsystem(declared, shown, nvmeof.match(declared, found))
    return answer(readings, *asked)


def _subsystem(
    declared: NvmeSubsystem, shown: tuple[Subsystem, ...], matched: Matched
) -> Iterable[Reading]:
    item = declared.name
    live = [each for each in nvmeof.of_nqn(shown, declared.nqn) if each.state == "live"]
    by_number = _namespaces(live)
    ways = [
        sum((path.ana_state or "optimized") == "optimized" for path in each)
        for each in by_number.values()
    ]
    fewest = min((len(each.paths) for each in live), default=None)
    no_way = "no controller is live"
    policy = _only(each.iopolicy for each in shown)
    yield reading(SUBSYSTEM[0], _only(each.serial for each in shown), "no serial told", item=item)
    yield reading(SUBSYSTEM[1], policy, "the kernel tells no iopolicy", item=item)
    yield reading(SUBSYSTEM[2], counted(fewest), no_way, item=item)
    yield reading(SUBSYSTEM[3], _agree(by_number), "no path shows a namespace", item=item)
    yield reading(SUBSYSTEM[4], counted(min(ways, default=None)), no_way, item=item)
    yield reading(SUBSYSTEM[5], _named(matched.unexpected) or NONE, item=item)


def _namespaces(live: Iterable[Controller]) -> dict[int | None, list[NamespacePath]]:
    found: dict[int | None, list[NamespacePath]] = {}
    for controller in live:
        for path in controller.paths:
            found.setdefault(path.nsid, []).append(path)
    return found


def _agree(by_number: dict[int | None, list[NamespacePath]]) -> bool | None:
    """Tell whether each namespace has one identity over all paths, and no other's; None: no one."""
    if not by_number:
        return None
    identities = [{path.identity for path in each} for each in by_number.values()]
    shared = Counter(next(iter(each)) for each in identities if len(each) == 1)
    return all(len(each) == 1 and None not in each for each in identities) and all(
        count == 1 for count in shared.values()
    )


def _only(told: Iterable[str | None]) -> str | None:
    """Return what all tell; each of it where they differ."""
    return ", ".join(sorted({each for each in told if each})) or None


def _named(controllers: Iterable[Controller]) -> str:
    return ", ".join(
        f"{each.name} {each.transport} {each.traddr}:{each.trsvcid}"
        f"{f' from {each.source}' if each.source else ''} ({each.state or 'gone'})"
        for each in controllers
    )


def ask_host(witness: Witness) -> Answer:
    """Return the host NQN and ID that connections use, and whether NVMe's own multipath is on."""
    if not witness.host.declared.nvmeof:
        return answer(untold(HOST, "no NVMe-oF subsystem is declared"))
    found, asked = nvmeof.look(witness)
    fabrics = [
        controller
        for each in found
        for controller in each.controllers
        if controller.transport not in (None, "pcie")
    ]
    told = witness.ask(MULTIPATH, timeout_s=SHORT_S, env=PLAIN)
    nqn, more = _only(each.hostnqn for each in fabrics), list(asked)
    if nqn is None:
        kept = witness.ask(HOST_NQN_FILE, timeout_s=SHORT_S, env=PLAIN)
        more.append(kept)
        nqn = kept.result.stdout.decode("utf-8", "replace").strip() if kept.result.ok else None
    stuck = sum(each.kind == "discovery" and each.state != "live" for each in fabrics)
    why = "no fabrics controller tells it, and /etc/nvme/hostnqn is not there"
    readings = (
        reading(HOST[0], nqn or None, why),
        reading(HOST[1], _only(each.hostid for each in fabrics), "no fabrics controller tells it"),
        reading(HOST[2], _multipath(told.result.stdout), "nvme_core shows no parameter multipath"),
        reading(HOST[3], Quantity.of(stuck, "")),
    )
    return answer(readings, *more, told)


def _multipath(told: bytes) -> bool | None:
    values = sysfs.attributes(told, "nvme_core").get("nvme_core", {})
    value = sysfs.text(values, "parameters/multipath", "nvme_core")
    return None if value is None else value == "Y"


PROBES: tuple[Probe, ...] = (
    Probe(
        name="nvmeof host",
        measures=HOST,
        ask=ask_host,
        commands=if_declared("subsystem", asks(SYSFS, MULTIPATH)),
    ),
    Probe(
        name="nvmeof subsystems",
        measures=SUBSYSTEM,
        ask=ask_subsystems,
        commands=if_declared("subsystem", asks(SYSFS)),
        items="subsystem",
    ),
    Probe(
        name="nvmeof paths",
        measures=PATH,
        ask=ask_paths,
        commands=if_declared("subsystem", asks(SYSFS)),
        items="path",
    ),
)
