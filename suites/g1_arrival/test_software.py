"""What runs on the hosts: distribution, kernel, tools, clocks."""

from __future__ import annotations

from kvgate.suite import Bench, probes, settles


@settles("G1.1", "G1.2", "G1.3", "G1.4", "G1.5", "G1.6")
def test_versions_against_the_baseline(bench: Bench) -> None:
    """Read the versions of distribution, running kernel and tools."""
    bench.survey(probes.system.SOFTWARE + probes.tools.PROBES, bench.hosts(), phase="inspection")


@settles("G1.35", "G1.36", "G1.37", "G1.39", "G1.40", "G1.127")
def test_settings_against_the_agreed(bench: Bench) -> None:
    """Read how hosts are set up: IOMMU, governor, NUMA balancing, time, services."""
    bench.survey(probes.platform.PROBES, bench.hosts(), phase="inspection")


@settles("G1.124", "G1.125")
def test_versions_of_the_serving_software(bench: Bench) -> None:
    """Read the versions of vLLM and LMCache from the metadata that the declared Python sees."""
    bench.survey(probes.packages.PROBES, bench.hosts(), phase="inspection")


@settles("G1.38")
def test_the_version_of_rocm(bench: Bench) -> None:
    """Read the versions of amd-smi and ROCm, and of the GPU driver."""
    bench.survey(probes.gpu_tools.VERSIONS, bench.hosts(), phase="inspection")


@settles("G1.30", "G1.31")
def test_clocks_against_the_controller(bench: Bench) -> None:
    """Compare every host's clock with the controller's, three times, and keep the sharpest."""
    bench.survey(probes.clock.PROBES, bench.hosts(), phase="inspection")


@settles("G1.59", "G1.60", "G1.61", "G1.62", "G1.63")
def test_the_kernel_log_since_boot(bench: Bench) -> None:
    """Look in the kernel log for what is known to be bad, by subject."""
    bench.survey(probes.kernel_log.PROBES, bench.hosts(), phase="inspection")
