"""What the image is kept by, and what is said where it can't be made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvgate.errors import HarnessError, UsageError
from kvgate.lab import accel, image, needs, runner
from kvgate.lab.places import Places
from kvgate.lab.progress import Waiting, quiet

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = sorted((ROOT / "src/kvgate/lab").rglob("*.sh"))


def test_an_image_is_kept_until_what_it_is_made_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path)
    assert not image.built(places)
    places.image.mkdir()
    (places.image / "stamp").write_text(image._digest(places))
    assert image.built(places)
    kept = image._digest1()
    files = image._files
    monkeypatch.setattr(image, "_files", lambda folder: files(folder) | {"new.sh": b"#"})
    assert not image.built(places)
    assert image._digest1() == kept  # a guest script costs no new Debian tree
    monkeypatch.setattr(image, "_files", files)
    assert image.built(places)
    places.keys.mkdir()
    (places.keys / "id_lab.pub").write_text("another key")
    assert not image.built(places)


def test_what_is_missing_is_named_with_the_command_and_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(needs.shutil, "which", lambda *_, **__: None)
    with pytest.raises(HarnessError, match=r"lacks .*mmdebstrap.* qemu-system-x86") as refused:
        needs.provide(build=True, install=False, say=quiet)
    assert "apt-get install" in refused.value.hint


def test_a_user_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(
        needs.shutil,
        "which",
        lambda name, **_: None if name in {"qemu-img", "fakeroot"} else which("true"),
    )
    with pytest.raises(HarnessError, match="lacks fakeroot qemu-utils"):
        needs.provide(build=True, install=False, say=quiet)
    assert needs.missing(build=False) == ["qemu-utils"]


def test_a_stage_that_fails_is_told_with_its_last_words() -> None:
    said: list[str] = []
    waiting = Waiting(said.append, "a stage", 60)
    runner.run(["sh", "-c", "echo one; echo two"], waiting=waiting, say=said.append)
    assert said == ["one", "two"]
    with pytest.raises(HarnessError, match=r"exited 3: no space"):
        runner.run(["sh", "-c", "echo no space >&2; exit 3"], waiting=waiting, say=quiet)


def test_a_stage_ends_with_its_kvgate(tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/pid; sleep 600"
    with pytest.raises(HarnessError, match="awaited a stage for 1 s in vain"):
        runner.run(["sh", "-c", script], waiting=Waiting(quiet, "a stage", 1), say=quiet)
    pid, end = int((tmp_path / "pid").read_text()), time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_stage_ends_with_a_kvgate_that_is_killed(tmp_path: Path) -> None:
    program = (
        "from kvgate.lab import runner; from kvgate.lab.progress import Waiting, quiet\n"
        f"script = 'echo $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 600'\n"
        "runner.run(['sh', '-c', script], waiting=Waiting(quiet, 'it', 600), say=quiet)"
    )
    end = time.monotonic() + 60
    with subprocess.Popen([sys.executable, "-c", program]) as child:
        while not (tmp_path / "pid").exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        child.kill()
    pid = int((tmp_path / "pid").read_text())
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_acceleration_is_chosen_kept_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, booted = Places(tmp_path), []
    monkeypatch.delenv("LAB_ACCEL", raising=False)
    monkeypatch.setattr(accel, "_boots", lambda *_: booted.append(1) or False)
    assert accel.chosen("kvm", places, quiet) == "kvm"
    assert accel.chosen("auto", places, quiet) == "tcg"
    assert accel.chosen("", places, quiet) == "tcg"
    assert len(booted) == 1
    (tmp_path / "accel").write_text("kvm another-boot\n")
    assert accel.chosen("", places, quiet) == "tcg"
    assert len(booted) == 2
    with pytest.raises(UsageError, match="'xen' is no acceleration"):
        accel.chosen("xen", places, quiet)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_scripts_are_sound_shell_and_say_what_they_are_for() -> None:
    assert len(SCRIPTS) >= 8
    for script in SCRIPTS:
        lines = script.read_text().splitlines()
        assert lines[0].startswith("#!/bin/")
        assert any(line.startswith("# ") for line in lines[1:3])
        if "busybox" not in lines[0]:
            subprocess.run(["bash", "-n", script], check=True, timeout=30)
