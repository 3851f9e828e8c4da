from __future__ import annotations

import datetime
import decimal

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kvgate.errors import StoreError
from kvgate.model.quantity import UNITS, Quantity
from kvgate.model.record import Evidence, Measurement
from kvgate.store import canonical, codec, pack
from kvgate.store.evidence import digest

UTC_TIMES = st.datetimes(
    min_value=datetime.datetime(1970, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    timezones=st.just(datetime.UTC),
)
QUANTITIES = st.builds(
    Quantity, st.decimals(allow_nan=False, allow_infinity=False), st.sampled_from(sorted(UNITS))
)
TEXTS = st.text(st.characters(), max_size=30)  # lone surrogates too
VALUES = st.one_of(QUANTITIES, TEXTS, st.booleans(), st.none())


def _stored(taken: Measurement) -> dict[str, object]:
    fields: dict[str, object] = canonical.parse(
        codec.measurement_line(taken, begun=None, number=1)
    )["measurement"]
    return fields


@given(
    st.builds(
        Measurement,
        name=TEXTS,
        value=VALUES,
        host=TEXTS,
        phase=TEXTS,
        taken_at=UTC_TIMES,
        item=TEXTS,
        labels=st.dictionaries(TEXTS, TEXTS, max_size=4),
        evidence=st.lists(TEXTS, max_size=3).map(tuple),
        inputs=TEXTS,
        problem=TEXTS,
        block=TEXTS,
    )
)
def test_measurements_survive_the_way_there_and_back(taken: Measurement) -> None:
    line = codec.measurement_line(taken, begun=7, number=9)
    record = canonical.parse(line)
    back = codec.measurement_of(record.pop("measurement"))
    assert back == taken
    assert record == {"begin": 7, "n": 9}
    assert codec.measurement_line(back, begun=7, number=9) == line
    assert canonical.compact(canonical.parse(line)) == line  # spelled as all else is
    if isinstance(taken.value, Quantity):
        assert isinstance(back.value, Quantity)
        assert str(back.value.number) == str(taken.value.number)
        assert back.value.unit == taken.value.unit


@given(
    st.builds(
        Evidence,
        host=TEXTS,
        command=st.lists(TEXTS, max_size=4).map(tuple),
        exit_status=st.none() | st.integers(-255, 255),
        stdout=st.binary(max_size=200),
        stderr=st.binary(max_size=50),
        started_at=UTC_TIMES,
        ended_at=UTC_TIMES,
        notes=st.lists(TEXTS, max_size=2).map(tuple),
    )
)
def test_evidence_survives_the_way_there_and_back(piece: Evidence) -> None:
    ref, head = digest(piece)
    assert head == canonical.compact(canonical.parse(head)) + b"\n"
    assert pack.decode(head + piece.stdout + piece.stderr, ref) == piece


def test_every_part_of_evidence_is_in_its_digest() -> None:
    noon = datetime.datetime(2026, 5, 12, 12, tzinfo=datetime.UTC)
    later = noon + datetime.timedelta(microseconds=1)
    base = {
        "host": "a",
        "command": ("x", "y"),
        "exit_status": 0,
        "stdout": b"ab",
        "stderr": b"c",
        "started_at": noon,
        "ended_at": noon,
        "notes": (),
    }
    changes = [
        {},
        {"host": "b"},
        {"command": ("x y",)},
        {"exit_status": None},
        {"stdout": b"a", "stderr": b"bc"},
        {"started_at": later},
        {"ended_at": later},
        {"notes": ("n",)},
    ]
    refs = {digest(Evidence(**{**base, **change}))[0] for change in changes}  # type: ignore[arg-type]
    assert len(refs) == len(changes)


def test_quantity_is_stored_as_its_digits() -> None:
    assert codec.value_text(Quantity.parse("1.50 ms")) == '{"number":"1.50","unit":"ms"}'
    assert codec.value_of({"number": "1E+3", "unit": "B"}) == Quantity(decimal.Decimal(1000), "B")


@pytest.mark.parametrize(
    "stored",
    [
        1,
        1.5,
        [],
        {},
        {"number": 1.5, "unit": "ms"},
        {"number": "1.5", "unit": "furlong"},
        {"number": "NaN", "unit": "ms"},
        {"number": "1", "unit": "ms", "more": 1},
    ],
)
def test_values_that_we_did_not_write_are_refused(stored: object) -> None:
    fields = _stored(
        Measurement(
            name="n", value=True, host="h", phase="p", taken_at=datetime.datetime.now(datetime.UTC)
        )
    )
    with pytest.raises(ValueError, match=r"not a measurement|not a stored value"):
        codec.measurement_of({**fields, "value": stored})


@pytest.mark.parametrize(
    "change",
    [{"name": 5}, {"labels": {"a": 1}}, {"more": "x"}, {"taken_at": "2026-05-12T12:00:00Z"}],
)
def test_measurements_that_we_did_not_write_are_refused(change: dict[str, object]) -> None:
    fields = _stored(
        Measurement(
            name="n", value=True, host="h", phase="p", taken_at=datetime.datetime.now(datetime.UTC)
        )
    )
    with pytest.raises(ValueError, match="not a"):
        codec.measurement_of({**fields, **change})
    with pytest.raises(ValueError, match="not a measurement"):
        codec.measurement_of({key: fields[key] for key in fields if key != "phase"})


@pytest.mark.parametrize("value", [1.5, 1, 0, b"x"])
def test_floats_are_no_values(value: object) -> None:
    with pytest.raises(StoreError, match="not a value"):
        codec.value_text(value)  # type: ignore[arg-type]


def test_what_is_no_text_is_not_stored() -> None:
    moment = datetime.datetime.now(datetime.UTC)
    odd = Measurement(name="n", value=True, host=5, phase="p", taken_at=moment)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="n: can't be stored"):
        codec.measurement_line(odd, begun=None, number=1)


@given(UTC_TIMES, st.integers(-23, 23))
def test_times_are_stored_in_utc(moment: datetime.datetime, hours: int) -> None:
    text = canonical.utc_text(moment)
    assert canonical.utc_time(text) == moment
    if 2 < moment.year < 9998:
        zone = datetime.timezone(datetime.timedelta(hours=hours))
        assert canonical.utc_text(moment.astimezone(zone)) == text
