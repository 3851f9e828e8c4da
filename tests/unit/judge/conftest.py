from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

import pytest

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Value
from kvgate.spec.gate import Criterion, Limit
from kvgate.spec.inventory import Inventory

WHEN = datetime.datetime(2026, 5, 12, 8, 0, tzinfo=datetime.UTC)


def make_criterion(**fields: object) -> Criterion:
    have: dict[str, object] = {
        "id": "G2.3",
        "text": "Read tail latency holds",
        "measure": "fio.read_clat_p99",
        "phase": "steady_state",
        "hosts": "serving",
        "limits": {"acceptance": {"at_most": "1.5 ms"}},
        "basis": "test",
    }
    return Criterion.model_validate(have | fields)


def make_limit(**form: object) -> Limit:
    return Limit.model_validate(form)


def make_taken(
    value: Value | None = None,
    *,
    host: str = "ini1",
    item: str = "",
    name: str = "fio.read_clat_p99",
    phase: str = "steady_state",
    labels: Mapping[str, str] | None = None,
    evidence: tuple[str, ...] | None = None,
    problem: str = "",
    at_s: int = 0,
) -> Measurement:
    return Measurement(
        name=name,
        value=value,
        host=host,
        item=item,
        phase=phase,
        taken_at=WHEN + datetime.timedelta(seconds=at_s),
        labels=labels or {},
        evidence=(f"{host}{item}{value}",) if evidence is None else evidence,
        problem=problem,
    )


def quantity(text: str) -> Quantity:
    return Quantity.parse(text)


@pytest.fixture
def criterion() -> Callable[..., Criterion]:
    return make_criterion


@pytest.fixture
def limit() -> Callable[..., Limit]:
    return make_limit


@pytest.fixture
def taken() -> Callable[..., Measurement]:
    return make_taken


@pytest.fixture
def q() -> Callable[[str], Quantity]:
    return quantity


@pytest.fixture
def inventory() -> Inventory:
    return Inventory.model_validate(
        {
            "inventory": "lab",
            "hosts": {
                "ini1": {
                    "roles": ["serving"],
                    "address": "10.0.0.1",
                    "declared": {
                        "memory": "64 GiB",
                        "nics": [{"name": "eth0", "speed": "100 Gb/s"}, {"name": "eth1"}],
                        "disks": [{"serial": "S1", "nvme": True}, {"name": "vda"}],
                    },
                },
                "ini2": {"roles": ["serving"], "address": "10.0.0.2"},
                "load1": {"roles": ["client"], "address": "10.0.0.3"},
            },
        }
    )
