"""Damaged answers: a parser raises ParseError and nothing else, and no number is made up."""

import contextlib
import dataclasses
import decimal
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.parse import block, lscpu, net, pci, smart, system, versions

RECORDED = Path(__file__).parents[2] / "recorded"
Parser = Callable[[bytes], Any]

PARSERS: dict[str, tuple[Parser, ...]] = {
    "os_release": (system.os_release,),
    "uname": (system.uname,),
    "meminfo": (system.mem_total_kib,),
    "date": (system.epoch_s,),
    "machine_id": (system.machine_id,),
    "df": (system.file_system,),
    "lscpu": (lscpu.processors,),
    "lsblk": (block.from_lsblk,),
    "sysfs_block": (block.from_sysfs,),
    "sysfs_net": (net.ports,),
    "sysfs_pci": (pci.functions,),
    "nvme_smart_log": (smart.smart_log,),
    "tool_version": tuple(
        lambda answer, tool=tool: versions.version(answer, tool) for tool in versions.SHAPES
    ),
    "numa_online": (system.node_count,),
}
SAMPLES = sorted(
    (path.relative_to(RECORDED).as_posix(), number)
    for tool, parsers in PARSERS.items()
    for path in (RECORDED / tool).iterdir()
    for number in range(len(parsers))
)


def test_every_recorded_tool_is_mutated() -> None:
    others = {"fio"}  # fiopy's own, see its tests
    folders = {path.name for path in RECORDED.iterdir() if path.is_dir()}
    assert folders - others == set(PARSERS)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return `whole` after a few of the accidents that happen to answers."""
    answer = whole
    for _ in range(draw(st.integers(1, 3))):
        at, to = sorted(draw(st.tuples(*[st.integers(0, len(answer))] * 2)))
        lines = answer.split(b"\n")
        line = draw(st.integers(0, len(lines) - 1))
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
                    re.sub(rb"\d+", b"N/A", answer, count=1),
                    re.sub(rb"(\d)\.(\d)", rb"\1,\2", answer),
                    re.sub(
                        rb"(\d+)",
                        draw(st.sampled_from([b"-1", b"NaN", b"1e999", b"9" * 50])),
                        answer,
                    ),
                    answer[:at] + draw(st.binary(max_size=8)) + answer[at:],
                ]
            )
        )
    return answer


def numbers(value: Any) -> Iterator[decimal.Decimal]:
    """Yield every number inside a parser's result."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        yield decimal.Decimal(value)


def in_text(number: decimal.Decimal, printed: set[decimal.Decimal]) -> bool:
    """Tell whether `number` is printed, or is a declared conversion of one that is."""
    if {number, number / block.SECTOR_BYTES, number + smart.KELVIN} & printed:
        return True
    return any(
        abs(number / 1024**power - each) * 1024**power < 1
        for power in range(1, 7)
        for each in printed
    )  # lsblk's table: K to E


def printed_in(answer: bytes) -> set[decimal.Decimal]:
    text = answer.decode("utf-8", "replace")
    found = re.findall(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?|\d+", text)
    return {decimal.Decimal(each) for each in found}


@pytest.mark.parametrize(("name", "number"), SAMPLES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_answers(name: str, number: int, data: st.DataObject) -> None:
    tool = name.split("/")[0]
    answer = data.draw(damaged((RECORDED / name).read_bytes()))
    try:
        result = PARSERS[tool][number](answer)
    except ParseError:
        return
    if tool == "numa_online":  # a count of what is listed
        assert result <= 4097 * (answer.count(b",") + 1)
        return
    printed = printed_in(answer)
    for found in numbers(result):
        assert in_text(found, printed), found


@pytest.mark.parametrize("tool", PARSERS)
@settings(max_examples=60, deadline=None)
@given(answer=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_noise(tool: str, answer: bytes) -> None:
    for parser in PARSERS[tool]:
        with contextlib.suppress(ParseError):
            parser(answer)
