"""Each GPU by its address, AMD's and NVIDIA's."""

from typing import Any

import pytest

from kvgate.model.quantity import Quantity
from kvgate.probes import gpu_each, gpu_nvidia, gpus

A100 = ["0000:07:00.0", "0000:0f:00.0"]
NVIDIA = {"count": 2, "id": "10de:20b2", "addresses": A100}
PLACED = (
    b"0000:07:00.0/device:0x20b2\n0000:07:00.0/numa_node:0\n"
    b"0000:07:00.0/resource:0x0000002000000000 0x0000003fffffffff 0x000000000014220c\n"
    b"0000:0f:00.0/device:0x20b2\n0000:0f:00.0/numa_node:1\n"
)


def test_each_gpu_of_a_server(server: Any, told: Any, composed: Any) -> None:
    found = told(gpu_each.ask_each(server()))
    first, last = composed.GPUS[0], composed.GPUS[7]
    assert found["card.present", first] is True
    assert found["card.large_bar", first] is True
    assert found["card.ras_uncorrectable", last] == Quantity.of(0, "")
    assert found["card.temperature", last] == Quantity.of(45, "degC")
    assert found["card.busy", last] == Quantity.of(0, "%")
    assert found["card.near_nics", first] == ", ".join(composed.NICS[:2])
    assert found["card.near_nics", last] == ", ".join(composed.NICS[2:])


def test_the_one_that_is_missing_and_the_one_that_is_ill_are_named(
    server: Any, told: Any, composed: Any
) -> None:
    first, second = composed.GPUS[:2]
    say = b"\n".join(
        line for line in composed.cards().split(b"\n") if not line.startswith(first.encode())
    )
    say = say.replace(
        f"{second}/ras/umc_err_count:ue: 0".encode(), f"{second}/ras/umc_err_count:ue: 3".encode()
    ).replace(f"{second}/resource:0x000003c000000000".encode(),
              f"{second}/resource:0x000003fff0000000".encode())  # fmt: skip
    found = told(gpu_each.ask_each(server({gpus.CARDS: say})))
    assert found["card.present", first] is False
    assert found["card.hbm_size", first] == f"no driver drives a GPU at {first}"
    assert found["card.ras_uncorrectable", second] == Quantity.of(3, "")
    assert found["card.large_bar", second] is False
    assert found["card.bar_size", second] == Quantity.of(256, "MiB")
    assert found["card.ras_uncorrectable", composed.GPUS[2]] == Quantity.of(0, "")


def test_counters_that_read_all_ones_are_no_count(server: Any, told: Any, composed: Any) -> None:
    at = composed.GPUS[3]
    odd = f"{at}/ras/umc_err_count:ue: 1048560".encode()
    say = composed.cards().replace(f"{at}/ras/umc_err_count:ue: 0".encode(), odd)
    found = told(gpu_each.ask_each(server({gpus.CARDS: say})))
    assert "is it suspended? umc" in found["card.ras_uncorrectable", at]


def test_without_addresses_nothing_is_asked(server: Any) -> None:
    witness = server(gpus={"count": 8, "id": "1002:74a2"})
    assert gpu_each.ask_each(witness).readings == ()
    assert witness.transport.asked == []


def test_a_host_that_can_not_be_asked_has_problems_not_absences(server: Any, told: Any) -> None:
    witness = server({gpus.CARDS: (2, b"", b"can't cd")})
    found = told(gpu_each.ask_each(witness))
    assert all("drives no GPU" in str(value) for value in found.values())


@pytest.fixture
def nvidia(server: Any, recorded: Any, composed: Any) -> Any:
    def make(query: Any = None) -> Any:
        say = recorded("nvidia_smi/composed-550-a100.csv") if query is None else query
        return server(
            {gpu_nvidia.QUERY: say, gpu_nvidia.SYSFS: PLACED, gpu_nvidia.DRIVER: b"550.90.07\n"},
            gpus=NVIDIA,
        )

    return make


def test_nvidias_gpus_are_told_by_the_same_measures(nvidia: Any, told: Any) -> None:
    found = told(gpus.ask_cards(nvidia()))
    assert found["gpu.driven", ""] == Quantity.of(2, "")
    assert found["gpu.hbm_size", ""] == Quantity.of(80, "GiB")
    assert found["gpu.power_cap", ""] == Quantity.of(400, "W")
    assert found["gpu.temperature", ""] == Quantity.of(32, "degC")
    assert found["gpu.ras_uncorrectable", ""] == Quantity.of(0, "")
    assert "not told" in found["gpu.compute_partition", ""]
    each = told(gpu_each.ask_each(nvidia()))
    assert each["card.large_bar", A100[0]] is True
    assert "does not tell" in each["card.bar_size", A100[1]]
    assert told(gpus.ask_driver(nvidia()))["gpu.driver", ""] == "550.90.07"
    assert told(gpus.ask_logical(nvidia()))["gpu.logical", ""] == gpus.NOT_AMD


@pytest.mark.parametrize(
    ("say", "why"),
    [
        ((127, b"", b""), "install the package 'nvidia-utils'"),
        (b"No devices were found\n", "No devices were found"),
        ((9, b"NVIDIA-SMI has failed\n", b""), "NVIDIA-SMI has failed"),
    ],
)
def test_nvidias_tool_that_tells_nothing(nvidia: Any, told: Any, say: Any, why: str) -> None:
    assert why in told(gpus.ask_cards(nvidia(say)))["gpu.driven", ""]
