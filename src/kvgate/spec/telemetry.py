"""What telemetry samples of a host beside its own files: engines, more slow tools, amd-smi."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec import words
from kvgate.spec.base import Duration, Slug, Strict, within

Word = Annotated[str, pydantic.AfterValidator(words.safe())]


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"'{value}' is no address of metrics, as http://127.0.0.1:8000/metrics is")
    if parts.username or parts.password or not value.isascii() or not value.isprintable():
        raise ValueError("an address of metrics is of printable ASCII, with no name and password")
    if " " in value or len(value) > 500:
        raise ValueError("an address of metrics has no blank and at most 500 characters")
    return value


Address = Annotated[str, pydantic.AfterValidator(_address)]


class SlowTool(Strict):
    """A command that ``slow_every`` tells numbers: as JSON, or in lines ``name: number``.

    It only reads, ends within 30 s, and needs no secret.
    """

    name: Slug
    command: Annotated[list[Word], pydantic.Field(min_length=1, max_length=64)]
    form: Literal["json", "lines"] = "json"


class HostTelemetry(Strict):
    """What is sampled of a host: ``metrics`` of its engines, as the host itself reaches them.

    ``tools`` come beside SMART and the ports' own counters (`ethtool -S`). ``gpu`` amd-smi keeps
    one ``amd-smi monitor`` running beside what sysfs tells; it has a cost of its own, recorded.
    """

    metrics: Annotated[dict[Slug, Address], pydantic.Field(max_length=8)] = pydantic.Field(
        default_factory=dict
    )
    tools: Annotated[list[SlowTool], pydantic.Field(max_length=16)] = pydantic.Field(
        default_factory=list
    )
    gpu: Literal["sysfs", "amd-smi"] = "sysfs"
    slow_every: Annotated[Duration, within("10 s", "1 h")] = Quantity.of(60, "s")

    @pydantic.field_validator("tools", mode="after")
    @classmethod
    def _apart(cls, tools: list[SlowTool]) -> list[SlowTool]:
        if len({tool.name for tool in tools}) != len(tools):
            raise ValueError("each name once: it begins the names of its series")
        return tools
