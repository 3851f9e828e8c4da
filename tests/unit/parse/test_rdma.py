from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.rdma import link, statistic

Recorded = Callable[[str], bytes]


def test_text_and_json_tell_the_same(recorded: Recorded) -> None:
    found = link(recorded("rdma_link/composed-6.1.txt"))
    assert found == link(recorded("rdma_link/composed-6.1.json"))
    assert [(each.device, each.port, each.state, each.netdev) for each in found] == [
        ("mlx5_0", 1, "ACTIVE", "ens3f0np0"),
        ("mlx5_1", 1, "DOWN", None),
    ]


def test_the_index_of_older_versions(recorded: Recorded) -> None:
    (found,) = link(recorded("rdma_link/composed-4.x-index.txt"))
    assert (found.device, found.port, found.netdev) == ("mlx5_0", 1, "ens3f0np0")


def test_no_device_in_json_is_no_link() -> None:
    assert link(b"[ ]\n") == ()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[1]",
        b"[{}]",
        b'[{"ifname":"a","port":"x"}]',
        b"link mlx5_0/1 state\n",
        b"hello\n",
        b"link mlx5_0/1 state UP state DOWN\n",
        b"link mlx5_0 state UP\n",
        b"$ rdma link\n",
        b"link a/1 state UP\nlink a/1 state DOWN\n",
    ],
)
def test_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="rdma link"):
        link(answer)


def test_counters_over_several_lines_and_the_optional_set(recorded: Recorded) -> None:
    first, second = statistic(recorded("rdma_statistic/composed-6.1.txt"))
    assert first.link == "mlx5_0/1"
    assert (first.counters["out_of_sequence"], first.counters["np_cnp_sent"]) == (12, 2**64 - 1)
    assert first.optional == {"cc_rx_ce_pkts": 5}
    assert "cc_rx_ce_pkts" not in first.counters
    assert second.counters == {"rx_write_requests": 0}  # what is not counted is not 0


def test_counters_of_json(recorded: Recorded) -> None:
    first, second = statistic(recorded("rdma_statistic/composed-6.1.json"))
    assert (first.counters["out_of_buffer"], first.optional) == (3, {"cc_rx_ce_pkts": 5})
    assert (second.link, second.optional) == ("mlx5_1/1", {})


def test_a_counter_that_is_not_available_is_left_out() -> None:
    (found,) = statistic(b"link a/1 out_of_buffer N/A np_cnp_sent 4\n")
    assert found.counters == {"np_cnp_sent": 4}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"out_of_buffer 3\n",
        b"link a/1 out_of_buffer\n",
        b"link a/1 out_of_buffer -1\n",
        b"[{}]",
        b"link a/1 b 1 b 2\n",
        b"link a/1 3 out_of_buffer\n",
        b'[{"ifname":"a","port":1,"b":1.5}]',
    ],
)
def test_refused_statistic(answer: bytes) -> None:
    with pytest.raises(ParseError, match="rdma statistic"):
        statistic(answer)
