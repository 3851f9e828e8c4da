"""What a host streams, however much, takes a bounded amount of memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvgate import untrusted
from kvgate.errors import HostUnreachableError
from kvgate.transport.kept import FREE_BYTES
from kvgate.transport.ssh import SshTransport

if TYPE_CHECKING:
    from conftest import Hostile

MOST_BYTES = 150 * 10**6
"""The bar of issue 3: 150 MB, here at 200 MB of stream; the benchmark streams 1 GB."""


def test_a_host_that_streams_200_mb_takes_less_than_150_mb(
    hostile: Hostile, tmp_path: Path
) -> None:
    told = streamed(hostile.entry("fifth"), tmp_path, timeout_s=100)
    assert (told["bytes"], told["status"]) == (2 * 10**8, 0)
    assert told["peak_bytes"] < MOST_BYTES


def test_many_hosts_that_stream_at_once_share_one_bound(hostile: Hostile, tmp_path: Path) -> None:
    """20 of them, each of which could have 16 MiB kept alone: 336 MB, and twice that to search."""
    endless = hostile.entry("endless", connect_timeout="60 s")
    told = streamed(endless, tmp_path, timeout_s=12, times=20)
    assert told["status"] is None
    assert told["bytes"] > 20 * FREE_BYTES, "they were slower than what is kept"
    assert told["kept_bytes"] < 21 * FREE_BYTES
    assert told["peak_bytes"] < 2 * MOST_BYTES


def streamed(
    host: dict[str, Any], folder: Path, *, timeout_s: int, times: int = 1
) -> dict[str, Any]:
    """Return what `streamed.py` tells of so many connections to `host` at once."""
    site = folder / "site.yaml"
    site.write_text(json.dumps({"inventory": "site", "hosts": {"big": host}}))
    program = Path(__file__).with_name("streamed.py")
    done = subprocess.run(
        [sys.executable, str(program), *map(str, (site, folder / "run", timeout_s, times))],
        capture_output=True,
        timeout=timeout_s + 100,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("behaviour", ["endless_banner", "huge_packet"])
def test_a_handshake_takes_no_more_than_it_needs(hostile: Hostile, behaviour: str) -> None:
    before = _peak()
    with pytest.raises(HostUnreachableError):
        SshTransport(hostile.host(behaviour)).open()
    assert _peak() - before < 20 * 10**6


def test_a_host_that_ignores_the_window_loses_its_link(hostile: Hostile) -> None:
    """The reader is slower than the flood: what it has not read must not pile up."""
    before = _peak()
    transport = SshTransport(hostile.host("floods"))
    try:
        process = transport.start(
            ["cat", "/dev/zero"], deadline_s=60, on_stdout=lambda _: time.sleep(0.3)
        )
        with pytest.raises(HostUnreachableError, match="nobody had asked for yet, over a window"):
            process.wait(60)
    finally:
        transport.close()
    assert _peak() - before < 40 * 10**6


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


WORST = {
    "keys": b"-----BEGIN RSA PRIVATE KEY-----\n",
    "names": b"password=",
    "names and blanks": b"password        ",
    "tokens": b"eyJ",
    "addresses": b"://a:",
    "headers": b"authorization: bearer ",
    "dashes": b"private key- - ",
}


@pytest.mark.parametrize("unit", WORST.values(), ids=WORST)
def test_masking_takes_time_linear_in_the_text(unit: bytes) -> None:
    def seconds(size: int) -> float:
        data = unit * (size // len(unit))
        begun = time.process_time()
        untrusted.mask_bytes(data)
        return time.process_time() - begun

    small = min(seconds(2**19) for _ in range(3))
    large = seconds(2**22)  # eight times as much; a quadratic search would take 64 times as long
    assert large < 24 * small + 0.05
