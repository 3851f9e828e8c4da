"""Faults as data: what is refused before anything could be broken."""

import pydantic
import pytest

from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.faults import FaultTemplate, FaultWay, filled
from kvgate.spec.inventory import Inventory

LINK = {
    "fault": "cable-a",
    "kind": "link_down",
    "on": "sw1",
    "do": ["set", "port", "{item}", "down"],
    "undo": ["set", "port", "{item}", "up"],
    "item": "Ethernet1/1",
    "takes": [{"address": "10.0.0.1", "port": 4420, "transport": "rdma"}],
}
PULL = {
    "fault": "pull",
    "kind": "drive_pulled",
    "on": "arr",
    "do": ["pull"],
    "undo": ["push"],
    "prove": ["degraded"],
    "proved_back": ["clean"],
}


def template(base=LINK, **fields):
    given = {name: value for name, value in {**base, **fields}.items() if value is not None}
    return FaultTemplate.model_validate(given)


def test_its_item_stands_in_its_words_and_in_no_other() -> None:
    assert filled(template(), None).do == ["set", "port", "Ethernet1/1", "down"]
    with pytest.raises(ValueError, match=r"no item is given"):
        filled(template(item=None), None)


@pytest.mark.parametrize(
    ("base", "fields", "because"),
    [
        (LINK, {"do": ["sh", "-c", "rm -rf /"]}, "not a word of safe characters"),
        (LINK, {"do": ["a;b"]}, "not a word of safe characters"),
        (LINK, {"do": ["$(x)"]}, "not a word of safe characters"),
        (LINK, {"item": "a b"}, "string_pattern_mismatch"),
        (LINK, {"undo": None}, "has 'do' and 'undo'"),
        (LINK, {"by": "down"}, "no do, undo or prove beside it"),
        (LINK, {"takes": None}, "names the paths"),
        (LINK, {"beyond": True}, "beyond goes with both_paths"),
        (LINK, {"times": 3}, "times goes with cable_flap"),
        (LINK, {"kind": "melted"}, "literal_error"),
        (LINK, {"within": "0 s"}, "not within"),
        (PULL, {"prove": None}, "takes 'prove' and 'proved_back'"),
        (PULL, {"takes": LINK["takes"]}, "array's own answer"),
    ],
)
def test_what_could_not_be_proven_or_is_no_word_is_refused(base, fields, because) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        template(base, **fields)
    assert because in str(caught.value)


@pytest.mark.parametrize(
    ("base", "fields", "loss"),
    [
        (LINK, {}, "some"),
        (LINK, {"kind": "both_paths"}, "all"),
        (LINK, {"kind": "both_paths", "beyond": True}, "beyond"),
        (PULL, {}, "none"),
        (PULL, {"kind": "power_loss", "prove": None}, "power"),
    ],
)
def test_what_is_lost_is_told_by_its_kind(base, fields, loss) -> None:
    assert template(base, **fields).loss == loss


def test_an_adapter_gives_the_commands() -> None:
    way = FaultWay(fault="down", kind="link_down", do=["off", "{item}"], undo=["on", "{item}"])
    made = template(do=None, undo=None, by="down")
    assert filled(made, way).undo == ["on", "Ethernet1/1"]
    with pytest.raises(ValueError, match="is a port_off, not a link_down"):
        filled(made, way.model_copy(update={"kind": "port_off"}))
    pulled = FaultWay(fault="pull", kind="drive_pulled", do=["x"], undo=["y"])
    with pytest.raises(ValueError, match="not both prove and proved_back"):
        filled(template(PULL, do=None, undo=None, prove=None, proved_back=None, by="pull"), pulled)


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        ({"on": "nobody"}, "'nobody' is no host here"),
        ({"on": "h1", "by": "x", "do": None, "undo": None}, "'h1' has no adapter"),
    ],
)
def test_a_fault_is_done_where_the_inventory_has_a_host(fields, because) -> None:
    given = {k: v for k, v in {**LINK, **fields}.items() if v is not None}
    hosts = {"h1": {"roles": ["client"], "transport": "local"}}
    with pytest.raises(pydantic.ValidationError, match=because):
        Inventory.model_validate({"inventory": "i", "hosts": hosts, "faults": [given]})
    both = [{**LINK, "on": "h1"}] * 2
    with pytest.raises(pydantic.ValidationError, match="stands twice"):
        Inventory.model_validate({"inventory": "i", "hosts": hosts, "faults": both})


@pytest.mark.parametrize(
    ("fields", "because"),
    [
        ({"serial": None}, "exactly one of 'serial'"),
        ({"file": True}, "exactly one of 'serial'"),
        ({"host": "h1"}, "host goes with 'file: true'"),
        ({"faults": ["a", "a"]}, "stands there twice"),
        ({"faults": []}, "is empty"),
        ({"block": "3000 B"}, "size is a multiple of block"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(fields, because) -> None:
    given = {"nqn": "nqn.x", "serial": "S1", "faults": ["a"], "rate": 100, **fields}
    with pytest.raises(pydantic.ValidationError, match=because):
        FailoverWorkload.model_validate({k: v for k, v in given.items() if v is not None})
