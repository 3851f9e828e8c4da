from __future__ import annotations

import contextlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.telemetry import script
from kvgate.telemetry.snapshot import SNAPSHOT_CAP_BYTES, Disk, Nic, Splitter, parse

SAMPLE = b"""#kvgate-sample 165184 1764522741.250000000
/sys/block/loop0
/sys/block/vda
/sys/block/nvme0n1
/sys/block/dm-0
cpu  100 1 50 900 20 3 4 5 0 0
0.60 0.50 0.40 1/120 4242
MemTotal:       24683656 kB
MemFree:        20000000 kB
MemAvailable:   24260252 kB
   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9
 254       0 vda 70560 26074 2533490 13002 10818 17206 2154896 7904 0 11904 23148 4177 53 102048
 254       1 vda1 1 1 1 1 1 1 1 1 1 1 1
 259       0 nvme0n1 10 0 20 1 30 0 40 1 0 50 2
 252       0 dm-0 9 9 9 9 9 9 9 9 9 9 9
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo:    3193 29 0 0 0 0 0 0  3193 29 0 0 0 0 0 0
  eth0: 206333544 5155 0 0 0 0 0 0  251491 2691 0 0 0 0 0 0"""


def test_a_snapshot_is_read_whole() -> None:
    found = parse(SAMPLE)
    assert (found.uptime_s, found.clock_s) == (1651.84, 1764522741.25)
    assert found.cpu == (100, 1, 50, 900, 20, 3, 4, 5)
    assert found.load_1min == 0.6
    assert (found.mem_total_bytes, found.mem_available_bytes) == (24683656 * 1024, 24260252 * 1024)
    assert found.disks == {
        "vda": Disk(70560, 2533490 * 512, 10818, 2154896 * 512, 11904),
        "nvme0n1": Disk(10, 20 * 512, 30, 40 * 512, 50),
    }
    assert found.nics == {"lo": Nic(3193, 3193), "eth0": Nic(206333544, 251491)}


def test_a_date_without_fractions_is_whole_seconds() -> None:
    assert parse(SAMPLE.replace(b".250000000", b".%N")).clock_s == 1764522741.0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"#kvgate-sample", b"#other"),
        (b" 165184 ", b" "),
        (b"165184", b"1" * 400),
        (b"1764522741", b"99999999999"),
        (b"MemAvailable", b"MemElsewhere"),
        (b"24683656 kB", b"24683656 MB"),
        (b"cpu  100", b"cpu0 100"),
        (b"100 1 50 900 20 3 4 5 0 0", b"100 1 50"),
        (b"10818", b"many"),
        (b"251491", b"-"),
        (b"0.60 0.50", b"? ?"),
    ],
)
def test_anything_else_is_refused(old: bytes, new: bytes) -> None:
    assert old in SAMPLE
    with pytest.raises(ParseError, match="sampler"):
        parse(SAMPLE.replace(old, new))


@given(st.binary(max_size=300), st.integers(0, len(SAMPLE)), st.integers(0, 40))
def test_damaged_samples_are_refused_or_read_but_never_break(
    noise: bytes, at: int, cut: int
) -> None:
    with contextlib.suppress(ParseError):
        parse(SAMPLE[:at] + noise + SAMPLE[at + cut :])


@given(st.lists(st.integers(1, 400), max_size=12))
def test_pieces_of_any_size_give_the_same_samples(sizes: list[int]) -> None:
    stream = (SAMPLE + b"\n#kvgate-end\n") * 3
    splitter, found, at = Splitter(), [], 0
    for size in [*sizes, len(stream)]:
        found += list(splitter.feed(stream[at : at + size]))
        at += size
    assert found == [SAMPLE] * 3


def test_output_without_an_end_is_dropped_and_said() -> None:
    splitter = Splitter()
    with pytest.raises(ParseError, match="without the end"):
        list(splitter.feed(b"x" * (SNAPSHOT_CAP_BYTES + 1)))
    assert list(splitter.feed(SAMPLE + b"\n#kvgate-end\n")) == [SAMPLE]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_script_runs_here_and_ticks_on_the_uptime(shell: str) -> None:
    argv = [shell, *script.command(10)[1:]]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        splitter, found = Splitter(), []
        while len(found) < 4:
            found += [parse(text) for text in splitter.feed(process.stdout.read1(65536))]
        process.kill()
    assert found[3].uptime_s > found[2].uptime_s > found[1].uptime_s
    assert found[0].mem_total_bytes > found[0].mem_available_bytes > 0


def test_an_interval_that_would_spin_is_refused() -> None:
    with pytest.raises(ValueError, match="too often"):
        script.command(9)
