import pytest

from kvgate.errors import ParseError
from kvgate.serving.metrics import COUNTERS, Metrics, parse


def test_what_is_rendered_can_be_read() -> None:
    metrics = Metrics("pico")
    metrics.add("kvgate:tier_read_bytes_total", 123456789012)
    metrics.observe("vllm:time_to_first_token_seconds", 0.2)
    metrics.observe("vllm:time_to_first_token_seconds", 100)
    text = metrics.render({"vllm:num_requests_running": 3})
    found = parse(text)
    assert set(COUNTERS) <= set(found)
    assert found["kvgate:tier_read_bytes_total"] == 123456789012
    assert found["vllm:num_requests_running"] == 3
    assert found["vllm:time_to_first_token_seconds_count"] == 2
    assert found["vllm:time_to_first_token_seconds_sum"] == pytest.approx(100.2)
    assert 'vllm:time_to_first_token_seconds_bucket{model_name="pico",le="0.1"} 0' in text
    assert 'vllm:time_to_first_token_seconds_bucket{model_name="pico",le="0.25"} 1' in text
    assert 'vllm:time_to_first_token_seconds_bucket{model_name="pico",le="+Inf"} 2' in text


def test_large_counts_stay_exact() -> None:
    metrics = Metrics("pico")
    metrics.add("kvgate:tier_read_bytes_total", 2**50 + 1)
    assert parse(metrics.render({}))["kvgate:tier_read_bytes_total"] == 2**50 + 1


def test_label_sets_are_added_up() -> None:
    text = '# HELP a b\na_total{x="1"} 2\na_total{x="2"} 3.5 1700000000000\n\na_bucket{le="1"} 9\n'
    assert parse(text) == {"a_total": 5.5}


@pytest.mark.parametrize("text", ["<html>", "a b c d", "a", "a x"])
def test_what_is_no_sample_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="line 1"):
        parse(text)


def test_an_unknown_counter_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics("pico").add("vllm:typo_total")
