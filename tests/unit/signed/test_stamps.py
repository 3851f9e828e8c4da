"""Time stamps by RFC 3161, of an authority of our own on loopback; checked offline."""

from __future__ import annotations

import dataclasses
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvgate.engine.sign import sign_results
from kvgate.engine.stamp import ask_stamp
from kvgate.errors import StoreError, UsageError

if TYPE_CHECKING:
    from tests.unit.signed.conftest import Base, Verify
else:
    Base = Verify = Any

CONFIG = """\
[tsa]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256
[extensions]
extendedKeyUsage = critical,timeStamping
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tsa")
    (folder / "tsa.cnf").write_text(CONFIG)
    (folder / "serial").write_text("01")
    new = ["req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "36500", "-subj"]
    for words in (
        [*new, "/CN=an authority", "-keyout", "ca.key", "-out", "ca.pem"],
        ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=stamps", "-keyout", "tsa.key",
         "-out", "tsa.csr"],
        ["x509", "-req", "-in", "tsa.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "36500",
         "-set_serial", "2", "-extfile", "tsa.cnf", "-extensions", "extensions", "-out", "tsa.pem"],
        [*new, "/CN=another", "-keyout", "other.key", "-out", "other.pem"],
    ):  # fmt: skip
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture
def url(authority: Path) -> Iterator[str]:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/broken":
                reply = b"no stamp"
            else:
                (authority / "asked").write_bytes(asked)
                words = ["-reply", "-config", "tsa.cnf", "-section", "tsa", "-queryfile", "asked"]
                reply = subprocess.run(
                    ["openssl", "ts", *words], cwd=authority, capture_output=True, timeout=60
                ).stdout
            self.send_response(200)
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_stamped_signature_was_there_at_that_time(
    base: Base, run: Path, authority: Path, url: str, by_script: Verify
) -> None:
    sign_results(
        run, dataclasses.replace(base.site.signer("witness"), tsa=url), decision="witnessed"
    )
    code, told = by_script(run)
    assert code == 0, told
    assert "not checked: give its authority with --tsa-ca" in told
    code, told = by_script(run, authority=authority / "ca.pem")
    assert code == 0, told
    assert "the signature was there at 20" in told
    assert "by the time stamp of ca.pem" in told
    code, told = by_script(run, authority=authority / "other.pem")
    assert code == 1
    assert "unproven: signatures/results-witness-1.tsr: its time stamp 20" in told


def test_a_stamp_of_another_signature_does_not_hold(
    base: Base, run: Path, authority: Path, url: str, by_script: Verify
) -> None:
    (run / "signatures/results-buyer-1.tsr").write_bytes(ask_stamp(url, b"something else"))
    code, told = by_script(run, authority=authority / "ca.pem")
    assert code == 1
    assert "signatures/results-buyer-1.tsr: its time stamp" in told


def test_an_authority_that_grants_none_is_told_and_nothing_is_signed(
    base: Base, run: Path, url: str
) -> None:
    before = sorted(run.rglob("*"))
    for where, error in (
        (f"{url}broken", "no granted time stamp"),
        ("http://127.0.0.1:9/", "gave no time stamp"),
    ):
        signer = dataclasses.replace(base.site.signer("witness"), tsa=where)
        with pytest.raises(StoreError, match=error):
            sign_results(run, signer, decision="witnessed")
    with pytest.raises(UsageError, match="no URL"):
        ask_stamp("file:///etc/passwd", b"")
    assert sorted(run.rglob("*")) == before
