"""NVMe subsystems as sysfs tells them: controllers by address, ANA states, identities, bytes."""

from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import nvmeof_sysfs

TOOL = "sysfs_nvme_subsystem"


def test_two_paths_of_one_subsystem(recorded: Callable[[str], bytes]) -> None:
    local, array = nvmeof_sysfs.subsystems(recorded(f"{TOOL}/composed-6.x-rdma.txt"))
    assert [each.traddr for each in local.controllers] == ["0000:01:00.0"]
    assert (array.nqn, array.iopolicy) == ("nqn.2026-11.com.example:array1", "round-robin")
    assert (array.serial, array.heads) == ("FX100A00001", ("nvme3n1",))
    first, second = array.controllers
    assert (first.traddr, first.trsvcid, first.source) == ("192.0.2.11", "4420", "192.0.2.21")
    assert (first.state, first.ana_states) == ("live", ("optimized",))
    assert (second.state, second.ana_states) == ("connecting", ("non-optimized",))
    assert (first.ctrl_loss_tmo, second.ctrl_loss_tmo) == ("600", "off")
    assert (first.queue_count, first.queue_size, first.keep_alive_s) == (9, 127, 5)
    assert first.paths[0].sectors_read == 418_416
    assert {path.identity for each in array.controllers for path in each.paths} == {
        "5a1c0de0-1000-4000-8000-000000000001"
    }


def test_no_minus_one_seconds() -> None:
    (found,) = nvmeof_sysfs.subsystems(b"s/nvme0/ctrl_loss_tmo:-1\ns/nvme0/state:live\n")
    assert found.controllers[0].ctrl_loss_tmo == "off"


def test_a_controller_that_vanished_while_it_was_read() -> None:
    (found,) = nvmeof_sysfs.subsystems(b"s/subsysnqn:nqn.x\ns/nvme7/transport:tcp\n")
    (gone,) = found.controllers
    assert (gone.state, gone.address, gone.traddr, gone.source, gone.paths) == (
        None,
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"s/nvme0/kato:many", "kato"),
        (b"s/nvme0/nvme0n1/stat:1 2 3", "stat"),
        (b"s/nvme0/ctrl_loss_tmo:soon", "ctrl_loss_tmo"),
    ],
)
def test_what_no_kernel_prints_is_refused(line: bytes, word: str) -> None:
    with pytest.raises(ParseError, match=word):
        nvmeof_sysfs.subsystems(line)


def test_an_identity_of_zeros_is_none() -> None:
    text = b"s/nvme0/nvme0n1/nguid:00000000-0000-0000-0000-000000000000\ns/nvme0/nvme0n1/wwid:w\n"
    (found,) = nvmeof_sysfs.subsystems(text)
    assert found.controllers[0].paths[0].identity == "w"
