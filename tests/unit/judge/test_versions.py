from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.judge import versions


@pytest.mark.parametrize(
    ("have", "want", "expected"),
    [
        ("1.2", "1.2", True),
        ("1.2", "11.25", False),
        ("11.25", "1.2", True),
        ("1.10", "1.9", True),
        ("1.9", "1.10", False),
        ("1.2.0", "1.2", True),
        ("1.2", "1.2.0", True),
        ("1.2", "1.2.1", False),
        ("v2.8", "2.8", True),
        (" 2.8\n", "2.8", True),
        ("6.18.44-fc-v782", "4.18", True),
        ("6.18.44-fc-v782", "6.18.44", True),
        ("6.18.44-fc-v782", "6.18.45", False),
        ("5.15.0-91-generic", "5.15.0-100", False),
        ("5.15.0-100-generic", "5.15.0-91", True),
        ("5.15.0-91-generic", "5.15.0-91", True),
        ("5.15.0", "5.15.0-91", False),
        ("5.15.0-91", "5.15.0", True),
        ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.9", True),
        ("5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.13.2", False),
        ("22.04.4 LTS (Jammy Jellyfish)", "22.04", True),
        ("8.9p1", "8.9", True),
        ("6.8-rc2", "6.8", False),
        ("6.8", "6.8-rc2", True),
        ("6.8-rc2", "6.8-rc1", True),
        ("6.8-rc2", "6.8-rc10", False),
        ("6.8.0-rc7", "6.7", True),
        ("2.0b1", "2.0rc1", False),
        ("2.0rc1", "2.0b3", True),
        ("2.0.dev3", "2.0a1", False),
        ("2.0-RC1", "2.0", False),
        ("1.2~rc1", "1.2", False),
        ("28.39.1002 (MT_0000000224)", "28.39.1002", True),
        ("1.2-flavour", "1.2-flavour", True),
        ("1.3-flavour", "1.2-other", True),
        ("6.1.0-18-amd64", "6.1.0-20-amd64", False),
        ("6.1.0-18cloud", "6.1.0-20", False),
    ],
)
def test_order(have: str, want: str, expected: bool) -> None:
    assert versions.at_least(have, want) is expected


@pytest.mark.parametrize(
    "text", ["", "n/a", "unknown", "fio-3.33", "1:2.3-4", "1.2~ubuntu1", "1..2", "-1", "1.2/3", "²"]
)
def test_what_has_no_order_is_refused(text: str) -> None:
    with pytest.raises(versions.NoOrderError, match="not a version"):
        versions.at_least(text, "1.0")


def test_flavours_have_no_order() -> None:
    with pytest.raises(versions.NoOrderError, match="no order"):
        versions.at_least("1.2-fc-v782", "1.2-fc-v800")


numbers = st.lists(st.integers(0, 10**6), min_size=1, max_size=5)


@given(numbers, numbers)
def test_plain_versions_order_like_their_numbers(left: list[int], right: list[int]) -> None:
    width = max(len(left), len(right))
    padded = [each + [0] * (width - len(each)) for each in (left, right)]
    have, want = (".".join(map(str, each)) for each in (left, right))
    assert versions.at_least(have, want) is (padded[0] >= padded[1])


@given(st.text(max_size=40))
def test_any_text_is_a_version_or_refused(text: str) -> None:
    with contextlib.suppress(versions.NoOrderError):
        assert versions.at_least(text, text)


@pytest.mark.parametrize(
    ("have", "want", "expected"),
    [
        ("1.2", "1.2.0", True),
        ("1.2", "11.25", False),
        ("1.2", "1.25", False),
        ("11.2", "1.2", False),
        ("0.20.1", "0.20.1", True),
        ("0.20.1rc1", "0.20.1", False),
        ("0.20.1", "0.20.10", False),
        ("6.8.0-45-generic", "6.8.0-45", True),
        ("6.8.0-45", "6.8.0", False),
        ("6.8.0-45-generic", "6.8.0-45-lowlatency", False),
        ("GDC7302Q", "GDC7302Q", True),
        ("28.39.1002 (MT_0000000224)", "28.39.1002", True),
    ],
)
def test_equal_versions(have: str, want: str, expected: bool) -> None:
    assert versions.equal(have, want) is expected


def test_what_is_no_version_equals_only_itself() -> None:
    with pytest.raises(versions.NoOrderError, match="not a version"):
        versions.equal("GDC7302Q", "1.2")


release = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n)))
pre = st.sampled_from(["", "-rc1", "rc2", ".dev3", "-beta", "a1"])
build = st.sampled_from(["", "-1", "-45", "+7.2"])
version_texts = st.builds(lambda r, p, b: r + p + b, release, pre, build)


@given(version_texts, version_texts, version_texts)
def test_the_order_is_total_where_it_is_defined(a: str, b: str, c: str) -> None:
    assert versions.order(a, b) == -versions.order(b, a)
    assert versions.order(a, a) == 0
    if versions.order(a, b) <= 0 and versions.order(b, c) <= 0:
        assert versions.order(a, c) <= 0
    assert versions.at_least(a, b) or versions.at_least(b, a)
    assert versions.equal(a, b) is (versions.at_least(a, b) and versions.at_least(b, a))


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_two_texts_are_compared_or_refused(left: str, right: str) -> None:
    for compared in (versions.equal, versions.at_least, versions.order):
        with contextlib.suppress(versions.NoOrderError):
            compared(left, right)
