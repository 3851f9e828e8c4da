from typing import Any

import pytest

from kvgate.errors import CommandError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.probes import system


def test_a_host_told_by_recorded_answers(scripted: Any, recorded: Any, told: Any) -> None:
    witness = scripted(
        {
            "os-release": recorded("os_release/debian-12.txt"),
            "uname": recorded("uname/coreutils-9.1-debian-12.txt"),
            "lscpu": recorded("lscpu/util-linux-2.38.1-kvm.json"),
            "meminfo": b"MemTotal:       24683656 kB\n",
            "node/online": b"0-1\n",
        },
        {},
    )
    found = {}
    for probe in system.PROBES:
        found |= told(probe.ask(witness))
    assert found == {
        ("os.id", ""): "debian",
        ("os.version", ""): "12",
        ("kernel.release", ""): "6.18.44-fc-v782",
        ("cpu.model", ""): "AMD EPYC",
        ("cpu.sockets", ""): Quantity.of(1, ""),
        ("cpu.threads", ""): Quantity.of(2, ""),
        ("memory.size", ""): Quantity.of(24683656 * 1024, "B"),
        ("numa.nodes", ""): Quantity.of(2, ""),
    }


def test_what_is_not_told_is_a_problem_not_a_zero(scripted: Any, told: Any) -> None:
    witness = scripted({"os-release": b"ID=arch\n", "lscpu": b"CPU(s): 4\nSocket(s): -\n"}, {})
    assert "rolling" in told(system.ask_distribution(witness))["os.version", ""]
    assert told(system.ask_processors(witness))["cpu.sockets", ""] == "lscpu counts no sockets"


def test_a_missing_tool_raises_with_its_name(scripted: Any) -> None:
    with pytest.raises(CommandError, match="lscpu") as err:
        system.ask_processors(scripted({}, {}))
    assert "not installed" in err.value.hint


def test_an_odd_answer_raises(scripted: Any) -> None:
    with pytest.raises(ParseError, match="meminfo"):
        system.ask_memory(scripted({"meminfo": b"MemTotal: lots\n"}, {}))
