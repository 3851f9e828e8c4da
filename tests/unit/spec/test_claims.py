"""Files of claims: what is wrong in them is named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import SpecError
from kvgate.spec import yamlfile
from kvgate.spec.claims import claims_of, load_claims

EXAMPLE = Path(__file__).resolve().parents[3] / "inventory/examples/claims-fx100.yaml"
TEXT = """\
claims_of: X
source: s
claims:
  - claim: port
    text: a port
    source: page 1
    link: {speed: 100 Gb/s}
  - claim: ops
    text: many
    source: page 2
    operations: {iops: 1 MIOPS, block: 4 KiB, through: port}
"""


def load(text: str) -> object:
    return claims_of(yamlfile.parse(text.encode(), "c.yaml"))


def told(text: str) -> str:
    """Return what loading `text` says; the file's name where it is sound."""
    try:
        load(text)
    except SpecError as err:
        return err.message
    return "c.yaml"


def test_a_sound_file_is_loaded() -> None:
    assert load(TEXT)
    assert load_claims(EXAMPLE).value.claims[0].kind == "link"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("100 Gb/s", "100 GB/s", r"c\.yaml:7: .*'100 GB/s' is no quantity of bit/s"),
        ("100 Gb/s", "-100 Gb/s", r"c\.yaml:7: .*is not within"),
        ("100 Gb/s", "1e30 Gb/s", r"c\.yaml:7: .*is not within"),
        ("100 Gb/s", ".nan", r"c\.yaml:7: .*nan is not a quantity"),
        ("100 Gb/s", "nan Gb/s", r"c\.yaml:7: .*'nan Gb/s' is not a quantity"),
        ("100 Gb/s", ".inf", r"c\.yaml:7: .*inf is not a quantity"),
        ("4 KiB", "4 KB", r"c\.yaml:11: .*'4 KB' is not a quantity"),
        ("4 KiB", "0 B", r"c\.yaml:11: .*is not within"),
        ("block:", "blok:", r"c\.yaml:11: .*did you mean 'block'"),
        (
            "through: port",
            "through: prot",
            r"c\.yaml:11: .*no claim of kind link; did you mean 'port'",
        ),
        ("through: port", "through: ops", r"c\.yaml:11: .*'ops' is no claim of kind link"),
        ("claim: ops", "claim: port", r"c\.yaml:8: .*'port' stands twice"),
        ("claim: ops", "claim: O P S", r"c\.yaml:8: "),
        ("    link: {speed: 100 Gb/s}\n", "", r"c\.yaml:4: .*exactly one of link"),
        ("claims_of: X\n", "", r"c\.yaml:1: 'claims_of' is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        load(TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("size: {stated: 1 GB}", "exactly one of 'kv' and 'weights'"),
        ("ratio: {before: 1 s, after: 1 GB/s, form: times, stated: 2 x}", "not of one kind"),
        ("ratio: {before: 1 s, after: 2 s, form: times, stated: 2 %}", "times are in 'x'"),
        ("ratio: {before: 1 s, after: 2 s, form: higher, stated: 2 x}", "times are in 'x'"),
        ("ratio: {before: 1 s, after: 0 s, form: times, stated: 2 x}", "is not above 0"),
        ("ratio: {before: 1 s, after: 1e-900 s, form: times, stated: 2 x}", "is not above 0"),
        ("ratio: {before: 1e900 s, after: 1 s, form: times, stated: 2 x}", "out of all bounds"),
        ("ratio: {before: 1 GB, after: 2 GB, form: times, stated: 2 x}", "no time and no rate"),
        ("range: {low: 2 x, high: 2 x, of: [a, b]}", "is not below"),
        ("range: {low: 2 x, high: 3 x, of: [a]}", "at least 2 items"),
        ("attribution: {of: [port], to: [dedup]}", "no claim of kind ratio"),
        ("attribution: {of: [port], to: [magic]}", "Input should be 'dedup'"),
    ],
)
def test_parts_that_contradict_themselves_are_refused(body: str, told: str) -> None:
    with pytest.raises(SpecError, match=f"c.yaml:12: .*{told}"):
        load(TEXT + f"  - {{claim: odd, text: t, source: s, {body}}}\n")


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    assert "c.yaml" in told(text)
