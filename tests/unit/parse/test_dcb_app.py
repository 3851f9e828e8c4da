from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import dcb_app

Recorded = Callable[[str], bytes]


def test_json_and_numeric_text_are_read_alike(recorded: Recorded) -> None:
    found = dcb_app.dcb_app(recorded("dcb_app/composed-6.1.json"))
    assert found == dcb_app.dcb_app(recorded("dcb_app/composed-6.1-numeric.txt"))
    assert found.dscp_prio == {26: 3, 48: 6}
    assert found.dgram_port_prio == {4791: 3}
    assert found.default_prio == (0,)


def test_an_empty_table_is_none(recorded: Recorded) -> None:
    assert dcb_app.dcb_app(recorded("dcb_app/composed-6.1-none.json")).dscp_prio == {}


def test_names_of_dscps_are_refused_with_the_option_that_helps() -> None:
    with pytest.raises(ParseError) as caught:
        dcb_app.dcb_app(b"dscp-prio AF31:3 CS6:6\n")
    assert "-N" in caught.value.hint


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'{"dscp_prio": [[64, 3]]}',
        b'{"dscp_prio": [[26, 8]]}',
        b'{"dscp_prio": [[26, 3], [26, 4]]}',
        b'{"dscp_prio": [26, 3]}',
        b'{"dscp_prio": {"26": 3}}',
        b'{"dscp_prio": [[26, true]]}',
        b'{"default_prio": 3}',
        b"dscp-prio 26:3\ndscp-prio 27:3\n",
        b"something else\n",
    ],
)
def test_what_is_not_a_table_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        dcb_app.dcb_app(answer)
