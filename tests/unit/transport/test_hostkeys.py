"""known_hosts by OpenSSH's rules, checked against ssh-keygen where it can tell."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from kvgate.transport import hostkeys

BLOB = base64.b64decode("AAAAC3NzaC1lZDI1NTE5AAAAIFYFqwYXhFWUFO2Vf0IQXzQDkV+UDjV5wtc3Sj8S0XZI")
LINE = hostkeys.entry("host-a", "ssh-ed25519", BLOB)


@pytest.mark.parametrize(
    ("patterns", "name", "covered"),
    [
        ("host-a", "host-a", True),
        ("HOST-A", "host-a", True),
        ("host-a", "host-ab", False),
        ("host-b,host-a", "host-a", True),
        ("host-*", "host-a", True),
        ("host-?", "host-a", True),
        ("host-?", "host-ab", False),
        ("*,!host-a", "host-a", False),
        ("!host-b", "host-a", False),
        ("[10.0.0.1]:2222", "[10.0.0.1]:2222", True),
        ("[10.0.0.1]:2222", "1", False),
        ("10.0.0.1", "[10.0.0.1]:2222", False),
        ("10.0.0.1", "10x0.0.1", False),
        ("|1|bad", "host-a", False),
        ("|1|!|!", "host-a", False),
    ],
)
def test_patterns(patterns: str, name: str, covered: bool) -> None:
    known = hostkeys.KnownHosts(f"{patterns} {LINE.partition(' ')[2]}")
    assert bool(known.of(name)) is covered


def test_lines_that_count() -> None:
    text = (
        f"# comment\n\n{LINE} note\n@revoked {LINE}\n@cert-authority {LINE}\nhost-a ssh-rsa ???\n"
    )
    keys = hostkeys.KnownHosts(text).of("host-a")
    assert [(key.keytype, key.blob, key.revoked) for key in keys] == [
        ("ssh-ed25519", BLOB, False),
        ("ssh-ed25519", BLOB, True),
    ]
    assert hostkeys.KnownHosts(text).of("host-b") == ()


def test_the_name_off_port_22_has_brackets() -> None:
    assert hostkeys.host_name("10.0.0.1", 22) == "10.0.0.1"
    assert hostkeys.host_name("10.0.0.1", 2222) == "[10.0.0.1]:2222"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_fingerprint_and_hashed_names_are_openssh_s(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(hostkeys.entry("[10.0.0.1]:2222", "ssh-ed25519", BLOB) + "\n")
    told = subprocess.run(
        ["ssh-keygen", "-lf", str(path)], capture_output=True, check=True, timeout=30
    ).stdout.decode()
    assert hostkeys.fingerprint(BLOB) in told
    subprocess.run(
        ["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, timeout=30, capture_output=True
    )
    hashed = path.read_text()
    assert hashed.startswith("|1|")
    assert [key.blob for key in hostkeys.KnownHosts(hashed).of("[10.0.0.1]:2222")] == [BLOB]
    assert hostkeys.KnownHosts(hashed).of("10.0.0.1") == ()


@hypothesis.given(st.text(max_size=300), st.text(min_size=1, max_size=40))
def test_no_text_makes_a_key_known_that_is_not_in_it(text: str, name: str) -> None:
    for key in hostkeys.KnownHosts(text).of(name):
        assert base64.b64encode(key.blob).decode() in text


@hypothesis.given(
    st.from_regex(r"[a-z0-9.-]{1,30}", fullmatch=True),
    st.integers(1, 65535),
    st.binary(min_size=1, max_size=100),
)
def test_an_entry_makes_its_key_known(address: str, port: int, blob: bytes) -> None:
    name = hostkeys.host_name(address, port)
    (key,) = hostkeys.KnownHosts(hostkeys.entry(name, "ssh-ed25519", blob)).of(name)
    assert (key.keytype, key.blob, key.revoked) == ("ssh-ed25519", blob, False)
