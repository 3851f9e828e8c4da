"""kvgate load as a user calls it, against a small endpoint on loopback that answers as told."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.cli import main
from kvgate.load import parts


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as OpenAI does: as many tokens as asked for, at once."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        server: Any = self.server
        body = server.models if isinstance(server.models, bytes) else _json(server.models)
        self._send(server.status, "application/json", body)

    def do_POST(self) -> None:
        server: Any = self.server
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked.append((self.path, asked))
        if server.refuse:
            self._send(503, "text/plain", b"no room")
            return
        prompt = asked.get("prompt") or " ".join(each["content"] for each in asked["messages"])
        count = len(prompt) if isinstance(prompt, list) else 7 + len(prompt.split())
        text = {"text": "a "} if "prompt" in asked else {"delta": {"content": "a "}}
        token = {"choices": [{"index": 0, **text, "token_ids": [5]}]}
        usage = {"prompt_tokens": count + server.more, "completion_tokens": asked["max_tokens"]}
        events = [token] * asked["max_tokens"] + [{"choices": [], "usage": usage}]
        stream = b"".join(b"data: " + _json(each) + b"\n\n" for each in events)
        self._send(200, "text/event-stream", stream + b"data: [DONE]\n\n")

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.models: Any = {"data": [{"id": "m", "max_model_len": 4096}]}
        self.status = 200
        self.refuse = False
        self.more = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve, on a machine of which nobody says that it is too slow for the client."""
    monkeypatch.setattr("kvgate.load.watch.LAG_P99_MOST_S", 60.0)
    monkeypatch.setattr("kvgate.load.watch.FULL_MOST", 1.0)
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join(10)
        made.server_close()


SMALL = ("--input-tokens", "64", "--output-tokens", "4", "--requests", "10", "--seed", "3")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["load", *words])
    out, err = capsys.readouterr()
    return code, out + err


