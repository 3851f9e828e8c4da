"""The load client beside aiohttp and AIPerf, against a mock endpoint that says its true TTFT.

Client and mock share this machine's two cores; clients take turns. AIPerf is asked where
``KVGATE_AIPERF`` names its command (`make bench-load` makes a venv for it).
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("LOAD_ROUNDS", "3"))
SECONDS = 6
FIRST_S, NEXT_S, MORE = 0.05, 0.002, 7
"""Of `known_ttft.py`: the first token, and seven more."""

Told = dict[str, Any]
Held = Callable[..., None]


@contextlib.contextmanager
def serving(how: str, first_s: float = FIRST_S) -> Iterator[str]:
    """Run the mock for the block; yields its URL."""
    command = [sys.executable, str(HERE / "known_ttft.py"), how, str(first_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture(params=["apart", "together"])
def mock(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Start the mock: its events come 2 ms apart, each a packet, or all after the first at once."""
    with serving(request.param) as url:
        yield request.param, url


def client(who: str, url: str, concurrency: int, seconds: float = SECONDS) -> Told:
    """Return what a client in a process of its own tells."""
    command = [sys.executable, str(HERE / "load_clients.py"), who, url]
    done = subprocess.run(
        [*command, str(concurrency), str(seconds)], capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told: Told = json.loads(done.stdout)
    return told


def middle(rounds: list[Told], name: str) -> float:
    return statistics.median(each[name] for each in rounds)


def shown(rounds: list[Told]) -> str:
    rate, cpu = middle(rounds, "rate"), middle(rounds, "cpu_us")
    errors = [middle(rounds, f"error_{each}_ms") for each in ("p50", "p99")]
    return f"{rate:,.0f}/s, {cpu:.0f} us of CPU, error {errors[0]:.1f}, {errors[1]:.1f} ms"


@pytest.mark.timeout(300)
def test_beside_aiohttp(mock: tuple[str, str], held: Held) -> None:
    how, url = mock
    ours: list[Told] = []
    theirs: list[Told] = []
    for _ in range(ROUNDS):
        ours.append(client("ours", url, 512))
        theirs.append(client("aiohttp", url, 512))
    told = f"{shown(ours)} | aiohttp {shown(theirs)}"
    rate = statistics.median(o["rate"] / t["rate"] for o, t in zip(ours, theirs, strict=True))
    cpu = statistics.median(o["cpu_us"] / t["cpu_us"] for o, t in zip(ours, theirs, strict=True))
    held(f"load, 512 users, events {how}: rate, x aiohttp", rate, 1.4, told)
    held(f"load, 512 users, events {how}: CPU a request of aiohttp's", cpu, 0.4, told, most=True)


@pytest.mark.timeout(300)
def test_error_at_80_percent_of_saturation(mock: tuple[str, str], held: Held) -> None:
    """So many users as make 80 % of the rate of 512 of them, by the time an answer takes."""
    how, url = mock
    most = client("ours", url, 512)["rate"]
    users = round(0.8 * most * (FIRST_S + MORE * NEXT_S + 0.002))
    rounds = [client("ours", url, users) for _ in range(ROUNDS)]
    share = middle(rounds, "rate") / most
    told = f"{users} users, {share:.0%} of {most:,.0f}/s: {shown(rounds)}"
    errors = [middle(rounds, f"error_{each}_ms") for each in ("p50", "p99")]
    held(f"load, events {how}: TTFT error p50, ms", errors[0], 3, told, most=True)
    held(f"load, events {how}: TTFT error p99, ms", errors[1], 20, told, most=True)
    assert not any(each["bottleneck"] for each in rounds), rounds


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mock", ["together"], indirect=True)
def test_long_prompts_beside_short_ones(mock: tuple[str, str], held: Held) -> None:
    """Every eighth prompt is of 50,000 tokens, 300 kB; the others' TTFT is to stay as it was."""
    short: list[Told] = []
    mixed: list[Told] = []
    for _ in range(ROUNDS):
        short.append(client("ours", mock[1], 32))
        mixed.append(client("long", mock[1], 32))
    lags = [middle(each, "lag_p99_ms") for each in (short, mixed)]
    told = f"{lags[0]:.1f} ms without them; {shown(mixed)} | without {shown(short)}"
    held("load, 32 users, 50 K-token prompts among them: lag p99, ms", lags[1], 20, told, most=True)
    told = "of all, the short ones are most"
    more = middle(mixed, "error_p50_ms") - middle(short, "error_p50_ms")
    held("load, 50 K-token prompts: TTFT error p50 more, ms", more, 3, told, most=True)


TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {"[UNK]": 0} | {f"w{n}": n for n in range(1, 4096)},
        "unk_token": "[UNK]",
    },
}


def tokenizer(folder: Path) -> Path:
    """Make a tokenizer of whole words, as AIPerf wants one."""
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def aiperf(command: str, url: str, folder: Path, first_s: float) -> Told:
    """Return the rate of 128 users by AIPerf, and how far its TTFT is off the mock's."""
    folder.mkdir()
    where = ["--model", "m", "--url", url, "--endpoint-type", "completions", "--streaming"]
    load = ["--concurrency", "128", "--request-count", "2000", "--random-seed", "1"]
    sizes = ["--synthetic-input-tokens-mean", "100", "--output-tokens-mean", "8"]
    files = ["--tokenizer", "./tok", "--artifact-dir", str(folder), "--ui", "none"]
    done = subprocess.run(
        [command, "profile", *where, *load, *sizes, *files],
        capture_output=True,
        text=True,
        cwd=folder.parent,
        timeout=280,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    (file,) = folder.rglob("profile_export_aiperf.json")
    fields = json.loads(file.read_text())
    ttft = fields["time_to_first_token"]
    return {
        "rate": fields["request_throughput"]["avg"],
        "error_p50_ms": ttft["p50"] - 1000 * first_s,
        "error_p99_ms": ttft["p99"] - 1000 * first_s,
    }


@pytest.mark.timeout(600)
@pytest.mark.skipif("KVGATE_AIPERF" not in os.environ, reason="KVGATE_AIPERF: AIPerf's command")
@pytest.mark.parametrize("first_s", [FIRST_S, 0.01])
def test_beside_aiperf(first_s: float, tmp_path: Path, held: Held) -> None:
    """AIPerf's error is against the mock's set time: it doesn't tell each answer's own.

    A mock that takes 64 ms for an answer bounds every client of 128 users at 2,000 requests a
    second, some 5 times what AIPerf makes; so they are compared at 10 ms to the first token, too.
    """
    tokenizer(tmp_path / "tok")
    with serving("apart", first_s) as url:
        theirs = aiperf(os.environ["KVGATE_AIPERF"], url, tmp_path / "aiperf", first_s)
        rounds = [client("ours", url, 128) for _ in range(ROUNDS)]
    told = f"{shown(rounds)} | AIPerf {theirs['rate']:,.0f}/s"
    what = f"load, 128 users, {1000 * first_s:g} ms"
    held(f"{what}: rate, x AIPerf", middle(rounds, "rate") / theirs["rate"], 5, told)
    for each in ("p50", "p99"):
        name = f"error_{each}_ms"
        told = f"ours {middle(rounds, name):.1f} ms, AIPerf {theirs[name]:.1f} ms"
        part = middle(rounds, name) / theirs[name]
        held(f"{what}: TTFT error {each} of AIPerf's", part, 1, told, most=True)
