"""Which faults a plan asks for: their commands, their place, and all that does not fit."""

from types import SimpleNamespace

import pytest

from kvgate.engine.failover_plan import planned, problems
from kvgate.errors import NotRunError
from kvgate.model.quantity import Quantity
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.faults import FaultWay
from kvgate.spec.inventory import Inventory

OFF = FaultWay(fault="off", kind="port_off", do=["shutdown", "{item}"], undo=["startup", "{item}"])
HOSTS = {
    "node1": {
        "roles": ["serving"],
        "transport": "local",
        "declared": {"disks": [{"serial": "S1", "size": "1 GiB", "destructive": True}]},
    },
    "leaf1": {"roles": ["switch"], "address": "10.0.0.9", "adapter": "sonic"},
}
FAULT = {
    "fault": "leaf1-port",
    "kind": "port_off",
    "on": "leaf1",
    "by": "off",
    "item": "Ethernet28",
    "takes": [{"address": "10.1.0.11"}],
    "hold": "45 s",
}


def setup(ways=(OFF,), fault=FAULT, **workload):
    given = {"nqn": "nqn.x", "serial": "S1", "faults": ["leaf1-port"], "rate": 100, **workload}
    load = FailoverWorkload.model_validate({k: v for k, v in given.items() if v is not None})
    inventory = Inventory.model_validate({"inventory": "i", "hosts": HOSTS, "faults": [fault]})
    workloads = SimpleNamespace(failover=load)
    return SimpleNamespace(
        plan=SimpleNamespace(value=SimpleNamespace(workloads=workloads)),
        inventory=SimpleNamespace(value=inventory),
        adapter=lambda host: SimpleNamespace(faults=ways) if host.adapter else None,
    )


def test_an_adapters_template_becomes_the_commands_of_one_port() -> None:
    plan = planned(setup())
    assert plan.faults[0].do == ["shutdown", "Ethernet28"]
    assert (plan.host.name, plan.disk.serial) == ("node1", "S1")
    assert plan.faults[0].hold == Quantity.of(45, "s")


def test_a_plan_without_the_workload_asks_for_nothing() -> None:
    none = setup()
    none.plan.value.workloads.failover = None
    assert planned(none) is None


@pytest.mark.parametrize(
    ("made", "where", "because"),
    [
        (setup(faults=["leaf1-prot"]), ("faults", 0), "did you mean 'leaf1-port'"),
        (setup(ways=()), ("faults", 0), "'off' is no fault of its adapter"),
        (setup(fault={**FAULT, "item": None}), ("faults", 0), "no item is given"),
        (setup(fault={**FAULT, "kind": "link_down"}), ("faults", 0), "is a port_off, not a"),
        (setup(serial="S9"), ("serial",), "no serving host declares disk 'S9'"),
        (
            setup(serial=None, file=True, host="node7"),
            ("host",),
            "host 'node7' is no serving host",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(made, where, because) -> None:
    [(at, what)] = problems(made, made.plan.value.workloads.failover)
    assert at == where
    assert because in what
    with pytest.raises(NotRunError):
        planned(made)
