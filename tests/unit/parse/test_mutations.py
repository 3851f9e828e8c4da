"""Damaged answers: a parser raises ParseError and nothing else, and no number is made up.

A number that comes out stands in the text, or is a declared conversion of one that does, or tells
a position. What the project recorded itself is damaged always, the corpus where it lies beside
the repository.
"""

import contextlib
import dataclasses
import decimal
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.parse import block, registry, smart, system, versions

RECORDED = Path(__file__).parents[2] / "recorded"
CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"
Parser = Callable[[bytes], Any]
Number = decimal.Decimal

FACTS: dict[str, tuple[Parser, ...]] = {
    "meminfo": (system.mem_total_kib,),
    "date": (system.epoch_s,),
    "machine_id": (system.machine_id,),
    "df": (system.file_system,),
    "tool_version": tuple(
        lambda answer, tool=tool: versions.version(answer, tool) for tool in versions.SHAPES
    ),
    "numa_online": (system.node_count,),
}
"""Parsers of small facts, which are no tools of the registry."""

TOOLS = (
    *("dcb_pfc", "dmidecode", "ethtool", "ethtool_S", "ibstat", "ibv_devinfo", "ip_link"),
    *("lsblk", "lscpu", "mlnx_qos", "numactl", "nvme_error_log", "nvme_id_ctrl", "nvme_list"),
    *("nvme_smart_log", "os_release", "rdma_link", "rdma_statistic", "show_gids", "smartctl"),
    *("sysfs_block", "sysfs_net", "sysfs_pci", "uname"),
)
ELSEWHERE = {"fio", "amd_smi", "rocm_smi", "rocminfo", "lspci", "dmesg"}  # tests of their own
PARSERS = FACTS | {
    tool: (lambda answer, tool=tool: registry.parse(tool, answer),) for tool in TOOLS
}


def powers(base: int, most: int) -> Callable[[Number], Iterator[Number]]:
    """Return what turns a number back into those that a unit's prefix may have made it from."""
    return lambda number: (number / base**power for power in range(1, most + 1))


def kelvin(number: Number) -> Iterator[Number]:
    yield number + smart.KELVIN


CONVERSIONS: dict[str, Callable[[Number], Iterator[Number]]] = {
    "sysfs_block": lambda number: iter([number / block.SECTOR_BYTES]),
    "nvme_smart_log": kelvin,
    "nvme_id_ctrl": kelvin,
    "dmidecode": powers(1024, 4),  # kB to TB, which are powers of 1024
    "nvme_list": lambda number: iter([*powers(1000, 5)(number), number / 1024]),  # kB to PB, KiB
}
POSITIONS = {"nvme_error_log": 64, "dcb_pfc": 8}  # entries and priorities of JSON lists


def samples() -> Iterator[Any]:
    for tool, parsers in PARSERS.items():
        for path in sorted((RECORDED / tool).iterdir()):
            for number in range(len(parsers)):
                yield pytest.param(tool, path, number, id=f"{tool}/{path.name}-{number}")


def published() -> list[Any]:
    found = [
        pytest.param(
            tool,
            path.with_name(path.name.removesuffix(".expect.json")),
            id=f"{tool}/{path.name.removesuffix('.expect.json')}",
        )
        for tool in TOOLS
        for path in sorted((CORPUS / tool).glob("*.expect.json"))
    ]
    absent = pytest.mark.skip(reason=f"no corpus in ../shared/{CORPUS.name}")
    return found or [pytest.param("", CORPUS, marks=absent)]


