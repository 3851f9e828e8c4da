from typing import Any

import pytest

from kvgate.errors import CommandError
from kvgate.probes import ALL, parts
from kvgate.probes.base import class_argv, shifted

DECLARED = {
    "disks": [{"name": "nosuch0"}, {"serial": "NOSUCH", "nvme": True}],
    "nics": [{"name": "lo"}, {"name": "nosuch0"}],
    "pcie": [{"address": "ffff:ff:1f.7"}],
    "nvmeof": [
        {
            "name": "array1",
            "nqn": "nqn.2026-11.com.example:none",
            "transport": "tcp",
            "paths": [{"name": "a", "target": "127.0.0.1"}],
            "discovery": [{"target": "127.0.0.1", "port": 9}],
        }
    ],
    "fabric": [
        {
            "name": "a",
            "nic": "lo",
            "address": "127.0.0.1",
            "to": "h1",
            "to_nic": "lo",
            "to_address": "127.0.0.1",
        }
    ],
    "gpus": {"count": 1, "id": "dead:beef", "addresses": ["ffff:ff:1e.7"]},
}


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
def test_a_probe_answers_for_this_machine_with_what_it_declares(probe: Any, here: Any) -> None:
    witness = here(DECLARED)
    try:
        answer = probe.ask(witness)
    except CommandError as err:
        pytest.skip(f"this machine lacks what it asks for: {err.message}")
    assert answer.evidence
    names = {reading.name for reading in answer.readings}
    if probe.measures == parts.MEASURES:  # a part tells what it has, its kind is the item
        assert names <= set(probe.measures)
        return
    assert names == set(probe.measures)
    items = set(witness.host.items(probe.items)) if probe.items else {""}
    assert {reading.item for reading in answer.readings} == items
    assert len(answer.readings) == len(names) * len(items)


def test_no_two_probes_measure_the_same() -> None:
    probes = [probe for probe in ALL if probe.measures != parts.MEASURES]  # one a kind of part
    measures = [measure for probe in probes for measure in probe.measures]
    assert len(measures) == len(set(measures))


def test_unanswered_has_a_problem_for_every_item(here: Any) -> None:
    ports = next(probe for probe in ALL if probe.name == "ports")
    found = ports.unanswered(here(DECLARED).host, "it is down")
    assert {(r.name, r.item, r.problem) for r in found} == {
        (name, item, "it is down") for name in ports.measures for item in ("lo", "nosuch0")
    }


def test_a_folder_that_is_not_there_is_no_answer(here: Any) -> None:
    asked = here({}).ask(class_argv("/sys/class/nosuchclass", "*/address"), timeout_s=20)
    with pytest.raises(CommandError, match="exited 2"):
        _ = asked.stdout


def test_a_file_that_is_not_there_is_left_out(here: Any) -> None:
    asked = here({}).ask(class_argv("/sys/class/net", "*/address", "*/nosuchfile"), timeout_s=20)
    assert b"lo/address:00:00:00:00:00:00" in asked.stdout


@pytest.mark.parametrize(
    ("number", "places", "unit", "text"),
    [
        (7_681_501_126_656, 9, "GB", "7681.501126656 GB"),
        (100_000, 3, "Gbit/s", "100 Gbit/s"),
        (0, 12, "TB", "0 TB"),
        (2**128 - 1, 12, "TB", "340282366920938463463374607.431768211455 TB"),
    ],
)
def test_shifted_numbers_stay_exact(number: int, places: int, unit: str, text: str) -> None:
    assert str(shifted(number, places, unit)) == text
    assert shifted(number, places, unit).base == number * (10**6 if unit == "Gbit/s" else 1)
