"""What a run produces: evidence, readings, measurements. Frozen, and plain to store as JSON."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping

from kvgate.model.quantity import Quantity
from kvgate.untrusted import mask

Value = Quantity | str | bool
"""What can be measured: a quantity, a text (a version, a model name), or yes/no."""

ALL_HOSTS = "*"
"""The `host` of a measurement that belongs to the hosts together, e.g. a service's throughput."""

EvidenceRef = str
"""The SHA-256 (64 hex digits) of a stored piece of evidence."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a host answered, untouched: the command, its bytes, its end and when.

    ``exit_status`` is None where none came (link lost, ended by its deadline).
    """

    host: str
    command: tuple[str, ...]
    exit_status: int | None
    stdout: bytes
    stderr: bytes
    started_at: datetime.datetime  # UTC
    ended_at: datetime.datetime  # UTC
    notes: tuple[str, ...] = ()  # e.g. "timed out after 20 s", "stdout capped at 64 MiB"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One answer of a probe or workload, before it is placed in a run; secrets in it are masked.

    ``item`` names the thing on the host (a serial number, a NIC, a PCI address); ``problem``
    says why there is no value, and then ``value`` is None: "not available" is never 0.
    """

    name: str
    value: Value | None
    item: str = ""
    problem: str = ""

    def __post_init__(self) -> None:
        """Refuse a reading that has neither a value nor a reason for its absence."""
        if (self.value is None) != bool(self.problem):
            raise ValueError(f"{self.name}: a reading has either a value or a problem")
        if self.problem:
            object.__setattr__(self, "problem", mask(self.problem))
        elif isinstance(self.value, str):
            object.__setattr__(self, "value", mask(self.value))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One value, where it was read, when, and the evidence it was read from.

    Computed values are measurements too: ``inputs`` says what they were computed from.
    A measurement without value carries its ``problem`` and makes its criterion inconclusive.
    """

    name: str  # "fio.read_clat_p99"
    value: Value | None
    host: str  # name in the inventory, or ALL_HOSTS
    phase: str  # "inspection", "steady_state", "fault", …
    taken_at: datetime.datetime  # UTC
    item: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)  # arm, concurrency, job …
    evidence: tuple[EvidenceRef, ...] = ()
    inputs: str = ""  # how a computed value came about: "median of 16 ttft, rounds 1-2"
    problem: str = ""
    block: str = ""  # the measurement block it was taken in


def evidence_of(taken: Iterable[Measurement]) -> tuple[EvidenceRef, ...]:
    """Return all evidence that measurements cite: that of a value computed from them."""
    return tuple(sorted({ref for each in taken for ref in each.evidence}))
