"""Damaged answers: a parser raises ParseError and nothing else, and no number is made up.

Every tool of the registry is damaged, in every answer that the project recorded. A number that
comes out stands in the text, is a declared conversion of one that does, or a count.
"""

import contextlib
import dataclasses
import decimal
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.parse import block, registry, smart, versions

RECORDED = Path(__file__).parents[2] / "recorded"
NOT_OURS = {"fio", "adapters"}  # read by fiopy and by adapters' forms, each damaged by its tests
VERSIONS = "tool_version"
EXAMPLES = int(os.environ.get("KVGATE_EXAMPLES", "30"))
Number = decimal.Decimal


def powers(base: int, most: int) -> Callable[[Number], Iterator[Number]]:
    """Return what turns a number back into those that a unit's prefix may have made it from."""
    return lambda number: (number / base**power for power in range(1, most + 1))


def kelvin(number: Number) -> Iterator[Number]:
    yield number + smart.KELVIN


def shift(number: Number) -> Iterator[Number]:
    """Yield the exponent of a power of two: LBA formats are told by theirs."""
    if number > 0 and number == int(number):
        yield Number(int(number).bit_length() - 1)


CONVERSIONS: dict[str, Callable[[Number], Iterator[Number]]] = {
    "sysfs_block": lambda number: iter([number / block.SECTOR_BYTES]),
    "nvme_smart_log": kelvin,
    "nvme_id_ctrl": kelvin,
    "nvme_id_ns": shift,
    "dmidecode": powers(1024, 4),  # kB to TB, which are powers of 1024
    "nvme_list": lambda number: iter([*powers(1000, 5)(number), number / 1024]),  # kB to PB, KiB
    "chronyc": lambda number: iter([-number]),  # slow is behind
}
POSITIONS = {  # of entries, bits, priorities, ranges of DSCPs
    "nvme_error_log": 64,
    "dcb_pfc": 8,
    "mlnx_qos": 8,
    "nvme_fw_log": 8,
    "nvme_id_ns": 64,
    "nvme_self_test_log": 16,
    "niccli": 8,
    "nicctl": 64,
}
COUNTS = {"sysfs_iommu", "sysfs_kfd"}
"""Tools of whose answers only things are counted: at most one a line."""

COUNTED = {
    "line", "messages", "reports", "bits", "physical_gpus",
    "bad_pages_retired", "bad_pages_pending", "bad_pages_un_res", "bad_pages", "rows_printed",
}  # fmt: skip
"""Fields that count lines, or things that lines tell: at most the lines, and none at all (0)."""

SUMS = {"correctable", "uncorrectable"}
"""Fields that add up what several lines tell."""

ROUNDED = {"lsblk", "amd_smi", "rocm_smi", "rocminfo"}
"""Tools whose sizes are rounded: K to E, powers of 1024."""

DETERMINED = {"numa_online"}
"""A count of what is listed, in ranges: bounded in `check`."""


def answers() -> Iterator[Any]:
    for tool in (*registry.tools(), VERSIONS):
        for path in sorted((RECORDED / tool).iterdir()):
            yield pytest.param(tool, path, id=f"{tool}/{path.name}")


def test_every_tool_has_a_recorded_answer_and_every_answer_a_tool() -> None:
    folders = {path.name for path in RECORDED.iterdir() if path.is_dir()}
    assert folders - NOT_OURS - {VERSIONS} == set(registry.tools())
    assert [path for path in folders if not list((RECORDED / path).iterdir())] == []


def parsers(tool: str) -> tuple[Callable[[bytes], Any], ...]:
    if tool == VERSIONS:
        return tuple(
            lambda answer, tool=each: versions.version(answer, tool) for each in versions.SHAPES
        )
    return (lambda answer: registry.parse(tool, answer),)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return `whole` after a few of the accidents that happen to answers."""
    answer = whole
    for _ in range(draw(st.integers(1, 3))):
        at, to = sorted(draw(st.tuples(*[st.integers(0, len(answer))] * 2)))
        lines = answer.split(b"\n")
        line = draw(st.integers(0, len(lines) - 1))
        part = draw(st.sampled_from([answer, lines[line]]))  # all of it, or one line
        wrong = draw(st.sampled_from([b"-1", b"NaN", b"1e999", b"9" * 50, b"N/A", b"1.5", b"1,5"]))
        number = re.compile(rb"\d+|\Z").search(answer, at)
        assert number
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
                    answer[: number.start()] + wrong + answer[number.end() :],
                    answer[:at] + draw(st.binary(max_size=8)) + answer[at:],
                ]
            )
        )
    return answer


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, Number]]:
    """Yield every number inside a parser's result, with the field that holds it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from numbers(getattr(value, field.name), field.name)
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from numbers(key, name)
            yield from numbers(held, name)
    elif isinstance(value, tuple):
        for each in value:
            yield from numbers(each, name)
    elif isinstance(value, int | float | Number) and not isinstance(value, bool):
        yield name, Number(value)


