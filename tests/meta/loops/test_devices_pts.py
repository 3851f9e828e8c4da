"""SNIA's tests on a loop device: unmapped, written twice over, a round, and what is refused."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from kvgate.errors import NotRunError
from kvgate.model.quantity import Quantity
from kvgate.spec.pts import PtsWorkload
from kvgate.workloads import pts, pts_place, pts_run
from kvgate.workloads.devices import Consent, DeviceRefusedError

if TYPE_CHECKING:
    from conftest import Lab  # the loop device of this folder

pytestmark = pytest.mark.fio

TOLD = (contextlib.nullcontext, None, None)


def asked(purge: str) -> PtsWorkload:
    return PtsWorkload.model_validate(
        {
            "tests": ["iops"],
            "profile": "full",
            "serials": ["KVGATE-LOOP-1"],
            "purge": purge,
            "per_point": "200 ms",
            "points": [{"read": 0, "block": "4 KiB"}],
        }
    )


def test_a_cleared_device_is_unmapped_preconditioned_and_measured(lab: Lab) -> None:
    [disk] = lab.witness.host.declared.disks
    workload = asked("unmap")
    (loop,) = pts.loops(workload)
    before = lab.digest()
    with pts_place.on_device(
        lab.witness, disk, workload, lab.YES, seed=1, places=lab.places
    ) as place:
        about = {
            each.name: each.value for each in pts_place.about(lab.witness, workload, place, disk)[0]
        }
        assert about["pts.serial"] == lab.SERIAL
        assert about["pts.capacity"] == Quantity.of(lab.SIZE, "B")
        done = pts_run.precondition(lab.witness, workload, loop, place, TOLD)
        told = {each.name: each.value for each in done.readings}
        assert str(told["pts.purge"]).startswith("not purged: all of it unmapped")
        assert told["pts.preconditioned"] == Quantity.of(2 * lab.SIZE, "B")
        assert done.evidence
        assert lab.digest() != before
        answer = pts_run.point(lab.witness, loop, loop.points[0], place, TOLD, round_=1)
        found = {each.name: each for each in answer.readings}
        assert found["pts.errors"].value == Quantity.of(0, "")
        assert found["pts.iops"].value is not None
    assert not list((lab.folder / "scratch").iterdir())
    lab.clear()  # what is left has no signature


def test_nothing_is_purged_that_is_in_use_or_was_not_asked_for(lab: Lab) -> None:
    [disk] = lab.witness.host.declared.disks
    workload = asked("unmap")
    (loop,) = pts.loops(workload)
    before = lab.digest()
    with (
        pytest.raises(DeviceRefusedError, match="yes-destroy"),
        pts_place.on_device(lab.witness, disk, workload, Consent(), seed=1, places=lab.places),
    ):
        pass
    assert lab.digest() == before
    with pts_place.on_device(
        lab.witness, disk, workload, lab.YES, seed=1, places=lab.places
    ) as place:
        lab.run("mkswap", lab.loop)
        before = lab.digest()
        with pytest.raises(DeviceRefusedError, match="swap"):
            pts_run.precondition(lab.witness, workload, loop, place, TOLD)
        assert lab.digest() == before


def test_a_device_that_is_no_nvme_drive_is_not_formatted(lab: Lab) -> None:
    [disk] = lab.witness.host.declared.disks
    workload = asked("format")
    (loop,) = pts.loops(workload)
    before = lab.digest()
    with (
        pts_place.on_device(
            lab.witness, disk, workload, lab.YES, seed=1, places=lab.places
        ) as place,
        pytest.raises(NotRunError, match="nvme"),
    ):
        pts_run.precondition(lab.witness, workload, loop, place, TOLD)
    assert lab.digest() == before
