"""kvgate load cut short: by Ctrl-C, by a full disk, by addresses that lead nowhere."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.test_load import Server

from kvgate.cli import main


@pytest.fixture
def server() -> Iterator[Server]:
    """Serve on loopback, as long as the test takes."""
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_had_ended_is_kept_and_told(
    server: Server, tmp_path: Path, number: signal.Signals
) -> None:
    rows = tmp_path / "rows"
    command = [sys.executable, "-m", "kvgate", "load", server.url, "--duration", "60s", "--json"]
    command += ["--output-tokens", "2", "--rows", str(rows)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as load:
        while len(server.asked) < 5 and load.poll() is None:
            threading.Event().wait(0.02)
        load.send_signal(number)
        out, err = load.communicate(timeout=30)
    assert (load.returncode, err.decode()) == (3, "kvgate: interrupted\n")
    assert "interrupted after" in json.dumps(json.loads(out))
    kept = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len(kept) >= 4
    assert {row["failure"] for row in kept} == {None}


def test_a_full_disk_costs_rows_and_not_the_figures(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    ordinary = pathlib.Path.open

    def full(path: Path, mode: str = "r", **how: Any) -> Any:
        return ordinary(Path("/dev/full") if mode == "x" else path, mode.replace("x", "w"), **how)

    monkeypatch.setattr(pathlib.Path, "open", full)
    words = ["load", server.url, "--requests", "3", "--output-tokens", "2"]
    assert main([*words, "--rows", str(tmp_path / "rows")]) == 3
    told = capsys.readouterr()
    assert "requests   3" in told.out
    assert f"{tmp_path}/rows: No space left on device: not all rows are in it" in told.err
    assert "broke" not in told.err


def test_half_a_page_is_none(tmp_path: Path) -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from kvgate.cli.places import write_new\n"
        f"write_new({str(tmp_path / 'page.html')!r}, bytes(9000))"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert b"page.html: File too large; nothing was written" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written_costs_the_page_only(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["load", server.url, "--requests", "3", "--output-tokens", "2"]
    assert main([*words, "-o", str(tmp_path / "none" / "page.html")]) == 64
    assert "requests   3" in capsys.readouterr().out


def test_a_name_without_an_address_and_a_port_without_tls_say_so(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", "http://no-such-host.invalid:80"]) == 64
    assert "no address is known of 'no-such-host.invalid'" in capsys.readouterr().err
    assert main(["load", server.url.replace("http", "https")]) == 64
    assert "does it serve plain http:// there?" in capsys.readouterr().err
