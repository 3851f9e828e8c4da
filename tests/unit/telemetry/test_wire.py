from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.telemetry import wire
from kvgate.telemetry.wire import MISSING, Answered, Hello, Listener, Names, Said, Sample

TALK = b"""H {"python": "3.9.2", "boot": "b-1", "absent": {"/dev/kmsg": "Permission denied"}}
S fast 1 [["disk.a.reads", "c"], ["load.1min", "l100"]]
V fast 1 12000 1796083200000000 17 -9223372036854775808
E {"kind": "kernel", "level": 4, "seq": 7, "us": 99, "text": "nvme nvme0: I/O timeout"}
P 3 12000500000 1796083200000500000
"""
SHELL = b"""H {"sampler": 2, "python": "", "boot": "b-1", "absent": {}}
B 25493830 25493830 1796082583.649990654
/proc/stat:cpu  100 0 50 800 10 0 5 3 0 0
/sys/block/sda:
/sys/block/loop0:
/proc/loadavg:4.00 5.17 3.37 3/177 4392
/proc/meminfo:MemTotal:       1000 kB
/proc/diskstats:   8       0 sda 10 0 20 3 4 0 8 1 0 9 4 0 0 0 0
/proc/diskstats:   8       1 sda1 10 0 20 3 4 0 8 1 0 9 4 0 0 0 0
/proc/diskstats:   7       0 loop0 10 0 20 3 4 0 8 1 0 9 4 0 0 0 0
/proc/net/dev:  eth0: 1000 10 0 1 0 0 0 0 2000 20 0 0 0 0 0 0
/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data:250
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:3
/sys/class/nvme/nvme0/state:live
/sys/class/nvme/nvme0/nvme0c0n1/ana_state:optimized
/sys/class/nvme/nvme0/nvme0c0n1/stat: 1 0 8 2 3 0 16 4 5 6 7
F
"""


def heard(data: bytes, cut: int = 7) -> list[object]:
    listener = Listener()
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    return [each for piece in pieces for each in listener.feed(piece)]


@pytest.mark.parametrize("cut", [1, 7, 4096])
def test_what_a_sampler_says_is_understood_however_it_comes(cut: int) -> None:
    hello, names, sample, event, answer = heard(TALK, cut)
    assert hello == Hello("b-1", "3.9.2", {"/dev/kmsg": "Permission denied"})
    assert names == Names("fast", 1, (("disk.a.reads", "c"), ("load.1min", "l100")))
    assert isinstance(sample, Sample)
    assert (sample.uptime_ms, sample.row.tolist()) == (12000, [17, MISSING])
    assert isinstance(event, Said)
    assert (event.event["kind"], event.event["level"]) == ("kernel", 4)
    assert answer == Answered(3, 12000500000, 1796083200000500000)


def test_the_shells_sample_means_the_same() -> None:
    _, names, sample = heard(SHELL)
    assert isinstance(names, Names)
    assert isinstance(sample, Sample)
    found = {
        name: value for (name, _), value in zip(names.series, sample.row.tolist(), strict=True)
    }
    assert found["disk.sda.read_bytes"] == 20 * 512
    assert found["disk.sda.in_flight"] == 0
    assert not any(name.startswith(("disk.sda1", "disk.loop")) for name in found)
    assert found["net.eth0.received_dropped"] == 1
    assert found["rdma.mlx5_0.1.port_rcv_data"] == 1000  # in words of four bytes
    assert found["rdma.mlx5_0.1.out_of_sequence"] == 3
    assert (found["nvme.nvme0.live"], found["path.nvme0c0n1.ana"]) == (1, 2)
    assert found["path.nvme0c0n1.written_bytes"] == 16 * 512
    assert found["mem.total_bytes"] == 1000 * 1024
    assert sample.clock_us == 1796082583649990


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"V fast 9 1 1 5", "before its names"),
        (b"V fast 1 1 1 5", "1 values for 2 series"),
        (b"V fast 1 1 1 5 x", "ValueError"),
        (b"V fast 1 -1 1 5 5", "is no number"),
        (b'S fast 2 [["a", "c"], ["a", "c"]]', "names a series twice"),
        (b'S fast 2 [["\\u001b[31m", "c"]]', "series "),
        (b'S fast 2 [["a", "exec"]]', "series "),
        (b'S ../../etc 2 [["a", "c"]]', "is refused"),
        (b"S fast 2 " + b"[" * 5000, "RecursionError"),
        (b"E []", "TypeError"),
        (b"rm -rf", "is no line"),
        (b"V fast 1 1 1 " + b"9" * 40 + b" 1", "Error"),
    ],
)
def test_what_is_no_line_is_said_and_the_next_is_heard(line: bytes, why: str) -> None:
    *_, error, sample = heard(TALK + line + b"\nV fast 1 13000 1 18 2\n", cut=4096)
    assert isinstance(error, ParseError)
    assert why in error.message
    assert isinstance(sample, Sample)
    assert sample.row.tolist() == [18, 2]


def test_a_host_that_never_ends_its_line_costs_no_memory() -> None:
    listener = Listener()
    errors = [e for _ in range(40) for e in listener.feed(b"x" * 65536)]
    assert len(errors) == 2
    assert len(listener._held) <= wire.LONGEST_BYTES


def test_too_many_series_and_groups_are_refused() -> None:
    many = ",".join(f'["s{n}","c"]' for n in range(wire.MOST_SERIES + 1)).encode()
    (error,) = heard(b"S fast 1 [" + many + b"]\n", 4096)
    assert "over 4096" in str(error)
    groups = b"".join(b'S g%d 1 [["a","c"]]\n' % n for n in range(wire.MOST_GROUPS + 3))
    assert sum(isinstance(each, ParseError) for each in heard(groups, 4096)) == 3


def test_secrets_and_escapes_in_what_a_host_said_are_made_harmless() -> None:
    text = '{"kind": "kernel", "text": "\\u001b[2Jpassword=hunter2hunter2 ok"}'
    (said,) = heard(b"E " + text.encode() + b"\n", 4096)
    assert isinstance(said, Said)
    assert "\x1b" not in said.event["text"]
    assert "hunter2hunter2" not in said.event["text"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_output_of_a_host_raises_anything(data: st.DataObject) -> None:
    talk = bytearray(data.draw(st.sampled_from([TALK, SHELL])))
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, len(talk) - 1))
        talk[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    for each in heard(bytes(talk), 50):
        assert isinstance(each, ParseError | Names | Sample | Said | Hello | Answered)
