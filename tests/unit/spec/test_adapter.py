"""Adapters: those that ship are sound, and what an adapter may not hold is refused by name."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine.adapters import load_adapters
from kvgate.errors import SpecError
from kvgate.spec import yamlfile
from kvgate.spec.load import inventory_of
from kvgate.spec.load_adapter import adapter_of

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "inventory" / "adapters").glob("*.yaml"))

GOOD: dict[str, Any] = {
    "adapter": "made",
    "title": "made",
    "role": "array",
    "way": "rest",
    "source": "here",
    "written_for": "now",
    "questions": [
        {
            "question": "system",
            "path": "/s",
            "form": {"document": {}},
            "values": [{"measure": "array.serial", "field": "serial"}],
        }
    ],
}


def refusal(change: Any) -> str:
    value = copy.deepcopy(GOOD)
    change(value, value["questions"][0])
    file = yamlfile.YamlFile("made.yaml", b"", value, {})
    with pytest.raises(SpecError) as caught:
        adapter_of(file)
    return caught.value.message


def test_the_example_of_these_tests_is_sound() -> None:
    assert adapter_of(yamlfile.YamlFile("made.yaml", b"", GOOD, {})).value.measures == {
        "array.serial"
    }


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_adapters_are_sound_and_say_where_they_are_from(path: Path) -> None:
    adapter = adapter_of(yamlfile.read(path)).value
    assert adapter.adapter == path.stem
    assert adapter.about
    assert adapter.identity
    assert "http" in adapter.source or adapter.example


def test_three_adapters_ship() -> None:
    assert [path.stem for path in SHIPPED] == ["array-rest-example", "redfish", "sonic-switch-ssh"]


def _set(where: str, **fields: Any) -> Any:
    def change(whole: dict[str, Any], question: dict[str, Any]) -> None:
        target = {"adapter": whole, "question": question, "value": question["values"][0]}[where]
        for name, value in fields.items():
            if value is None:
                target.pop(name)
            else:
                target[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(_set("question", path="s"), "'s' is not a path such as", id="no-path"),
        pytest.param(_set("question", path="/a/../b"), "is not a path such as", id="climbs"),
        pytest.param(_set("question", path="//host/b"), "is not a path such as", id="a-host"),
        pytest.param(_set("question", path="/a b"), "is not a path such as", id="a-blank"),
        pytest.param(
            _set("question", command=["show"]), "exactly one of a command or a path", id="both"
        ),
        pytest.param(
            _set("question", path=None, command=["show"]), "by rest it is asked otherwise", id="way"
        ),
        pytest.param(
            _set("question", path=None, command=["show", "a;b"]),
            "'a;b' is not a word of safe characters",
            id="a-shell-word",
        ),
        pytest.param(
            _set("question", path=None, command=["show", "$(id)"]),
            "is not a word of safe characters",
            id="a-substitution",
        ),
        pytest.param(
            _set("question", path="/p/{port}"), "'{port}' and for_each: port go together", id="port"
        ),
        pytest.param(_set("question", path="/p/{serial}"), "is not a path", id="another-field"),
        pytest.param(_set("question", form={}), "an answer has exactly one form", id="no-form"),
        pytest.param(
            _set("question", form={"lines": {"pattern": "(?P<a>x+)+"}}),
            "a group is not repeated",
            id="a-slow-pattern",
        ),
        pytest.param(_set("question", unless="other"), "unless 'other' is none", id="unless"),
        pytest.param(
            _set("value", measure="array.serail"),
            "'array.serail' is no measure of role 'array'; known: array.model",
            id="a-measure-mistyped",
        ),
        pytest.param(
            _set("value", measure="array.dedup_ratio"),
            "array.dedup_ratio is ratio, not text",
            id="no-unit",
        ),
        pytest.param(
            _set("value", measure="array.capacity.physical", unit="%"),
            "array.capacity.physical is bytes, not ratio",
            id="another-unit",
        ),
        pytest.param(_set("value", unit="GBit"), "'GBit' is not a unit", id="no-such-unit"),
        pytest.param(
            _set("value", measure="array.port.state"), "told of each thing", id="without-an-item"
        ),
        pytest.param(_set("question", item="{id}"), "told of the device itself", id="with-an-item"),
        pytest.param(_set("adapter", role="host"), "Input should be 'array'", id="a-role"),
        pytest.param(_set("adapter", login="session"), "Redfish's way to log in", id="a-session"),
        pytest.param(_set("adapter", identity="array.model"), "is told by no question", id="who"),
        pytest.param(_set("adapter", method="POST"), "'method' is not a key here", id="post"),
    ],
)
def test_refusals(change: Any, says: str) -> None:
    assert says in refusal(change)


def test_two_questions_of_one_name_are_refused() -> None:
    assert "stands twice" in refusal(lambda whole, q: whole["questions"].append(q))


# with an inventory


INVENTORY = """\
inventory: a
hosts:
  n1: {{roles: [serving], transport: local}}
  d1: {{roles: [{role}], adapter: {adapter}, transport: {transport}, address: 192.0.2.1, {more}}}
"""


def loaded(tmp_path: Path, **fields: str) -> str:
    text = INVENTORY.format(**{"more": "sim" + "ulated: true", **fields})
    inventory = inventory_of(yamlfile.parse(text.encode(), "inv.yaml"))
    with pytest.raises(SpecError) as caught:
        load_adapters(inventory, (tmp_path, ROOT / "inventory"), str)
    return caught.value.message


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"role": "switch", "adapter": "sonic-switch", "transport": "ssh"},
            "inv.yaml:4: hosts.d1.adapter: there is no adapter 'sonic-switch' "
            "(adapters/sonic-switch.yaml); did you mean 'sonic-switch-ssh'?",
        ),
        (
            {"role": "array", "adapter": "sonic-switch-ssh", "transport": "ssh"},
            "adapter 'sonic-switch-ssh' is for the role 'switch', not for 'array'",
        ),
        (
            {"role": "switch", "adapter": "sonic-switch-ssh", "transport": "https"},
            "adapter 'sonic-switch-ssh' asks by ssh, not by https",
        ),
        (
            {"role": "array", "adapter": "array-rest-example", "transport": "https"},
            "adapter 'array-rest-example' logs in (basic), and the device has no 'user'",
        ),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(
    tmp_path: Path, fields: dict[str, str], says: str
) -> None:
    assert says in loaded(tmp_path, **fields)


def test_a_parser_that_kvgate_has_not_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "adapters"
    folder.mkdir()
    (folder / "named.yaml").write_text(
        "adapter: named\ntitle: t\nrole: switch\nway: ssh\nsource: s\nwritten_for: w\nquestions:\n"
        "  - question: q\n    command: [lldp]\n    form: {named: ldp}\n"
        "    values: [{measure: switch.serial, field: a}]\n"
    )
    says = loaded(tmp_path, role="switch", adapter="named", transport="ssh")
    assert "named.yaml:10: questions.0.form.named: kvgate has no parser 'ldp'" in says
