"""Packets over a socket: framed and sealed, altered, torn, too large, and hosts that never read."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import paramiko
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.transport.fields import Reader, mpint, names, string, uint32
from kvgate.transport.wire import Seal, Wire

KEY, NONCE = b"k" * 16, b"\xff" * 12
Pair = tuple[Wire, Wire, socket.socket]


def soon() -> float:
    return time.monotonic() + 30


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return two ends, and the second one's socket."""
    here, there = socket.socketpair()
    with here, there:
        yield Wire(here), Wire(there), there


def sealed(near: Wire, far: Wire) -> None:
    near.seal(Seal(KEY, NONCE))
    far.unseal(Seal(KEY, NONCE))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5), st.booleans())
def test_packets_come_as_they_were_put(payloads: list[bytes], seals: bool) -> None:
    here, there = socket.socketpair()
    with here, there:
        near, far = Wire(here), Wire(there)
        if seals:
            sealed(near, far)
        for payload in payloads:
            near.put(payload)
        near.flush(soon())
        assert [far.packet(soon()) for _ in payloads] == payloads


def test_a_packet_of_which_a_bit_has_changed_is_refused(pair: Pair) -> None:
    near, far, _ = pair
    far.unseal(Seal(KEY, NONCE))
    length = uint32(16)
    whole = bytearray(length + Seal(KEY, NONCE).shut(length, bytes((10,)) + b"hello" + bytes(10)))
    whole[8] ^= 1
    near._unsent += whole
    near.flush(soon())
    with pytest.raises(paramiko.SSHException, match="altered on its way"):
        far.packet(soon())


@pytest.mark.parametrize("length", [0, 1, 2**20 + 1, 2**32 - 1])
def test_a_length_that_no_packet_has(pair: Pair, length: int) -> None:
    near, far, _ = pair
    near._unsent += uint32(length)
    near.flush(soon())
    with pytest.raises(paramiko.SSHException, match="which none has"):
        far.packet(soon())


def test_a_packet_of_nothing_but_padding(pair: Pair) -> None:
    near, far, _ = pair
    near._unsent += uint32(12) + bytes((11,)) + bytes(11)
    near.flush(soon())
    with pytest.raises(paramiko.SSHException, match="nothing but padding"):
        far.packet(soon())


def test_who_waits_is_told_of_the_time_and_of_the_end(pair: Pair) -> None:
    near, far, _ = pair
    with pytest.raises(TimeoutError):
        far.packet(time.monotonic() + 0.01)
    near.hang_up()
    with pytest.raises(EOFError):
        far.packet(soon())


def test_a_host_that_asks_without_end_and_reads_nothing(pair: Pair) -> None:
    near = pair[0]

    def ask_on() -> None:
        for _ in range(2000):
            near.put(bytes(4096))
            near.flush_some()

    with pytest.raises(paramiko.SSHException, match="reads no answer"):
        ask_on()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"welcome\r\nSSH-2.0-x y\r\n", b"SSH-2.0-x y"),
        (b"SSH-1.99-old\n", b"SSH-1.99-old"),
    ],
)
def test_the_line_of_a_version(pair: Pair, said: bytes, told: bytes) -> None:
    near, far, _ = pair
    near._unsent += said
    near.flush(soon())
    assert far.greet(soon()) == told


def test_another_version_and_no_version_are_refused(pair: Pair) -> None:
    near, far, _ = pair
    near._unsent += b"SSH-1.5-ancient\n"
    near.flush(soon())
    with pytest.raises(paramiko.SSHException, match="another version"):
        far.greet(soon())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40))
def test_fields_of_anything_are_read_or_refused(packet: bytes) -> None:
    fields = Reader(packet)
    try:
        read = string(fields.string())
    except paramiko.SSHException as err:
        assert "shorter than what is in it" in str(err)  # noqa: PT017  either is right
    else:
        assert packet.startswith(read)


@given(st.integers(0, 2**270))
def test_numbers_and_names_as_paramiko_reads_them(number: int) -> None:
    assert paramiko.Message(mpint(number.to_bytes(40, "big"))).get_mpint() == number
    assert paramiko.Message(names(("a", "b"))).get_list() == ["a", "b"]
    assert Reader(names(("a", "b"))).names() == ("a", "b")
