"""SNIA's tests on a loop device: unmapped, written twice over, a round, and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvgate.errors import KvgateError, NotRunError
from kvgate.model.quantity import Quantity
from kvgate.spec.pts import PtsWorkload, Purge
from kvgate.workloads import pts, pts_place, pts_purge, pts_run
from kvgate.workloads.devices import Consent, DeviceRefusedError

if TYPE_CHECKING:
    from conftest import Lab  # the loop device of this folder

pytestmark = [pytest.mark.fio, pytest.mark.whole]

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


NVME = r"""#!/bin/sh
# A made-up nvme: $0.d/spaces namespaces; what would erase is written down.
here=$0.d
told() { cat "$here/$1"; }
case $1 in
  id-ctrl) echo '{"vid":5197,"sn":"x","mn":"m","fr":"f","sanicap":3,"oacs":'"$(told oacs)"'}' ;;
  list-ns) seq "$(told spaces)" | while read -r n; do echo "[   $((n - 1))]:0x$n"; done ;;
  format | sanitize) echo "$@" >>"$here/erased"; exit "$(told exits)" ;;
  sanitize-log) printf '\377\377\001\001'; head -c 508 /dev/zero ;;
esac
"""


def with_nvme(lab: Lab, *, spaces: int = 1, oacs: int = 6, exits: int = 0) -> Path:
    """Give the host a made-up nvme; return the file of what it was told to erase."""
    tool = lab.folder / "nvme"
    tool.write_text(NVME)
    tool.chmod(0o755)
    told = lab.folder / "nvme.d"
    told.mkdir(exist_ok=True)
    for name, value in (("spaces", spaces), ("oacs", oacs), ("exits", exits)):
        (told / name).write_text(str(value))
    lab.change(tools={**lab.witness.host.tools, "nvme": str(tool)})
    return told / "erased"


@pytest.mark.parametrize("method", ["format", "sanitize"])
def test_a_drive_of_one_namespace_is_purged_under_its_guard(lab: Lab, method: Purge) -> None:
    erased = with_nvme(lab)
    reading, refs = pts_purge.purge(lab.witness, lab.clear, method)
    assert reading.value == pts_purge.TOLD[method]
    [line] = erased.read_text().splitlines()
    assert line.startswith(f"{method} {lab.loop}")
    assert len(refs) >= 3


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({"spaces": 2}, "has 2 namespaces; format could erase the others too"),
        ({"spaces": 0}, "no list of namespaces"),
        ({"oacs": 0}, "no format command"),
    ],
)
def test_what_could_erase_more_is_not_started(lab: Lab, there: dict[str, int], says: str) -> None:
    erased = with_nvme(lab, **there)
    with pytest.raises(KvgateError, match=says):
        pts_purge.purge(lab.witness, lab.clear, "format")
    assert not erased.exists()


def test_a_format_that_the_drive_refuses_is_not_run(lab: Lab) -> None:
    erased = with_nvme(lab, exits=2)
    with pytest.raises(NotRunError, match="ended with 2"):
        pts_purge.purge(lab.witness, lab.clear, "format")
    assert erased.exists()


def test_no_purge_of_a_device_that_came_into_use(lab: Lab) -> None:
    erased = with_nvme(lab)
    device = lab.clear()
    lab.run("mkswap", lab.loop)
    with pytest.raises(DeviceRefusedError, match="right before the write"):
        pts_purge.purge(lab.witness, lambda: device, "format")
    assert not erased.exists()
