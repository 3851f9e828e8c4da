"""The page as one JSON document: what the HTML shows, for programs. Same page, same bytes."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

from markupsafe import Markup

from kvgate.report.show import Shown
from kvgate.report.views import Mark, Page

FORMAT = "kvgate-report/1"

_FOR_THE_EYE = frozenset(
    {
        "footer_css",
        "anchor",
        "glances",
        "troubles_by_host",
        "has_items",
        "hosts_open",
        "hosts_told",
        "svg",
        "wide",
        "own_share",
        "child_share",
    }
)


def render(page: Page) -> bytes:
    """Return the page as JSON in ASCII, keys sorted; verdicts are the words of findings.json."""
    document = {"format": FORMAT, **_plain(page)}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True).encode() + b"\n"


def _plain(view: Any) -> Any:
    if isinstance(view, Mark):
        return view.key
    if isinstance(view, Shown):
        return {"text": view.text, "exact": view.exact or view.text}
    if isinstance(view, enum.Enum | Markup):
        return str(view)
    if dataclasses.is_dataclass(view):
        return {
            field.name: _plain(getattr(view, field.name))
            for field in dataclasses.fields(view)
            if field.name not in _FOR_THE_EYE
            and (getattr(view, field.name) or not field.metadata.get("left_out"))
        }
    if isinstance(view, tuple):
        return [_plain(each) for each in view]
    return view
