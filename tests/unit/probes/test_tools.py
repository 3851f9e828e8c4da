from typing import Any

import pytest

from kvgate.errors import CommandError
from kvgate.probes import tools

BY_NAME = {tool.name: tool for tool in tools.TOOLS}


def test_a_version(scripted: Any, told: Any) -> None:
    witness = scripted({"fio --version": b"fio-3.33\n"}, {})
    assert told(BY_NAME["fio"].ask(witness)) == {("tool.fio.version", ""): "3.33"}


def test_a_missing_tool_is_a_finding_that_names_the_package(scripted: Any, told: Any) -> None:
    answer = BY_NAME["nvme"].ask(scripted({}, {}))
    assert "install the package 'nvme-cli'" in told(answer)["tool.nvme.version", ""]
    assert answer.evidence


def test_a_tool_that_fails_is_not_a_missing_one(scripted: Any) -> None:
    with pytest.raises(CommandError, match="exited 1"):
        BY_NAME["fio"].ask(scripted({"fio": (1, b"", b"no library")}, {}))


def test_the_declared_path_is_asked(scripted: Any) -> None:
    witness = scripted({"/opt/fio": b"fio-3.40\n"}, {}, tools={"fio": "/opt/fio"})
    BY_NAME["fio"].ask(witness)
    assert witness.transport.asked == [("/opt/fio", "--version")]


@pytest.mark.parametrize(("declared", "asked"), [({}, "python3"), ({"python": "/v/py"}, "/v/py")])
def test_python_is_the_declared_one_else_python3(
    scripted: Any, declared: dict[str, str], asked: str
) -> None:
    witness = scripted({"--version": b"Python 3.11.2\n"}, {}, tools=declared)
    BY_NAME["python"].ask(witness)
    assert witness.transport.asked == [(asked, "--version")]
