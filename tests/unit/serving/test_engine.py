"""The engine as a process: its protocol, its determinism, and how it ends."""

import asyncio
import http.client
import json
import pathlib
import signal
import socket
import time

import pytest

from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.rows import LoadResult, Request
from kvgate.load.workload import sessions
from kvgate.serving import metrics

PICO = sessions(5, 8, prompt_tokens=150, output_tokens=6, vocab=512)


def load(engine, requests, concurrency: int, model: str = "pico") -> LoadResult:
    endpoint = Endpoint(base_url=engine.url, model=model, timeout_s=60)
    result = closed_loop(endpoint, requests, concurrency=concurrency)
    assert [row.error for row in result.failed] == []
    return result


def digests(result: LoadResult) -> dict[str, str | None]:
    return {row.session: row.output_digest for row in result.rows}


def counters(engine) -> dict[str, float]:
    return metrics.parse(get(engine, "/metrics").decode())


def get(engine, path: str) -> bytes:
    link = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=10)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        assert answer.status == 200
        return answer.read()
    finally:
        link.close()


def post(engine, body: bytes, path: str = "/v1/completions") -> tuple[int, dict]:
    link = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=10)
    try:
        link.request("POST", path, body)
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        link.close()


def wait_for(engine, name: str, value: float) -> None:
    deadline = time.monotonic() + 10
    while counters(engine)[name] != value and time.monotonic() < deadline:
        time.sleep(0.02)
    assert counters(engine)[name] == value


def test_alone_together_stored_restored_and_without_a_tier_every_logit_is_the_same(
    engine_process, tmp_path: pathlib.Path
) -> None:
    with engine_process(None) as engine:
        alone = load(engine, PICO, 1)
        together = load(engine, PICO, 8)
    with engine_process(tmp_path) as engine:
        stored = load(engine, PICO, 8)
        wait_for(engine, "kvgate:tier_pending_chunks", 0)
        assert engine.end() == (0, b"")
    with engine_process(tmp_path, "--threads", "3") as engine:
        restored = load(engine, PICO, 8)
        restored_alone = load(engine, PICO, 1)
        counted = counters(engine)
    expected = digests(alone)
    assert len(set(expected.values())) == 8
    assert None not in expected.values()
    for other in (together, stored, restored, restored_alone):
        assert digests(other) == expected
    assert {row.cached_tokens for row in stored.rows} == {0}
    assert {row.cached_tokens for row in (*restored.rows, *restored_alone.rows)} == {128}
    assert counted["vllm:external_prefix_cache_hits_total"] == 2 * 8 * 128
    assert counted["kvgate:tier_chunks_damaged_total"] == 0


def test_the_tiny_model_restores_what_it_computed(engine_process, tmp_path: pathlib.Path) -> None:
    """The GEMMs that BLAS could split or block otherwise are only in the real model."""
    requests = sessions(6, 2, prompt_tokens=300, output_tokens=3)
    results = []
    for _ in range(2):
        with engine_process(tmp_path, model="tiny") as engine:
            results.append(load(engine, requests, 2, model="tiny"))
            assert engine.end()[0] == 0  # publishes what waits
    with engine_process(None, "--threads", "1", model="tiny") as engine:
        results.append(load(engine, requests, 2, model="tiny"))
    stored, restored, recomputed = results
    assert digests(stored) == digests(restored) == digests(recomputed)
    assert {row.cached_tokens for row in restored.rows} == {256}
    assert {row.cached_tokens for row in (*stored.rows, *recomputed.rows)} == {0}


def test_killed_in_mid_store_it_begins_again(engine_process, tmp_path: pathlib.Path) -> None:
    with engine_process(tmp_path) as engine:
        before = load(engine, PICO, 4)
        engine.end(signal.SIGKILL)
    with engine_process(tmp_path) as engine:
        again = load(engine, PICO, 4)
        assert counters(engine)["kvgate:tier_chunks_damaged_total"] == 0
    assert digests(before) == digests(again)


def test_what_it_says_of_itself(engine_process) -> None:
    with engine_process(None) as engine:
        assert engine.ready == {
            "ready": True,
            "port": engine.port,
            "pid": engine.process.pid,
            "model": "pico",
            "seed": 7,
            "tier": False,
            "direct_io": None,
        }
        assert get(engine, "/health") == b""
        assert json.loads(get(engine, "/v1/models"))["data"][0]["id"] == "pico"
        body = {"model": "pico", "prompt": "hello", "max_tokens": 4, "return_token_ids": True}
        status, whole = post(engine, json.dumps(body).encode())
        assert status == 200
        assert whole["usage"]["completion_tokens"] == 4
        assert len(whole["choices"][0]["token_ids"]) == 4
        [row] = load(engine, [Request(session="s", prompt="hello", output_tokens=4)], 1).rows
        assert (row.prompt_tokens, row.output_tokens) == (5, 4)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/completions", b"{", 400),
        ("/v1/completions", b'{"prompt": "a", "model": "other"}', 404),
        ("/v1/nothing", b"{}", 404),
        ("/health", b"{}", 405),
        ("/v1/completions", b'{"prompt": "' + b"a" * 17 * 2**20 + b'"}', 413),
    ],
)
def test_errors_are_openai_s(served, path: str, body: bytes, status: int) -> None:
    got, answer = post(served, body, path)
    assert got == status
    assert answer["error"]["code"] == status
    assert answer["error"]["message"]


@pytest.fixture(scope="module")
def served(engine_process):
    with engine_process(None) as engine:
        yield engine


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_is_not_computed_for(served, stream: bool) -> None:
    before = counters(served)["kvgate:requests_cancelled_total"]
    body = json.dumps({"prompt": "a", "max_tokens": 1000, "stream": stream}).encode()
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as link:
        link.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
            + str(len(body)).encode()
            + b"\r\n\r\n"
            + body
        )
        if stream:
            assert link.recv(10)
        else:
            wait_for(served, "vllm:num_requests_running", 1)
    wait_for(served, "kvgate:requests_cancelled_total", before + 1)
    assert counters(served)["vllm:num_requests_waiting"] == 0


def test_it_answers_while_it_computes(engine_process) -> None:
    """Health is answered at once while every computing thread is busy."""

    async def probe(port: int) -> list[float]:
        times = []
        for _ in range(10):
            begun = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
            times.append(time.monotonic() - begun)
        return times

    with engine_process(None, "--threads", "2", model="tiny") as engine:
        body = json.dumps({"prompt": [1] * 4000, "max_tokens": 1}).encode()
        links = [http.client.HTTPConnection("127.0.0.1", engine.port) for _ in range(2)]
        for link in links:
            link.request("POST", "/v1/completions", body)
        wait_for(engine, "vllm:num_requests_running", 2)
        times = asyncio.run(probe(engine.port))
        assert counters(engine)["vllm:num_requests_running"] == 2
        for link in links:
            link.close()
    assert sorted(times)[5] < 0.5


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        pytest.param(["--model", "huge"], 64, "'huge' is not a model", id="model"),
        pytest.param(["--port", "1", "--host", "192.0.2.1"], 3, "192.0.2.1", id="address"),
    ],
)
def test_what_it_cannot_do_it_says(engine_process, more, code, says) -> None:
    with pytest.raises(AssertionError, match=says), engine_process(None, *more):
        pass


def test_a_tier_on_a_file_is_refused(engine_process, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(AssertionError, match="no KV tier can be kept here"),
        engine_process(tmp_path / "file"),
    ):
        pass
