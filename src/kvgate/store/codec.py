"""Measurements as JSON and back: a quantity as {"number": "1.5", "unit": "ms"}, never a float."""

from __future__ import annotations

from typing import Any

from kvgate.errors import KvgateError, StoreError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Value
from kvgate.store.canonical import JSON, utc_text, utc_time


def value_json(value: Value | None) -> JSON:
    """Return `value` as it is stored: a quantity as its digits and unit, the others as they are."""
    if isinstance(value, Quantity):
        return {"number": str(value.number), "unit": value.unit}
    if value is None or isinstance(value, (str, bool)):
        return value
    raise StoreError(f"{value!r} is not a value: a Quantity, a text, yes/no or None")


def value_of(stored: Any) -> Value | None:
    """Return the value that `value_json` wrote; raises ValueError, KeyError or UnitError."""
    if stored is None or isinstance(stored, (str, bool)):
        return stored
    if not (isinstance(stored, dict) and len(stored) == 2 and isinstance(stored["number"], str)):
        raise ValueError(f"{stored!r} is not a stored value")
    return Quantity.of(stored["number"], stored["unit"])


def measurement_json(taken: Measurement) -> dict[str, JSON]:
    """Return `taken` as it is stored: every field, under its name."""
    return {
        "block": taken.block,
        "evidence": list(taken.evidence),
        "host": taken.host,
        "inputs": taken.inputs,
        "item": taken.item,
        "labels": dict(taken.labels),
        "name": taken.name,
        "phase": taken.phase,
        "problem": taken.problem,
        "taken_at": utc_text(taken.taken_at),
        "value": value_json(taken.value),
    }


def measurement_of(stored: Any) -> Measurement:
    """Return the measurement that `measurement_json` wrote; raises ValueError for anything else."""
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
