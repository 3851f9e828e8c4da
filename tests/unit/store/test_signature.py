from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import StoreError
from kvgate.store import signature
from kvgate.store.signature import check, sign, signing_key

NOON = datetime.datetime(2026, 5, 12, 12, tzinfo=datetime.UTC)
DATA = b"what is signed"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("buyer", "supplier"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name]
        subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def allowed(keys: Path) -> bytes:
    kinds = {name: (keys / f"{name}.pub").read_text() for name in ("buyer", "supplier")}
    return (
        "# who may sign\n"
        f'buyer namespaces="kvgate",valid-after="20260501Z",valid-before="20260601Z" '
        f"{kinds['buyer']}supplier {kinds['supplier']}"
    ).encode()


@pytest.fixture(scope="module")
def signed(keys: Path) -> str:
    return sign(DATA, key=keys / "buyer")


def test_a_signature_tells_who_and_judges_the_key_at_the_claimed_time(
    keys: Path, signed: str, allowed: bytes
) -> None:
    found = check(DATA, signed, allowed_signers=allowed, principal="buyer", at=NOON)
    assert found.good
    assert "valid at the claimed time 2026-05-12T12:00:00Z" in found.text
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", keys / "buyer.pub"], capture_output=True, timeout=60, check=True
    )
    assert found.fingerprint in listed.stdout.decode().split()


@pytest.mark.parametrize(
    ("principal", "data", "month", "reason", "said"),
    [
        ("buyer", b"other bytes", 5, "not_of_these_bytes", "did not sign these bytes"),
        ("supplier", DATA, 5, "not_authorised", "it is that of buyer"),
        ("nobody", DATA, 5, "not_authorised", "not authorised for 'nobody'"),
        ("buyer", DATA, 4, "not_yet", "not yet valid at the claimed time 2026-04-12"),
        ("buyer", DATA, 6, "no_longer", "no longer valid at the claimed time 2026-06-12"),
    ],
)
def test_why_a_signature_does_not_count(
    signed: str, allowed: bytes, principal: str, data: bytes, month: int, reason: str, said: str
) -> None:
    at = NOON.replace(month=month)
    found = check(data, signed, allowed_signers=allowed, principal=principal, at=at)
    assert (found.good, found.reason) == (False, reason)
    assert said in found.text


def test_a_signature_for_another_purpose_or_by_an_unknown_key_does_not_count(
    keys: Path, signed: str, allowed: bytes
) -> None:
    other = sign(DATA, key=keys / "buyer", namespace="git")
    found = check(DATA, other, allowed_signers=allowed, principal="buyer", at=NOON)
    assert found.reason == "not_of_these_bytes"
    rest = allowed.splitlines(keepends=True)[-1]
    found = check(DATA, signed, allowed_signers=rest, principal="buyer", at=NOON)
    assert "nobody is known by it" in found.text


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60), armoured=st.booleans())
def test_what_is_no_signature_is_told(text: str, armoured: bool) -> None:
    lines = f"{signature._BEGIN}\n{text}\n{signature._END}\n" if armoured else text
    with pytest.raises(ValueError, match="it "):
        signing_key(lines)
    at = NOON
    assert check(b"", lines, allowed_signers=b"", principal="a", at=at).reason == "no_form"


def test_without_ssh_keygen_or_key_the_error_says_what_to_install(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="no such key file"):
        sign(DATA, key=keys / "absent")
    (keys / "broken").write_text("no key")
    with pytest.raises(StoreError, match="made no signature"):
        sign(DATA, key=keys / "broken")
    monkeypatch.setenv("PATH", str(keys))
    with pytest.raises(StoreError, match="ssh-keygen is not installed") as caught:
        sign(DATA, key=keys / "buyer")
    assert "openssh-client" in caught.value.hint


@pytest.mark.parametrize("kind", ["passphrase", "encrypted PEM", "noise", "a key nobody has"])
def test_a_key_that_can_not_sign_alone_says_why_and_asks_nobody(
    keys: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-C", "", "-f", str(key)]
    said = "the key has a passphrase"
    if kind == "passphrase":
        subprocess.run(make, check=True, timeout=60)
    elif kind == "encrypted PEM":
        pem = [*make[:3], "rsa", "-b", "2048", "-m", "PEM", *make[4:]]
        subprocess.run(pem, check=True, timeout=60)
        key.with_suffix(".pub").unlink()
        said = "encrypted and has no .pub"
    elif kind == "noise":
        key.write_bytes(bytes(range(256)) * 9)
        said = "no SSH key that ssh-keygen knows"
    else:
        key.write_bytes((keys / "buyer.pub").read_bytes())
        said = "made no signature"
    key.chmod(0o600)
    monkeypatch.setenv("SSH_ASKPASS", str(tmp_path / "asks"))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("DISPLAY", ":0")
    (tmp_path / "asks").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    (tmp_path / "asks").chmod(0o700)
    with pytest.raises(StoreError, match=said):
        sign(DATA, key=key, unattended=True)
    assert not (tmp_path / "asked").exists()


def test_an_agent_signs_for_a_public_key_file(
    keys: Path, allowed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert agent.stdout is not None
        assert "SSH_AUTH_SOCK" in agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", keys / "buyer"], check=True, timeout=60)
        alone = tmp_path / "buyer.pub"
        alone.write_bytes((keys / "buyer.pub").read_bytes())
        made = sign(DATA, key=alone)
        assert check(DATA, made, allowed_signers=allowed, principal="buyer", at=NOON).good
    finally:
        agent.terminate()
        agent.wait(30)
        assert agent.stdout is not None
        agent.stdout.close()
