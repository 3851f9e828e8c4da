"""What a worker tells of a result is the result that its controller has."""

import dataclasses
import datetime
import secrets

from kvgate.transport import frames
from kvgate.transport.base import CommandResult
from kvgate.untrusted import keep_secret, known_as, known_secrets

RESULT = CommandResult(
    host="h",
    argv=("true",),
    exit_status=0,
    stdout=b"out",
    stderr=b"err",
    started_at=datetime.datetime.now(datetime.UTC),
    elapsed_s=0.5,
)


def back(header: frames.Header) -> CommandResult:
    return frames.result_of(header, b"outerr", "h", ("true",))


def test_what_was_searched_there_is_not_searched_here_again() -> None:
    searched = dataclasses.replace(RESULT, free_of=known_secrets())
    found = back(frames.told(searched, ["true"]))
    assert found == searched
    assert found.free_of == known_secrets()
    assert back(frames.told(RESULT, ["true"])).free_of is None


def test_it_is_searched_again_where_more_secrets_are_known() -> None:
    searched = dataclasses.replace(RESULT, free_of=known_secrets())
    told = frames.told(searched, ["true"])
    _, before = known_as()
    keep_secret(secrets.token_hex(16))  # this process learns one that the other did not know
    assert known_as()[1] != before
    assert back(told).free_of is None
    assert frames.told(searched, ["true"])["free_of"] is None


def test_secrets_that_are_known_already_change_nothing() -> None:
    value = secrets.token_hex(16)
    keep_secret(value)
    before = known_as()
    keep_secret(value)
    assert known_as() == before
