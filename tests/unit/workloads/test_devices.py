"""Whatever a host says of a device, it is cleared only where every fact is positively there.

What is really done to loop devices is tested in tests/meta/loops.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvgate.errors import HarnessError, ParseError
from kvgate.spec.declared import Declared
from kvgate.spec.inventory import Host
from kvgate.transport.base import CommandResult
from kvgate.witness import Witness
from kvgate.workloads import devices, devices_facts
from kvgate.workloads.devices import ClearedDevice, Consent, DeviceRefusedError, KnownDevice
from kvgate.workloads.devices_script import LSBLK, Places

SERIAL = "S5XANA0R1"
YES = Consent(frozenset([SERIAL]), frozenset([SERIAL]))
SIZE = 16 * 2**20
LIST = b"""\
nvme0n1/size:32768
nvme0n1/hidden:0
nvme0n1/removable:0
nvme0n1/device/serial:S5XANA0R1
nvme0n1/device/model:KV 9
sda/size:1024
sda/hidden:0
sda/removable:0
"""
ROW = {"name": "nvme0n1", "type": "disk", "size": SIZE, "serial": SERIAL, "wwn": None}
TABLE = json.dumps({"blockdevices": [ROW, {"name": "sda", "type": "disk", "size": 524288}]})
FACTS = f"""\
kvgate-device-facts 1
claim yes
lock yes
number 259:0
node 259:0
name nvme0n1
attr dev {b"259:0".hex()}0a
attr size {b"32768".hex()}0a
attr ro 300a
attr hidden 300a
attr device/serial {SERIAL.encode().hex()}0a
attr device/model {b"KV 9".hex()}0a
read holder
read slave
read mount
read swap
read loop
read opener
blkid-exit 2
wipefs-exit 0
read magic
end
"""
UNIMPORTANT = ("attr device/model",)


class Told:
    """A transport that gives these three answers."""

    name = "box"

    def __init__(self, listed: bytes = LIST, table: bytes = TABLE.encode(), facts: bytes = b""):
        self.answers = {"list": listed, "lsblk": table, "look": facts or FACTS.encode()}
        self.status = dict.fromkeys(self.answers, 0)
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: Any, **_: Any) -> CommandResult:
        self.asked.append(tuple(argv))
        kind = "lsblk" if argv[0] == LSBLK[0] else "look" if argv[0] == "/bin/sh" else "list"
        return CommandResult(
            host="box",
            argv=tuple(argv),
            exit_status=self.status[kind],
            stdout=self.answers[kind],
            stderr=b"",
            started_at=datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC),
            elapsed_s=0.1,
        )


def witness(told: Told, **disk: object) -> Witness:
    declared = {"serial": SERIAL, "size": f"{SIZE} B", "destructive": True} | disk
    host = Host(
        roles=["serving"],
        transport="local",
        name="box",
        declared=Declared.model_validate({"disks": [declared]}),
    )
    return Witness(host, told, lambda _: "e" * 64)  # type: ignore[arg-type]


def clear(told: Told, consent: Consent = YES, **disk: object) -> ClearedDevice:
    asking = witness(told, **disk)
    return devices.clear(asking, asking.host.declared.disks[0], consent)


def refused(told: Told, consent: Consent = YES, **disk: object) -> str:
    with pytest.raises(DeviceRefusedError) as refusal:
        clear(told, consent, **disk)
    assert refusal.value.reasons
    return refusal.value.message


def test_a_device_of_which_all_is_known_is_cleared() -> None:
    device = clear(Told())
    assert (device.node, device.size_bytes, device.may_write) == ("/dev/nvme0n1", SIZE, True)
    assert len(device.evidence) == 3


@pytest.mark.parametrize("line", [line for line in FACTS.splitlines() if "model" not in line])
def test_silence_about_any_fact_is_a_refusal(line: str) -> None:
    refused(Told(facts=FACTS.replace(line + "\n", "", 1).encode()))


@pytest.mark.parametrize(
    "found",
    [
        "part nvme0n1p1",
        "holder dm-0",
        "holder md127",
        "slave sda",
        "mount /",
        "swap /dev/nvme0n1",
        "loop loop0",
        "export kernel/config/nvmet/subsystems/a/namespaces/1/device_path",
        "opener 12 qemu",
        "blkid /proc/self/fd/9: TYPE=LVM2_member",
        "wipefs 0x438,,,ext4",
        "magic md",
        "attr partition 310a",
        "holder sda; rm -rf /",
        "surprise",
    ],
)
def test_anything_found_is_a_refusal(found: str) -> None:
    refused(Told(facts=FACTS.replace("read holder", f"{found}\nread holder").encode()))


def test_the_machines_own_disk_is_called_so() -> None:
    said = refused(Told(facts=FACTS.replace("read mount", "mount /boot\nread mount").encode()))
    assert "the machine's own disk" in said


@pytest.mark.parametrize("answer", ["list", "lsblk", "look"])
def test_a_command_that_failed_tells_nothing(answer: str) -> None:
    told = Told()
    told.status[answer] = 1
    refused(told)


@pytest.mark.parametrize("name", ["dev", "size", "ro", "hidden"])
def test_an_attribute_that_lost_its_lines_end_was_cut(name: str) -> None:
    whole = next(line for line in FACTS.splitlines() if line.startswith(f"attr {name} "))
    assert whole.endswith("0a")
    said = refused(Told(facts=FACTS.replace(whole, whole.removesuffix("0a")).encode()))
    assert f"attribute {name} is cut" in said


def test_an_attribute_that_no_look_tells_is_a_refusal() -> None:
    said = refused(Told(facts=FACTS.replace("attr device/model", "attr hevice/model").encode()))
    assert "hevice/model" in said
    assert "is no attribute" in said


def changed(text: str) -> st.SearchStrategy[bytes]:
    """Return `text` with lines left out, doubled, swapped, cut, changed or added."""
    lines = text.splitlines()
    at = st.integers(0, len(lines) - 1)
    hostile = st.sampled_from(
        [
            "holder a; reboot",
            "mount /mnt",
            "$(reboot)",
            "read holder",
            "claim EBUSY",
            "attr ro 310a",
            "attr serial 00",
            "blkid-exit 0",
            "number 8:0",
            "end",
            "",
            "sda/device/serial:" + SERIAL,
            "nvme0n1/size:0",
            "\x00",
            "é",
        ]
    )

    def act(steps: list[tuple[str, int, int, str]]) -> bytes:
        work = list(lines)
        for kind, i, j, new in steps:
            if not work:
                break
            i, j = i % len(work), j % len(work)
            match kind:
                case "drop":
                    del work[i]
                case "double":
                    work.insert(j, work[i])
                case "swap":
                    work[i], work[j] = work[j], work[i]
                case "cut":
                    work[i] = work[i][:j]
                case "replace":
                    work[i] = new
                case "byte":
                    work[i] = work[i][:j] + new[:1] + work[i][j + 1 :]
                case _:
                    work.insert(i, new)
        return "\n".join([*work, ""]).encode()

    kinds = st.sampled_from(["drop", "double", "swap", "cut", "replace", "byte", "add"])
    return st.lists(st.tuples(kinds, at, at, hostile | st.text(max_size=20)), max_size=4).map(act)


def all_is_there(facts: bytes) -> bool:
    """Tell, without the parser, whether `facts` say nothing but what a free device's say."""

    def weighty(text: str) -> list[str]:
        lines = text.removesuffix("\n").rstrip("\n").split("\n")
        return sorted(line for line in lines if not line.startswith(UNIMPORTANT))

    return weighty(facts.decode("utf-8", "replace")) == weighty(FACTS)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changed(FACTS))
