"""A supplier's claims as data: each with its text, where it stands, and what it says in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec import yamlfile
from kvgate.spec.base import AnyQuantity, LinkSpeed, Slug, Strict, Text, exactly_one_of, within
from kvgate.spec.load import Loaded, nearest, validate
from kvgate.spec.yamlfile import YamlFile

PortSpeed = Annotated[AnyQuantity, within("1 Mb/s", "1000 Tb/s")]
Iops = Annotated[AnyQuantity, within("1 IOPS", "1e15 IOPS")]
Bytes = Annotated[AnyQuantity, within("1 B", "1e24 B")]
ByteRate = Annotated[AnyQuantity, within("1 B/s", "1e18 B/s")]
Time = Annotated[AnyQuantity, within("1 ns", "1e9 s")]
Gain = Annotated[AnyQuantity, within("0.0001 x", "1000000 x")]
Count = Annotated[int, pydantic.Field(ge=1, le=10**15)]


def _figure(value: Quantity) -> Quantity:
    if value.dimension not in ("time", "tok/s", "req/s", "bytes/s", "IOPS"):
        raise ValueError(f"'{value}' is no time and no rate")
    if not Fraction(1, 10**12) <= value.base <= 10**24:
        raise ValueError(f"'{value}' is not above 0, or out of all bounds")
    return value


Figure = Annotated[AnyQuantity, pydantic.AfterValidator(_figure)]
"""What a ratio is of: a time, or a rate."""

Statistic = Literal["p50", "p90", "p95", "p99", "mean", "peak", "total"]


class Pcie(Strict):
    """A PCIe interface: its rate a lane, and its lanes where they are told."""

    speed: LinkSpeed
    lanes: Annotated[int, pydantic.Field(ge=1, le=32)] | None = None


class Link(Strict):
    """Ports of one speed, and the PCIe interface behind them."""

    ports: Annotated[int, pydantic.Field(ge=1, le=1024)] = 1
    speed: PortSpeed
    pcie: Pcie | None = None


class Operations(Strict):
    """Operations a second ``through`` a link (the id of its claim), each of ``block`` if told."""

    iops: Iops
    block: Bytes | None = None
    through: Slug


class Throughput(Strict):
    """Bytes a second ``through`` a link (the id of its claim)."""

    rate: ByteRate
    through: Slug


class Kv(Strict):
    """KV of so many tokens and sessions of a model that kvgate knows."""

    model: Text
    dtype: Literal["bf16", "fp16", "fp8"] = "bf16"
    tokens: Count
    sessions: Count = 1


class Weights(Strict):
    """So many parameters of so many bits."""

    count: Count
    bits: Annotated[int, pydantic.Field(ge=1, le=64)]


class Size(Strict):
    """A size as it is stated, and what it is of."""

    model_config = exactly_one_of("kv", "weights")

    stated: Bytes
    kv: Kv | None = None
    weights: Weights | None = None

    @pydantic.model_validator(mode="after")
    def _one(self) -> Size:
        if (self.kv is None) == (self.weights is None):
            raise ValueError("a size is of exactly one of 'kv' and 'weights'")
        return self


class Transfer(Strict):
    """So many bytes in so long: ``count`` times ``bytes`` at once."""

    bytes: Bytes
    count: Count = 1
    time: Time
    stated: ByteRate


class Ratio(Strict):
    """A gain as it is stated, its two figures, their statistic and deployment.

    ``form``: how many times better, or how many per cent higher or lower.
    """

    before: Figure
    after: Figure
    form: Literal["times", "higher", "lower"]
    stated: Gain
    statistic: Statistic | None = None
    deployment: Text | None = None

    @pydantic.model_validator(mode="after")
    def _alike(self) -> Ratio:
        if self.before.dimension != self.after.dimension:
            raise ValueError(f"'{self.before}' and '{self.after}' are not of one kind")
        if (self.stated.unit == "x") != (self.form == "times"):
            raise ValueError(f"'{self.stated}': times are in 'x', higher and lower in '%'")
        return self


class Range(Strict):
    """A span of gains, and the ratios (ids of claims) that it is said to span."""

    low: Gain
    high: Gain
    of: Annotated[list[Slug], pydantic.Field(min_length=2)]

    @pydantic.model_validator(mode="after")
    def _rising(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"'{self.low}' is not below '{self.high}'")
        return self


Cause = Literal["dedup", "compression", "tiering", "parallel_reads", "device_path"]


class Attribution(Strict):
    """What gains (ids of ratios) are said to come from, and what was run to show it.

    ``arms`` are the configurations that were measured, each as what it had switched on.
    """

    of: Annotated[list[Slug], pydantic.Field(min_length=1)]
    to: Annotated[list[Cause], pydantic.Field(min_length=1)]
    distinct_sessions: bool | None = None
    reads_each: Annotated[int, pydantic.Field(ge=1, le=10**9)] | None = None
    arms: list[list[Cause]] | None = None


KINDS = ("link", "operations", "throughput", "size", "transfer", "ratio", "range", "attribution")


class Claim(Strict):
    """One claim: what was written, where, and what it says as exactly one of KINDS."""

    model_config = exactly_one_of(*KINDS)

    claim: Slug
    text: Text
    source: Text
    link: Link | None = None
    operations: Operations | None = None
    throughput: Throughput | None = None
    size: Size | None = None
    transfer: Transfer | None = None
    ratio: Ratio | None = None
    range: Range | None = None
    attribution: Attribution | None = None

    @pydantic.model_validator(mode="after")
    def _one(self) -> Claim:
        told = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(told) != 1:
            raise ValueError(f"a claim is exactly one of {', '.join(KINDS)}; here: {told}")
        return self

    @property
    def kind(self) -> str:
        """Return which of KINDS it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    def refers(self) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
        """Yield (place, id, kind) of every other claim that it names."""
        for kind in ("operations", "throughput"):
            if (part := getattr(self, kind)) is not None:
                yield (kind, "through"), part.through, "link"
        for kind in ("range", "attribution"):
            if (part := getattr(self, kind)) is not None:
                for at, each in enumerate(part.of):
                    yield (kind, "of", at), each, "ratio"


class Claims(Strict):
    """A file of claims: who made them, and where."""

    claims_of: Text
    source: Text
    claims: Annotated[list[Claim], pydantic.Field(min_length=1)]


def load_claims(path: Path, *, name: str | None = None) -> Loaded[Claims]:
    """Load a file of claims; raises SpecError with file and line, also for unknown references."""
    return claims_of(yamlfile.read(path, name=name))


def claims_of(file: YamlFile) -> Loaded[Claims]:
    """Check a file of claims; an id stands once, and what a claim names is there, of its kind."""
    value = validate(Claims, file)
    kinds: dict[str, str] = {}
    for place, each in enumerate(value.claims):
        if each.claim in kinds:
            raise file.error(("claims", place, "claim"), f"'{each.claim}' stands twice")
        kinds[each.claim] = each.kind
    for place, each in enumerate(value.claims):
        for where, named, kind in each.refers():
            if kinds.get(named) != kind:
                known = nearest(named, [one for one, of in kinds.items() if of == kind])
                told = f"'{named}' is no claim of kind {kind}{known}"
                raise file.error(("claims", place, *where), told)
    return Loaded(value, (file,))
