"""How a result tells people what happened."""

from __future__ import annotations

import datetime

import pytest

from kvgate.errors import CommandError
from kvgate.transport.base import CommandResult


def result(**changed: object) -> CommandResult:
    fields: dict[str, object] = {
        "host": "h",
        "argv": ("fio", "a b"),
        "exit_status": 0,
        "stdout": b"",
        "stderr": b"",
        "started_at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "elapsed_s": 2.0,
    }
    return CommandResult(**(fields | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"exit_status": 1, "stderr": b"no\nmore"}, "`fio 'a b'` exited 1 after 2.0 s: no"),
        ({"exit_status": None}, "`fio 'a b'` ended after 2.0 s without an exit status"),
        ({"exit_status": None, "signal": 9}, "`fio 'a b'` was ended after 2.0 s by SIGKILL"),
        ({"exit_status": None, "signal": 64}, "`fio 'a b'` was ended after 2.0 s by SIGRTMAX"),
        ({"exit_status": None, "signal": 50}, "`fio 'a b'` was ended after 2.0 s by signal 50"),
        (
            {"exit_status": None, "timed_out": True},
            "`fio 'a b'` was ended after 2.0 s by its deadline",
        ),
        (
            {"stdout_dropped": 3},
            "`fio 'a b'` exited 0 after 2.0 s, 3 bytes of its output over the cap",
        ),
    ],
)
def test_what_is_not_ok_says_how_it_ended(changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(CommandError) as caught:
        result(**changed).expect_ok()
    assert caught.value.message == f"h: {sentence}"


def test_what_is_ok_is_returned() -> None:
    assert result().expect_ok() == result()
