"""A host that is declared slow is given the time; any other is not."""

from pathlib import Path
from typing import Any

import pytest

from kvgate.probes import gather
from kvgate.probes.base import Command, Probe
from kvgate.spec.inventory import Host
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness


def host(**fields: Any) -> Host:
    return Host.model_validate({"roles": ["serving"], "transport": "local", **fields})


@pytest.mark.parametrize(("connects_within", "in_time"), [("10 s", False), ("2 min", True)])
def test_a_host_that_connects_slowly_may_answer_slowly(
    tmp_path: Path, connects_within: str, in_time: bool
) -> None:
    transport = LocalTransport("h1")
    witness = Witness(host(connect_timeout=connects_within), transport, lambda _: "0" * 64)
    script = "sleep 1" if in_time else "sleep 600"
    try:
        asked = witness.ask(["sh", "-c", f"{script}; echo told"], timeout_s=0.2)
    finally:
        transport.close()
    assert asked.result.timed_out is not in_time
    assert asked.result.ok is in_time


def test_it_may_do_so_too_where_all_is_asked_at_once() -> None:
    uname = Command(argv=("uname",), timeout_s=20)
    probe = Probe(name="p", measures=(), ask=lambda *_: [], commands=lambda _: (uname,))
    for slow, seconds in (({}, 20), ({"connect_timeout": "60 s"}, 70)):
        [asked] = gather.commands_of([probe], host(**slow))
        assert asked.timeout_s == seconds
