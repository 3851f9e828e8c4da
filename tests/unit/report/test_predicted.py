"""Forecasts as sheets: marks, intervals, assumptions with their source, what is missing."""

from __future__ import annotations

from pathlib import Path

from kvgate.kv.geometry import Geometry
from kvgate.kv.predict import Parameters, Work
from kvgate.kv.predict_run import Bandwidth, Measured, forecasts
from kvgate.report.predicted import Asked, forecast_document, forecast_sheet
from kvgate.report.sheet import Sheet, page, text

WORK = Work(
    geometry=Geometry(name="m", layers=62, source="test", kv_heads=8, head_dim=128),
    dtype="bf16",
    tokens=30208,
    output_tokens=64,
)
ASSUMED = {
    "prefill": 1890.0,
    "overhead_s": 1.4,
    "decode_base_s": 0.02,
    "decode_each_s": 0.0005,
    "interference": 1e-6,
}
FOUND = Measured(
    run="run-1",
    mark="REHEARSAL: not a site's",
    bandwidths=(
        Bandwidth("node1", "device", (10e9, 11e9), 10.5e9, 9e9, 12e9),
        Bandwidth("node1", "local", (1e9,), 1e9, None, None),
    ),
    missing=("node2: nothing",),
)
ASKED = Asked(WORK, "5 s", 5.0, "TTFT p90", ASSUMED, "report R2")


def made() -> Sheet:
    found = forecasts(
        FOUND, WORK, Parameters(**ASSUMED), concurrencies=[8, 16], limit_s=5.0, figure="ttft_p90"
    )
    return forecast_sheet(FOUND, ASKED, found)


def test_a_forecast_tells_bandwidth_interval_limit_and_assumptions() -> None:
    told = "\n".join(text(made()))
    assert "*** REHEARSAL: not a site's ***" in told
    assert "10.5 GB/s (9 to 12 GB/s, 2 rounds)" in told
    assert "1 GB/s (1 round: no interval)" in told
    assert "TTFT p90 within 5 s    up to concurrency 4 (4 to 5)" in told
    assert "TTFT p90 within 5 s    not even by one request" in told
    assert "13.09 (11.63 to 15.04) s" in told
    assert "Assumed, not measured there" in told
    assert "1890 tok/s an instance" in told
    assert "source: report R2" in told
    assert "node2: nothing" in told


def test_the_page_has_the_band_and_the_curves(templates: Path) -> None:
    html = page(made(), templates).decode()
    assert 'class="band"' in html
    assert "<svg" in html
    assert html.count("<table") == 3


def test_the_document_has_the_numbers() -> None:
    found = forecasts(FOUND, WORK, Parameters(**ASSUMED), concurrencies=[16], limit_s=15.0)
    document = forecast_document(FOUND, ASKED, found)
    assert document["assumed"]["source"] == "report R2"
    device = document["forecasts"][0]
    assert device["bandwidth"]["low"] == 9e9
    assert device["points"][0]["low"]["ttft_p90"] > device["points"][0]["high"]["ttft_p90"]
    assert document["mark"].startswith("REHEARSAL")
