"""A small drawing board for inline SVG: shapes, texts and axes, styled by the page's CSS classes.

Every text is made harmless and escaped here; coordinates are fixed to 0.1, so that the same
values give the same bytes. Series differ by shape as well as by colour.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from kvgate.report.text import visible

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring")


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` onto coordinates from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the coordinate of `value`; values outside are held at the ends."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        share = 0.0 if high == low else (value - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, about: int = 5) -> tuple[float, ...]:
        """Return round values inside the scale: decades on a log scale, else steps of 1, 2 or 5."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return tuple(10.0**power for power in range(first, last + 1))
        step = _step((self.high - self.low) / max(about, 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return tuple(count * step for count in range(first, last + 1))


def _step(rough: float) -> float:
    if rough <= 0 or not math.isfinite(rough):
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(unit * power for unit in (1, 2, 5, 10) if rough <= unit * power * (1 + 1e-9))


def from_zero(values: Iterable[float], start: float, end: float) -> Scale:
    """Return a scale from 0 to a little beyond the largest value, ending on a round number."""
    top = max((value for value in values if math.isfinite(value)), default=0.0)
    if top <= 0:
        return Scale(0.0, 1.0, start, end)
    step = _step(top / 4)
    return Scale(0.0, math.ceil(top / step - 1e-9) * step, start, end)


def spread(values: Sequence[float], start: float, end: float) -> Scale:
    """Return a scale from 0, or one of decades where the values lie far apart."""
    positive = [value for value in values if value > 0]
    if positive and len(positive) == len(values) and max(positive) / min(positive) > 25:
        low = 10.0 ** math.floor(math.log10(min(positive)))
        high = 10.0 ** math.ceil(math.log10(max(positive)) + 1e-12)
        return Scale(low, high, start, end, log=True)
    return from_zero(values, start, end)


def number(value: float) -> str:
    """Return a tick's value without superfluous digits."""
    return f"{value:.6g}"


class Drawing:
    """One SVG picture; `name` must be unique on the page (its title and description use it)."""

    def __init__(
        self, name: str, width: float, height: float, *, title: str, description: str
    ) -> None:
        self.width, self.height = width, height
        self._parts: list[str] = []
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
            f'viewBox="0 0 {_at(width)} {_at(height)}" '
            f'aria-labelledby="{name}-title {name}-desc">'
            f'<title id="{name}-title">{_text(title)}</title>'
            f'<desc id="{name}-desc">{_text(description)}</desc>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """Draw a straight line."""
        self._parts.append(
            f'<line class="{style}" x1="{_at(x1)}" y1="{_at(y1)}" x2="{_at(x2)}" y2="{_at(y2)}"/>'
        )

    def rect(
        self, x: float, y: float, width: float, height: float, style: str, tip: str = ""
    ) -> None:
        """Draw a rectangle; `tip` is told on hovering."""
        self._parts.append(
            f'<rect class="{style}" x="{_at(x)}" y="{_at(y)}" width="{_at(max(width, 0.0))}" '
            f'height="{_at(max(height, 0.0))}">{_tip(tip)}</rect>'
        )

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """Write `text` with its baseline at `y`; `anchor` is start, middle or end."""
        self._parts.append(
            f'<text class="{style}" x="{_at(x)}" y="{_at(y)}" '
            f'text-anchor="{anchor}">{_text(text)}</text>'
        )

    def path(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw straight lines through `points`."""
        steps = " ".join(f"{_at(x)},{_at(y)}" for x, y in points)
        self._parts.append(f'<polyline class="{style}" points="{steps}"/>')

    def area(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Fill the polygon of `points`."""
        steps = " ".join(f"{_at(x)},{_at(y)}" for x, y in points)
        self._parts.append(f'<polygon class="{style}" points="{steps}"/>')

    def point(
        self, x: float, y: float, shape: str, style: str, tip: str = "", size: float = 3.4
    ) -> None:
        """Draw one of SHAPES around (x, y)."""
        s = size
        outlines = {
            "triangle": ((0, -s * 1.25), (s * 1.15, s * 0.85), (-s * 1.15, s * 0.85)),
            "diamond": ((0, -s * 1.3), (s * 1.3, 0), (0, s * 1.3), (-s * 1.3, 0)),
            "square": ((-s, -s), (s, -s), (s, s), (-s, s)),
        }
        if shape in outlines:
            steps = " ".join(f"{_at(x + dx)},{_at(y + dy)}" for dx, dy in outlines[shape])
            body = f'<polygon class="{style}" points="{steps}">{_tip(tip)}</polygon>'
        elif shape == "cross":
            body = (
                f'<path class="{style} stroked" d="M{_at(x - s)} {_at(y - s)}L{_at(x + s)} '
                f'{_at(y + s)}M{_at(x - s)} {_at(y + s)}L{_at(x + s)} {_at(y - s)}">'
                f"{_tip(tip)}</path>"
            )
        else:
            hollow = " hollow" if shape == "ring" else ""
            body = (
                f'<circle class="{style}{hollow}" cx="{_at(x)}" cy="{_at(y)}" r="{_at(s)}">'
                f"{_tip(tip)}</circle>"
            )
        self._parts.append(body)

    def markup(self) -> Markup:
        """Return the finished picture."""
        return Markup(self._head + "".join(self._parts) + "</svg>")  # noqa: S704  all escaped here


def _at(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if math.isfinite(value) else "0"


def _text(text: str) -> str:
    return str(escape(visible(text, longest=400)))


def _tip(tip: str) -> str:
    return f"<title>{_text(tip)}</title>" if tip else ""
