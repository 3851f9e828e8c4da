from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.judge.decide import EVIDENCE_CITED, decide
from kvgate.model.finding import Attempt, Finding
from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS, Measurement, Value
from kvgate.model.verdict import Verdict
from kvgate.spec.expect import Coverage, Expectations, Requirement
from kvgate.spec.gate import Criterion, Limit

PASS, FAIL, UNCLEAR, NOT_RUN = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_RUN)
RAN = Attempt(criterion="G2.3", outcome="ran")
MISSING = Attempt(
    criterion="G2.3", outcome="not_run", reasons=("fio is missing on ini1", "no scratch")
)
BROKE = Attempt(criterion="G2.3", outcome="error", reasons=("the link was lost",))
TWO: Coverage = {"ini1": ("",), "ini2": ("",)}

Take = Callable[..., Measurement]


@pytest.fixture
def judge(
    criterion: Callable[..., Criterion], limit: Callable[..., Limit]
) -> Callable[..., Finding]:
    def judge(
        *taken: Measurement,
        covers: Coverage = TWO,
        attempt: Attempt | None = RAN,
        form: dict[str, object] | None = None,
        expected: Expectations | None = None,
        **fields: object,
    ) -> Finding:
        return decide(
            criterion(**fields),
            limit(**(form or {"at_most": "1.5 ms"})),
            covers=covers,
            expected=expected or {},
            taken=taken,
            attempt=attempt,
        )

    return judge


def ms(number: float) -> Quantity:
    return Quantity.of(number, "ms")


def test_within_the_limit_everywhere_passes(judge: Callable[..., Finding], taken: Take) -> None:
    found = judge(taken(ms(1.5)), taken(ms(0.9), host="ini2"))
    assert found.verdict is PASS
    assert found.because == "holds on all 2 hosts; the worst: 1.5 ms on ini1"
    assert (found.measured, found.limit, found.marginal) == ("1.5 ms", "at most 1.5 ms", True)
    assert [(h.host, h.verdict, h.measured, h.because, h.marginal) for h in found.hosts] == [
        ("ini1", PASS, "1.5 ms", "holds", True),
        ("ini2", PASS, "0.9 ms", "holds", False),
    ]
    assert found.evidence == ("ini11.5 ms", "ini20.9 ms")


def test_a_value_without_evidence_never_passes(judge: Callable[..., Finding], taken: Take) -> None:
    found = judge(taken(ms(1.5), evidence=()), taken(ms(0.9), host="ini2"))
    assert found.verdict is UNCLEAR
    assert found.because == "1.5 ms on ini1, no evidence was kept for it"
    over = judge(taken(ms(2.1), evidence=()), taken(ms(0.9), host="ini2"))
    assert over.verdict is FAIL


def test_over_the_limit_anywhere_fails_and_says_where_and_how_much(
    judge: Callable[..., Finding], taken: Take
) -> None:
    found = judge(taken(ms(0.9)), taken(ms(2.1), host="ini2"))
    assert found.verdict is FAIL
    assert found.because == "2.1 ms on ini2, 40 % over"
    assert found.measured == "2.1 ms"
    assert found.evidence == ("ini22.1 ms",)
    assert [host.verdict for host in found.hosts] == [PASS, FAIL]


def test_several_values_of_a_place_must_all_hold(
    judge: Callable[..., Finding], taken: Take
) -> None:
    found = judge(taken(ms(1)), taken(ms(3), at_s=5), taken(ms(2), at_s=9), covers={"ini1": ("",)})
    assert (found.verdict, found.because) == (FAIL, "3 ms on ini1, 100 % over")
    assert found.hosts[0].evidence == ("ini13 ms", "ini12 ms", "ini11 ms")


def test_worst_places_are_named_first(judge: Callable[..., Finding], taken: Take) -> None:
    found = judge(taken(ms(3)), taken(ms(6), host="ini2"))
    assert found.because == "6 ms on ini2, 300 % over; 3 ms on ini1, 100 % over"


