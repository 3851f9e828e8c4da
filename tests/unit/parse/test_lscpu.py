from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.lscpu import processors


@pytest.mark.parametrize("name", ["util-linux-2.38.1-kvm.json", "util-linux-2.38.1-kvm.txt"])
def test_json_and_text_tell_the_same(recorded: Callable[[str], bytes], name: str) -> None:
    found = processors(recorded(f"lscpu/{name}"))
    assert (found.cpus, found.sockets, found.numa_nodes) == (2, 1, 1)
    assert (found.model_name, found.vendor) == ("AMD EPYC", "AuthenticAMD")
    assert (found.threads_per_core, found.cores_per_socket) == (1, 2)


def test_rows_below_rows_are_read() -> None:
    nested = b"""{"lscpu": [{"field": "CPU(s):", "data": "4", "children": []},
        {"field": "Vendor ID:", "data": "X", "children": [
        {"field": "Model name:", "data": "Y"}]}]}"""
    assert processors(nested).model_name == "Y"


def test_a_dash_is_not_a_number_and_not_zero() -> None:
    found = processors(b"CPU(s): 4\nSocket(s): -\nModel name: -\n")
    assert (found.sockets, found.model_name) == (None, None)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"Model name: x\n",
        b"CPU(s): 0\n",
        b"CPU(s): -\n",
        b"CPU(s): 4.5\n",
        b"oops\nCPU(s): 4\n",
        b"CPU(s): 4\nModel name: a\nModel name: b\n",
        b'{"lscpu": {}}',
        b'{"lscpu": [{"data": "1"}]}',
        b'{"lscpu": [{"field": "CPU(s):", "data": 4}]}',
        b"[]",
        b'{"lscpu": [}',
        b'{"a":1,"a":2}',
        b'{"lscpu":' + b"[" * 100_000,
    ],
)
def test_refused(bad: bytes) -> None:
    with pytest.raises(ParseError, match="lscpu"):
        processors(bad)
