"""Faults by commands, on paths in a folder: proven, repaired, noted, guarded, or refused."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvgate.errors import HarnessError, NotRunError, RepairError, StoreError
from kvgate.faults import standing
from kvgate.faults.array import broken_inside
from kvgate.faults.command import Doing
from kvgate.faults.paths import lost_by, paths_lost
from kvgate.spec.faults import FaultTemplate


def template(fake, **fields):
    given = {
        "fault": "cable-a",
        "kind": "link_down",
        "on": "ini",
        "do": [fake.setting("do", "connecting")],
        "undo": [fake.setting("undo", "live")],
        "takes": [{"address": "10.77.1.1"}],
        "within": "10 s",
        "back_within": "20 s",
        **fields,
    }
    return FaultTemplate.model_validate({k: v for k, v in given.items() if v is not None})


def doing(fake, witness, made, events=None, hold_s=0.2):
    return Doing(
        template=made,
        witness=witness,
        folder=fake.folder / "standing",
        run="run-1",
        hold_s=hold_s,
        on_event=None if events is None else lambda kind, _: events.append(kind),
    )


def state(fake, name="nvme3"):
    return (fake.subsystem / name / "state").read_text().strip()


def test_a_path_is_lost_for_the_block_and_back_after_it(fake, witness, watching) -> None:
    made, events = template(fake), []
    with watching() as watch:
        before = watch.wait(lambda _: True, 20)
        loss = lost_by(made, before, "ini")
        assert [str(path) for path in loss.taken] == ["tcp 10.77.1.1:4420 from 10.77.9.9"]
        with paths_lost(doing(fake, witness, made, events), loss, watch, witness):
            assert state(fake) == "connecting"
            assert len(list(standing.left(fake.folder / "standing"))) == 1
            assert events == ["fault_begin", "fault_proven"]
        assert events == ["fault_begin", "fault_proven", "fault_undone", "fault_repaired"]
        assert state(fake) == "live"
    assert not list(standing.left(fake.folder / "standing"))
    assert len(watch.evidence) == 1


def test_it_is_repaired_when_the_block_breaks(fake, witness, watching) -> None:
    made = template(fake)
    with watching() as watch:
        loss = lost_by(made, watch.wait(lambda _: True, 20), "ini")
        with (
            pytest.raises(ZeroDivisionError),
            paths_lost(doing(fake, witness, made), loss, watch, witness),
        ):
            raise ZeroDivisionError
    assert state(fake) == "live"


def test_a_fault_that_did_not_happen_proves_nothing(fake, witness, watching, monkeypatch) -> None:
    monkeypatch.setattr("kvgate.faults.command._LEAST_PROVEN_S", 0.5)
    made = template(fake, do=["true"])
    with watching() as watch:
        loss = lost_by(made, watch.wait(lambda _: True, 20), "ini")
        with (
            pytest.raises(HarnessError, match=r"10\.77\.1\.1.* stayed as it was .*not proven"),
            paths_lost(doing(fake, witness, made), loss, watch, witness),
        ):
            pytest.fail("the block must not begin")
    assert not list(standing.left(fake.folder / "standing"))


def test_a_repair_that_is_not_proven_stops_the_run_and_stays_noted(fake, witness, watching) -> None:
    made = template(fake, undo=["true"], back_within="500 ms")
    with watching() as watch:
        loss = lost_by(made, watch.wait(lambda _: True, 20), "ini")
        with (
            pytest.raises(RepairError, match=r"is connecting, optimized.*repair is not proven"),
            paths_lost(doing(fake, witness, made), loss, watch, witness),
        ):
            pass
    [left] = standing.left(fake.folder / "standing")
    assert (left.fault, left.run, left.undo) == ("cable-a", "run-1", ("true",))


def test_a_path_that_comes_back_under_another_address_is_not_back(fake, witness, watching) -> None:
    moved = fake.script(
        "moved", f"echo traddr=10.77.7.7,trsvcid=4420 >{fake.subsystem}/nvme3/address"
    )
    made = template(fake, undo=[moved], back_within="500 ms")
    with watching() as watch:
        loss = lost_by(made, watch.wait(lambda _: True, 20), "ini")
        with (
            pytest.raises(
                RepairError, match=r"10\.77\.1\.1:4420.* is gone; .*10\.77\.7\.7.* is new"
            ),
            paths_lost(doing(fake, witness, made), loss, watch, witness),
        ):
            pass


def test_a_controller_renumbered_over_its_reconnect_is_back(fake, witness, watching) -> None:
    again = fake.script(
        "again",
        f"[ ! -e {fake.subsystem}/nvme3 ] || mv {fake.subsystem}/nvme3 {fake.subsystem}/nvme9\n"
        f"echo live >{fake.subsystem}/nvme9/state",
    )
    made = template(fake, undo=[again])
    with watching() as watch:
        loss = lost_by(made, watch.wait(lambda _: True, 20), "ini")
        with paths_lost(doing(fake, witness, made), loss, watch, witness):
            pass
    assert state(fake, "nvme9") == "live"


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        ({"takes": [{"address": "10.9.9.9"}]}, "no path goes to 10.9.9.9"),
        (
            {"takes": [{"address": "10.77.1.1"}, {"address": "10.77.2.1"}]},
            "no live, optimized path would be left",
        ),
        ({"kind": "both_paths"}, "not all paths are taken away"),
    ],
)
def test_paths_that_tell_nothing_are_refused_before_anything_is_done(
    fake, watching, fields, because
) -> None:
    with watching() as watch, pytest.raises(NotRunError, match=because):
        lost_by(template(fake, **fields), watch.wait(lambda _: True, 20), "ini")


def test_a_path_that_is_down_already_is_no_begin(fake, watching) -> None:
    fake.state("nvme4", "connecting")
    with watching() as watch, pytest.raises(NotRunError, match="connecting, optimized before"):
        lost_by(template(fake), watch.wait(lambda _: True, 20), "ini")


def test_the_array_itself_proves_what_happens_inside_it(fake, witness, watching) -> None:
    drive = fake.folder / "degraded"
    made = template(
        fake,
        kind="drive_pulled",
        takes=None,
        do=["touch", str(drive)],
        undo=["rm", "-f", str(drive)],
        prove=["test", "-e", str(drive)],
        proved_back=[fake.script("rebuilt", f"[ ! -e {drive} ]")],
    )
    with watching() as watch:
        before = watch.wait(lambda _: True, 20)
        with broken_inside(doing(fake, witness, made), before, watch):
            assert drive.exists()
        assert not drive.exists()


def test_a_killed_controller_leaves_a_guard_that_undoes_the_fault(fake) -> None:
    fake.setting("do", "connecting")
    undo = fake.setting("undo", "live")
    program = f"""
