"""fio on several hosts at once: two servers on loopback, their sum, and starts apart."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kvgate.errors import NotRunError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.spec.inventory import Host, Role
from kvgate.spec.workload import FioTogether
from kvgate.workloads import fio, fio_together
from kvgate.workloads.fio_together import Station
from kvgate.workloads.shapes import CHUNK_BYTES, RANKS

ADDRESSES = {"ini1": "127.0.0.1", "ini2": "127.0.0.2"}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def workload(*jobs: str, most_apart: str = "1 min") -> FioTogether:
    return FioTogether.model_validate(
        {
            "rounds": 1,
            "ramp": "100 ms",
            "runtime": "1500 ms",
            "size": f"{RANKS * CHUNK_BYTES} B",
            "jobs": list(jobs),
            "most_apart": most_apart,
            "port": free_port(),
        }
    )


@contextlib.contextmanager
def stations(bench: Any, load: FioTogether, ahead_ms: float = 0.0) -> Iterator[list[Station]]:
    """Yield two hosts that both are this machine, the second with a clock of its own."""
    with contextlib.ExitStack() as held:
        found = []
        for name, address in ADDRESSES.items():
            host = Host(
                roles=[Role.SERVING], address=address, scratch=str(bench.scratch), name=name
            )
            witness = dataclasses.replace(bench.witness, host=host)
            place = held.enter_context(fio.prepare(witness, load))
            found.append(Station(witness, place, ahead_ms if found else 0.0))
        yield found


def named(readings: tuple[Reading, ...]) -> dict[str, Reading]:
    return {each.name: each for each in readings}


@pytest.mark.fio
def test_what_two_hosts_get_together(bench: Any) -> None:
    load = workload("kv-mixed")
    with stations(bench, load) as both:
        told = fio_together.run(both, "kv-mixed", load)
    whole = named(told.whole.readings)
    rates = [named(told.each[name].readings)["together.host_read_bw"].value for name in ADDRESSES]
    assert all(isinstance(each, Quantity) and each.base > 10**6 for each in rates)
    total, fair = whole["together.read_bw"].value, whole["together.fairness_read"].value
    assert isinstance(total, Quantity)
    assert abs(float(total.base) - sum(float(each.base) for each in rates)) < 10  # type: ignore[union-attr]
    assert isinstance(fair, Quantity)
    assert 0 < fair.base <= 1
    assert isinstance(whole["together.write_bw"].value, Quantity)
    assert isinstance(whole["together.start_apart"].value, Quantity)
    text = b"".join(bench.kept[ref].stdout for ref in told.whole.evidence)
    assert b"client_stats" in text
    assert list(bench.scratch.iterdir()) == []


@pytest.mark.fio
def test_hosts_that_did_not_begin_together_are_no_measurement(bench: Any) -> None:
    load = workload("kv-restore", most_apart="20 s")
    with stations(bench, load, ahead_ms=600_000) as both:
        told = fio_together.run(both, "kv-restore", load)
    for reading in (*told.whole.readings, *told.each["ini1"].readings):
        assert reading.value is None
        assert "ms apart, at most 20000 ms is agreed" in reading.problem


def test_addresses_are_numbers() -> None:
    def at(**fields: object) -> Host:
        return Host.model_validate({"roles": ["serving"], **fields})

    assert fio_together.address_of(at(address="192.0.2.7")) == "192.0.2.7"
    assert fio_together.address_of(at(transport="local")) == "127.0.0.1"
    for name in ("ini1.example.org", "2001:db8::1"):
        with pytest.raises(NotRunError, match="no IPv4 address"):
            fio_together.address_of(at(address=name))


def test_a_verification_is_of_one_host() -> None:
    with pytest.raises(NotRunError, match="not run on several hosts"):
        fio_together.run([], "verify", workload("verify"))