def test_no_changed_fact_clears_a_device(facts: bytes) -> None:
    try:
        clear(Told(facts=facts))
    except DeviceRefusedError:
        return
    assert all_is_there(facts)


@settings(max_examples=200, deadline=None)
@given(changed(LIST.decode()), st.binary(max_size=60))
def test_no_changed_list_clears_another_device(listed: bytes, noise: bytes) -> None:
    for answer in (listed, listed + noise, noise):
        try:
            device = clear(Told(listed=answer))
        except DeviceRefusedError:
            continue
        assert device.node == "/dev/nvme0n1"
        assert b"nvme0n1/device/serial:S5XANA0R1" in answer or b"nvme0n1/serial:S5X" in answer
        assert b"nvme0n1/size:32768" in answer


@settings(max_examples=200, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["nvme0n1", "sda", "sda; rm -rf /", "../sda", "", None]),
            "size": st.sampled_from([SIZE, SIZE - 1, str(SIZE), "", None, -1, True]),
            "serial": st.sampled_from([SERIAL, SERIAL.lower(), SERIAL + "\n", "", None, 5]),
        }
    )
)
def test_lsblk_must_agree(row: dict[str, object]) -> None:
    table = json.dumps({"blockdevices": [{**row, "type": "disk"}]}).encode()
    try:
        clear(Told(table=table))
    except DeviceRefusedError:
        return
    assert row["name"] == "nvme0n1"
    assert row["size"] in (SIZE, str(SIZE))
    assert str(row["serial"]).strip() == SERIAL


