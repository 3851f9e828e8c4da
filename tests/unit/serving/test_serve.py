"""The engine as its users see it: chat, stops, hot and cold, shared folders, and bad input."""

import argparse
import http.client
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import time

import pytest

from kvgate.cli import main
from kvgate.serving import metrics
from kvgate.serving.config import MODELS
from kvgate.serving.launch import BLAS_THREADS
from kvgate.serving.options import add_options
from kvgate.serving.protocol import ApiError, parse_request

PROMPT = [(13 * n) % 512 for n in range(200)]


def ask(engine, path: str, body: object) -> tuple[int, bytes]:
    link = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
    try:
        link.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())
        answer = link.getresponse()
        return answer.status, answer.read()
    finally:
        link.close()


def whole(engine, **fields) -> dict:
    body = {"prompt": PROMPT, "max_tokens": 3, "kvgate_logits": True, **fields}
    status, answer = ask(engine, "/v1/completions", body)
    assert status == 200, answer
    return json.loads(answer)


def counters(engine) -> dict[str, float]:
    link = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
    try:
        link.request("GET", "/metrics")
        return metrics.parse(link.getresponse().read().decode())
    finally:
        link.close()


def settled(engine) -> dict[str, float]:
    deadline = time.monotonic() + 30
    while (found := counters(engine))["kvgate:tier_pending_chunks"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def cached(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def logits(answer: dict) -> str:
    return answer["kvgate"]["logits_sha256"]


@pytest.fixture(scope="module")
def bare(engine_process):
    with engine_process(None) as engine:
        yield engine


def test_two_engines_share_what_they_store_hot_or_cold_compressed_or_not(
    engine_process, bare, tmp_path: pathlib.Path
) -> None:
    expected = logits(whole(bare))
    with (
        engine_process(tmp_path, "--compress", "zstd", "--reads", "serial") as one,
        engine_process(tmp_path, "--hot", "1 MiB") as other,
    ):
        first = whole(one)
        stored = settled(one)
        assert (cached(first), logits(first)) == (0, expected)
        assert stored["kvgate:tier_chunks_written_total"] == 3
        assert stored["kvgate:tier_used_bytes"] == stored["kvgate:tier_written_bytes_total"]
        cold, hot = whole(other), whole(other)
        found = settled(other)
        assert cached(cold) == cached(hot) == 192
        assert logits(cold) == logits(hot) == expected
        assert found["kvgate:tier_chunks_hit_total"] == found["kvgate:hot_chunks_hit_total"] == 3
        assert found["vllm:prefix_cache_hits_total"] == 192
        assert found["vllm:external_prefix_cache_hits_total"] == 192
        assert found["vllm:external_prefix_cache_queries_total"] == 208
        salted = whole(other, cache_salt="another tenant")
        assert (cached(salted), logits(salted)) == (0, expected)
        assert settled(other)["kvgate:tier_chunks_deduplicated_total"] == 3
        assert cached(whole(one, cache_salt="another tenant")) == 192
        assert counters(one)["kvgate:tier_chunks_damaged_total"] == 0


def test_a_full_disk_costs_chunks_and_no_answers(bare, tmp_path: pathlib.Path) -> None:
    """A limit on the size of files stands for the disk: the kernel refuses each of them."""
    words = ["-m", "kvgate.serving", "--model", "pico", "--seed", "7", "--kv-path", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)),
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())

        class Engine:
            port = ready["port"]

        assert logits(whole(Engine)) == logits(whole(bare))
        found = settled(Engine)
        assert found["kvgate:tier_write_errors_total"] == 3
        assert found["kvgate:tier_used_bytes"] == 0
        assert not list(tmp_path.rglob("*.tmp"))
        assert cached(whole(Engine)) == 0
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_clients_that_leave_and_a_folder_that_is_gone_cost_nobody_else(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "kv"
    words = ["-m", "kvgate.serving", "--model", "pico", "--seed", "7", "--kv-path", str(folder)]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None

        class Engine:
            port = json.loads(process.stdout.readline())["port"]

        link = http.client.HTTPConnection("127.0.0.1", Engine.port, timeout=30)
        body = {"prompt": [1], "max_tokens": 900, "stream": True}
        link.request("POST", "/v1/completions", json.dumps(body).encode())
        answer = link.getresponse()
        answer.read(10)
        answer.close()
        link.close()
        shutil.rmtree(folder)
        assert cached(whole(Engine)) == 0
        deadline = time.monotonic() + 30
        while (found := counters(Engine))["vllm:num_requests_running"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert found["kvgate:requests_cancelled_total"] == 1
        assert "kvgate:tier_used_bytes" not in found
        process.terminate()
        _, said = process.communicate(timeout=20)
    assert b"Traceback" not in said, said.decode()


def test_a_chat_in_a_stream_and_whole(bare) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 5}
    status, told = ask(bare, "/v1/chat/completions", body)
    assert status == 200
    message = json.loads(told)["choices"][0]
    assert message["finish_reason"] == "length"
    assert json.loads(told)["usage"]["completion_tokens"] == 5
    stream = body | {"stream": True, "stream_options": {"continuous_usage_stats": True}}
    _, told = ask(bare, "/v1/chat/completions", stream)
    *events, done, end = told.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    parts = [json.loads(event.removeprefix("data: ")) for event in events]
    deltas = [part["choices"][0]["delta"] for part in parts]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta["content"] for delta in deltas) == message["message"]["content"]
    assert [part["usage"]["completion_tokens"] for part in parts[1:]] == [1, 2, 3, 4, 5]


