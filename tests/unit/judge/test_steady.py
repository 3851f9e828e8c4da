"""SNIA's steady state on series whose answer is known, and rules a little off, which must fail."""

from __future__ import annotations

import dataclasses
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.judge import steady
from kvgate.judge.steady import MOST_ROUNDS, WINDOW, Window, outcome

Series = tuple[Fraction, ...]


@dataclasses.dataclass(frozen=True)
class Known:
    """A series and the round after which it is steady; None: never within 25."""

    name: str
    values: Series
    steady_after: int | None


def series(*values: float | str | Fraction) -> Series:
    return tuple(Fraction(value) for value in values)


def flat(count: int, at: float = 100) -> Series:
    return series(*[at] * count)


def rising(step: str, count: int = 25, start: int = 100) -> Series:
    """Return a straight line: its spread and its rise are both 4 steps."""
    return tuple(start + Fraction(step) * at for at in range(count))


def falls_until_flat(rounds: int, factor: str) -> Series:
    """Falls by a constant factor for `rounds`, then stays."""
    values = [Fraction(1000)]
    while len(values) < rounds:
        values.append(values[-1] * Fraction(factor))
    return tuple(values + [values[-1]] * (28 - rounds))  # three more than are looked at


def edge(rise: str) -> Series:
    """Five rounds on a line of average 100 that rises by `rise`."""
    step = Fraction(rise) / 4
    return tuple(100 + step * (at - 2) for at in range(5))


def wide(spread: str) -> Series:
    """Five rounds of average 100 and no slope whose largest and smallest are `spread` apart."""
    d = Fraction(spread)
    return (100 - d / 5, 100 - d / 5, 100 + d * 4 / 5, 100 - d / 5, 100 - d / 5)


def known() -> Iterator[Known]:
    """Fifty series; each answer follows from how it is made, said beside it."""
    yield Known("flat", flat(25), 5)
    yield Known("four rounds are no window", flat(4), None)
    yield Known("five rounds are one", flat(5), 5)
    yield Known("nothing moved at all", flat(25, 0), None)
    yield Known("one round moved nothing", flat(4) + flat(1, 0), None)
    yield Known("steady only in rounds that come after the 25th", (*doubling(25), *flat(5)), None)
    # spread alone: no slope, average 100
    for spread, answer in (("20", 5), ("20.0000001", None), ("19.9999999", 5), ("25", None)):
        yield Known(f"spread {spread} %", wide(spread), answer)
    yield Known("spread 20 % of an odd average", tuple(v * Fraction(7, 3) for v in wide("20")), 5)
    yield Known("20 % upside down", tuple(200 - v for v in wide("20")), 5)
    yield Known("spread 15 %: fio's own rule of 20 % either way holds too", wide("15"), 5)
    # no value is over 20 % from the mean, but they are 30 % apart: fio's rule would pass
    yield Known("30 % apart, each within 20 %", series(85, 115, 100, 115, 85), None)
    # rise alone: a line of average 100
    for rise, answer in (("10", 5), ("10.0000001", None), ("9.9999999", 5), ("12", None)):
        yield Known(f"rise {rise} %", edge(rise=rise), answer)
        yield Known(f"fall {rise} %", tuple(reversed(edge(rise=rise))), answer)
    # 2.5 a round of average 100 is a rise of 10 over four steps; counted as five it is 12.5
    yield Known("slope 2.2 a round: 8.8 %, five steps would be 11 %", edge(rise="8.8"), 5)
    # a line whose average grows: 4 s <= 10 % of 100 + s (x - 3), so after x >= 43 - 100 / s
    for step, answer in (("2", 5), ("2.5", 5), ("3", 10), ("4", 18), ("5", 23), ("6", None)):
        yield Known(f"rising by {step} a round", rising(step), answer)
    yield Known("rising by a tenth a round", tuple(Fraction(11, 10) ** n for n in range(25)), None)
    yield Known("falling by a tenth a round", tuple(Fraction(9, 10) ** n for n in range(25)), None)
    yield Known("falling by 2 % a round", tuple(Fraction(98, 100) ** n for n in range(25)), 5)
    yield Known("falling by 3 % a round", tuple(Fraction(97, 100) ** n for n in range(25)), None)
    # as drives do after a purge: it falls by half until round n, then it holds
    for fell in (2, 4, 8, 12, 20):
        yield Known(f"falls by half until round {fell}", falls_until_flat(fell, "1/2"), fell + 4)
    yield Known("falls until round 22: too late", falls_until_flat(22, "1/2"), None)
    yield Known("falls until round 21: just in time", falls_until_flat(21, "1/2"), 25)
    # steps: the first window beyond the step, or the one in which it is small enough
    yield Known("a step by half after round 3", flat(3) + flat(22, 50), 8)
    yield Known("a step by half after round 5 comes too late", flat(5) + flat(20, 50), 5)
    yield Known("steps up every third round by 30 %", stairs(), None)
    yield Known("a step of 20 % of the average in the last round", stepped("20"), None)
    # (0,0,0,0,d): slope 2 d/10, rise 0.8 d of average 100: at most 12.5
    yield Known("a step of 12.5 in the last round", stepped("12.5"), 5)
    yield Known("a step of 12.50001 in the last round", stepped("12.50001"), None)
    # an outlier: every window that has it spreads too far
    yield Known("one round stalls, round 5", flat(4) + flat(1, 10) + flat(20), 10)
    yield Known("a stall every fifth round", (flat(4) + flat(1, 10)) * 5, None)
    yield Known("saw of 22 %", series(*[89, 111] * 12, 89), None)
    yield Known("a hill: up to the third round and down again, 18 %", hill("18"), 5)
    yield Known("a hill of 21 %", hill("21"), None)
    yield Known("noise of 4 % either way", noisy(4, seed=1), 5)
    yield Known("noise of 60 % either way, 30 at least", loud(seed=2), None)