def test_a_load_is_told_at_a_glance(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.html"
    code, text = told(
        capsys, server.url, *SMALL, "--concurrency", "1,2", "--rows", str(rows), "-o", str(page)
    )
    assert code == 0
    assert "all requests were answered, whole" in text
    assert "20 of 20 prompts of the length asked for" in text
    kept = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [each["part"] for each in kept] == ["concurrency 1"] * 10 + ["concurrency 2"] * 10
    assert {each["prompt_tokens"] for each in kept} == {64}
    assert b"concurrency 2" in page.read_bytes()
    bodies = [body for _, body in server.asked]
    assert len({tuple(body["prompt"]) for body in bodies}) == 20
    assert all(body["ignore_eos"] for body in bodies)


def test_json_holds_the_figures_and_the_same_seed_sends_the_same(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, server.url, *SMALL, "--json", "--shared", "0.5", "--slo-ttft", "1h")
    found = json.loads(text)
    assert (code, found["code"], found["seed"]) == (0, 0, 3)
    assert found["issued"]["shared"] == pytest.approx(0.5, abs=16 / 64)
    (part,) = found["parts"]
    assert (part["requests"], part["good"], part["within_slo"]) == (10, 10, 10)
    assert part["figures"]["TTFT p90"]["unit"] == "s"
    first = [body["prompt"] for _, body in server.asked]
    server.asked.clear()
    told(capsys, server.url, *SMALL, "--json", "--shared", "0.5")
    assert sorted(first) == sorted(body["prompt"] for _, body in server.asked)


def test_what_failed_is_counted_and_is_code_1(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refuse = True
    code, text = told(capsys, server.url, *SMALL)
    assert code == 1
    assert "10, 10 of them failed" in text
    assert "503 text/plain: no room" in text


def test_another_workload_than_asked_for_is_inconclusive(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.more = 1
    code, text = told(capsys, server.url, *SMALL)
    assert code == 2
    assert "INCONCLUSIVE: 10 of 10 prompts had another number of tokens" in text


def test_a_client_that_was_the_bottleneck_is_inconclusive(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvgate.load.watch.LAG_P99_MOST_S", -1.0)
    monkeypatch.setattr("kvgate.load.watch.LAG_PART", 0.0)
    code, text = told(capsys, server.url, *SMALL, "--slo-ttft", "1h")
    assert code == 2
    assert "the client was the bottleneck" in text
    assert "several clients share a load (--dask)" in text  # what to do about it


def test_a_level_that_is_missed_is_code_1(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, server.url, *SMALL, "--slo-ttft", "1us")
    assert code == 1
    assert "is not kept (concurrency 1)" in text


def test_the_highest_concurrency_is_found(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    find = ("--find-concurrency", "--most", "2", "--repeats", "1", "--json", "--slo-percent", "50")
    sized = ("--input-tokens", "64", "--output-tokens", "2")
    code, text = told(capsys, server.url, *sized, *find, "--slo-ttft", "1h")
    found = json.loads(text)
    assert (code, found["highest_concurrency"]) == (0, {"kept": 2, "missed": None, "problem": ""})
    code, text = told(capsys, server.url, *sized, *find, "--slo-ttft", "1us")
    assert (code, json.loads(text)["highest_concurrency"]["kept"]) == (1, 0)


def test_chats_are_of_the_length_that_the_engine_counts(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = ("--turns", "2", "--turn-tokens", "8")
    code, text = told(capsys, server.url, *SMALL, *turns, "--chat", "--plain")
    assert code == 0, text
    assert "10 of 10 prompts of the length asked for" in text
    chats = [body["messages"] for path, body in server.asked if path.endswith("chat/completions")]
    assert {len(each) for each in chats} == {1, 3}
    assert not any("ignore_eos" in body for _, body in server.asked)


def test_a_trace_is_replayed_when_it_says(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [
        {"timestamp": at, "input_length": 600, "output_length": 2, "hash_ids": [1, 2 + at]}
        for at in (0, 50, 100)
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    code, text = told(
        capsys, server.url, "--trace", str(path), "--block-tokens", "32", "--speed", "5", "--json"
    )
    found = json.loads(text)
    assert (code, found["parts"][0]["requests"]) == (0, 3)
    assert {len(body["prompt"]) for _, body in server.asked} == {37}
    assert found["issued"]["shared"] == pytest.approx(2 * 32 / (3 * 37))


def test_sessions_that_arrive_are_an_open_loop(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, server.url, *SMALL, "--rate", "100", "--steady", "--json")
    (part,) = json.loads(text)["parts"]
    assert (code, part["requests"], part["held_back"], part["unsent"]) == (0, 10, 0, 0)
    assert part["name"] == "100 sessions a second"


def test_what_was_answered_is_kept_when_it_is_interrupted(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    honest = parts.run_part

    def interrupted(*words: Any, **options: Any) -> None:
        honest(*words, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, "run_part", interrupted)
    rows = tmp_path / "rows.jsonl"
    code, text = told(capsys, server.url, *SMALL, "--rows", str(rows))
    assert (code, text) == (3, "kvgate: interrupted\n")
    assert len(rows.read_text().splitlines()) == 10


def test_r2_stores_all_and_restores_as_many_as_are_under_way(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mark = tmp_path / "marks"
    before = f"sh -c 'echo x >> {mark}'"
    code, text = told(
        capsys, server.url, "--workload", "r2-cold", "--input-tokens", "48", "--before-level",
        before, "--json",
    )  # fmt: skip
    found = json.loads(text)
    assert code == 0
    named = [(each["name"], each["requests"]) for each in found["parts"]]
    assert named == [
        ("store 34 sessions", 34),
        ("restore at 8", 8),
        ("restore at 16", 16),
        ("restore at 32", 32),
    ]
    assert mark.read_text() == "x\n" * 3
    assert {body["max_tokens"] for _, body in server.asked} == {64}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--model", "n"), "does not serve 'n'; it serves m"),
        (("--input-tokens", "5000"), "a session comes to 5,064 tokens; m takes at most 4,096"),
        (("--concurrency", "0"), "--concurrency: '0'"),
        (("--find-concurrency",), "takes a limit"),
        (("--find-concurrency", "--slo-ttft", "1s", "--rate", "3"), "leave out --rate"),
        (("--slo-ttft", "2"), "'2' is no time"),
        (("--slo-ttft", "2 GB"), "is no time"),
        (("--slo-ttft", "1s", "--slo-percent", "5"), "p50 to p99.9"),
        (("--shared", "1.5"), "a shared ratio"),
        (("--turns", "3", "--turn-tokens", "0"), "--turn-tokens: from 1"),
        (("--token-ids", "x"), "no LOW-HIGH"),
        (("--token-ids", "0-9"), "256 or more"),
        (("--trace", "/none"), "/none is not there"),
        (("--trace", "/none", "--rate", "3"), "one of --concurrency"),
        (("--rate", "0"), "0 sessions a second"),
        (("--warm-up", "3s"), "--warm-up is the beginning"),
        (("--key-env", "KVGATE_NONE"), "has no KVGATE_NONE"),
        (("--before-level", "false"), "ended with 1"),
        (("--before-level", "'"), "No closing quotation"),
        (("--workload", "r2-cold", "--concurrency", "99"), "takes as many sessions"),
        (("--workload", "r2-cold", "--rate", "9"), "closed loop of distinct"),
        (("--ca", "/none"), "no certificates can be read"),
    ],
)
def test_what_can_not_be_is_refused_before_any_load(
    server: Server, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    url = "https://127.0.0.1:1" if "--ca" in words else server.url
    code, text = told(capsys, url, *words)
    assert (code, server.asked) == (64, [])
    assert why in text


@pytest.mark.parametrize(
    ("status", "models", "why"),
    [
        (200, b"<html>hello</html>", "no list of models"),
        (200, b'{"data": []}', "lists no model"),
        (200, b'{"data": [{"id": 7}, {"id": "x"}, {"id": "y"}]}', "serves x, y"),
        (200, b"[" * 100_000, "no list of models"),
        (401, b"who are you", "answers 401"),
        (404, b"", "answers 404"),
    ],
)
def test_an_endpoint_that_is_none_is_told(
    server: Server, capsys: pytest.CaptureFixture[str], status: int, models: bytes, why: str
) -> None:
    server.status, server.models = status, models
    code, text = told(capsys, server.url, *SMALL)
    assert (code, server.asked) == (64, [])
    assert why in text
    assert "hint:" in text


def test_nothing_that_listens_is_told_with_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    gone = Server()
    gone.server_close()
    url = gone.url
    code, text = told(capsys, url, *SMALL)
    assert code == 64
    assert f"listen on port {url.rpartition(':')[2]}" in text


def test_a_text_engine_that_counts_nothing_is_told(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.more = 10**6
    code, text = told(capsys, server.url, *SMALL, "--text")
    assert code == 0 or "another number" in text
    server.refuse = True
    code, text = told(capsys, server.url, *SMALL, "--text")
    assert code == 64
    assert "it can't be told how long prompts of text are" in text


def test_files_are_never_written_over(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.write_text("kept")
    for option in ("--rows", "--out"):
        code, text = told(capsys, server.url, *SMALL, option, str(there))
        assert (code, there.read_text(), server.asked) == (64, "kept", [])
        assert "is there" in text
    code, text = told(capsys, server.url, *SMALL, "--rows", str(tmp_path / "no" / "rows"))
    assert (code, server.asked) == (64, [])


def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KVGATE_KEY", "sk-very-secret")
    rows = tmp_path / "rows.jsonl"
    code, text = told(
        capsys, server.url, *SMALL, "--key-env", "KVGATE_KEY", "--rows", str(rows), "--json"
    )
    assert code == 0
    assert "sk-very-secret" not in text + rows.read_text()
