from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.parse import settings
from kvgate.probes import platform

BY_NAME = {probe.name: probe for probe in platform.PROBES}


def test_a_server_as_agreed(server: Any, told: Any) -> None:
    found: dict[tuple[str, str], Any] = {}
    for probe in platform.PROBES:
        found |= told(probe.ask(server()))
    assert found["cpu.governor", ""] == "performance"
    assert found["iommu.domain", ""] == "identity"
    assert found["iommu.groups", ""] == Quantity.of(200, "")
    assert found["memory.thp", ""] == "madvise"
    assert found["time.synchronised", ""] is True
    assert found["time.offset", ""] == Quantity.of("0.012345", "ms")
    assert found["host.failed_units", ""] == Quantity.of(0, "")
    assert found["host.uptime", ""] == Quantity.of("86400.17", "s")
    assert found["memory.huge_page_size", ""] == Quantity.of(2, "MiB")


@pytest.mark.parametrize(
    ("name", "argv", "say", "measure", "value"),
    [
        ("failed units", platform.FAILED, b"a.service loaded failed failed A\n"
         b"b@1.timer not-found failed failed B\n", "host.failed_units", Quantity.of(2, "")),
        ("governor", platform.GOVERNORS, b"cpu0/cpufreq/scaling_governor:powersave\n"
         b"cpu1/cpufreq/scaling_governor:performance\n", "cpu.governor", "performance, powersave"),
        ("iommu", platform.IOMMU, b"0/type:DMA-FQ\n1/type:identity\n", "iommu.domain",
         "DMA-FQ, identity"),
        ("time.synchronised", platform.SYNCHRONISED, b"no\n", "time.synchronised", False),
        ("time server", platform.TRACKING, b",,0,0.0,0.000000000,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,"
         b"Not synchronised\n", "time.offset", "chrony follows no time server"),
    ],
)  # fmt: skip
def test_what_is_not_as_agreed_is_told(
    server: Any, told: Any, name: str, argv: Any, say: bytes, measure: str, value: Any
) -> None:
    assert told(BY_NAME[name].ask(server({argv: say})))[measure, ""] == value


def test_a_refusal_is_the_problem(server: Any, told: Any) -> None:
    refused = (1, b"", b"System has not been booted with systemd")
    found = told(BY_NAME["failed units"].ask(server({platform.FAILED: refused})))
    assert "not been booted" in found["host.failed_units", ""]


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (settings.failed_units, b"a.service is fine\n"),
        (settings.synchronised, b"maybe\n"),
        (settings.chrony_offset_s, b"506 Cannot talk to daemon\n"),
        (settings.huge_pages, b"MemTotal: 5 kB\n"),
        (settings.uptime_s, b"12\n"),
        (settings.iommu_domains, b"0/type:?\n"),
        (lambda told: settings.chosen(told, "thp"), b"always madvise never\n"),
        (lambda told: settings.on_off(told, "x"), b"yes\n"),
        (settings.kernel_parameters, b"one\ntwo\n"),
    ],
)
def test_odd_answers_are_refused(read: Any, answer: bytes) -> None:
    with pytest.raises(ParseError):
        read(answer)
