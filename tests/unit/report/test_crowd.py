"""A thousand hosts in a table: those that agree are one row, the outlier stands first."""

from __future__ import annotations

from kvgate.model.finding import HostFinding
from kvgate.model.verdict import Verdict
from kvgate.report import crowd


def place(host: str, verdict: Verdict = Verdict.PASS, measured: str = "7") -> HostFinding:
    because = f"{host}: is {measured}, which is what {host} tells"
    return HostFinding(
        host=host, verdict=verdict, measured=measured, because=because, evidence=(), item=""
    )


THOUSAND = [place(f"node-{number}") for number in range(1000)]


def test_few_hosts_stand_one_by_one() -> None:
    rows, left = crowd.shown(THOUSAND[: crowd.MANY])
    assert [row.named for row in rows] == sorted(each.host for each in THOUSAND[: crowd.MANY])
    assert not left
    assert rows[0].because == rows[0].first.because


def test_hosts_that_agree_are_one_row_and_the_outlier_is_above_them() -> None:
    outlier = place("node-17", measured="6")
    rows, left = crowd.shown([*THOUSAND[:17], outlier, *THOUSAND[18:]])
    assert not left
    assert [row.named for row in rows] == [
        "node-17",
        "999 hosts: node-0, node-1, node-10 and 996 more",
    ]
    assert rows[0].because == outlier.because
    assert rows[1].because == "is 7, which is what the host tells"


def test_failures_stand_above_all_and_are_not_mixed_with_what_passed() -> None:
    failed = [place(f"bad-{number}", Verdict.FAIL) for number in range(5)]
    rows, _ = crowd.shown([*THOUSAND, *failed])
    assert [row.first.verdict for row in rows] == [Verdict.FAIL, Verdict.PASS]
    assert rows[0].named == "5 hosts: bad-0, bad-1, bad-2 and 2 more"


def test_a_table_has_no_more_rows_than_can_be_read_and_counts_the_rest() -> None:
    places = [place(f"node-{number}", measured=str(number)) for number in range(1000)]
    places.append(place("bad", Verdict.FAIL, measured="x"))
    rows, left = crowd.shown(places)
    assert len(rows) == crowd.MANY - 1
    assert rows[0].named == "bad"
    assert left == 1001 - len(rows)
