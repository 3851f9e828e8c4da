"""What was ordered against what arrived, part by part, by serial number and place."""

from __future__ import annotations

from kvgate.suite import Bench, compare_parts, no_bom, probes, settles


@settles("G1.121", "G1.122", "G1.123")
def test_ordered_parts_against_those_reported(bench: Bench) -> None:
    """Ask every host what it is made of, and compare it with the bill of materials."""
    bench.require(no_bom(bench))
    bench.survey(probes.parts.PROBES, bench.hosts(), phase="inspection")
    compare_parts(bench, phase="inspection")
