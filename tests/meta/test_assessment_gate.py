"""G3's assessment by whole runs: the shipped suite and criteria, on traces that are known."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvgate.kv.agreed import generated

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]
DEVICE = ["G3.154", "G3.165"]
IDS = ("G3.150", "G3.151", "G3.152", "G3.153", "G3.160", *DEVICE)


def judged(site: Any, trace: bytes, *, agreed: str = "", **more: Any) -> dict[str, str]:
    """Run G3's assessment of `trace` with the shipped suite; return criterion → status."""
    gate = yaml.safe_load((ROOT / "gates/g3-kv-tier.yaml").read_text())
    gate["criteria"] = [each for each in gate["criteria"] if each["id"] in IDS]
    gate["entry"] = []
    (site.root / "gates/g3-kv-tier.yaml").write_text(yaml.safe_dump(gate))
    suite = site.root / "suites/g3"
    suite.mkdir(exist_ok=True)
    (suite / "test_a.py").write_bytes((ROOT / "suites/g3_kv_tier/test_assessment.py").read_bytes())
    (site.root / "agreed.jsonl").write_bytes(trace)
    (site.root / "claims.yaml").write_bytes(
        (ROOT / "inventory/examples/claims-fx100.yaml").read_bytes()
    )
    asked = {"trace": "agreed.jsonl", "sha256": agreed or hashlib.sha256(trace).hexdigest()}
    asked |= {"hbm": "5 GB", "dram": "10 GB", "tier": "100 GB", "claims": "claims.yaml"} | more
    plan = yaml.safe_load((site.root / "gates/plans/rehearsal.yaml").read_text())
    plan["gates"] = [{"gate": "G3", "suite": "suites/g3", "give_up_after": "100 s"}]
    plan["scope_out"] = [{"criteria": DEVICE, "reason": "no arm is a device"}]
    plan["workloads"] = {"assessment": asked}
    (site.root / "gates/plans/rehearsal.yaml").write_text(yaml.safe_dump(plan))
    done = site.kvgate("run")
    assert done.returncode in (0, 1, 2), done.stderr
    return {key: found["verdict"] for key, found in site.findings().items() if key not in DEVICE}


def test_a_trace_that_gains_passes(site: Any) -> None:
    assert set(judged(site, generated(3, requests=80, conversations=8)).values()) == {"pass"}


def test_another_trace_and_one_that_is_resident_fail_for_their_reason(site: Any) -> None:
    trace = generated(3, requests=80, conversations=8)
    found = judged(site, trace, agreed=hashlib.sha256(b"").hexdigest(), hbm="1 TB")
    assert (found["G3.150"], found["G3.151"], found["G3.152"]) == ("fail", "pass", "fail")


def test_a_broken_trace_is_inconclusive_never_passed(site: Any) -> None:
    found = judged(site, generated(3, requests=9, conversations=2)[:-30])
    assert found["G3.151"] == found["G3.152"] == "inconclusive"
