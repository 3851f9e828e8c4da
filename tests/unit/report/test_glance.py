"""Troubles are told host by host where there are many, and hosts by areas."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kvgate.report import glance
from kvgate.report.show import Shown
from kvgate.report.views import MARKS, Trouble
from kvgate.spec.gate import Gate
from kvgate.spec.load import load_gate

ROOT = Path(__file__).resolve().parents[3]
SITE: Any = SimpleNamespace(
    setup=SimpleNamespace(inventory=SimpleNamespace(value=SimpleNamespace(hosts=["a", "b", "c"])))
)


def trouble(host: str) -> Trouble:
    return Trouble(
        gate="G1",
        criterion="G1.1",
        text="It holds",
        mark=next(iter(MARKS.values())),
        host=host,
        item="",
        measured=Shown("1"),
        limit="0",
        because="1",
        hint="mend it",
    )


def test_few_are_one_list_and_many_stand_by_host_the_worst_first() -> None:
    assert glance.by_host([], SITE) == ()
    few = tuple(trouble(host) for host in "abcabcab")
    (only,) = glance.by_host(few, SITE)
    assert (only.host, only.troubles) == ("", few)
    many = [trouble(host) for host in (*"ac", *"bbbbbb", "others", "")]
    groups = [(each.host, len(each.troubles)) for each in glance.by_host(many, SITE)]
    assert groups == [("b", 6), ("a", 1), ("c", 1), ("Several hosts, or none", 2)]


def test_every_measure_of_g1_has_its_area() -> None:
    gate: Gate = load_gate(ROOT / "gates/g1-arrival.yaml").value
    assert {glance._area(each.measure) for each in gate.criteria} == set(glance.AREAS)
    assert glance._area("fio.read.bw") == "Other"
