"""A pico model in this process, and real engines as processes of their own."""

import contextlib
import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kvgate.serving.config import MODELS, ModelConfig
from kvgate.serving.decoder import Cache, Decoder
from kvgate.serving.weights import Array, generate

PICO = MODELS["pico"]


@pytest.fixture(scope="session")
def pico() -> ModelConfig:
    return PICO


@pytest.fixture(scope="session")
def decoder() -> Decoder:
    return Decoder(PICO, generate(PICO, 7))


def compute(decoder: Decoder, cache: Cache, tokens: list[int], start: int, stop: int) -> Array:
    """Compute tokens[start:stop] in chunks and return the last one's logits."""
    logits = None
    while start < stop:
        end = min(stop, start - start % 16 + 16)
        logits = decoder.forward(cache, tokens[start:end], start, want_logits=end == stop)
        start = end
    assert logits is not None
    return logits


@pytest.fixture(scope="session")
def computing():
    return compute


@dataclasses.dataclass
class Engine:
    """A process running `python -m kvgate.serving`."""

    process: subprocess.Popen[bytes]
    port: int
    ready: dict[str, object]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end(self, number: int = signal.SIGTERM) -> tuple[int, bytes]:
        self.process.send_signal(number)
        _, complaint = self.process.communicate(timeout=20)
        return self.process.returncode, complaint


@contextlib.contextmanager
def run_engine(
    kv_path: pathlib.Path | None, *more: str, model: str = "pico", seed: int = 7
) -> Iterator[Engine]:
    tier = ["--no-tier"] if kv_path is None else ["--kv-path", str(kv_path)]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kvgate.serving",
            "--seed",
            str(seed),
            "--model",
            model,
            *tier,
            *more,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read().decode()
        ready = json.loads(line)
        yield Engine(process, ready["port"], ready)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


@pytest.fixture(scope="session")
def engine_process():
    return run_engine