def test_every_recorded_tool_is_mutated() -> None:
    folders = {path.name for path in RECORDED.iterdir() if path.is_dir()}
    assert folders - ELSEWHERE == set(PARSERS)
    assert set(registry.tools()) - ELSEWHERE == set(TOOLS)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return `whole` after a few of the accidents that happen to answers."""
    answer = whole
    for _ in range(draw(st.integers(1, 3))):
        at, to = sorted(draw(st.tuples(*[st.integers(0, len(answer))] * 2)))
        lines = answer.split(b"\n")
        line = draw(st.integers(0, len(lines) - 1))
        part = draw(st.sampled_from([answer, lines[line]]))  # all of it, or one line
        wrong = draw(st.sampled_from([b"-1", b"NaN", b"1e999", b"9" * 50, b"N/A", b"1.5"]))
        answer = draw(
            st.sampled_from(
                [
                    answer[:at],  # cut
                    answer[:at] + answer[to:],  # a piece lost
                    b"\n".join(lines[:line] + lines[line + 1 :]),  # a line lost
                    b"\n".join([*lines[:line], lines[line], *lines[line:]]),  # a line doubled
                    answer.replace(b"\n", b"\r\n"),
                    answer[:at] + b"\0" + answer[at:],
                    answer[:at] + b"\xff\xfe" + answer[at:],
                    re.sub(rb"(\d)\.(\d)", rb"\1,\2", answer),
                    answer.replace(part, re.sub(rb"\d+", wrong, part), 1),
                    answer[:at] + draw(st.binary(max_size=8)) + answer[at:],
                ]
            )
        )
    return answer


def numbers(value: Any) -> Iterator[Number]:
    """Yield every number inside a parser's result."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from numbers(key)
            yield from numbers(held)
    elif isinstance(value, tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float | Number) and not isinstance(value, bool):
        yield Number(value)


def in_text(tool: str, number: Number, printed: set[Number]) -> bool:
    """Tell whether `number` is printed, is a declared conversion of one that is, or a position."""
    if number in printed or 0 <= number < POSITIONS.get(tool, 0):
        return True
    if tool == "lsblk":  # the table rounds: K to E, powers of 1024
        return any(
            abs(number / 1024**power - each) * 1024**power < 1
            for power in range(1, 7)
            for each in printed
        )
    return any(each in printed for each in CONVERSIONS.get(tool, lambda _: iter(()))(number))


def printed_in(answer: bytes) -> set[Number]:
    """Return the numbers in `answer`: with sign and fraction, hexadecimal, thousands grouped."""
    text = answer.decode("utf-8", "replace")
    found = re.findall(r"(?:(?<![\w.])-)?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", text)
    found += re.findall(r"(?<![0-9.])[0-9]+(?=[eE][0-9])", text)  # 58e1 of a GUID is no power
    plain = {Number(each) for each in found}
    hexed = {Number(int(each, 16)) for each in re.findall("0x([0-9a-fA-F]+)", text)}
    grouped = re.findall(r"[0-9]{1,3}(?:[.,'’\u00a0\u202f ][0-9]{3})+(?![0-9])", text)
    return plain | hexed | {Number(re.sub("[^0-9]", "", each)) for each in grouped}


def check(tool: str, parser: Parser, answer: bytes) -> None:
    """Parse `answer`: it is refused, or no number of the result is made up."""
    try:
        result = parser(answer)
    except ParseError:
        return
    if tool == "numa_online":  # a count of what is listed
        assert result <= 4097 * (answer.count(b",") + 1)
        return
    printed = printed_in(answer)
    for found in numbers(result):
        assert in_text(tool, found, printed), found


@pytest.mark.parametrize(("tool", "path", "number"), list(samples()))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_damaged_answers(tool: str, path: Path, number: int, data: st.DataObject) -> None:
    check(tool, PARSERS[tool][number], data.draw(damaged(path.read_bytes())))


@pytest.mark.parametrize(("tool", "path"), published())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.data_too_large])
@given(data=st.data())
def test_damaged_publications(tool: str, path: Path, data: st.DataObject) -> None:
    check(tool, PARSERS[tool][0], data.draw(damaged(path.read_bytes())))


@pytest.mark.parametrize("tool", PARSERS)
@settings(max_examples=40, deadline=None)
@given(answer=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_noise(tool: str, answer: bytes) -> None:
    for parser in PARSERS[tool]:
        with contextlib.suppress(ParseError):
            parser(answer)
