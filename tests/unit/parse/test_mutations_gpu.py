"""Damaged answers of GPU tools, lspci and kernel logs: ParseError or nothing that isn't there."""

import contextlib
import dataclasses
import decimal
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.parse import registry

RECORDED = Path(__file__).parents[2] / "recorded"
CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"
TOOLS = ("amd_smi", "rocm_smi", "rocminfo", "lspci", "dmesg")
SAMPLES = sorted(path for tool in TOOLS for path in (RECORDED / tool).iterdir())
PUBLISHED = sorted(
    path
    for tool in TOOLS
    for path in (CORPUS / tool).glob("*")
    if not path.name.endswith(".expect.json") and path.stat().st_size < 8000
)
COUNTED = {
    "line", "messages", "reports", "bits", "physical_gpus",
    "bad_pages_retired", "bad_pages_pending", "bad_pages_un_res",
}  # fmt: skip
"""Fields that count lines, or things that lines tell: at most the lines, and none at all (0)."""

KMSG_US = 1_000_000


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return `whole` after a few of the accidents that happen to answers."""
    answer = whole
    for _ in range(draw(st.integers(1, 3))):
        at, to = sorted(draw(st.tuples(*[st.integers(0, len(answer))] * 2)))
        lines = answer.split(b"\n")
        line = draw(st.integers(0, len(lines) - 1))
        numbers = list(re.finditer(rb"\d+|\Z", answer))
        number = draw(st.sampled_from(numbers))
        odd = draw(st.sampled_from([b"N/A", b"-1", b"NaN", b"1e999", b"9" * 50, b"1,5", b""]))
        accidents = [
            answer[:at],  # cut
            answer[:at] + answer[to:],  # a piece lost
            b"\n".join(lines[:line] + lines[line + 1 :]),  # a line lost
            b"\n".join([*lines[:line], lines[line], *lines[line:]]),  # a line doubled
            answer.replace(b"\n", b"\r\n"),
            answer[:at] + b"\0" + answer[at:],
            answer[:at] + b"\xff\xfe" + answer[at:],
            answer[: number.start()] + odd + answer[number.end() :],
            re.sub(rb"\d+", b"N/A", answer),
            re.sub(rb"(\d)\.(\d)", rb"\1,\2", answer),
            answer[:at] + draw(st.binary(max_size=8)) + answer[at:],
        ]
        answer = draw(st.sampled_from(accidents))
    return answer


def numbers_of(value: Any, name: str = "") -> Iterator[tuple[str, decimal.Decimal]]:
    """Yield every number inside a parser's result, with the field that holds it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from numbers_of(getattr(value, field.name), field.name)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from numbers_of(each, name)
    elif isinstance(value, tuple):
        for each in value:
            yield from numbers_of(each, name)
    elif isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        yield name, decimal.Decimal(value)


def in_text(name: str, number: decimal.Decimal, printed: set[decimal.Decimal], lines: int) -> bool:
    """Tell whether `number` is printed, a declared conversion of a printed one, or a count."""
    if name in COUNTED and 0 <= number <= lines:
        return True
    if name == "uptime_s" and number * KMSG_US in printed:
        return True
    if number in printed:
        return True
    return name.endswith("_bytes") and any(
        abs(number / 1024**power - each) * 1024**power < 1
        for power in range(1, 6)
        for each in printed
    )


def check(tool: str, answer: bytes) -> None:
    try:
        found = registry.parse(tool, answer)
    except ParseError:
        return
    text = answer.decode("utf-8", "backslashreplace")
    printed = {decimal.Decimal(each) for each in re.findall(r"-?\d+(?:\.\d+)?", text)}
    printed |= {decimal.Decimal(each) for each in re.findall(r"\d+", text)}
    lines = text.count("\n") + 1
    for name, number in numbers_of(found):
        assert in_text(name, number, printed, lines), (name, number)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_damaged_answers(sample: Path, data: st.DataObject) -> None:
    check(sample.parent.name, data.draw(damaged(sample.read_bytes())))


@pytest.mark.skipif(not PUBLISHED, reason="no corpus in ../shared/corpus")
@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_damaged_published_answers(tool: str, data: st.DataObject) -> None:
    samples = [path for path in PUBLISHED if path.parent.name == tool]
    if not samples:  # rocminfo's only one is long
        samples = [path for path in SAMPLES if path.parent.name == tool]
    check(tool, data.draw(damaged(data.draw(st.sampled_from(samples)).read_bytes())))


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=60, deadline=None)
@given(answer=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_noise(tool: str, answer: bytes) -> None:
    with contextlib.suppress(ParseError):
        registry.parse(tool, answer)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_crlf_is_read_alike(sample: Path) -> None:
    answer = sample.read_bytes().replace(b"\r\n", b"\n")
    tool = sample.parent.name
    assert registry.parse(tool, answer.replace(b"\n", b"\r\n")) == registry.parse(tool, answer)
