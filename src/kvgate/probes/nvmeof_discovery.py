"""NVMe-oF discovery: does the array's discovery service list every declared path."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.errors import ParseError
from kvgate.model.record import Reading
from kvgate.parse.nvme_connect import Discovered, discovered
from kvgate.probes.base import PLAIN, Command, Probe, answer, reading, refusal
from kvgate.spec.fabric import Discovery, NvmeSubsystem
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

MEASURES = ("nvmeof.discovered",)
DISCOVER_S = 40.0
"""Deadline of a discovery: a target that does not answer ends it after half a minute."""


def argv(
    host: Host, transport: str, service: Discovery, *, as_json: bool = True
) -> tuple[str, ...]:
    """Return the command that asks a discovery service."""
    form = ("-o", "json") if as_json else ()
    where = ("-t", transport, "-a", service.target, "-s", str(service.port))
    return host.as_root("nvme", "discover", *where, *form)


def ask(witness: Witness) -> Answer:
    """Return for every declared path whether discovery lists it; all declared services are asked.

    A path counts as listed where any of them lists it. nvme-cli 1.x without JSON is asked for text.
    """
    readings: list[Reading] = []
    asked: list[Testimony] = []
    for declared in witness.host.declared.nvmeof:
        logs, silent = list[Discovered](), list[str]()
        for service in declared.discovery:
            told = _discover(witness, declared, service)
            asked.append(told)
            if not told.result.ok and b"option" in told.result.stderr:
                told = _discover(witness, declared, service, as_json=False)
                asked.append(told)
            try:
                logs.append(discovered(told.result.stdout))
            except ParseError as err:
                why = err.message if told.result.ok else refusal(told, "nvme-cli")
                silent.append(f"{service.target}:{service.port}: {why}")
        readings += _told(declared, logs, silent)
    return answer(readings, *asked)


def _discover(
    witness: Witness, declared: NvmeSubsystem, service: Discovery, *, as_json: bool = True
) -> Testimony:
    command = argv(witness.host, declared.transport, service, as_json=as_json)
    return witness.ask(command, timeout_s=DISCOVER_S, env=PLAIN)


def _told(declared: NvmeSubsystem, logs: list[Discovered], silent: list[str]) -> Iterable[Reading]:
    for path in declared.paths:
        wanted = (declared.nqn, declared.transport, path.target, str(path.port))
        listed = any(log.lists(*wanted) for log in logs)
        known = listed or (bool(logs) and not silent)
        why = "; ".join(silent) or f"no discovery service is declared for {declared.name}"
        yield reading(MEASURES[0], listed if known else None, why, item=declared.item(path))


def _commands(host: Host) -> tuple[Command, ...]:
    return tuple(
        Command(argv=argv(host, each.transport, service), timeout_s=DISCOVER_S)
        for each in host.declared.nvmeof
        for service in each.discovery
    )


PROBES: tuple[Probe, ...] = (
    Probe(
        name="nvmeof discovery",
        measures=MEASURES,
        ask=ask,
        commands=_commands,
        tools=("nvme",),
        items="path",
    ),
)
