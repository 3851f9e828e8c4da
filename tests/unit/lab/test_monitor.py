"""The monitor's client, with a socket in the place of QEMU."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import HarnessError
from kvgate.lab import monitor

GREETING = {"QMP": {"version": {}, "capabilities": []}}
Serve = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose path is longer than a socket's address may be."""
    deep = tmp_path / ("x" * 100) / "tgt"
    deep.mkdir(parents=True)
    return deep


@pytest.fixture
def serve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return what starts a monitor that gives these answers, and returns what it is asked."""
    threads: list[threading.Thread] = []
    monkeypatch.chdir(folder)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("qmp")
    listener.listen()

    def start(*answers: object) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []

        def run() -> None:
            stream, _ = listener.accept()
            with stream, stream.makefile("rwb") as lines:
                lines.write(json.dumps(GREETING).encode() + b"\n")
                lines.flush()
                for answer in ({"return": {}}, *answers):
                    asked.append(json.loads(lines.readline()))
                    told = answer if isinstance(answer, list) else [answer]
                    lines.write(b"".join(json.dumps(each).encode() + b"\n" for each in told))
                    lines.flush()

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return asked

    yield start
    for thread in threads:
        thread.join(30)
    listener.close()


def test_a_command_is_asked_and_answered_events_passed_over(serve: Serve, folder: Path) -> None:
    asked = serve([{"event": "NIC_RX_FILTER_CHANGED"}, {"return": {"status": "running"}}])
    assert monitor.execute(folder, "set_link", name="nicA", up=False) == {"status": "running"}
    assert asked == [
        {"execute": "qmp_capabilities"},
        {"execute": "set_link", "arguments": {"name": "nicA", "up": False}},
    ]


def test_a_refusal_is_told_with_qemus_words(serve: Serve, folder: Path) -> None:
    serve({"error": {"class": "DeviceNotFound", "desc": "Device 'nicX' not found"}})
    with pytest.raises(HarnessError, match="tgt: set_link: Device 'nicX' not found"):
        monitor.execute(folder, "set_link", name="nicX", up=False)


def test_a_monitor_that_hangs_up_or_is_not_there_is_told(serve: Serve, folder: Path) -> None:
    serve()
    with pytest.raises(HarnessError, match="tgt: its monitor does not answer"):
        monitor.execute(folder, "query-status")
    (folder / "qmp").unlink()
    with pytest.raises(HarnessError, match="its monitor does not answer"):
        monitor.execute(folder, "query-status")
