import dataclasses
import datetime
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kvgate.report import spent

T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True)
class Event:
    seq: int
    mono: float
    kind: str
    fields: dict[str, Any]
    utc: datetime.datetime = T0
    boot: str = "b1"


def journal(*steps: tuple[float, str, dict[str, Any]]) -> list[Event]:
    return [Event(seq, mono, kind, fields) for seq, (mono, kind, fields) in enumerate(steps)]


def test_own_time_is_run_time_less_the_union_of_children() -> None:
    found = spent.spans(
        journal(
            (0, "run_begin", {}),
            (1, "gate_begin", {"gate": "G2"}),
            (2, "child_begin", {"id": "a", "what": "fio"}),
            (4, "child_begin", {"id": "b", "what": "engine"}),  # overlaps: counted once as not own
            (6, "child_end", {"id": "a"}),
            (9, "child_end", {"id": "b"}),
            (10, "gate_end", {"gate": "G2"}),
            (12, "run_end", {}),
        )
    )
    assert found["G2"].total_s == pytest.approx(9)
    assert found["G2"].own_s == pytest.approx(2)
    assert found["G2"].by_child_s == {"fio": pytest.approx(4), "engine": pytest.approx(5)}
    assert found[spent.BETWEEN].total_s == found[spent.BETWEEN].own_s == pytest.approx(3)
    shown = spent.view(found)
    assert shown.own == "5.0 s"
    assert [row.name for row in shown.rows] == ["G2", spent.BETWEEN]
    assert shown.rows[0].by_child == "engine 5.0 s, fio 4.0 s"


def test_time_between_interruption_and_resumption_belongs_to_nobody() -> None:
    found = spent.spans(
        journal(
            (0, "gate_begin", {"gate": "G4"}),
            (5, "child_begin", {"id": "s", "what": "soak"}),
            (9, "note", {}),
            (900, "resumed", {}),
            (901, "gate_begin", {"gate": "G4"}),
            (903, "gate_end", {"gate": "G4"}),
        )
    )
    assert found["G4"].total_s == pytest.approx(11)
    assert found["G4"].own_s == pytest.approx(7)  # the soak's child died with the interruption
    assert found[spent.BETWEEN].total_s == pytest.approx(1)


def test_a_child_whose_end_was_never_written_flatters_nobody_after_its_gate() -> None:
    found = spent.spans(
        journal(
            (0, "gate_begin", {"gate": "G2"}),
            (1, "child_begin", {"id": "x", "what": "fio"}),
            (3, "gate_end", {"gate": "G2"}),
            (3, "gate_begin", {"gate": "G3"}),
            (8, "gate_end", {}),
        )
    )
    assert found["G3"].own_s == pytest.approx(5)


def test_a_monotonic_clock_that_began_anew_adds_no_negative_time() -> None:
    found = spent.spans(journal((100, "run_begin", {}), (3, "resumed", {}), (5, "run_end", {})))
    assert found[spent.BETWEEN].total_s == pytest.approx(2)


def test_a_soak_before_its_gate_is_its_gates_time_and_kinds_are_summed() -> None:
    found = spent.spans(
        journal(
            (0, "gate_end", {"gate": "G3"}),
            (2, "child_begin", {"id": "G4.soak", "what": "soak: windows and their engines"}),
            (82, "child_end", {"id": "G4.soak"}),
            (83, "gate_begin", {"gate": "G4"}),
            (84, "child_begin", {"id": "G4.2", "what": "engine: local, round 1"}),
            (85, "child_end", {"id": "G4.2"}),
            (86, "child_begin", {"id": "G4.3", "what": "engine: local, round 2"}),
            (87, "child_end", {"id": "G4.3"}),
            (88, "gate_end", {"gate": "G4"}),
        )
    )
    assert found["G4"].total_s == pytest.approx(85)
    assert found["G4"].own_s == pytest.approx(3)
    assert found["G4"].by_child_s == {"soak": pytest.approx(80), "engine": pytest.approx(2)}
    assert found[spent.BETWEEN].total_s == pytest.approx(3)


def test_a_reboot_in_between_is_nobodys_time_and_ends_the_children() -> None:
    events = journal(
        (10, "gate_begin", {"gate": "G4"}),
        (20, "child_begin", {"id": "s", "what": "soak"}),
        (500, "note", {}),
        (503, "gate_end", {"gate": "G4"}),
    )
    events[2:] = [dataclasses.replace(event, boot="b2") for event in events[2:]]
    found = spent.spans(events)
    assert found["G4"].total_s == pytest.approx(13)
    assert found["G4"].own_s == pytest.approx(13)


def test_an_empty_journal_has_no_time() -> None:
    shown = spent.view(spent.spans([]))
    assert shown.rows == ()
    assert shown.own_s == 0
    assert shown.note


@hypothesis.given(
    st.lists(
        st.tuples(
            st.floats(0, 50),
            st.sampled_from(["child_begin", "child_end", "gate_begin", "gate_end"]),
            st.sampled_from(["a", "b"]),
        )
    )
)
def test_own_is_never_more_than_total_and_all_time_is_somewhere(
    steps: list[tuple[float, str, str]],
) -> None:
    now, events = 0.0, []
    for gap, kind, name in steps:
        now += gap
        events.append(Event(len(events), now, kind, {"id": name, "what": name, "gate": name}))
    found = spent.spans(events)
    assert all(0 <= span.own_s <= span.total_s + 1e-9 for span in found.values())
    begun = events[0].mono if events else 0.0
    assert sum(span.total_s for span in found.values()) == pytest.approx(now - begun)
