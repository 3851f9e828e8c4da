"""What a killed run left standing is undone on the hosts of this inventory, and on no other."""

from pathlib import Path
from types import SimpleNamespace

from kvgate.engine.left_faults import undo_left
from kvgate.faults import standing
from kvgate.spec.faults import FaultTemplate
from kvgate.spec.inventory import Host, Inventory, Role
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness


def test_only_faults_on_this_inventorys_hosts_are_undone(tmp_path: Path) -> None:
    mark = tmp_path / "undone"
    inventory = Inventory.model_validate(
        {"inventory": "i", "hosts": {"here": {"roles": ["client"], "transport": "local"}}}
    )
    template = FaultTemplate.model_validate(
        {"fault": "f1", "kind": "port_off", "on": "here", "do": ["true"],
         "undo": ["touch", str(mark)], "takes": [{"address": "10.0.0.1"}]}
    )  # fmt: skip
    folder = tmp_path / standing.FOLDER
    elsewhere = Host(roles=[Role.CLIENT], address="10.9.9.9", name="there")
    other = standing.note(folder, template.model_copy(update={"fault": "f2"}), elsewhere, "run-0")
    standing.note(folder, template, inventory.hosts["here"], "run-0")
    events: list[tuple[str, str]] = []
    run = SimpleNamespace(
        path=tmp_path / "run-1", event=lambda kind, **fields: events.append((kind, fields["fault"]))
    )
    witness = Witness(inventory.hosts["here"], LocalTransport("here"), lambda _: "0" * 64)
    assert [each.fault for each in undo_left(run, inventory, lambda _: witness)] == ["f1"]
    assert mark.exists()
    assert events == [("fault_left", "f1"), ("fault_repaired", "f1")]
    assert [each.path for each in standing.left(folder)] == [other]