def doubling(count: int) -> Series:
    return tuple(Fraction(2) ** n for n in range(count))


def hill(size: str) -> Series:
    """Return 0, half, all, half, 0 of `size` around an average of 100: no slope."""
    d = Fraction(size)
    return tuple(100 + d * part - d * 2 / 5 for part in series(0, "1/2", 1, "1/2", 0))


def stairs() -> Series:
    return tuple(Fraction(13, 10) ** (at // 3) for at in range(25))


def stepped(by: str) -> Series:
    d = Fraction(by)
    return (*[100 - d / 5] * 4, 100 + d * 4 / 5)


def noisy(size: int, seed: int) -> Series:
    """Return values at most `size` from 100; for 4 the rise is at most 9.6 of over 96."""
    drawn = random.Random(seed)  # noqa: S311  no secret
    return tuple(
        Fraction(drawn.randint((100 - size) * 100, (100 + size) * 100), 100) for _ in range(25)
    )


def loud(seed: int) -> Series:
    """Return high and low in turn, at least 60 apart around 100."""
    drawn = random.Random(seed)  # noqa: S311  no secret
    return tuple(100 + (-1) ** at * Fraction(drawn.randint(30, 60)) for at in range(25))


SERIES = tuple(known())
Rule = Callable[[Window], bool]


def answer(values: Series) -> int | None:
    found = outcome({"y": values})
    return found.last if found.steady else None


def test_fifty_series_of_known_answer_are_all_right() -> None:
    wrong = [each.name for each in SERIES if answer(each.values) != each.steady_after]
    sys.stdout.write(
        f"PTS steady state: {len(SERIES) - len(wrong)} of {len(SERIES)} series right\n"
    )
    assert len(SERIES) >= 50
    assert len({each.name for each in SERIES}) == len(SERIES)
    assert wrong == []


RULE: Rule = Window.steady.fget  # type: ignore[attr-defined]


def _share(part: Fraction, window: Window) -> Fraction:
    return part / window.average if window.average > 0 else Fraction(1)


WRONG: dict[str, Rule] = {
    "spread below 20 %, not at most": lambda w: _share(w.spread, w) < Fraction(1, 5) and RULE(w),
    "rise below 10 %, not at most": lambda w: _share(w.rise, w) < Fraction(1, 10) and RULE(w),
    "slope by five steps": lambda w: (
        _share(w.spread, w) <= Fraction(1, 5) and _share(abs(w.slope) * 5, w) <= Fraction(1, 10)
    ),
    "slope by one step, as fio": lambda w: (
        _share(w.spread, w) <= Fraction(1, 5) and _share(abs(w.slope), w) <= Fraction(1, 10)
    ),
    "spread of 10 %, as some": lambda w: _share(w.spread, w) <= Fraction(1, 10) and RULE(w),
    "each within 20 % of the mean, as fio": lambda w: (
        all(_share(abs(v - w.average), w) <= Fraction(1, 5) for v in w.values)
        and _share(w.rise, w) <= Fraction(1, 10)
    ),
    "rise from first to last value": lambda w: (
        _share(w.spread, w) <= Fraction(1, 5)
        and _share(abs(w.values[-1] - w.values[0]), w) <= Fraction(1, 10)
    ),
    "shares of the first value": lambda w: (
        w.values[0] > 0
        and w.spread / w.values[0] <= Fraction(1, 5)
        and w.rise / w.values[0] <= Fraction(1, 10)
    ),
    "no slope": lambda w: _share(w.spread, w) <= Fraction(1, 5),
    "no spread": lambda w: _share(w.rise, w) <= Fraction(1, 10),
    "a rise only, no fall": lambda w: (
        _share(w.spread, w) <= Fraction(1, 5) and _share(w.slope * 4, w) <= Fraction(1, 10)
    ),
    "floats": lambda w: bool(
        float(w.average)
        and float(max(w.values)) - float(min(w.values)) <= 0.2 * float(w.average)
        and RULE(w)
    ),
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_rule_that_is_a_little_off_fails_the_set(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Window, "steady", property(WRONG[rule]))
    wrong = [each.name for each in SERIES if answer(each.values) != each.steady_after]
    assert wrong, f"no series tells '{rule}' from the rule"


@pytest.mark.parametrize(("window", "most"), [(4, 25), (6, 25), (5, 24), (5, 26)])
def test_another_window_or_number_of_rounds_fails_the_set(
    window: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady, "WINDOW", window)
    monkeypatch.setattr(steady, "MOST_ROUNDS", most)
    assert any(answer(each.values) != each.steady_after for each in SERIES)


def test_what_a_window_tells() -> None:
    window = Window(3, series(90, 95, 100, 105, 110))
    assert (window.last, window.average, window.spread) == (7, 100, 20)
    assert (window.slope, window.rise) == (5, 20)
    assert (window.spread_share, window.rise_share) == (Fraction(1, 5), Fraction(1, 5))
    assert window.slope * 3 + window.intercept == 90
    assert window.slope * 7 + window.intercept == 110
    assert not window.steady
    nothing = Window(1, flat(5, 0))
    assert (nothing.spread_share, nothing.rise_share, nothing.steady) == (None, None, False)


def test_all_variables_must_be_steady_in_one_window() -> None:
    early = flat(3, 500) + flat(22)  # steady after round 8
    late = flat(9, 500) + flat(16)  # steady after 5 (still high), and again after 14
    found = outcome({"a": early, "b": late})
    assert (found.steady, found.last) == (True, 8)
    slow = falls_until_flat(12, "1/2")[:25]
    found = outcome({"a": early, "b": slow})
    assert (found.steady, found.last, found.rounds) == (True, 16, 16)
    assert {window.first for window in found.windows.values()} == {12}
    never = outcome({"a": early, "b": rising("1", 25, 0)})
    assert not outcome({"a": early, "b": tuple(Fraction(2) ** n for n in range(25))}).steady
    assert never.ended


def test_rounds_go_on_until_it_is_steady_or_there_were_25() -> None:
    doubling = tuple(Fraction(2) ** n for n in range(30))
    counts = [outcome({"y": doubling[:n]}) for n in range(1, 31)]
    assert [each.ended for each in counts] == [n >= MOST_ROUNDS for n in range(1, 31)]
    assert [each.last for each in counts[:5]] == [None, None, None, None, 5]
    assert counts[-1].rounds == counts[-1].last == MOST_ROUNDS
    assert outcome({"y": flat(9)}).rounds == WINDOW


@pytest.mark.parametrize("tracked", [{}, {"a": flat(5), "b": flat(6)}])
def test_no_variable_and_uneven_ones_are_refused(tracked: dict[str, Series]) -> None:
    with pytest.raises(ValueError, match="all need the same"):
        outcome(tracked)


@pytest.mark.parametrize("values", [flat(4), flat(6)])
def test_a_window_has_five_rounds(values: Series) -> None:
    with pytest.raises(ValueError, match="5 rounds"):
        Window(1, values)


sizes = st.integers(min_value=1, max_value=10**6).map(Fraction)
quick = settings(max_examples=40, deadline=None)


@quick
@given(st.lists(sizes, min_size=5, max_size=12), sizes)
def test_the_unit_does_not_matter(values: list[Fraction], factor: Fraction) -> None:
    assert answer(tuple(values)) == answer(tuple(value * factor for value in values))


@quick
@given(st.lists(sizes, min_size=5, max_size=12))
def test_the_first_steady_window_decides_whatever_follows(values: list[Fraction]) -> None:
    whole = outcome({"y": values})
    steps = [outcome({"y": values[:n]}) for n in range(1, len(values) + 1)]
    first = next((each for each in steps if each.steady), None)
    assert whole.steady == (first is not None)
    if first is not None:
        assert (whole.rounds, whole.windows) == (first.rounds, first.windows)


@quick
@given(st.lists(sizes, min_size=5, max_size=5))
def test_the_fit_is_the_least_squares_line(values: list[Fraction]) -> None:
    window = Window(1, tuple(values))

    def squares(slope: Fraction, intercept: Fraction) -> Fraction:
        return sum(((v - slope * x - intercept) ** 2 for x, v in enumerate(values, 1)), Fraction(0))

    best = squares(window.slope, window.intercept)
    step = max(values) / 97
    for ds, di in itertools.product((-step, 0, step), repeat=2):
        assert squares(window.slope + ds, window.intercept + di) >= best
    backwards = Window(1, tuple(reversed(values)))
    assert (backwards.slope, backwards.rise) == (-window.slope, window.rise)
    assert backwards.steady == window.steady