def test_many_places_are_not_all_named(judge: Callable[..., Finding], taken: Take) -> None:
    hosts = [f"h{i}" for i in range(9)]
    found = judge(
        *(taken(ms(2 + i), host=h) for i, h in enumerate(hosts)), covers={h: ("",) for h in hosts}
    )
    assert found.because.startswith("10 ms on h8, 567 % over; 9 ms on h7")
    assert found.because.endswith(" and 4 more")
    assert len(found.hosts) == 9


def test_an_unmeasured_host_is_not_a_pass(judge: Callable[..., Finding], taken: Take) -> None:
    found = judge(taken(ms(0.9)))
    assert (found.verdict, found.because) == (UNCLEAR, "not measured on ini2")
    assert [(host.verdict, host.measured) for host in found.hosts] == [
        (PASS, "0.9 ms"),
        (UNCLEAR, ""),
    ]


def test_a_fail_is_graver_than_an_unmeasured_host(
    judge: Callable[..., Finding], taken: Take
) -> None:
    assert judge(taken(ms(9))).because == "9 ms on ini1, 500 % over"


def test_items_are_places_of_their_own(judge: Callable[..., Finding], taken: Take) -> None:
    covers: Coverage = {"ini1": ("S1", "S2")}
    found = judge(taken(ms(1), item="S1"), covers=covers)
    assert (found.verdict, found.because) == (UNCLEAR, "not measured on ini1 (S2)")
    found = judge(taken(ms(1), item="S1"), taken(ms(2), item="S2"), covers=covers)
    assert found.because == "2 ms on ini1 (S2), 33 % over"
    found = judge(taken(ms(1), item="S1"), taken(ms(0.5), item="S2"), covers=covers)
    assert found.because == "holds on all 2 items on 1 host; the worst: 1 ms on ini1 (S1)"


def test_equal_values_are_said_once(judge: Callable[..., Finding], taken: Take) -> None:
    assert judge(taken(ms(1)), taken(ms(1), host="ini2")).because == "1 ms on all 2 hosts"


def test_other_names_phases_labels_hosts_and_items_do_not_count(
    judge: Callable[..., Finding], taken: Take
) -> None:
    where = {"arm": "local"}
    other = [
        taken(ms(9), name="fio.read_clat_p50", labels=where),
        taken(ms(9), phase="precondition", labels=where),
        taken(ms(9), labels={"arm": "recompute"}),
        taken(ms(9)),
        taken(ms(9), host="ini3", labels=where),
        taken(ms(9), item="S1", labels=where),
    ]
    good = taken(ms(1), labels=where | {"round": "2"})
    assert judge(*other, good, covers={"ini1": ("",)}, where=where).verdict is PASS
    found = judge(*other, covers={"ini1": ("",)}, where=where)
    assert found.verdict is UNCLEAR
    assert found.because == "not measured on ini1; measured only on ini1 (S1), ini3"
    found = judge(*other[:4], covers={"ini1": ("",)}, where=where)
    assert found.because == (
        "not measured on ini1; measured only with arm recompute; arm unset; phase precondition"
    )


def test_a_measurement_with_a_problem_is_inconclusive(
    judge: Callable[..., Finding], taken: Take
) -> None:
    found = judge(taken(ms(1)), taken(problem="counter went back", host="ini2"))
    assert (found.verdict, found.because) == (UNCLEAR, "ini2: counter went back")
    assert found.evidence == ("ini2None",)
    found = judge(taken(ms(1)), taken(problem="no exit status"), covers={"ini1": ("",)})
    assert (found.verdict, found.because) == (UNCLEAR, "ini1: no exit status")


def test_a_problem_with_a_value_beside_it_is_still_a_problem(
    judge: Callable[..., Finding], taken: Take
) -> None:
    suspect = dataclasses.replace(taken(ms(1)), problem="the fault was not proven")
    assert judge(suspect, covers={"ini1": ("",)}).verdict is UNCLEAR
    empty = dataclasses.replace(taken(ms(1)), value=None)
    assert judge(empty, covers={"ini1": ("",)}).because == "ini1: no value and no reason for it"


