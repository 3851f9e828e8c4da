from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.numactl import nodes

Recorded = Callable[[str], bytes]


def test_two_nodes(recorded: Recorded) -> None:
    first, second = nodes(recorded("numactl/composed-2.0.14-2node.txt"))
    assert first.cpus == (0, 1, 2, 3, 8, 9, 10, 11)
    assert (first.size_mib, first.free_mib, first.distances) == (257_543, 251_702, (10, 32))
    assert (second.size_mib, second.free_mib) == (258_036, None)  # <not available>


def test_a_node_without_processors_and_no_distances(recorded: Recorded) -> None:
    first, second = nodes(recorded("numactl/composed-2.0.14-memory_only_node.txt"))
    assert (second.cpus, second.size_mib, first.distances) == ((), 65_536, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"available: 2", b"available: 3"),
        (b"node 1 cpus: 4 5 6 7 12 13 14 15\n", b""),
        (b"257543 MB", b"257543 GB"),
        (b"257543 MB", b"257,543 MB"),
        (b"  1:  32  10", b"  1:  32"),
        (b"  1:  32  10 \n", b""),
        (b"node   0   1", b"node   0   2"),
        (b"available: 2 nodes (0-1)\n", b""),
        (b"node 0 free: 251702 MB\n", b"node 0 free: 251702 MB\nnode 0 free: 1 MB\n"),
        (b"node distances:", b"strange line"),
    ],
)
def test_damaged(recorded: Recorded, old: bytes, new: bytes) -> None:
    answer = recorded("numactl/composed-2.0.14-2node.txt")
    assert old in answer
    with pytest.raises(ParseError, match="numactl"):
        nodes(answer.replace(old, new))


@pytest.mark.parametrize("answer", [b"", b"No NUMA available on this system\n"])
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="numactl"):
        nodes(answer)
