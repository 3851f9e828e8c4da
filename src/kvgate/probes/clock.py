"""The host's clock against the controller's."""

from __future__ import annotations

import dataclasses
import decimal

from kvgate.model.quantity import Quantity
from kvgate.parse import system
from kvgate.probes.base import PLAIN, SHORT_S, Probe, answer, reading
from kvgate.witness import Answer, Testimony, Witness

ASKED_TIMES = 3
_MS = decimal.Decimal("0.001")


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The host's time less the controller's in the middle of the question, give or take."""

    offset_s: decimal.Decimal
    uncertain_s: decimal.Decimal  # half the round trip: the host's answer lies somewhere in it


def compare(asked: Testimony) -> Comparison:
    """Return what one question tells; raises ParseError or CommandError where it tells nothing."""
    host_s = system.epoch_s(asked.stdout)
    began, half = asked.result.started_at, decimal.Decimal(repr(asked.result.elapsed_s)) / 2
    began_s = decimal.Decimal(int(began.timestamp())) + decimal.Decimal(began.microsecond) / 10**6
    return Comparison(host_s - (began_s + half), half)


def ask_clock(witness: Witness) -> Answer:
    """Return clock.offset (host less controller) and clock.uncertainty (half the round trip).

    The quickest of a few questions counts, as NTP's clock filter has it (RFC 5905, section 10).
    """
    asked = [
        witness.ask(["date", "-u", "+%s.%N"], timeout_s=SHORT_S, env=PLAIN)
        for _ in range(ASKED_TIMES)
    ]
    best = min((compare(each) for each in asked), key=lambda each: each.uncertain_s)
    return answer(
        [
            reading("clock.offset", _ms(best.offset_s)),
            reading("clock.uncertainty", _ms(best.uncertain_s)),
        ],
        *asked,
    )


def _ms(seconds: decimal.Decimal) -> Quantity:
    return Quantity((seconds * 1000).quantize(_MS), "ms")


PROBES: tuple[Probe, ...] = (
    Probe(
        name="clock", measures=("clock.offset", "clock.uncertainty"), ask=ask_clock, tools=("date",)
    ),
)
