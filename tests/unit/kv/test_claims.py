"""The shipped example's findings one by one, and claims that are possible, impossible or odd."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import UsageError
from kvgate.kv.claims import Finding, Kind, check, wrong
from kvgate.kv.claims_gains import quotient
from kvgate.kv.claims_told import ulp
from kvgate.kv.models import known
from kvgate.model.quantity import Quantity
from kvgate.spec import yamlfile
from kvgate.spec.claims import claims_of, load_claims

EXAMPLE = Path(__file__).resolve().parents[3] / "inventory/examples/claims-fx100.yaml"
HEAD = "claims_of: X\nsource: s\nclaims:\n"
PORT = "link: {speed: 100 Gb/s, pcie: {speed: 8 GT/s, lanes: 16}}"


@pytest.fixture(scope="module")
def example() -> dict[str, Finding]:
    findings = check(load_claims(EXAMPLE), known())
    assert wrong(findings)
    return {each.claim.claim: each for each in findings}


def checked(*bodies: str) -> list[Finding]:
    text = HEAD + "".join(
        f"  - {{claim: c{at}, text: t, source: s, {body}}}\n" for at, body in enumerate(bodies)
    )
    return list(check(claims_of(yamlfile.parse(text.encode(), "c.yaml")), known()))


def one(*bodies: str) -> Finding:
    return checked(*bodies)[-1]


@pytest.mark.parametrize(
    ("claim", "kind", "told"),
    [
        ("iops", Kind.IMPOSSIBLE, "blocks of at most 781 B (781.25)"),
        ("port", Kind.UNCHECKED, "x16 after encoding = 15.754 GB/s: carries it"),
        ("disk-peak", Kind.HOLDS, "12.5 GB/s; 10.65 GB/s is 85.2% of it"),
        ("weights", Kind.UNIT, "480,000,000,000 B = 480 GB = 447 GiB; stated: 450 GB"),
        ("session", Kind.UNIT, "7,671,382,016 B = 7.671 GB = 7.145 GiB; stated: 7.15 GB"),
        ("stored", Kind.UNIT, "260.8 GB = 242.9 GiB; stated: 243 GB"),
        ("r2-throughput-8", Kind.HOLDS, "28.929 %"),
        ("r2-throughput-16", Kind.HOLDS, "a limit at 40 % would reject what was published"),
        ("r2-ttft-8", Kind.HOLDS, "25.959 %"),
        ("r2-ttft-16", Kind.HOLDS, "31.542 %"),
        ("throughput-gain", Kind.HOLDS, "39.739 %"),
        ("ttft-gain", Kind.HOLDS, "31.542 %"),
        ("recompute-ttft", Kind.HOLDS, "12.616 x"),
        ("recompute-throughput", Kind.HOLDS, "18.268 x (18.036 x to 18.506 x by rounding)"),
        ("recompute-low", Kind.HOLDS, "statistic: p50; deployment: R3: 480B-FP8, TP4 x 2"),
        ("recompute-high", Kind.HOLDS, "statistic: p90; deployment: R2: 480B-FP8, TP8"),
        ("recompute-gain", Kind.CONTRADICTS, "2 statistics: p50; p90 and of 2 deployments"),
        ("r1-ttft", Kind.UNCHECKED, "4.0828 x"),
        ("r1-bandwidth", Kind.UNCHECKED, "5.3367 x"),
        ("r1-checkpoint", Kind.CONTRADICTS, "8 x 65.6 GB ÷ 94 s = 5.583 GB/s"),
        ("from-dedup", Kind.UNSUPPORTED, "the gain is that of tiering and bandwidth"),
        ("additive", Kind.UNSUPPORTED, "nothing shows that they add up"),
    ],
)
def test_findings_of_the_example(
    example: dict[str, Finding], claim: str, kind: Kind, told: str
) -> None:
    found = example[claim]
    assert found.kind is kind
    assert any(told in line for line in found.arithmetic), found.arithmetic


def test_every_claim_of_the_example_is_expected_above(example: dict[str, Finding]) -> None:
    assert len(example) == 22


def test_a_finding_names_the_line_its_claim_stands_on(example: dict[str, Finding]) -> None:
    lines = EXAMPLE.read_text().splitlines()
    for claim, found in example.items():
        name, _, line = found.line.rpartition(":")
        assert name == str(EXAMPLE)
        assert lines[int(line) - 1].strip() == f"- claim: {claim}"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PORT, Kind.HOLDS),
        (PORT.replace("16", "8"), Kind.IMPOSSIBLE),
        (PORT.replace("8 GT/s", "9 GT/s"), Kind.IMPOSSIBLE),
        ("link: {speed: 100 Gb/s}", Kind.UNCHECKED),
        ("link: {speed: 400 Gb/s, ports: 2, pcie: {speed: 16 GT/s}}", Kind.IMPOSSIBLE),
    ],
)
def test_links_against_their_lanes(body: str, kind: Kind) -> None:
    assert one(body).kind is kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("operations: {iops: 16 MIOPS, block: 781 B, through: c0}", Kind.HOLDS),
        ("operations: {iops: 16 MIOPS, block: 782 B, through: c0}", Kind.IMPOSSIBLE),
        ("operations: {iops: 1 MIOPS, through: c0}", Kind.UNCHECKED),
        ("throughput: {rate: 12.5 GB/s, through: c0}", Kind.HOLDS),
        ("throughput: {rate: 12.6 GB/s, through: c0}", Kind.IMPOSSIBLE),
    ],
)
def test_what_goes_through_a_port(body: str, kind: Kind) -> None:
    assert one(PORT, body).kind is kind


def test_the_lanes_bound_what_the_ports_would_carry() -> None:
    found = one(PORT.replace("16", "8"), "throughput: {rate: 8 GB/s, through: c0}")
    assert found.kind is Kind.IMPOSSIBLE
    assert "PCIe 8 GT/s x8 after encoding = 7.8769 GB/s" in found.arithmetic[0]


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ("480 GB", Kind.HOLDS),
        ("447 GiB", Kind.HOLDS),
        ("450 GB", Kind.UNIT),
        ("480 GiB", Kind.UNIT),
        ("900 GB", Kind.CONTRADICTS),
        ("480000000000 B", Kind.HOLDS),
        ("0.48 TB", Kind.HOLDS),
        ("0.437 TB", Kind.UNIT),
        ("450 kB", Kind.CONTRADICTS),
        ("450 KiB", Kind.CONTRADICTS),
    ],
)
def test_sizes_in_the_right_unit_the_other_or_none(stated: str, kind: Kind) -> None:
    found = one(f"size: {{stated: {stated}, weights: {{count: 480000000000, bits: 8}}}}")
    assert found.kind is kind


RATIO = (
    "ratio: {before: 10.00 s, after: 5.00 s, form: times, stated: 2.0 x, statistic: p50, "
    "deployment: d}"
)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("", "", Kind.HOLDS),
        ("2.0 x", "2.4 x", Kind.CONTRADICTS),
        (", statistic: p50", "", Kind.UNCHECKED),
        (", deployment: d", "", Kind.UNCHECKED),
        ("times, stated: 2.0 x", "lower, stated: 50 %", Kind.HOLDS),
        ("times, stated: 2.0 x", "lower, stated: 70 %", Kind.CONTRADICTS),
        ("10.00 s, after: 5.00 s", "5 tok/s, after: 10 tok/s", Kind.HOLDS),
        ("10.00 s, after: 5.00 s", "10 tok/s, after: 5 tok/s", Kind.CONTRADICTS),
    ],
)
def test_ratios_are_recomputed_at_their_precision(old: str, new: str, kind: Kind) -> None:
    assert one(RATIO.replace(old, new, 1) if old else RATIO).kind is kind


def test_a_span_has_the_ends_of_its_ratios() -> None:
    other = RATIO.replace("after: 5.00 s", "after: 2.00 s").replace("2.0 x", "5 x")
    assert one(RATIO, other, "range: {low: 2 x, high: 5 x, of: [c0, c1]}").kind is Kind.HOLDS
    found = one(RATIO, other, "range: {low: 2 x, high: 7 x, of: [c0, c1]}")
    assert found.kind is Kind.CONTRADICTS
    assert "7 x is no end of these" in found.arithmetic


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("to: [dedup], arms: [[tiering], [tiering, dedup]]", Kind.HOLDS),
        ("to: [dedup], arms: [[], [tiering, dedup]]", Kind.UNSUPPORTED),
        ("to: [dedup], distinct_sessions: true, reads_each: 1", Kind.UNSUPPORTED),
        ("to: [tiering], distinct_sessions: true, reads_each: 1", Kind.UNCHECKED),
        ("to: [dedup], distinct_sessions: false, reads_each: 1", Kind.UNCHECKED),
        (
            "to: [dedup, tiering], arms: [[], [dedup], [tiering], [dedup, tiering]]",
            Kind.HOLDS,
        ),
        ("to: [dedup, tiering], arms: [[], [dedup], [tiering]]", Kind.UNSUPPORTED),
    ],
)
def test_causes_need_arms_that_differ_by_them_alone(body: str, kind: Kind) -> None:
    assert one(RATIO, f"attribution: {{of: [c0], {body}}}").kind is kind


def test_a_model_that_is_not_known_is_named() -> None:
    with pytest.raises(UsageError, match="'nobody' is no model"):
        one("size: {stated: 1 GB, kv: {model: nobody, tokens: 1}}")


@pytest.mark.parametrize(
    ("text", "plain", "zeros"),
    [("7.15", "0.01", "0.01"), ("450", "1", "10"), ("20", "1", "10"), ("8.0", "0.1", "1")],
)
def test_precision_is_that_of_the_digits_written(text: str, plain: str, zeros: str) -> None:
    assert ulp(Decimal(text)) == Fraction(plain)
    assert ulp(Decimal(text), zeros=True) == Fraction(zeros)


extremes = st.sampled_from(["1e-12", "0.5", "1", "7.15", "450", "1e3", "1e24"])


@given(extremes, extremes, st.sampled_from(["times", "higher", "lower"]))
def test_figures_out_to_their_bounds_give_a_finding(before: str, after: str, form: str) -> None:
    stated = "2 x" if form == "times" else "20 %"
    body = f"before: {before} s, after: {after} s, form: {form}, stated: {stated}"
    assert one(f"ratio: {{{body}, statistic: p50, deployment: d}}").arithmetic


@pytest.mark.parametrize(
    "body",
    [
        "transfer: {bytes: 1e24 B, count: 1000000000000000, time: 1 ns, stated: 1 B/s}",
        "transfer: {bytes: 1 B, time: 1e9 s, stated: 1e18 B/s}",
        "size: {stated: 1e24 B, kv: {model: kimi-k2, tokens: 1000000000000000, sessions: 1000000}}",
        "size: {stated: 1 PiB, weights: {count: 1, bits: 1}}",
        "link: {speed: 1000 Tb/s, ports: 1024, pcie: {speed: 64 GT/s, lanes: 32}}",
    ],
)
def test_the_largest_and_smallest_that_are_read_give_a_finding(body: str) -> None:
    assert one(body).arithmetic


numbers = st.decimals(min_value="0.1", max_value="99999", places=1)


@given(numbers, numbers)
def test_a_quotient_lies_within_what_rounding_allows(upper: Decimal, lower: Decimal) -> None:
    low, middle, high = quotient(Quantity(upper, "s"), Quantity(lower, "s"))
    assert low <= middle <= high
    assert middle == Fraction(upper) / Fraction(lower)
