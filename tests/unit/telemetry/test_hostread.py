from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.telemetry.hostread import metrics, numbers, statistics, told

METRICS = """# HELP x y
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="tiny"} 17.0
# TYPE vllm:ttft histogram
vllm:ttft_bucket{le="0.1"} 3
vllm:ttft_sum 0.25
vllm:ttft_count 3
# TYPE running gauge
running 2
running_created 1.7e9
odd nan
"""


def test_metrics_keep_labels_kinds_and_millionths() -> None:
    assert metrics(METRICS) == {
        'engine.vllm:prompt_tokens_total{model_name="tiny"}': ("c1000000", 17_000_000),
        "engine.vllm:ttft_sum": ("c1000000", 250_000),
        "engine.vllm:ttft_count": ("c1000000", 3_000_000),
        "engine.running": ("l1000000", 2_000_000),
    }


def test_digits_in_the_names_of_port_counters_are_part_of_them() -> None:
    text = "NIC statistics:\n     rx_prio3_pause: 98765\n     rx_prio7_pause: 0\n     [4]: tx: 5\n"
    assert statistics(text, "e") == {
        "e.rx_prio3_pause": ("c", 98765),
        "e.rx_prio7_pause": ("c", 0),
        "e.[4]:_tx": ("c", 5),
    }


def test_numbers_of_a_tools_json_have_the_names_of_their_places() -> None:
    found = numbers(
        json.loads('{"a": {"b": 1.5, "c": "x", "d": [1]}, "e": 2, "f": true}'), "smart.x"
    )
    assert found == {"smart.x.a.b": ("l1000", 1500), "smart.x.e": ("l1000", 2000)}


def test_how_busy_the_cpu_was_needs_two_samples() -> None:
    before: dict[str, object] = {}
    first, _ = told({"/proc/stat": "cpu 0 0 0 0 0 0 0 0 0 0"}, before)
    second, _ = told({"/proc/stat": "cpu 30 0 10 50 10 0 0 0 0 0"}, before)
    assert (first["cpu.busy_pct"], second["cpu.busy_pct"]) == (("l100", None), ("l100", 4000))


def test_what_cannot_be_read_is_left_out_and_named() -> None:
    found, odd = told({"/proc/stat": "cat", "/proc/loadavg": "0.5 0 0 1/2 3"}, {})
    assert list(found) == ["load.1min", "load.running"]
    assert list(odd) == ["/proc/stat"]


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "/proc/stat", "/proc/meminfo", "/proc/diskstats", "/proc/net/dev", "/proc/loadavg",
                "/proc/pressure/io", "/sys/class/nvme/n/n/stat", "/sys/class/drm/card0/device/x",
                "/sys/class/infiniband/m/ports/1/counters/x", "/sys/class/hwmon/h/temp1_input",
            ]
        ),
        st.text(max_size=200),
    )
)  # fmt: skip
def test_no_text_of_a_file_raises(texts: dict[str, str]) -> None:
    found, odd = told(texts, {})
    assert set(odd) <= set(texts)
    assert all(spec[0] in "cl" for spec, _ in found.values())
    metrics("\n".join(texts.values()))
    statistics("\n".join(texts.values()), "e")
