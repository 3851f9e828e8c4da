import pytest

from kvgate.errors import UsageError
from kvgate.faults.base import Injection, all_faults, fault_named


def test_every_fault_is_found_by_its_name() -> None:
    assert set(all_faults()) == {"engine_killed"}
    assert fault_named("engine_killed").inject.__name__ == "engine_killed"


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(UsageError, match="'engine_kiled' is not a fault") as caught:
        fault_named("engine_kiled")
    assert "engine_killed" in caught.value.hint


def test_moments_are_told_under_the_journals_names() -> None:
    told = []
    injection = Injection(fault="f", host="h", on_event=lambda kind, of: told.append((kind, of)))
    for moment in ("begun", "proven", "repaired"):
        injection.mark(moment)
    assert [kind for kind, _ in told] == ["fault_begin", "fault_proven", "fault_repaired"]
    assert injection.begun is not None
    assert injection.begun.utcoffset() is not None
    assert injection.begun <= injection.proven <= injection.repaired
