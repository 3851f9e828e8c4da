"""What a plan may ask of SNIA's tests, and what it may call the results."""

from __future__ import annotations

import pydantic
import pytest

from kvgate.spec.pts import PtsWorkload


def asked(**options: object) -> PtsWorkload:
    given: dict[str, object] = {"tests": ["iops"], "profile": "full"}
    if "file" not in options:
        given |= {"serials": ["S1"], "purge": "format"}
    return PtsWorkload.model_validate(given | options)


@pytest.mark.parametrize(
    ("options", "label", "departure"),
    [
        ({}, "after PTS 2.0.2", None),
        ({"purge": "sanitize"}, "after PTS 2.0.2", None),
        ({"purge": "unmap"}, "PTS-derived", "not purged"),
        ({"profile": "quick"}, "quick, not PTS", "fewer points"),
        ({"profile": "quick", "purge": "unmap"}, "quick, not PTS", "not purged"),
        ({"file": "64 MiB"}, "PTS-shaped on a file, not PTS", "on a file"),
        ({"file": "64 MiB", "profile": "quick"}, "PTS-shaped on a file, not PTS", "quick"),
        ({"per_point": "30 s"}, "PTS-shaped, not PTS", "30 s a point, not 1 min"),
        ({"most_rounds": 10}, "PTS-shaped, not PTS", "given up after 10 rounds, not 25"),
        ({"active_range": "75 %"}, "PTS-shaped, not PTS", "active range 75 %"),
        (
            {"points": [{"read": 0, "block": "4 KiB"}]},
            "PTS-shaped, not PTS",
            "1 points of the IOPS test's 56",
        ),
        ({"per_point": "60 s"}, "after PTS 2.0.2", None),
    ],
)
def test_only_the_whole_test_is_called_pts(
    options: dict[str, object], label: str, departure: str | None
) -> None:
    workload = asked(**options)
    assert workload.label == label
    told = " | ".join(workload.departures())
    assert (departure in told) if departure else not told


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tests": []}, "is empty"),
        ({"tests": ["iops", "iops"]}, "one stands there twice"),
        ({"tests": ["tail"]}, "iops"),
        ({"serials": []}, "is empty"),
        ({"serials": ["S1", "S1"]}, "one stands there twice"),
        ({"serials": None}, "exactly one of"),
        ({"file": "1 GiB", "serials": ["S1"]}, "exactly one of"),
        ({"file": "1 GiB", "purge": "unmap"}, "goes with serials"),
        ({"purge": None}, "goes with serials"),
        ({"purge": "dd"}, "format"),
        ({"most_rounds": 4}, "5"),
        ({"most_rounds": 26}, "25"),
        ({"active_range": "0 %"}, "not up to 100 %"),
        ({"active_range": "101 %"}, "not up to 100 %"),
        ({"per_point": "0 s"}, "not a time"),
        ({"per_point": "1 us"}, "whole milliseconds"),
        ({"saturation": "-1 s"}, "not a time"),
        ({"points": [{"read": 0, "block": "1000 B"}]}, "multiple of 512 B"),
        ({"points": [{"read": 101, "block": "4 KiB"}]}, "100"),
        ({"threads": 0}, "1"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=says):
        asked(**options)