@given(st.binary(max_size=200))
def test_garbage_is_no_facts(answer: bytes) -> None:
    with pytest.raises(ParseError):
        devices_facts.parse(answer)


def test_names_that_no_device_has_reach_no_command() -> None:
    told = Told(listed=LIST.replace(b"nvme0n1", b"x;reboot"))
    assert "is no name of a device" in refused(told)
    assert not any("reboot" in word for argv in told.asked for word in argv)


@pytest.mark.parametrize(
    ("wwn", "told", "fits"),
    [
        ("eui.0025385b71b0a1c2", "eui.0025385b71b0a1c2", True),
        ("0x5000C500A1B2C3D4", "naa.5000c500a1b2c3d4", True),
        ("eui.0025385b71b0a1c2", "eui.0025385b71b0a1c3", False),
        ("eui.0025385b71b0a1c2", None, False),
    ],
)
def test_a_declared_wwn_must_be_told_by_all(wwn: str, told: str | None, fits: bool) -> None:
    listed, facts = LIST, FACTS
    if told:
        listed += f"nvme0n1/wwid:{told}\n".encode()
        facts = facts.replace("read holder", f"attr wwid {told.encode().hex()}0a\nread holder")
    table = json.dumps({"blockdevices": [{**ROW, "wwn": told}]}).encode()
    all_told = Told(listed=listed, table=table, facts=facts.encode())
    if fits:
        assert clear(all_told, wwn=wwn).id == SERIAL
    else:
        refused(all_told, wwn=wwn)


def test_without_consent_nothing_is_claimed() -> None:
    told = Told()
    said = refused(told, Consent())
    assert "--yes-destroy" in said
    [look] = [argv for argv in told.asked if argv[0] == "/bin/sh"]
    assert "peek" in look
    assert "look" not in look


def test_a_recorded_host_is_not_asked_what_it_was_not_asked_then() -> None:
    told = Told()
    asking = witness(told)
    recorded = asking.host.model_copy(update={"transport": "recorded"})
    asking = dataclasses.replace(asking, host=recorded)
    with pytest.raises(DeviceRefusedError, match="--yes-destroy"):
        devices.clear(asking, recorded.declared.disks[0], Consent())
    assert not [argv for argv in told.asked if argv[0] == "/bin/sh"]
    assert devices.clear(asking, recorded.declared.disks[0], YES)


def test_a_disk_by_name_alone_is_refused() -> None:
    said = refused(Told(), YES, serial=None, name="nvme0n1", destructive=False)
    assert "by name alone" in said


def test_a_cleared_device_is_made_by_clear_alone() -> None:
    device = clear(Told())
    values = {
        field.name: getattr(device, field.name) for field in dataclasses.fields(ClearedDevice)
    }
    for made in (ClearedDevice, KnownDevice):
        with pytest.raises(HarnessError, match="only by looking"):
            made(**values, key=object())
        with pytest.raises(TypeError):
            made(**values)
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(device, node="/dev/sda")
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.copy(device).node = "/dev/sda"  # type: ignore[misc]


def test_an_old_look_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    device = clear(Told())
    assert device.guarded(["fio", "x"])
    later = device.looked_at + devices.FRESH_S + 1
    monkeypatch.setattr(devices.time, "monotonic", lambda: later)
    with pytest.raises(DeviceRefusedError, match="was looked at"):
        device.guarded(["fio", "x"])


def test_a_device_that_is_only_read_is_guarded_by_identity() -> None:
    asking = witness(
        Told(facts=FACTS.replace("claim yes\nlock yes", "claim none\nlock none").encode())
    )
    device = devices.recognise(asking, asking.host.declared.disks[0], places=Places())
    assert not device.may_write
    assert "read" in device.guarded(["fio", "x"])
    assert "write" not in device.guarded(["fio", "x"])
