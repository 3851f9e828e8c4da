"""The way to a device's own command line: words go out as they are, and nothing else does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from kvgate.errors import CommandError, LoginError
from kvgate.spec.inventory import Host
from kvgate.transport.console import console_to

PASSWORD = "four words and more"


class _Server(asyncssh.SSHServer):  # type: ignore[misc]
    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("reader", PASSWORD)


class Box:
    """A device that takes passwords: what it was sent, and the entry that reaches it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.sent: list[str | None] = []

    async def answer(self, process: asyncssh.SSHServerProcess[str]) -> None:
        command = process.command
        self.sent.append(command)
        if command is None:
            process.stdout.write("welcome> ")
            process.exit(0)
        elif command == "show silent":
            process.stdout.write("half an answer\n")
            process.close()  # and no exit status
        elif command == "show hang":
            await asyncio.sleep(60)
        else:
            process.stdout.write(f"you said: {command}\n")
            process.exit(3 if command == "show nothing" else 0)

    def host(self, **fields: Any) -> Host:
        entry = {
            "roles": ["switch"],
            "adapter": "made",
            "address": "127.0.0.1",
            "port": self.port,
            "user": "reader",
            "password": {"file": str(self.folder / "password")},
            "known_hosts": str(self.folder / "known_hosts"),
            **fields,
        }
        return Host.model_validate(entry).model_copy(update={"name": "sw1"})


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("box"))
    (made.folder / "password").write_text(PASSWORD + "\n")
    key = asyncssh.generate_private_key("ssh-ed25519")
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    over = asyncio.Event()

    async def serve() -> None:
        server = await asyncssh.create_server(
            _Server, "127.0.0.1", 0, server_host_keys=[key], process_factory=made.answer
        )
        async with server:
            made.port = server.get_port()
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    public = key.export_public_key().decode().strip()
    (made.folder / "known_hosts").write_text(f"[127.0.0.1]:{made.port} {public}\n")
    yield made
    loop.call_soon_threadsafe(over.set)
    thread.join(30)


def test_words_go_out_as_they_are_and_the_status_comes_back(box: Box) -> None:
    way = console_to(box.host())
    try:
        told = way.run(["show", "port", "Ethernet1/1"], timeout_s=20)
        assert told.expect_ok().stdout == b"you said: show port Ethernet1/1\n"
        assert way.run(["show", "nothing"], timeout_s=20).exit_status == 3
    finally:
        way.close()
    assert "show port Ethernet1/1" in box.sent


@pytest.mark.parametrize(
    "word", ["a b", "a;b", "$(id)", "`id`", "a|b", "a\nb", "", "--", "ü", "'a'"]
)
def test_what_is_more_than_a_word_is_never_sent(box: Box, word: str) -> None:
    before = list(box.sent)
    with pytest.raises(CommandError, match="is no word for a device"):
        console_to(box.host()).run(["show", word], timeout_s=5)
    assert box.sent == before


def test_an_answer_without_a_status_is_not_taken_as_whole(box: Box) -> None:
    way = console_to(box.host())
    try:
        told = way.run(["show", "silent"], timeout_s=20)
    finally:
        way.close()
    assert told.exit_status is None
    with pytest.raises(CommandError, match="without an exit status"):
        told.expect_ok()


def test_a_device_that_hangs_ends_at_the_deadline(box: Box) -> None:
    way = console_to(box.host())
    try:
        assert way.run(["show", "hang"], timeout_s=0.5).timed_out
    finally:
        way.close()


def test_a_wrong_password_is_told_and_in_no_message(box: Box, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("quite another one")
    wrong = {"password": {"file": str(tmp_path / "password")}}
    with pytest.raises(LoginError, match="user 'reader' was refused with the password") as caught:
        console_to(box.host(**wrong)).run(["show", "version"], timeout_s=10)
    assert "quite another" not in str(caught.value)