import os
from kvgate.faults import guard
from kvgate.spec.inventory import Host, Role
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness
host = Host(roles=[Role.SERVING], transport="local", name="ini")
witness = Witness(host, LocalTransport("ini"), lambda _: "0" * 64)
with guard.armed(witness, ["{undo}"], within_s=10, deadline_s=600):
    guard.run(witness, ["{fake.folder}/do"], within_s=10).expect_ok()
    os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=120, check=False)
    assert done.returncode == -9
    until = time.monotonic() + 60
    while state(fake) != "live" and time.monotonic() < until:
        time.sleep(0.05)
    assert state(fake) == "live"


def test_the_next_run_undoes_what_still_stands(fake, witness) -> None:
    made = template(fake, proved_back=["grep", "-q", "live", str(fake.subsystem / "nvme3/state")])
    fake.state("nvme3", "connecting")
    folder = fake.folder / "standing"
    standing.note(folder, made, witness.host, "run-0")
    [left] = standing.left(folder)
    standing.undone(left, witness)
    assert (state(fake), list(standing.left(folder))) == ("live", [])


def test_what_can_not_be_undone_stops_the_next_run(fake, witness) -> None:
    folder = fake.folder / "standing"
    standing.note(folder, template(fake, proved_back=["false"]), witness.host, "run-0")
    [left] = standing.left(folder)
    with pytest.raises(RepairError, match="'cable-a' of run run-0 may still stand"):
        standing.undone(left, witness)
    assert list(standing.left(folder)) == [left]


def test_a_note_that_can_not_be_read_is_no_clean_bench(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"fault": "x"}))
    with pytest.raises(StoreError, match="is no fault that may still stand: KeyError"):
        list(standing.left(tmp_path))
