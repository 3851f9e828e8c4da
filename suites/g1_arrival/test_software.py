"""What runs on the hosts: distribution, kernel, tools, clocks."""

from __future__ import annotations

from kvgate.suite import Bench, probes, settles


@settles("G1.1", "G1.2", "G1.3", "G1.4", "G1.5", "G1.6")
def test_versions_against_the_baseline(bench: Bench) -> None:
    """Read the versions of distribution, running kernel and tools."""
    bench.survey(probes.system.SOFTWARE + probes.tools.PROBES, bench.hosts(), phase="inspection")


@settles("G1.30", "G1.31")
def test_clocks_against_the_controller(bench: Bench) -> None:
    """Compare every host's clock with the controller's, three times, and keep the sharpest."""
    bench.survey(probes.clock.PROBES, bench.hosts(), phase="inspection")
