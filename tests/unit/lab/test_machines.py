"""The lab's life with `sleep` in the place of QEMU: state files, what was killed, what is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.errors import HarnessError, UsageError
from kvgate.lab import faults, image, machines, process, vm
from kvgate.lab.machines import Lab
from kvgate.lab.places import Places


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Return a lab whose machines sleep, answer to nobody and are up at once."""
    places = Places(tmp_path, "mine")
    places.keys.mkdir()
    (places.keys / "host_key.pub").write_text("ssh-ed25519 AAAA kvgate\n")
    monkeypatch.setattr(image, "built", lambda _places: True)
    monkeypatch.setattr(machines, "_overlay", lambda _base, path: path.touch())
    monkeypatch.setattr(vm, "command", lambda *_, **__: ["sleep", "600"])
    monkeypatch.setattr(machines.Guests, "until_up", lambda *_, **__: None)
    monkeypatch.setattr(machines.Guests, "run", lambda *_, **__: None)
    lab = Lab(places)
    yield lab
    lab.destroy()


def up(lab: Lab) -> dict[str, int]:
    lab.up(accelerated="tcg")
    return {state.name: state.pid for state in lab.status() if state.pid}


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while process.start_time(pid) is not None:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_up_starts_both_with_ports_of_their_own_and_down_ends_them(lab: Lab) -> None:
    pids = up(lab)
    assert set(pids) == {"tgt", "ini"}
    ports = lab.ports()
    assert len(set(ports.values())) == 2
    assert str(ports["ini"]) in lab.places.inventory.read_text()
    assert up(lab) == pids
    assert lab.down() == ["tgt", "ini"]
    assert not [pid for pid in pids.values() if process.start_time(pid)]
    left = {path.name for path in lab.places.of("tgt").iterdir()}
    assert left == {f"{drive.name}.img" for drive in vm.TGT.drives}
    assert lab.down() == []


def test_a_killed_machine_is_started_again_with_the_drives_it_had(lab: Lab) -> None:
    pids = up(lab)
    drive = lab.places.of("ini") / "free.img"
    with drive.open("r+b") as written:
        written.write(b"kept")
    (lab.places.state / "net-a-2").touch()
    kill(pids["ini"])
    assert [state.name for state in lab.status() if state.pid] == ["tgt"]
    again = up(lab)
    assert again["tgt"] == pids["tgt"]
    assert again["ini"] != pids["ini"]
    assert drive.read_bytes()[:4] == b"kept"
    assert drive.stat().st_size == vm.INI.drives[0].size_bytes
    assert not (lab.places.state / "net-a-2").exists()


def test_down_cleans_up_after_machines_and_a_kvgate_that_were_killed(lab: Lab) -> None:
    for pid in up(lab).values():
        kill(pid)
    (lab.places.of("tgt") / "pid.new").touch()
    assert lab.down() == []
    assert not list(lab.places.state.rglob("pid*"))
    assert not list(lab.places.state.rglob("root.qcow2"))


def test_destroy_removes_the_lab_and_leaves_the_image_and_other_labs(lab: Lab) -> None:
    up(lab)
    other = Places(lab.places.cache, "other")
    other.state.mkdir(parents=True)
    lab.places.image.mkdir()
    assert lab.destroy() == ["tgt", "ini"]
    assert not lab.places.state.exists()
    assert other.state.is_dir()
    assert lab.places.image.is_dir()
    assert lab.destroy() == []


def test_a_lab_that_is_not_up_has_no_guests_and_no_faults(lab: Lab) -> None:
    with pytest.raises(UsageError, match="tgt and ini not up"):
        lab.guests()
    with pytest.raises(UsageError, match="not up"):
        faults.inflict(lab, "cable-a", undo=False, say=print)
    kill(up(lab)["tgt"])
    with pytest.raises(UsageError, match="lab: tgt not up"):
        lab.guests()


def test_an_unknown_fault_and_damaged_state_are_named(lab: Lab) -> None:
    with pytest.raises(UsageError, match="'cabel-a' is no fault"):
        faults.inflict(lab, "cabel-a", undo=False, say=print)
    lab.places.state.mkdir(parents=True)
    (lab.places.state / "ports.json").write_text("{")
    with pytest.raises(HarnessError, match="ports"):
        lab.ports()


def test_without_an_image_nothing_is_started(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "built", lambda _places: False)
    with pytest.raises(HarnessError, match="no image") as refused:
        lab.up()
    assert refused.value.hint == "kvgate lab build"
    assert not lab.places.state.exists()


def test_every_fault_says_what_it_is() -> None:
    names = faults.names()
    assert {"cable-a", "cables", "port-rdma-b", "ana-tcp-a", "reset-tgt", "pull-tgt-raid0"} <= set(
        names
    )
    assert len(set(names.values())) == len(names)
