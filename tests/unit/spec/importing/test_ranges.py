"""Ranges expand as Ansible's do, and what is no range is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.spec.importing.ranges import MOST_NAMES, expand


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("node1", ("node1",)),
        ("node[1:3]", ("node1", "node2", "node3")),
        ("node[01-03].example.com", tuple(f"node0{n}.example.com" for n in (1, 2, 3))),
        ("n[08:11]", ("n08", "n09", "n10", "n11")),
        ("n[8:11]", ("n8", "n9", "n10", "n11")),
        ("n[1:7:3]", ("n1", "n4", "n7")),
        ("r[a:b]n[1-2]", ("ran1", "ran2", "rbn1", "rbn2")),
        ("n[00:00]", ("n00",)),
    ],
)
def test_ranges_expand(pattern: str, names: tuple[str, ...]) -> None:
    assert expand(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("n[3:1]", "counts down"),
        ("n[01:100]", "different numbers of digits"),
        ("n[1:9:0]", "a step of 0"),
        ("n[1..3]", "is no range"),
        ("n[]", "is no range"),
        ("n[1:2", "without its other half"),
        ("n1:2]", "without its other half"),
        ("n[a:F]", "no range of letters"),
        ("n[1:999999999]", "at most"),
        ("n[0:200][0:200]", f"at most {MOST_NAMES}"),
        ("n[١:٣]", "is no range"),
    ],
)
def test_what_is_no_range_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        expand(pattern)


@given(st.integers(0, 500), st.integers(0, 300), st.integers(1, 7), st.sampled_from(":-"))
def test_a_range_counts_from_first_to_last_in_steps(
    first: int, more: int, step: int, between: str
) -> None:
    names = expand(f"n[{first}{between}{first + more}:{step}]x")
    assert names == tuple(f"n{k}x" for k in range(first, first + more + 1, step))


@given(st.text(alphabet="n[]:-019az", max_size=16))
def test_any_text_expands_or_is_refused(pattern: str) -> None:
    try:
        names = expand(pattern)
    except ValueError:
        return
    assert names
    assert not any(bracket in name for name in names for bracket in "[]")
