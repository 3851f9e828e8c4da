import pytest

from kvgate.errors import ParseError
from kvgate.parse.ending import ended_well, reads


@pytest.mark.parametrize("code", [None, 0, 75])
def test_a_command_that_ended_well_is_read(code: int | None) -> None:
    ended_well("tool", code, fine=(0, 75))
    assert reads("tool", bytes.decode, fine=(0, 75))(b"x", code) == "x"


@pytest.mark.parametrize("code", [1, 127, -9])
def test_what_a_failed_command_printed_is_no_answer(code: int) -> None:
    with pytest.raises(ParseError, match=f"exit code {code}"):
        reads("tool", bytes.decode)(b"x", code)
