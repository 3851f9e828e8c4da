"""How long `kvgate --help` takes, beside a bare Python in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 21


def _ms(*command: str) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return (time.perf_counter() - begun) * 1000


def test_help_against_a_bare_python(benchmark) -> None:
    """Alternate the two, so that a busy machine is busy for both; print the ratio of medians."""
    ours, bare = [], []
    for _ in range(ROUNDS):
        bare.append(_ms(sys.executable, "-c", "pass"))
        ours.append(_ms(sys.executable, "-m", "kvgate", "--help"))
    benchmark.pedantic(_ms, args=(sys.executable, "-m", "kvgate", "--help"), rounds=5)
    mine, base = statistics.median(ours), statistics.median(bare)
    print(
        f"\nkvgate --help {mine:.0f} ms, python -c pass {base:.0f} ms: {mine / base:.1f} times "
        f"(bar: at most 6)"
    )
