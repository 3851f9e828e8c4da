"""The host itself: distribution, kernel, processors, memory, NUMA nodes."""

from __future__ import annotations

import decimal

from kvgate.model.quantity import Quantity, counted
from kvgate.parse import lscpu, system
from kvgate.probes.base import PLAIN, SHORT_S, Probe, answer, asks, reading
from kvgate.witness import Answer, Witness

OS_RELEASE = ("cat", "/etc/os-release")
UNAME = ("uname", "-a")
LSCPU = ("lscpu", "-J")
MEMINFO = ("cat", "/proc/meminfo")
NODES = ("cat", "/sys/devices/system/node/online")


def ask_distribution(witness: Witness) -> Answer:
    """Return os.id and os.version from os-release (rolling distributions have no version)."""
    asked = witness.ask(OS_RELEASE, timeout_s=SHORT_S)
    found = system.os_release(asked.stdout)
    return answer(
        [
            reading("os.id", found["ID"]),
            reading(
                "os.version",
                found.get("VERSION_ID") or None,
                "os-release has no VERSION_ID: a rolling distribution",
            ),
        ],
        asked,
    )


def ask_kernel(witness: Witness) -> Answer:
    """Return kernel.release, the running kernel."""
    asked = witness.ask(UNAME, timeout_s=SHORT_S, env=PLAIN)
    return answer([reading("kernel.release", system.uname(asked.stdout).release)], asked)


def ask_processors(witness: Witness) -> Answer:
    """Return cpu.model, cpu.sockets and cpu.threads as lscpu counts them."""
    asked = witness.ask(LSCPU, timeout_s=SHORT_S, env=PLAIN)
    found = lscpu.processors(asked.stdout)
    sockets = counted(found.sockets)
    return answer(
        [
            reading("cpu.model", found.model_name, "lscpu names no model"),
            reading("cpu.sockets", sockets, "lscpu counts no sockets"),
            reading("cpu.threads", Quantity.of(found.cpus, "")),
        ],
        asked,
    )


def ask_memory(witness: Witness) -> Answer:
    """Return memory.size as the kernel sees it: what is installed less what it keeps (1 to 2 %)."""
    asked = witness.ask(MEMINFO, timeout_s=SHORT_S)
    with decimal.localcontext(prec=80):  # a binary fraction of any size, exactly
        size = decimal.Decimal(system.mem_total_kib(asked.stdout)) / 2**20
    return answer([reading("memory.size", Quantity(size, "GiB"))], asked)


def ask_nodes(witness: Witness) -> Answer:
    """Return numa.nodes, the nodes that are online."""
    asked = witness.ask(NODES, timeout_s=SHORT_S)
    return answer([reading("numa.nodes", Quantity.of(system.node_count(asked.stdout), ""))], asked)


SOFTWARE: tuple[Probe, ...] = (
    Probe(
        name="distribution",
        measures=("os.id", "os.version"),
        ask=ask_distribution,
        commands=asks(OS_RELEASE),
    ),
    Probe(
        name="kernel",
        measures=("kernel.release",),
        ask=ask_kernel,
        commands=asks(UNAME),
        tools=("uname",),
    ),
)
HARDWARE: tuple[Probe, ...] = (
    Probe(
        name="processors",
        measures=("cpu.model", "cpu.sockets", "cpu.threads"),
        ask=ask_processors,
        commands=asks(LSCPU),
        tools=("lscpu",),
    ),
    Probe(name="memory", measures=("memory.size",), ask=ask_memory, commands=asks(MEMINFO)),
    Probe(name="numa", measures=("numa.nodes",), ask=ask_nodes, commands=asks(NODES)),
)
PROBES = SOFTWARE + HARDWARE
