"""A real midnight passes in a real soak: a time zone of our own puts it some seconds ahead."""

from __future__ import annotations

import datetime
import re
import struct
import subprocess
import threading
import time
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.engine.test_soak import SOAK, make_run, plan, quiet, ready

from kvgate.engine import soak_run
from kvgate.engine.countersign import KEY_VARIABLE
from kvgate.engine.soak_window import Taken
from kvgate.spec.control import Control
from kvgate.store.canonical import laid_out
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.verify_steps import verify_steps

pytestmark = pytest.mark.whole

AHEAD_S = 6
DAY_S = 86400


@pytest.fixture
def zone(tmp_path: Path) -> Iterator[str]:
    """Return the name of a time zone in which it is `AHEAD_S` before midnight now."""
    today = int(time.time()) % DAY_S
    offset = DAY_S - AHEAD_S - today  # east of UTC; a zone lies less than a day off
    name = f"Test/Midnight{today}"
    path = tmp_path / "zones" / name
    path.parent.mkdir(parents=True)
    counts = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, 0, 1, 4)  # one kind of time, no changes
    path.write_bytes(counts + struct.pack(">lBB4s", offset, 0, 0, b"TST\0"))
    zoneinfo.reset_tzpath([str(tmp_path / "zones")])
    yield name
    zoneinfo.reset_tzpath()


def signed_run(folder: Path, zone: str) -> Path:
    """Return a run whose plan has a controller key, which lies in `folder`."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / "key")]
    subprocess.run(command, check=True, timeout=60)
    public = " ".join((folder / "key.pub").read_text().split()[:2])
    told: dict[str, Any] = {
        "project": "p",
        "document": {"number": "1", "revision": "A", "time_zone": zone},
        "parties": [{"role": "buyer", "name": "B"}],
        "controller_key": {"principal": "controller", "key": public},
    }
    control = Control.model_validate(told)
    bare = make_run(folder, soak=SOAK | {"faults": []})
    inputs = {
        path.relative_to(bare / "inputs").as_posix(): path.read_bytes()
        for path in (bare / "inputs").rglob("*")
        if path.is_file()
    }
    whole = plan(soak=SOAK | {"faults": []}) | {"control": told}
    inputs |= {
        "plan.yaml": yaml.safe_dump(whole).encode(),
        "control.json": laid_out(control.model_dump()),
        "allowed_signers": control.allowed_signers(),
    }
    run = folder / "signed"
    RunWriter.create(run, {"run": "t", "gates": ["G4"]}, inputs).close()
    return run


def test_the_night_is_countersigned_when_its_midnight_has_passed(
    tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def today() -> datetime.date:
        return datetime.datetime.now(datetime.UTC).astimezone(zoneinfo.ZoneInfo(zone)).date()

    def window(*_: object, **__: object) -> list[Taken]:
        while today() == before:
            time.sleep(0.2)
        return []

    monkeypatch.setattr(soak_run, "soak_window", window)
    monkeypatch.setattr(soak_run, "station", ready)
    run = signed_run(tmp_path, zone)
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key"))
    before = today()
    assert soak_run.soak(run, "G4", stop=threading.Event(), on_progress=quiet)
    events = list(RunReader(run).events())
    (night,) = [each for each in events if each.kind == "countersigned"]
    assert f"the night to {before + datetime.timedelta(days=1)}" in str(night.fields["statement"])
    ends = [each.seq for each in events if each.kind == "block_end"]
    assert ends[0] < night.seq < ends[-1]  # while the soak went on
    told = "\n".join(verify_steps(run).lines())
    assert re.search(r"the night to [-\d]+: record \d+, claimed", told)
