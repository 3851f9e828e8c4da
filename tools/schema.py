"""Writes docs/schema/: a JSON schema (2020-12) of every format that leaves kvgate or enters it.

They are made from the models, so that they can't differ: `schema.py` writes them, `schema.py
--check` tells whether those there are current (a test does too).
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pydantic
from markupsafe import Markup
from pydantic.json_schema import GenerateJsonSchema

from kvgate.kv.predict_data import Published
from kvgate.model.finding import RunResult
from kvgate.model.quantity import Quantity
from kvgate.report import document, views
from kvgate.report.show import Shown
from kvgate.spec.adapter import Adapter
from kvgate.spec.baseline import Baseline
from kvgate.spec.bom import Bom
from kvgate.spec.claims import Claims
from kvgate.spec.gate import Gate
from kvgate.spec.inventory import Inventory
from kvgate.spec.plan import Plan
from kvgate.store import findings, statement
from kvgate.store.layout import FORMAT
from kvgate.store.manifest import Manifest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


class _FromModels(GenerateJsonSchema):
    """Pydantic's generator, with defaults that are quantities written as people write them."""

    def encode_default(self, dft: Any) -> Any:
        """Return a default as it would stand in a file."""
        return str(dft) if isinstance(dft, Quantity) else super().encode_default(dft)


def of_model(model: type[pydantic.BaseModel]) -> Schema:
    """Return the schema of what people write: gate, plan, inventory, baseline, BOM."""
    return model.model_json_schema(schema_generator=_FromModels)


def of_plan() -> Schema:
    """Return the schema of a plan: a whole one, or one that narrows the plan named as its base."""
    whole = of_model(Plan)
    definitions = whole.pop("$defs")
    base = {"description": "the plan below the workspace that this one narrows", "type": "string"}
    narrowing = {
        **whole,
        "description": "A plan on top of another: replaces its keys, adds to its scope_out.",
        "title": "PlanOnBase",
        "properties": {"base": base, **whole["properties"]},
        "required": ["base"],
    }
    return {"$defs": definitions, "anyOf": [whole, narrowing]}


class _Walk:
    """The schema of records: dataclasses and typed dicts, as `document` or the store spell them."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        self.definitions: dict[str, Schema] = {}
        self._hidden = hidden

    def root(self, kind: type, form: str, *, more: bool = False) -> Schema:
        """Return the schema of a whole file of format `form`; `more`: keys may be added."""
        self.of(kind)
        body = self.definitions.pop(kind.__name__)
        properties = {**body["properties"], "format": {"const": form}}
        required = sorted({*body["required"], "format"})
        whole = {**body, "properties": properties, "required": required}
        if more:
            del whole["additionalProperties"]
        return {"$defs": dict(sorted(self.definitions.items())), **whole}

    def of(self, kind: Any) -> Schema:
        """Return the schema of a value annotated as `kind`."""
        plain = {str: "string", Markup: "string", int: "integer", float: "number", bool: "boolean"}
        if kind in plain:
            return {"type": plain[kind]}
        if kind is type(None):
            return {"type": "null"}
        if kind is views.Mark:
            marks = (*views.MARKS.values(), views.SCOPED_OUT)
            return {"enum": sorted({mark.key for mark in marks})}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": sorted(str(each.value) for each in kind)}
        if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
            return self._record(kind)
        return self._generic(kind)

    def _generic(self, kind: Any) -> Schema:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.NotRequired, typing.Required):
            return self.of(arguments[0])
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin in (tuple, list) and (origin is list or arguments[1:] == (...,)):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is collections.abc.Mapping and arguments[1] is Any:
            return {"type": "object"}
        if origin is dict and arguments[0] is str:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        raise TypeError(f"no schema for {kind}")

    def _record(self, kind: Any) -> Schema:
        name = kind.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # while it is being made
            hints = typing.get_type_hints(kind, include_extras=True)
            optional = {
                key
                for key, hint in hints.items()
                if typing.get_origin(hint) is typing.NotRequired
                or not getattr(kind, "__total__", True)
            }
            if dataclasses.is_dataclass(kind):
                optional |= {f.name for f in dataclasses.fields(kind) if f.metadata.get("left_out")}
            shown = [key for key in hints if key not in self._hidden]
            self.definitions[name] = {
                "additionalProperties": False,
                "description": " ".join((kind.__doc__ or "").split()),
                "properties": {key: self.of(hints[key]) for key in shown},
                "required": sorted(key for key in shown if key not in optional),
                "type": "object",
            }
        return {"$ref": f"#/$defs/{name}"}


def schemas() -> dict[str, Schema]:
    """Return name → schema of every format."""
    report = _Walk(document._FOR_THE_EYE)
    report.definitions[Shown.__name__] = {
        "additionalProperties": False,
        "description": "A value as people read it, and its exact spelling.",
        "properties": {"exact": {"type": "string"}, "text": {"type": "string"}},
        "required": ["exact", "text"],
        "type": "object",
    }
    return {
        "gate": of_model(Gate),
        "plan": of_plan(),
        "inventory": of_model(Inventory),
        "baseline": of_model(Baseline),
        "bom": of_model(Bom),
        "adapter": of_model(Adapter),
        "claims": of_model(Claims),
        "published": of_model(Published),
        "run": _Walk().root(Manifest, FORMAT, more=True),
        "findings": _Walk().root(RunResult, findings.FORMAT),
        "report": report.root(views.Page, document.FORMAT),
        "statement": _Walk().root(statement.Statement, statement.FORMAT),
    }


def texts() -> dict[str, str]:
    """Return file name → content of docs/schema/."""
    found = {}
    for name, schema in schemas().items():
        whole = {"$schema": DIALECT, "$id": f"urn:kvgate:schema:{name}:1", **schema}
        text = json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=True)
        found[f"{name}.schema.json"] = text + "\n"
    return found


def main(words: list[str]) -> int:
    """Write the schemas, or name those that are not current."""
    stale = [
        name
        for name, text in texts().items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text("ascii") != text
    ]
    if words == ["--check"]:
        for name in stale:
            print(f"docs/schema/{name}: is not current; write it anew with tools/schema.py")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(texts()[name], "ascii")
        print(f"docs/schema/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
