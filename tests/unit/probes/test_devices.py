"""Adapters against recorded answers: what they tell, and what they must not pretend to know."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import HarnessError, HostUnreachableError, ParseError
from kvgate.model.record import Reading
from kvgate.probes import devices
from kvgate.spec import device, yamlfile
from kvgate.spec.adapter import Adapter
from kvgate.spec.inventory import Host
from kvgate.spec.load_adapter import adapter_of
from kvgate.transport.base import CommandResult
from kvgate.witness import Witness

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "recorded" / "adapters"

Answer = tuple[int, bytes]
Told = dict[tuple[str, str], object]


class Device:
    """Answers from a mapping; what is not in it is not there, as devices say that."""

    name = "d1"

    def __init__(self, answers: Mapping[str, Answer | Exception]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        key = argv[1] if argv[0] == "GET" else " ".join(argv)
        self.asked.append(key)
        found = self.answers.get(key, (404 if argv[0] == "GET" else 2, b""))
        if isinstance(found, Exception):
            raise found
        return CommandResult(
            host="d1",
            argv=tuple(argv),
            exit_status=found[0],
            stdout=found[1],
            stderr=b"HTTP 404 Not Found" if found[0] else b"",
            started_at=datetime.datetime.now(datetime.UTC),
            elapsed_s=0.01,
        )


@functools.cache
def shipped(name: str) -> Adapter:
    return adapter_of(yamlfile.read(ROOT / "inventory" / "adapters" / f"{name}.yaml")).value


def made(**fields: Any) -> Adapter:
    base = {
        "adapter": "made",
        "title": "made up",
        "role": "array",
        "way": "rest",
        "source": "this test",
        "written_for": "this test",
    }
    return Adapter.model_validate({**base, **fields})


def host(adapter: Adapter, **declared: Any) -> Host:
    entry: dict[str, Any] = {
        "roles": [adapter.role],
        "transport": "recorded",
        "recording": "d1.jsonl",
        "adapter": adapter.adapter,
        "declared": declared,
        **({"of": "node1"} if adapter.role == "bmc" else {}),
    }
    return Host.model_validate(entry).model_copy(update={"name": "d1"})


def ask(adapter: Adapter, answers: Mapping[str, Any], **declared: Any) -> tuple[Told, Device]:
    """Ask every probe of the role; return (measure, item) → value, or its problem after '!'."""
    way = Device(answers)
    witness = Witness(host(adapter, **declared), way, lambda piece: piece.command[-1], adapter)  # type: ignore[arg-type]
    found: Told = {}
    for probe in devices.OF_ROLE[adapter.role]:
        readings = probe.ask(witness).readings
        assert {each.name for each in readings} <= set(probe.measures)
        for each in readings:
            found[each.name, each.item] = shown(each)
    return found, way


def shown(each: Reading) -> str:
    return f"!{each.problem}" if each.value is None else str(each.value)


def sonic() -> dict[str, Answer]:
    text = (RECORDED / "composed-sonic-202311.txt").read_text("utf-8")
    parts = text.split("\n$ ")[1:]
    return {head: (0, rest.encode()) for head, _, rest in (part.partition("\n") for part in parts)}


def redfish(name: str) -> dict[str, Answer]:
    documents = json.loads((RECORDED / f"composed-redfish-{name}.json").read_bytes())["documents"]
    return {path: (0, json.dumps(document).encode()) for path, document in documents.items()}


def changed(
    answers: Mapping[str, Answer], path: str, change: Callable[[Any], None]
) -> dict[str, Answer]:
    document = json.loads(answers[path][1])
    change(document)
    return {**answers, path: (0, json.dumps(document).encode())}


PORTS = [{"name": f"Ethernet{n}"} for n in (0, 4, 8)]


def test_a_sonic_switch() -> None:
    told, way = ask(shipped("sonic-switch-ssh"), sonic(), ports=PORTS)
    assert told["switch.firmware", ""] == "SONiC.202311.1-0a1b2c3"
    assert told["switch.model", ""] == "Example-SN0000"
    assert told["switch.serial", ""] == "EX1822X07815"
    assert told["switch.port.state", "Ethernet0"] == "up"
    assert told["switch.port.state", "Ethernet4"] == "down"
    assert told["switch.port.speed", "Ethernet8"] == "40 Gbit/s"
    assert told["switch.port.mtu", "Ethernet8"] == "1500 B"
    assert told["switch.port.pfc", "Ethernet0"] == "3,4"
    assert told["switch.port.pfc", "Ethernet8"] == "none"
    assert told["switch.ecn", ""] == "ecn_all"
    assert told["switch.port.tx_drops", "Ethernet4"] == "2004"
    assert told["switch.port.rx_drops", "Ethernet0"] == "18682"
    assert told["switch.port.neighbour", "Ethernet0"] == "node1 ens1f0np0"
    assert told["switch.port.neighbour", "Ethernet4"] == "!the device tells of no Ethernet4"
    assert told["part.model", "switch/EX1822X07815"] == "Example-SN0000"
    assert len(way.asked) == 7  # one a question; 'show version' tells its part too


def test_a_declared_port_that_the_switch_has_not_is_absent() -> None:
    told, _ = ask(shipped("sonic-switch-ssh"), sonic(), ports=[{"name": "Ethernet12"}])
    assert told["switch.port.state", "Ethernet12"] == devices.ABSENT
    assert told["switch.port.mtu", "Ethernet12"] == "!the device tells of no Ethernet12"


def test_a_command_that_a_switch_does_not_know_costs_its_own_measures() -> None:
    answers: dict[str, Answer] = {k: v for k, v in sonic().items() if k != "show pfc priority"}
    told, _ = ask(shipped("sonic-switch-ssh"), answers, ports=PORTS)
    assert "`show pfc priority` exited 2" in str(told["switch.port.pfc", "Ethernet8"])
    assert told["switch.port.state", "Ethernet0"] == "up"


def test_redfish_with_subsystems() -> None:
    told, way = ask(shipped("redfish"), redfish("2023"))
    assert told["bmc.model", ""] == "EX-8GPU-4U"
    assert told["bmc.bios", ""] == "2.4.1"
    assert told["bmc.power_state", ""] == "on"
    assert told["bmc.firmware", ""] == "2.14.0-dev"
    assert told["bmc.psus", ""] == "2"  # the empty bay is none
    assert told["bmc.psu.faulty", ""] == "psu1 (Critical)"
    assert told["bmc.psu.state", "psu0"] == "ok"
    assert told["bmc.fans", ""] == "2"
    assert told["bmc.fan.faulty", ""] == "fan1 (Critical)"
    assert told["bmc.sensor.temperature", "Inlet"] == "24.25 degC"
    assert told["bmc.sensor.faulty", ""] == "none"
    assert told["bmc.component.firmware", "bios_active"] == "2.4.1"
    assert told["bmc.sel.entries", ""] == "3"  # over two pages
    assert told["bmc.sel.critical", ""] == "1"
    assert told["bmc.sel.newest", ""] == "2026-05-12T09:00:00+00:00"
    assert told["part.count", "psu"] == "2"
    assert told["part.part_number", "psu/EXP0001"] == "EX-P-3000"
    assert told["part.fault", "psu/EXP0002"] == "Critical"
    assert not [path for path in way.asked if "PostCodes" in path]


def test_redfish_before_subsystems() -> None:
    told, _ = ask(shipped("redfish"), redfish("2018"))
    assert told["bmc.psus", ""] == "2"
    assert told["bmc.psu.faulty", ""] == "none"
    assert told["bmc.fans", ""] == "1"
    assert told["bmc.sensors", ""] == "1"  # the absent one is none
    assert told["bmc.sensor.temperature", "0"] == "22 degC"
    assert told["bmc.sel.entries", ""] == "0"
    assert told["bmc.sel.critical", ""] == "0"
    assert told["bmc.sel.newest", ""].__str__().startswith("!redfish: events of the manager")
    assert told["bmc.health", ""] == "ok"


def test_a_bmc_without_any_power_supply_proves_nothing() -> None:
    answers = changed(redfish("2018"), "/redfish/v1/Chassis/1", lambda d: d.pop("Power"))
    told, _ = ask(shipped("redfish"), answers)
    assert "there is no document at" in str(told["bmc.psus", ""])
    assert "there is no document at" in str(told["bmc.psu.faulty", ""])


def test_an_unknown_state_is_no_verdict() -> None:
    answers = changed(
        redfish("2023"), "/redfish/v1/Systems/system", lambda d: d.update(PowerState="Dreaming")
    )
    told, _ = ask(shipped("redfish"), answers)
    assert "PowerState is 'Dreaming', which the adapter does not know" in str(
        told["bmc.power_state", ""]
    )


def test_a_power_supply_that_does_not_tell_its_health_hides_nothing() -> None:
    path = "/redfish/v1/Chassis/chassis/PowerSubsystem/PowerSupplies/psu1"
    answers = changed(redfish("2023"), path, lambda d: d["Status"].pop("Health"))
    told, _ = ask(shipped("redfish"), answers)
    assert told["bmc.psu.faulty", ""] == ("!redfish: power supplies: psu1: tells no Status.Health")


def test_events_without_severity_are_not_counted_as_harmless() -> None:
    path = "/redfish/v1/Systems/system/LogServices/EventLog/Entries"
    answers = changed(redfish("2023"), path, lambda d: d["Members"][1].pop("Severity"))
    told, _ = ask(shipped("redfish"), answers)
    assert "something tells no Severity" in str(told["bmc.sel.critical", ""])


@pytest.mark.parametrize(
    ("link", "says"),
    [
        pytest.param("https://elsewhere.example/x", "is no path on it", id="another-host"),
        pytest.param("//elsewhere.example/x", "is no path on it", id="another-host-briefly"),
        pytest.param("/redfish/v1/../../etc", "is no path on it", id="climbs"),
        pytest.param("/a b\r\nX: y", "is no path on it", id="smuggles-a-header"),
        pytest.param("/" + "a" * 2000, "is no path on it", id="endless"),
        pytest.param(7, "is no path on it", id="a-number"),
        pytest.param(None, "is no path on it", id="none"),
    ],
)
def test_hostile_links_are_not_followed(link: object, says: str) -> None:
    answers = changed(
        redfish("2023"),
        "/redfish/v1/Systems",
        lambda d: d.update(Members=[{"@odata.id": link}]),
    )
    told, way = ask(shipped("redfish"), answers)
    assert says in str(told["bmc.model", ""])
    assert link not in way.asked


def test_links_in_a_circle_come_to_an_end() -> None:
    chassis = "/redfish/v1/Chassis/chassis"
    answers = changed(
        redfish("2023"), chassis, lambda d: d.update(PowerSubsystem={"@odata.id": chassis})
    )
    told, way = ask(shipped("redfish"), answers)
    assert "!" in str(told["bmc.psu.faulty", ""])
    assert way.asked.count(chassis) < 12


def test_pages_in_a_circle_are_told() -> None:
    path = "/redfish/v1/Systems/system/LogServices/EventLog/Entries"
    back = changed(
        redfish("2023"),
        f"{path}?$skip=2",
        lambda d: d.update({"Members@odata.nextLink": f"{path}?$skip=2"}),
    )
    told, _ = ask(shipped("redfish"), back)
    assert "its pages lead back to it, without end" in str(told["bmc.sel.entries", ""])


def test_a_collection_without_end_is_given_up() -> None:
    many = {
        f"/redfish/v1/Systems/{n}": (0, b'{"Model": "x"}')
        for n in range(2 * devices.MOST_DOCUMENTS)
    }
    members = {"Members": [{"@odata.id": path} for path in many]}
    answers: dict[str, Answer] = {"/redfish/v1/Systems": (0, json.dumps(members).encode()), **many}
    told, way = ask(shipped("redfish"), answers)
    assert f"leads to more than {devices.MOST_DOCUMENTS} documents" in str(told["bmc.model", ""])
    assert len(way.asked) < 5 * devices.MOST_DOCUMENTS


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"<html>login</html>", id="a-web-page"),
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"Members": [', id="cut"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"Members": {"a": 1}}', id="another-kind"),
        pytest.param(b'{"a": 1, "a": 2}', id="doubled-key"),
        pytest.param(b"\xff\xfe", id="not-text"),
    ],
)
def test_garbage_is_a_problem_of_what_was_asked(answer: bytes) -> None:
    told, _ = ask(shipped("redfish"), {**redfish("2023"), "/redfish/v1/Systems": (0, answer)})
    assert str(told["bmc.model", ""]).startswith("!")
    assert told["bmc.firmware", ""] == "2.14.0-dev"  # another question, unharmed


def test_a_device_out_of_reach_is_told_as_such() -> None:
    gone = HostUnreachableError("d1", "no route")
    with pytest.raises(HostUnreachableError):
        ask(shipped("redfish"), {"/redfish/v1/Systems": gone})


SERIAL = {
    "question": "system",
    "path": "/s",
    "form": {"document": {}},
    "values": [{"measure": "array.serial", "field": "serial"}],
}


def test_what_the_adapter_has_no_question_for_is_said_so() -> None:
    ports = [{"name": "A1"}]
    told, _ = ask(made(questions=[SERIAL]), {"/s": (0, b'{"serial": "x"}')}, ports=ports)
    assert told["array.serial", ""] == "x"
    assert told["array.dedup_ratio", ""] == "!adapter made has no question for array.dedup_ratio"
    assert told["array.port.state", "A1"] == "!adapter made has no question for array.port.state"
    known = device.measures("array")
    silent = {known[name] for name in set(known) - {name for name, _ in told}}
    assert all(each.own_items or each.item in ("controller", "pool") for each in silent)


def test_identity_is_the_serial_or_an_error() -> None:
    adapter = made(questions=[SERIAL], identity="array.serial")
    answers = {"/s": (0, b'{"serial": "x1"}')}
    witness = Witness(host(adapter), Device(answers), lambda _: "ref", adapter)  # type: ignore[arg-type]
    assert devices.identity(witness) == ("array:x1",)
    witness = Witness(host(adapter), Device({"/s": (0, b"{}")}), lambda _: "ref", adapter)  # type: ignore[arg-type]
    with pytest.raises(ParseError, match="does not tell its serial number"):
        devices.identity(witness)


def test_without_an_adapter_nothing_is_asked() -> None:
    adapter = made(questions=[SERIAL])
    witness = Witness(host(adapter), Device({}), lambda _: "ref")  # type: ignore[arg-type]
    with pytest.raises(HarnessError, match="without its adapter"):
        devices.ARRAY[0].ask(witness)


def test_ports_in_commands_are_the_declared_ones() -> None:
    question = {
        "question": "port",
        "command": ["show", "port", "{port}"],
        "for_each": "port",
        "form": {"keys": {}},
        "values": [{"measure": "switch.port.mtu", "field": "mtu", "unit": "B"}],
    }
    adapter = made(role="switch", way="ssh", questions=[question])
    answers = {"show port swp1": (0, b"mtu: 9000\n"), "show port swp2": (0, b"mtu: many\n")}
    told, way = ask(adapter, answers, ports=[{"name": "swp1"}, {"name": "swp2"}])
    assert told["switch.port.mtu", "swp1"] == "9000 B"
    assert told["switch.port.mtu", "swp2"] == "!made: port: 'many' is no number"
    assert way.asked == ["show port swp1", "show port swp2"]
