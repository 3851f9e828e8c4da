"""A run that measured bandwidths, as the store writes it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, Measurement
from kvgate.store.run import RunWriter

NOON = datetime.datetime(2026, 5, 12, 12, 0, tzinfo=datetime.UTC)
INVENTORY = """\
inventory: site
hosts:
  node1: {roles: [serving], transport: ssh, address: 192.0.2.1, user: u, key: {env: K}}
"""

Taken = tuple[str, object, str]  # name, value, arm ("": none)
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Return a maker of runs: `taken` of node1's job kv-restore, in rounds as they come."""

    def make(
        *taken: Taken,
        profile: str = "acceptance",
        inventory: str = INVENTORY,
        job: str = "kv-restore",
    ) -> Path:
        path = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        manifest = {"run": path.name, "profile": profile}
        piece = Evidence(
            host="node1",
            command=("fio",),
            exit_status=0,
            stdout=b"{}",
            stderr=b"",
            started_at=NOON,
            ended_at=NOON,
        )
        with RunWriter.create(path, manifest, {"inventory.yaml": inventory.encode()}) as run:
            ref = run.evidence(piece)
            for number, (name, value, arm) in enumerate(taken, start=1):
                labels: Mapping[str, str] = {"job": job, "round": str(number)}
                if arm:
                    labels = {**labels, "arm": arm}
                run.measure(
                    Measurement(
                        name=name,
                        value=Quantity.parse(value) if isinstance(value, str) else value,  # type: ignore[arg-type]
                        host="node1",
                        phase="steady_state",
                        taken_at=NOON,
                        labels=labels,
                        evidence=(ref,),
                        problem="" if value is not None else "fio ended badly",
                    )
                )
        return path

    return make
