"""Asks a fleet as a gate does, and tells how long that took: `fanout_ours.py FOLDER true|facts`.

FOLDER holds the inventory (site.json) of a small site. The survey is the product's own: host keys
checked, every command on its leash, every answer evidence, all of it on the disk at the end; the
workers are started within the time. Prints a line of JSON: seconds, MiB of all processes at most.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Workspace, load_setup
from kvgate.model.record import Reading
from kvgate.probes import ALL, clock
from kvgate.probes.base import Probe
from kvgate.store.run import RunWriter
from kvgate.suite.bench import Bench
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


def main() -> None:
    """Survey, and print what it took."""
    folder, what = Path(sys.argv[1]), sys.argv[2]
    surveys = [(Probe(name="true", measures=("fleet.answers",), ask=ask_true),)]
    if what == "facts":
        facts = tuple(probe for probe in ALL if probe not in clock.PROBES)
        surveys = [facts[at : at + TOGETHER] for at in range(0, len(facts), TOGETHER)]
    measures = [each for probes in surveys for probe in probes for each in probe.measures]
    workspace = site(folder, measures)
    plan, inventory = folder / "gates/plans/fleet.yaml", folder / "inventory/fleet.yaml"
    setup = load_setup(workspace, plan, inventory)
    inputs = {key: file.content for key, file in setup.files()}
    path = folder / "runs" / f"run-{os.getpid()}"
    begun = time.perf_counter()
    with RunWriter.create(path, {"run": path.name, "gates": ["G1"]}, inputs) as run:
        bench = Bench("G1", setup, run, Progress(None))
        for probes in surveys:
            bench.survey(probes, bench.hosts(), phase="inspection")
        run.sync()
        took = time.perf_counter() - begun
        mib = most_mib(bench.connections.workers)
        measured = list(bench.measurements("fleet.answers"))
        bench.close()
    if what == "true":
        told = sum(each.value is True for each in measured)
        assert told == len(setup.inventory.value.hosts), f"only {told} hosts ran true"
    size = sum(each.stat().st_size for each in (path / "evidence").iterdir())
    print(json.dumps({"seconds": took, "mib": mib, "evidence_bytes": size}))


if __name__ == "__main__":
    main()
