"""Who signed what, when claimed, over which layers: and what nobody can sign."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvgate.engine.countersign import KEY_VARIABLE
from kvgate.engine.sign import Signer, sign_results
from kvgate.errors import StoreError, UsageError
from kvgate.store.seal import seal
from kvgate.store.seal import verify as whole

if TYPE_CHECKING:
    from tests.unit.signed.conftest import Site, Verify
else:
    Site = Verify = Any


def test_two_parties_sign_in_turn_and_both_are_named(site: Site, verify: Verify) -> None:
    site.approve("buyer")
    site.approve("supplier")
    run = site.signed("supplier", "buyer")
    code, told = verify(run, require=["buyer", "supplier"])
    assert code == 0, told
    assert "buyer: Li Wei (buyer@example.com) for Buyer AG, key SHA256:" in told
    assert "the key was valid at that claimed time; accepted (verdict pass)" in told
    assert "over SHA256SUMS, SHA256SUMS.1, SHA256SUMS.2" in told
    assert told.count("of these criteria") == 2
    assert "was registered by the approval of buyer and supplier" in told
    assert "the opening of G1: record" in told
    assert "the close of the run: record" in told
    last = told.splitlines()[-1]
    assert last.startswith("verified: ")
    assert "signed by buyer Li Wei: accepted; supplier Ada Kern: accepted" in last
    assert whole(run).ok


def test_what_is_not_there_is_told_and_proves_nothing(site: Site, verify: Verify) -> None:
    code, told = verify(site.run())
    assert code == 0
    assert "signatures: none" in told
    assert "signed by nobody" in told.splitlines()[-1]
    code, told = verify(site.run(), require=["buyer"])
    assert code == 1
    assert "no good signature of the buyer" in told


def test_keys_given_from_outside_are_trusted_instead_of_the_runs(
    site: Site, verify: Verify, tmp_path: Path
) -> None:
    run = site.signed("buyer")
    assert "compare them with the contract" in verify(run)[1]
    mine = tmp_path / "allowed_signers"
    mine.write_bytes((run / "inputs/allowed_signers").read_bytes())
    code, told = verify(run, mine)
    assert (code, f"the keys are those of {mine}" in told) == (0, True)
    stranger = (site.keys / "stranger.pub").read_text()
    mine.write_text(f"buyer@example.com {stranger}controller {stranger}")
    code, told = verify(run, mine)
    assert code == 1
    assert "is not authorised for 'buyer@example.com'" in told


@pytest.mark.whole
def test_what_comes_after_a_signature_is_told(site: Site, verify: Verify) -> None:
    run = site.signed("buyer")
    (run / "attestations").mkdir()
    (run / "attestations/photo.txt").write_text("a photo")
    seal(run)
    code, told = verify(run)
    assert code == 0
    assert "came later, not signed by buyer: attestations/photo.txt" in told


@pytest.mark.parametrize(
    ("profile", "forced", "said"),
    [("rehearsal", "", "its profile is rehearsal"), ("acceptance", "to look", "was forced open")],
)
def test_what_is_no_acceptance_is_signed_as_a_record_only(
    site: Site, verify: Verify, profile: str, forced: str, said: str
) -> None:
    plan = site.root / "gates/plans/small.yaml"
    plan.write_text(plan.read_text().replace("profile: acceptance", f"profile: {profile}"))
    run = site.run(forced=forced)
    for decision in ("", "accepted", "accepted_with_conditions", "rejected"):
        with pytest.raises(UsageError, match=said):
            sign_results(run, site.signer("buyer"), decision=decision)
    sign_results(run, site.signer("buyer"), decision="witnessed")
    code, told = verify(run)
    assert code == 0
    assert "as a record only, never an acceptance" in told
    assert "can't be an acceptance" in told.splitlines()[-1]


def test_a_recorded_inventory_is_signed_as_a_record_only(site: Site, by_script: Verify) -> None:
    inventory = site.root / "inventory/small.yaml"
    told = inventory.read_text().replace("local", "recorded, recording: client1.jsonl")
    inventory.write_text(told)
    composed = Path(__file__).parents[3] / "inventory/recorded/mi308x-composed"
    shutil.copy(composed / "hosts/client1.jsonl", inventory.parent)
    run = site.run()
    with pytest.raises(UsageError, match="its hosts, or some of them, are recordings"):
        sign_results(run, site.signer("buyer"), decision="accepted")
    sign_results(run, site.signer("buyer"), decision="witnessed")
    code, told = by_script(run)
    assert code == 0
    assert "can't be an acceptance" in told.splitlines()[-1]


@pytest.mark.whole
def test_a_failed_run_is_not_accepted_without_conditions(site: Site, verify: Verify) -> None:
    run = site.run("9 ms")
    with pytest.raises(UsageError, match="say what you decide"):
        sign_results(run, site.signer("buyer"))
    for decision in ("accepted", "accepted_with_conditions"):  # that takes waivers of both parties
        with pytest.raises(UsageError, match="it can't be accepted"):
            sign_results(run, site.signer("buyer"), decision=decision, conditions=["new fan, Ada"])
    with pytest.raises(UsageError, match="goes with --decision accepted_with_conditions"):
        sign_results(run, site.signer("buyer"), decision="rejected", conditions=["x"])
    sign_results(run, site.signer("buyer"), decision="rejected")
    assert "rejected" in verify(run)[1]


@pytest.mark.whole
def test_a_good_run_may_be_accepted_under_conditions_of_ones_own(
    site: Site, verify: Verify
) -> None:
    run, mine = site.run(), site.signer("buyer")
    with pytest.raises(UsageError, match="nothing is open"):
        sign_results(run, mine, decision="accepted_with_conditions")
    sign_results(run, mine, decision="accepted_with_conditions", conditions=["new fan, Ada"])
    assert "on condition: new fan, Ada" in verify(run)[1]


def test_who_may_not_sign_is_told_and_leaves_nothing(site: Site) -> None:
    run = site.begin()
    with pytest.raises(StoreError, match="not sealed and whole"):
        sign_results(run, site.signer("buyer"))
    run = site.run()
    before = sorted(run.rglob("*"))
    with pytest.raises(StoreError, match="is not registered as buyer"):
        sign_results(run, Signer("buyer", site.keys / "stranger"))
    with pytest.raises(StoreError, match="is not registered as buyer"):
        sign_results(run, Signer("buyer", site.keys / "supplier"))
    named = Signer("buyer", site.keys / "stranger", "buyer@example.com")
    with pytest.raises(StoreError, match=r"is not authorised for 'buyer@example.com'.*nothing"):
        sign_results(run, named)
    with pytest.raises(StoreError, match="is not registered as integrator"):
        sign_results(run, Signer("integrator", site.keys / "buyer"))
    assert sorted(run.rglob("*")) == before
    assert whole(run).ok


def test_a_plan_without_parties_is_not_signed(site: Site) -> None:
    plan = site.root / "gates/plans/small.yaml"
    plan.write_text(plan.read_text().partition("control:")[0])
    run = site.run()
    with pytest.raises(StoreError, match="names no parties"):
        sign_results(run, site.signer("buyer"))
    with pytest.raises(StoreError, match="names no parties"):
        site.approve()


@pytest.mark.whole
def test_a_head_that_could_not_be_signed_is_told(
    site: Site, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, str(site.keys / "stranger"))
    code, told = verify(site.run())
    assert code == 0
    assert "the chain's beginning is vouched for by nobody until sealing" in told
    assert (
        b"is not countersigned"
        in (next((site.root / "runs").iterdir()) / "journal.jsonl").read_bytes()
    )
