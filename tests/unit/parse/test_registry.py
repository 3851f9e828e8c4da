import types

import pytest

from kvgate.errors import KvgateError, ParseError, UsageError
from kvgate.parse import lscpu, registry


def test_tools_are_found_in_the_modules_and_sorted() -> None:
    tools = registry.tools()
    assert list(tools) == sorted(set(tools))
    assert {"dmidecode", "ethtool_S", "lsblk", "nvme_list", "smartctl", "uname"} <= set(tools)
    assert "text" not in tools


def test_the_tool_reads_its_answer() -> None:
    assert isinstance(registry.parse("lscpu", b"CPU(s): 4\n"), lscpu.Processors)


def test_an_exit_code_other_than_0_is_no_answer() -> None:
    with pytest.raises(ParseError, match="exit code 2"):
        registry.parse("lscpu", b"CPU(s): 4\n", 2)


@pytest.mark.parametrize("name", ["nvme-lst", "nvme list"])
def test_an_unknown_tool_is_a_usage_error_with_the_nearest_name(name: str) -> None:
    with pytest.raises(UsageError, match="nvme_list") as caught:
        registry.parse(name, b"")
    assert caught.value.exit_code == 64


def test_nothing_near_names_the_list() -> None:
    with pytest.raises(UsageError, match="--list"):
        registry.parse("§§§", b"")


def test_two_modules_for_one_tool_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = types.SimpleNamespace(TOOLS={"lscpu": lambda _answer, _code: None})
    monkeypatch.setattr(registry.importlib, "import_module", lambda _name: twice)
    registry._readers.cache_clear()
    try:
        with pytest.raises(KvgateError, match="another module reads 'lscpu'"):
            registry.tools()
    finally:
        registry._readers.cache_clear()