def test_a_fail_beside_a_problem_stays_a_fail(judge: Callable[..., Finding], taken: Take) -> None:
    found = judge(taken(problem="?"), taken(ms(3)), covers={"ini1": ("",)})
    assert (found.verdict, found.measured) == (FAIL, "3 ms")


def test_another_dimension_is_inconclusive(judge: Callable[..., Finding], taken: Take) -> None:
    found = judge(taken(Quantity.parse("3 B")), covers={"ini1": ("",)})
    assert found.verdict is UNCLEAR
    assert found.because == "3 B on ini1, not comparable: bytes against a limit of time"


@pytest.mark.parametrize(
    ("measured", "attempt", "verdict", "because"),
    [
        pytest.param([], None, NOT_RUN, "no test that settles it was run", id="never-run"),
        pytest.param([], RAN, UNCLEAR, "not measured on ini1, ini2", id="ran-and-measured-nothing"),
        pytest.param([], MISSING, NOT_RUN, "fio is missing on ini1; no scratch", id="not-run"),
        pytest.param(
            [],
            BROKE,
            UNCLEAR,
            "not measured on ini1, ini2; the harness broke: the link was lost",
            id="broke",
        ),
        pytest.param(
            [1, 1], BROKE, UNCLEAR, "the harness broke: the link was lost", id="broke-late"
        ),
        pytest.param(
            [1, 3],
            BROKE,
            FAIL,
            "3 ms on ini2, 100 % over; the harness broke: the link was lost",
            id="fail-stands",
        ),
        pytest.param(
            [1], MISSING, NOT_RUN, "fio is missing on ini1; no scratch", id="partly-not-run"
        ),
        pytest.param(
            [1, 1], MISSING, NOT_RUN, "fio is missing on ini1; no scratch", id="contradiction"
        ),
        pytest.param(
            [3],
            MISSING,
            FAIL,
            "3 ms on ini1, 100 % over; fio is missing on ini1; no scratch",
            id="fail-not-run",
        ),
        pytest.param(
            [1, 1],
            None,
            UNCLEAR,
            "the test that settles it was begun and left no record of its end",
            id="no-end",
        ),
        pytest.param(
            [1],
            None,
            UNCLEAR,
            "not measured on ini2; the test that settles it was begun "
            "and left no record of its end",
            id="no-end-and-not-everywhere",
        ),
        pytest.param(
            [1, 1],
            Attempt(criterion="G2.3", outcome="vanished"),
            UNCLEAR,
            "the harness broke: its test ended as 'vanished' without a reason",
            id="unknown",
        ),
    ],
)
def test_how_the_test_ended_counts(
    judge: Callable[..., Finding],
    taken: Take,
    measured: list[float],
    attempt: Attempt | None,
    verdict: Verdict,
    because: str,
) -> None:
    have = [taken(ms(each), host=f"ini{i + 1}") for i, each in enumerate(measured)]
    found = judge(*have, attempt=attempt)
    assert (found.verdict, found.because) == (verdict, because)


@pytest.mark.parametrize("covers", [{}, {"ini1": ()}])
def test_covering_nothing_is_not_run(
    judge: Callable[..., Finding], taken: Take, covers: Coverage
) -> None:
    found = judge(taken(ms(1)), covers=covers, each="nvme")
    assert found.verdict is NOT_RUN
    assert found.because == "no host declares what it covers (hosts: serving, each nvme)"


def test_all_hosts_together(judge: Callable[..., Finding], taken: Take) -> None:
    covers: Coverage = {ALL_HOSTS: ("",)}
    found = judge(taken(ms(3), host=ALL_HOSTS), taken(ms(1)), covers=covers, scope="all hosts")
    assert (found.verdict, found.because) == (FAIL, "3 ms on all hosts together, 100 % over")
    assert judge(taken(ms(1)), covers=covers, scope="all hosts").verdict is UNCLEAR


