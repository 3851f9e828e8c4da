from typing import Any

from kvgate.probes import identity

MACHINE = b"0123456789abcdef0123456789abcdef\n"


def test_everything_that_names_the_hardware(scripted: Any, recorded: Any) -> None:
    witness = scripted(
        {
            "machine-id": MACHINE,
            "product_serial": b"SN0042\n",
            "/sys/block": recorded("sysfs_block/composed-server.txt"),
            "lsblk": b'{"blockdevices": []}',
        },
        {"disks": [{"serial": "NVME0001"}, {"serial": "GONE"}, {"name": "sda"}]},
    )
    assert identity.identity(witness) == (
        "disk:NVME0001",
        "machine-id:0123456789abcdef0123456789abcdef",
        "product:SN0042",
    )


def test_a_host_that_nothing_tells_apart_has_no_identity(scripted: Any, told: Any) -> None:
    witness = scripted(
        {"machine-id": (1, b"", b"No such file"), "product_serial": b"Default string\n"}, {}
    )
    assert identity.identity(witness) == ()
    found = told(identity.ask_identity(witness))
    assert "not initialised" in found["host.machine_id", ""]
    assert "placeholder" in found["host.serial", ""]


def test_the_serial_is_read_by_sudo_where_that_is_allowed(scripted: Any) -> None:
    witness = scripted({"sudo -n cat": b"SN1\n", "machine-id": MACHINE}, {}, sudo="passwordless")
    assert "product:SN1" in identity.identity(witness)


def test_this_machine_stays_the_same(here: Any) -> None:
    witness = here({})
    assert identity.identity(witness) == identity.identity(witness)