@dataclasses.dataclass(frozen=True)
class Text:
    """What an answer prints: its numbers, its lines, and the sizes of its address ranges."""

    printed: frozenset[Number]
    lines: int
    ranges: frozenset[Number]

    @property
    def total(self) -> Number:
        return Number(sum(abs(each) for each in self.printed)) * self.lines


def read(answer: bytes) -> Text:
    """Return the numbers in `answer`: with sign and fraction, hexadecimal, thousands grouped."""
    text = answer.decode("utf-8", "backslashreplace")
    found = re.findall(r"(?:(?<![\w.])-)?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", text)
    found += re.findall(r"-?[0-9]+(?:\.[0-9]+)?", text)
    found += re.findall(r"[0-9]+", text)  # 58e1 of a GUID is no power; 0.12 may be two numbers
    hexed = {Number(int(each, 16)) for each in re.findall("0x([0-9a-fA-F]+)", text)}
    grouped = re.findall(r"[0-9]{1,3}(?:[.,'’\u00a0\u202f ][0-9]{3})+(?![0-9])", text)
    joined = {Number(re.sub("[^0-9]", "", each)) for each in grouped}
    ranges = {
        Number(int(last, 16) - int(first, 16) + 1)
        for first, last in re.findall(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16})", text)
    }
    return Text(
        printed=frozenset({Number(each) for each in found} | hexed | joined),
        lines=text.count("\n") + 1,
        ranges=frozenset(ranges),
    )


def known(tool: str, name: str, number: Number, text: Text) -> bool:
    """Tell whether `number` is printed, a declared conversion of a printed one, or a count."""
    if number in text.printed or 0 <= number < POSITIONS.get(tool, 0):
        return True
    if (tool in COUNTS or name in COUNTED) and 0 <= number <= text.lines:
        return True
    if name in SUMS and 0 <= number <= text.total:
        return True
    if name == "bar_bytes" and number in text.ranges:
        return True
    if tool == "dmesg" and name == "uptime_s" and number * 1_000_000 in text.printed:  # /dev/kmsg
        return True
    if tool in ROUNDED and (name.endswith("_bytes") or tool == "lsblk"):
        return any(
            abs(number / 1024**power - each) * 1024**power < 1
            for power in range(1, 7)
            for each in text.printed
        )
    return any(each in text.printed for each in CONVERSIONS.get(tool, lambda _: iter(()))(number))


def check(tool: str, parser: Callable[[bytes], Any], answer: bytes) -> None:
    """Parse `answer`: it is refused, or no number of the result is made up."""
    try:
        result = parser(answer)
    except ParseError:
        return
    if tool in DETERMINED:
        assert result <= 4097 * (answer.count(b",") + 1)
        return
    text = read(answer)
    for name, found in numbers(result):
        assert known(tool, name, found, text), (name, found)


@pytest.mark.parametrize(("tool", "path"), list(answers()))
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.data_too_large])
@given(data=st.data())
def test_damaged_answers(tool: str, path: Path, data: st.DataObject) -> None:
    answer = data.draw(damaged(path.read_bytes()))
    for parser in parsers(tool):
        check(tool, parser, answer)


@pytest.mark.parametrize("tool", [*registry.tools(), VERSIONS])
@settings(max_examples=EXAMPLES)
@given(answer=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_noise(tool: str, answer: bytes) -> None:
    for parser in parsers(tool):
        with contextlib.suppress(ParseError):
            parser(answer)


@pytest.mark.parametrize(("tool", "path"), list(answers()))
def test_crlf_is_read_alike_or_refused(tool: str, path: Path) -> None:
    answer = path.read_bytes().replace(b"\r\n", b"\n")
    for parser in parsers(tool):
        try:
            plain = parser(answer)
        except ParseError:
            continue
        with contextlib.suppress(ParseError):
            assert parser(answer.replace(b"\n", b"\r\n")) == plain


@pytest.mark.parametrize("tool", ["lscpu", "nvme_id_ns", "dmesg", "amd_smi", "sysfs_amdgpu"])
def test_a_made_up_number_is_found_out(tool: str) -> None:
    text = read(b"model name: 7 cores, 0x10 threads\n")
    assert known(tool, "cpus", Number(7), text)
    assert known(tool, "cpus", Number(16), text)
    for invented in (70, 8, -7, Number("7.5")):
        allowed = tool == "nvme_id_ns" and 0 <= invented < 64
        assert known(tool, "cpus", Number(invented), text) == allowed
