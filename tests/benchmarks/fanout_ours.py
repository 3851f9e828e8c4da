"""Asks a fleet as a gate does, and tells what that took: `fanout_ours.py FOLDER true|facts|read`.

FOLDER holds the inventory (site.json) of a small site. The survey is the product's own: host keys
checked, every command on its leash, every answer evidence, all of it on the disk at the end; the
workers are started within the time. Prints a line of JSON: seconds, CPU seconds, MiB of all
processes at most.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Workspace, load_setup
from kvgate.model.record import Reading
from kvgate.probes import ALL, clock, gather, parts
from kvgate.probes.base import PLAIN, Command, Probe
from kvgate.spec.inventory import Host
from kvgate.store.run import RunWriter
from kvgate.suite.bench import Bench
from kvgate.transport import fleet as _imported  # noqa: F401  before the time, as peers are
from kvgate.witness import Answer, Witness

TOGETHER = 12
"""Probes in one survey, as the suite of G1 has them: what they ask was gathered at the first."""

GATE = """\
gate: G1
title: A fleet
question: Does it answer?
entry: []
criteria:
"""
CRITERION = """\
  - id: G1.{number}
    text: it answers
    measure: {measure}
    phase: inspection
    hosts: serving
    basis: made for this benchmark
    hint: look at the host
    limits: {{rehearsal: {{equals: true}}}}
"""
PLAN = """\
plan: fleet
title: A fleet
profile: rehearsal
seed: 7
gates: [{gate: G1, suite: suites/g1, give_up_after: 600 s}]
workloads: {}
"""


def ask_true(witness: Witness) -> Answer:
    """Return whether the host runs ``true``."""
    told = witness.ask(["true"], timeout_s=30)
    return Answer((Reading(name="fleet.answers", value=told.result.ok),), (told.ref,))


def ask_facts(witness: Witness) -> Answer:
    """Return whether all commands of the facts were answered, each answer kept as evidence."""
    told = [
        witness.ask(command.argv, timeout_s=command.timeout_s, env=PLAIN)
        for command in facts_of(witness.host)
    ]
    refs = tuple(each.ref for each in told)
    ended = all(each.result.exit_status is not None for each in told)
    return Answer((Reading(name="fleet.facts", value=ended),), refs)


@functools.cache
def _facts() -> tuple[Probe, ...]:
    return tuple(probe for probe in ALL if probe not in clock.PROBES)


def in_one_round_trip() -> tuple[Probe, ...]:
    """Return the probes of the facts, those of ordered parts first.

    Without a bill of materials a gate gathers what they ask when they are asked, by themselves;
    with one it is among all other facts, as it is here.
    """
    return tuple(sorted(_facts(), key=lambda probe: not set(probe.measures) <= set(parts.MEASURES)))


def facts_of(host: Host) -> tuple[Command, ...]:
    """Return all commands that G1 asks of a host but for its clock, which is timed alone."""
    return tuple(each for each in gather.commands_of(_facts(), host) if not each.each)


def site(folder: Path, measures: Iterable[str]) -> Workspace:
    """Lay out the site around its inventory, with a gate on `measures`."""
    for name in ("gates/plans", "suites/g1", "inventory", "runs", "templates"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    criteria = [
        CRITERION.format(number=number, measure=measure)
        for number, measure in enumerate(dict.fromkeys(measures), start=1)
    ]
    (folder / "gates/g1.yaml").write_text(GATE + "".join(criteria))
    (folder / "gates/plans/fleet.yaml").write_text(PLAN)
    (folder / "inventory/fleet.yaml").write_bytes((folder / "site.json").read_bytes())
    return Workspace(folder)


def most_mib(pids: tuple[int, ...]) -> float:
    """Return the sum of what each process had in memory at most: not less than all had at once."""
    kib = 0
    for pid in (os.getpid(), *pids):
        status = Path(f"/proc/{pid}/status").read_text()
        kib += int(status.split("VmHWM:", 1)[1].split()[0])
    return kib / 1024


def cpu_s(pids: tuple[int, ...]) -> float:
    """Return the CPU seconds of this process, all its threads, and of `pids`."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # utime, stime: proc(5)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Survey, and print what it took."""
    folder, what = Path(sys.argv[1]), sys.argv[2]
    true = Probe(name="true", measures=("fleet.answers",), ask=ask_true)
    facts = Probe(name="facts", measures=("fleet.facts",), ask=ask_facts, commands=facts_of)
    probes = in_one_round_trip()
    read = [probes[at : at + TOGETHER] for at in range(0, len(probes), TOGETHER)]
    surveys = {"true": [(true,)], "facts": [(facts,)], "read": read}[what]
    measures = [each for probes in surveys for probe in probes for each in probe.measures]
    workspace = site(folder, measures)
    plan, inventory = folder / "gates/plans/fleet.yaml", folder / "inventory/fleet.yaml"
    setup = load_setup(workspace, plan, inventory)
    inputs = {key: file.content for key, file in setup.files()}
    path = folder / "runs" / f"run-{os.getpid()}"
    begun, before = time.perf_counter(), time.process_time()
    with RunWriter.create(path, {"run": path.name, "gates": ["G1"]}, inputs) as run:
        bench = Bench("G1", setup, run, Progress(None))
        for probes in surveys:
            bench.survey(probes, bench.hosts(), phase="inspection")
        run.sync()
        took = time.perf_counter() - begun
        cpu = cpu_s(bench.connections.workers) - before
        mib = most_mib(bench.connections.workers)
        measured = list(bench.measurements("fleet.answers"))
        bench.close()
    if what == "true":
        told = sum(each.value is True for each in measured)
        assert told == len(setup.inventory.value.hosts), f"only {told} hosts ran true"
    size = sum(each.stat().st_size for each in (path / "evidence").iterdir())
    print(json.dumps({"seconds": took, "cpu_s": cpu, "mib": mib, "evidence_bytes": size}))


if __name__ == "__main__":
    main()