def test_declared_values_are_looked_up_by_host_measure_and_item(
    judge: Callable[..., Finding], taken: Take
) -> None:
    expected: Expectations = {
        ("ini1", "kernel.release", ""): Requirement("version_at_least", ("5.15",)),
        ("ini2", "kernel.release", ""): Requirement("version_at_least", ("6.8",)),
    }
    have = [taken("6.1.0", host=h, name="kernel.release") for h in ("ini1", "ini2")]
    found = judge(
        *have, form={"matches_inventory": True}, expected=expected, measure="kernel.release"
    )
    assert (found.verdict, found.because) == (FAIL, "6.1.0 on ini2, declared: version ≥ 6.8")


def test_the_hint_of_the_criterion_is_for_those_who_need_it(
    judge: Callable[..., Finding], taken: Take
) -> None:
    one: Coverage = {"ini1": ("",)}
    assert judge(taken(ms(3)), covers=one, hint="check the cable").hint == "check the cable"
    assert judge(taken(ms(1)), covers=one, hint="check the cable").hint == ""


def test_evidence_is_bounded(judge: Callable[..., Finding], taken: Take) -> None:
    many = [taken(ms(2 + i), at_s=i) for i in range(50)]
    found = judge(*many, covers={"ini1": ("",)})
    assert len(found.evidence) == len(found.hosts[0].evidence) == EVIDENCE_CITED
    assert found.evidence[0] == "ini151 ms"


values: st.SearchStrategy[Value | None] = st.one_of(
    st.integers(0, 40).map(lambda tenths: ms(tenths / 10)),
    st.sampled_from([Quantity.parse("3 B"), "text", True, None]),
)


@st.composite
def measurements(draw: st.DrawFn, taken: Take) -> list[Measurement]:
    made = []
    for _ in range(draw(st.integers(0, 8))):
        value = draw(values)
        made.append(
            taken(
                value,
                host=draw(st.sampled_from(["ini1", "ini2", "ini3"])),
                item=draw(st.sampled_from(["", "S1"])),
                at_s=draw(st.integers(0, 3)),
                labels={"round": draw(st.sampled_from("12"))},
                problem="" if value is not None else draw(st.sampled_from(["gone", "hung"])),
            )
        )
    return made


COVERS: Coverage = {"ini2": ("S1", ""), "ini1": ("",)}


def test_order_and_repetition_change_nothing(
    criterion: Callable[..., Criterion], limit: Callable[..., Limit], taken: Take
) -> None:
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        made = data.draw(measurements(taken))
        attempt = data.draw(st.sampled_from([None, RAN, MISSING, BROKE]))
        again = data.draw(st.permutations(made + made[: data.draw(st.integers(0, len(made)))]))
        flipped: Coverage = {"ini1": ("",), "ini2": ("", "S1", "S1")}
        first, second = (
            decide(
                criterion(),
                limit(at_most="1.5 ms"),
                covers=covers,
                expected={},
                taken=each,
                attempt=attempt,
            )
            for covers, each in ((COVERS, made), (flipped, again))
        )
        assert repr(first) == repr(second)

    holds()


def test_only_complete_and_good_data_passes(
    criterion: Callable[..., Criterion], limit: Callable[..., Limit], taken: Take
) -> None:
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        made = data.draw(measurements(taken))
        attempt = data.draw(st.sampled_from([None, RAN, MISSING, BROKE]))
        found = decide(
            criterion(),
            limit(at_most="1.5 ms"),
            covers=COVERS,
            expected={},
            taken=made,
            attempt=attempt,
        )
        places = {(host, item) for host, items in COVERS.items() for item in items}
        mine = [each for each in made if (each.host, each.item) in places]
        times = [e.value for e in mine if isinstance(e.value, Quantity) and e.value.unit == "ms"]
        good = [value for value in times if value <= ms(1.5)]
        complete = {(each.host, each.item) for each in mine} == places
        assert (found.verdict is PASS) is (attempt is RAN and complete and len(good) == len(mine))
        assert (found.verdict is FAIL) is (len(good) < len(times))
        assert found.because
        assert found.verdict is Verdict.worst(
            [found.verdict, *(host.verdict for host in found.hosts)]
        )

    holds()
