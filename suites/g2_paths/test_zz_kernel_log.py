"""G2, last of all (files go by name): what the kernels logged while the paths were tested."""

from __future__ import annotations

from kvgate.suite import Bench, settles


@settles("G2.70")
def test_no_fatal_kernel_message_while_the_paths_were_tested(bench: Bench) -> None:
    """Read every serving host's kernel log from the mark on that was set as the gate began."""
    bench.survey_kernel_logs(phase="inspection")
