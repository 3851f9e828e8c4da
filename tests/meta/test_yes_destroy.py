"""Consent to write over a device comes from the command line alone, and a run keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvgate.store.reader import RunReader

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

INVENTORY = """\
inventory: small
hosts:
  here:
    roles: [serving]
    transport: local
    declared:
      disks:
        - {serial: KVGATE-ABSENT-1, size: 1 TB, destructive: true}
        - {serial: KVGATE-ABSENT-2, size: 1 TB}
"""
SUITE = '''
@settles("G1.1")
def test_a_device(bench: Bench) -> None:
    """Clear the device, and say what was consented to."""
    from kvgate.workloads import devices
    [host] = bench.hosts("serving")
    bench.run.event("note", text=f"consent: {sorted(bench.consent(host).destroy)}")
    devices.clear(bench.witness(host), host.declared.disks[0], bench.consent(host))
'''
YES = ("--yes-destroy", "KVGATE-ABSENT-1")


@pytest.fixture
def armed(site: Site) -> Site:
    """Return the small site with a suite that would write over a declared disk."""
    (site.root / "inventory/local/this-machine.yaml").write_text(INVENTORY)
    site.gate("G1", {"G1.1": ("a.held", "{at_most: 2 s}")}, SUITE)
    return site


def consents(site: Site) -> list[str]:
    return [e["text"] for e in site.events("note") if e["text"].startswith("consent")]


def test_consent_is_kept_in_manifest_and_journal_and_by_a_resumed_run(armed: Site) -> None:
    done = armed.kvgate("run", *YES)
    assert done.returncode == 2, done.stderr
    assert RunReader(armed.newest()).manifest["yes_destroy"] == ["KVGATE-ABSENT-1"]
    [said] = armed.events("destroy_consent")
    assert said["yes_destroy"] == ["KVGATE-ABSENT-1"]
    assert said["who"]["user"]
    assert consents(armed) == ["consent: ['KVGATE-ABSENT-1']"]
    [attempt] = armed.events("attempt")
    assert attempt["outcome"] == "not_run"
    reasons = "; ".join(attempt["reasons"])
    assert "no device answers to it" in reasons
    assert "the gate did not find it" in reasons


def test_nothing_but_the_command_line_gives_consent(
    armed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KVGATE_YES_DESTROY", "YES_DESTROY"):
        monkeypatch.setenv(name, "KVGATE-ABSENT-1")
    assert armed.kvgate("run").returncode == 2
    assert consents(armed) == ["consent: []"]
    assert "yes_destroy" not in RunReader(armed.newest()).manifest
    assert "--yes-destroy KVGATE-ABSENT-1 was not given" in str(armed.events("attempt"))
    for key in ("yes_destroy: [KVGATE-ABSENT-1]", "destroy: true"):
        armed.plan("G1", more=f"{key}\n")
        done = armed.kvgate("check")
        assert done.returncode == 1
        assert key.partition(":")[0] in done.stderr


def test_a_run_is_resumed_with_its_own_consent_and_no_other(armed: Site) -> None:
    armed.kvgate("run", *YES)
    done = armed.kvgate("run", "--resume", armed.newest().name, *YES)
    assert done.returncode == 64
    assert "--resume takes everything from the run" in done.stderr


@pytest.mark.parametrize("verb", ["run", "plan", "check"])
def test_unfit_serials_are_refused_before_anything_is_done(armed: Site, verb: str) -> None:
    unfit = {
        "KVGATE-ABSENT-3": "no disk of inventory 'small' is declared by this serial",
        "KVGATE-ABSENT-2": "is not declared 'destructive: true' on here",
        "/dev/sda": "no disk of inventory 'small'",
    }
    words = [word for serial in unfit for word in ("--yes-destroy", serial)]
    done = armed.kvgate(verb, *YES, *words)
    assert done.returncode == 64, done.stdout
    for serial, why in unfit.items():
        assert f"{serial}: {why}" in done.stderr
    assert not armed.runs()


def test_plan_and_check_say_what_would_be_written(armed: Site) -> None:
    for verb in ("plan", "check"):
        said = " ".join(armed.kvgate(verb).stdout.split())
        assert "is not written to without --yes-destroy KVGATE-ABSENT-1" in said
        said = " ".join(armed.kvgate(verb, *YES).stdout.split())
        assert "KVGATE-ABSENT-1: may be written over, all of its 1 TB" in said