def test_a_stop_ends_an_answer_and_says_what_stopped_it(bare) -> None:
    answer = whole(bare, max_tokens=20, return_token_ids=True)["choices"][0]
    token = answer["token_ids"][4]
    by_id = whole(bare, max_tokens=20, return_token_ids=True, stop_token_ids=[token])["choices"][0]
    first = answer["token_ids"].index(token)
    assert by_id["token_ids"] == answer["token_ids"][: first + 1]
    assert (by_id["finish_reason"], by_id["stop_reason"]) == ("stop", token)
    word = answer["text"][5:8]
    by_text = whole(bare, max_tokens=20, stop=[word])["choices"][0]
    assert by_text["text"] == answer["text"][: answer["text"].index(word)]
    assert (by_text["finish_reason"], by_text["stop_reason"]) == ("stop", word)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"[1", 400, "not JSON"),
        (b'{"prompt": "a", "temperature": NaN}', 400, "NaN is no number"),
        (b"a" * 100_000_000, 413, "larger than 16777216 bytes"),
        ({"prompt": [1, "two"]}, 400, "neither a text nor a list of token ids"),
        ({"prompt": "a", "max_tokens": -1}, 400, "above 0"),
        ({"prompt": [1] * 1020}, 400, "maximum context length is 1024 tokens"),
    ],
)
def test_bad_bodies_get_an_openai_error(bare, body, status: int, says: str) -> None:
    got, told = ask(bare, "/v1/completions", body)
    assert got == status
    error = json.loads(told)["error"]
    assert says in error["message"]
    assert error["code"] == status
    assert whole(bare)["usage"]["completion_tokens"] == 3  # and it goes on serving


@pytest.mark.parametrize(
    "messages",
    [[], "hi", [{"role": "robot", "content": "x"}], [{"role": "user", "content": 5}], [5]],
)
def test_bad_conversations_are_refused(messages: object) -> None:
    with pytest.raises(ApiError, match="messages"):
        parse_request(json.dumps({"messages": messages}).encode(), MODELS["pico"], "m", chat=True)


@pytest.fixture
def serve(monkeypatch, capsys):
    """Return a function that serves in this process, where it can't; gives code and complaint."""
    for name in BLAS_THREADS:
        monkeypatch.setenv(name, "1")

    def run(*words: str) -> tuple[int, str]:
        return main(["serve", "--model", "pico", *words]), capsys.readouterr().err

    return run


def test_a_port_in_use_is_named_with_what_to_do(bare, serve) -> None:
    code, told = serve("--no-tier", "--port", str(bare.port))
    assert code == 3
    assert f"127.0.0.1:{bare.port}: Address already in use" in told
    assert "give another one" in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--port", "70000"), "ports end at 65535"),
        (("--slots", "0"), "--slots 0: it is at least 1"),
        (("--reads", "parallel"), "neither serial nor parallel:N"),
        (("--hot", "12 parsecs"), "'12 parsecs' is not a quantity"),
        (("--pool", "5 ms"), "5 ms is no size"),
        (("--model", "gpt"), "'gpt' is not a model"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(words, says: str, capsys) -> None:
    assert main(["serve", "--no-tier", *words]) == 64
    assert says in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused(serve) -> None:
    """Also by root: /proc takes no folders from anybody."""
    code, told = serve("--kv-path", "/proc/kv")
    assert code == 64
    assert "/proc/kv: no KV tier can be kept here" in told
    assert "hint: name a folder" in told


def test_the_help_names_every_model() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert all(name in parser.format_help() for name in MODELS)
