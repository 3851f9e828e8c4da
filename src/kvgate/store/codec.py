"""Measurements as JSON and back: a quantity as {"number": "1.5", "unit": "ms"}, never a float."""

from __future__ import annotations

import json
from typing import Any

from kvgate.errors import KvgateError, StoreError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Value
from kvgate.store.canonical import utc_text, utc_time

_quote = json.encoder.encode_basestring_ascii


def value_text(value: Value | None) -> str:
    """Return `value` as it is stored: a quantity as its digits and unit, the others as they are."""
    if isinstance(value, Quantity):
        return f'{{"number":{_quote(str(value.number))},"unit":{_quote(value.unit)}}}'
    if isinstance(value, str):
        return _quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    raise StoreError(f"{value!r} is not a value: a Quantity, a text, yes/no or None")


def value_of(stored: Any) -> Value | None:
    """Return the value that `value_text` wrote; raises ValueError, KeyError or UnitError."""
    if stored is None or isinstance(stored, (str, bool)):
        return stored
    if not (isinstance(stored, dict) and len(stored) == 2 and isinstance(stored["number"], str)):
        raise ValueError(f"{stored!r} is not a stored value")
    return Quantity.of(stored["number"], stored["unit"])


def measurement_line(taken: Measurement, *, begun: int | None, number: int) -> bytes:
    """Return the record of `taken`, as number `number` and of the block begun at `begun`.

    Canonical JSON, spelled out, as a gate has 100,000; a test holds it against
    `canonical.compact`. Raises StoreError for what is no measurement.
    """
    try:
        labels = ",".join(f"{_quote(k)}:{_quote(v)}" for k, v in sorted(taken.labels.items()))
        return (
            f'{{"begin":{"null" if begun is None else begun},"measurement":'
            f'{{"block":{_quote(taken.block)},"evidence":[{",".join(map(_quote, taken.evidence))}],'
            f'"host":{_quote(taken.host)},"inputs":{_quote(taken.inputs)},'
            f'"item":{_quote(taken.item)},"labels":{{{labels}}},"name":{_quote(taken.name)},'
            f'"phase":{_quote(taken.phase)},"problem":{_quote(taken.problem)},'
            f'"taken_at":"{utc_text(taken.taken_at)}","value":{value_text(taken.value)}}},"n":{number}}}'
        ).encode("ascii")
    except TypeError as err:
        raise StoreError(f"{taken.name}: can't be stored as JSON: {err}") from err


def measurement_of(stored: Any) -> Measurement:
    """Return the measurement that `measurement_line` wrote; raises ValueError for anything else."""
    try:
        fields = dict(stored)
        texts = {
            key: fields.pop(key)
            for key in ("block", "host", "inputs", "item", "name", "phase", "problem")
        }
        labels, evidence = dict(fields.pop("labels")), tuple(fields.pop("evidence"))
        taken_at, value = utc_time(fields.pop("taken_at")), value_of(fields.pop("value"))
    except (KeyError, TypeError, KvgateError) as err:
        raise ValueError(f"not a measurement: {err!r}") from err
    if fields or not all(
        isinstance(text, str) for text in (*texts.values(), *labels, *labels.values(), *evidence)
    ):
        raise ValueError(f"not a measurement: unknown {sorted(fields)}, or a text that is none")
    return Measurement(value=value, taken_at=taken_at, labels=labels, evidence=evidence, **texts)
