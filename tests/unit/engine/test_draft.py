"""Drafts of machines told by recorded answers, and of this machine."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine.draft import Draft, draft
from kvgate.errors import HostUnreachableError
from kvgate.model.quantity import Quantity
from kvgate.spec import load, yamlfile
from kvgate.spec.expect import coverage, expectations
from kvgate.spec.gate import Gate
from kvgate.spec.inventory import Host, Inventory
from kvgate.spec.load_bom import bom_of
from kvgate.spec.plan import Plan
from kvgate.transport.base import CommandResult

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "recorded"
PLAN = "gates/plans/rehearsal.yaml"
Say = bytes | tuple[int, bytes]

PLAN_TEXT = """
plan: tiny
title: G1 only
profile: rehearsal
seed: 1
gates: [{gate: G1, suite: suites/g1_arrival, give_up_after: 60 s}]
workloads: {}
"""


class Machine:
    """Answers by the first text in `says` that stands in the command; 127 for any other."""

    name = "h1"

    def __init__(self, says: Mapping[str, Say]) -> None:
        self.says = says

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        line = " ".join(argv)
        say = next((say for part, say in self.says.items() if part in line), (127, b""))
        status, out = (0, say) if isinstance(say, bytes) else say
        return CommandResult(
            host="h1",
            argv=tuple(argv),
            exit_status=status,
            stdout=out,
            stderr=b"",
            started_at=datetime.datetime.now(datetime.UTC),
            elapsed_s=0.01,
        )


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def virtual() -> dict[str, Say]:
    """Return the answers of a small virtual machine, by a piece of the command."""
    return {
        "os-release": recorded("os_release/debian-12.txt"),
        "uname": recorded("uname/coreutils-9.1-debian-12.txt"),
        "lscpu": recorded("lscpu/util-linux-2.38.1-kvm.json"),
        "meminfo": recorded("meminfo/linux-6.18-kvm.txt"),
        "node/online": b"0\n",
        "cd /sys/block": recorded("sysfs_block/linux-6.18-virtio.txt"),
        "cd /sys/class/net": recorded("sysfs_net/linux-6.18-virtio.txt"),
        "cd /sys/bus/pci": recorded("sysfs_pci/linux-6.18-virtio.txt"),
        "command -v": b"/usr/bin/fio\n/usr/sbin/nvme\n",
        "fio --version": b"fio-3.33\n",
        "nvme version": b"nvme version 2.3\n",
        "python": b"Python 3.11.2\n",
        "date": recorded("date/coreutils-9.1.txt"),
        "df ": b"Filesystem Type\n/dev/vda   ext4\n",
        "dd ": b"",
        "rm ": b"",
    }


def server() -> dict[str, Say]:
    return virtual() | {
        "cd /sys/block": recorded("sysfs_block/composed-server.txt"),
        "cd /sys/class/net": recorded("sysfs_net/composed-server.txt"),
        "cd /sys/bus/pci": recorded("sysfs_pci/composed-server.txt"),
        "smart-log": recorded("nvme_smart_log/composed-2.x-new-drive.json"),
        "lsblk": b'{"blockdevices": []}',
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with the real G1 and baselines, and a plan that holds only G1."""
    for name in ("gates/g1-arrival.yaml", "inventory/baseline.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / PLAN).parent.mkdir()
    (tmp_path / PLAN).write_text(PLAN_TEXT, "utf-8")
    return tmp_path


def drafted(workspace: Path, says: Mapping[str, Say], **fields: Any) -> Draft:
    entry = {
        "roles": ["serving", "client"],
        "transport": "local",
        "scratch": "/scratch",
        "baseline": "rehearsal-linux",
        **fields,
    }
    host = Host.model_validate(entry).model_copy(update={"name": "h1"})
    return draft(host, Machine(says), entry, workspace=workspace, plan=PLAN)  # type: ignore[arg-type]


def inventory_of(found: Draft) -> Inventory:
    return load.inventory_of(yamlfile.parse(found.inventory.encode(), "inventory")).value


def plan_of(found: Draft, workspace: Path) -> Plan:
    base = yamlfile.read(workspace / PLAN)
    return load.plan_of(yamlfile.parse(found.plan.encode(), "plan"), base).value


def gate(workspace: Path) -> Gate:
    return load.load_gate(workspace / "gates/g1-arrival.yaml").value


def by_measure(found: Draft, workspace: Path) -> dict[str, str]:
    """Return the reason by measure of what was scoped out."""
    out = plan_of(found, workspace).scoped_out()
    return {c.measure: out[c.id] for c in gate(workspace).criteria if c.id in out}


def test_what_a_virtual_machine_shows_is_declared(workspace: Path) -> None:
    host = inventory_of(drafted(workspace, virtual())).hosts["h1"]
    have = host.declared
    assert have.cpu
    assert (have.cpu.model, have.cpu.sockets, have.cpu.threads) == ("AMD EPYC", 1, 2)
    assert (have.numa_nodes, have.gpus, have.pcie) == (1, None, [])
    assert [(disk.serial, disk.size) for disk in have.disks] == [
        ("12345678901234567", Quantity.of(256, "GiB"))
    ]
    assert [(nic.name, nic.speed) for nic in have.nics] == [("eth0", None)]
    assert host.tools == {"fio": "/usr/bin/fio", "nvme": "/usr/sbin/nvme"}
    assert host.scratch == "/scratch"


def test_what_a_virtual_machine_can_not_settle_is_scoped_out_with_its_reason(
    workspace: Path,
) -> None:
    found = by_measure(drafted(workspace, virtual()), workspace)
    assert found["nic.speed"] == (
        "no host declares a NIC with a speed: eth0 reports −1 for its "
        "speed (it has a link, so it is virtual)"
    )
    assert found["nvme.media_errors"] == "no host has an NVMe drive (its disks: vda)"
    assert found["disk.model"] == "no host declares a disk's model: vda tells none"
    assert found["pcie.width"].startswith("no PCI device reports a link: 0000:00:00.0 (8086:0d57)")
    assert found["gpu.count"].startswith("no GPU is there: none of 6 PCI devices")
    assert found["os.version"] == "the baseline 'rehearsal-linux' requires nothing for os.version"
    assert not {"disk.present", "nic.carrier", "memory.size", "os.id", "clock.offset"} & set(found)


@pytest.mark.parametrize("says", [virtual(), server()], ids=["virtual", "server"])
def test_every_criterion_is_covered_or_scoped_out_both_only_if_asked_in_vain(
    workspace: Path, says: Mapping[str, Say]
) -> None:
    found = drafted(workspace, says)
    inventory, out = inventory_of(found), plan_of(found, workspace).scoped_out()
    baseline = load.load_baseline(
        workspace / "inventory/baseline.yaml",
        load.inventory_of(yamlfile.parse(found.inventory.encode(), "inventory")),
    ).value
    bom = bom_of(yamlfile.parse(found.bom.encode(), "BOM")).value if found.bom else None
    expected = expectations(inventory, baseline, bom)
    for criterion in gate(workspace).criteria:
        covered = bool(coverage(criterion, inventory, expected))
        reason = out.get(criterion.id, "")
        assert covered or reason, criterion.id
        undeclared = reason.startswith(("no host ", "the baseline ", "the inventory "))
        assert not (covered and undeclared), criterion.id
    assert all(out.values())


def test_a_server_is_declared_by_serial_and_wwn(workspace: Path) -> None:
    have = inventory_of(drafted(workspace, server())).hosts["h1"].declared
    known = {disk.id: disk for disk in have.disks}
    assert set(known) == {"SATA000001", "NVME0001", "eui.0000000000000002", "eui.0000000000000003"}
    assert known["NVME0001"].nvme
    assert known["NVME0001"].model == "SAMPLE NVME 7.68TB"
    assert {nic.name: nic.speed for nic in have.nics} == {
        "ens1f0np0": Quantity.of(100, "Gbit/s"),
        "ib0": Quantity.of(200, "Gbit/s"),
    }
    assert have.gpus
    assert (have.gpus.count, have.gpus.id) == (2, "1002:74a2")
    assert len(set(have.gpus.addresses)) == 2


def test_links_are_declared_as_they_run_and_steadily(workspace: Path) -> None:
    found = drafted(workspace, server())
    links = {link.address: link for link in inventory_of(found).hosts["h1"].declared.pcie}
    assert set(links) == {"0000:05:00.0", "0000:15:00.0", "0000:41:00.0", "0000:42:00.0"}
    assert (links["0000:41:00.0"].speed, links["0000:41:00.0"].width) == (
        Quantity.of(16, "GT/s"),
        8,
    )
    assert links["0000:42:00.0"].speed is None  # below its best: may change when idle
    assert links["0000:05:00.0"].speed is None  # a GPU
    remarks = "\n".join(found.remarks)
    assert "0000:41:00.0 has x8 and could have x16" in remarks
    assert "0000:42:00.0 runs at 8.0 GT/s of 16.0" in remarks
    assert "sdb is removable: not declared" in remarks
    assert "ens1f1np1 has no link: not declared" in remarks


def test_a_question_that_is_refused_is_scoped_out_with_the_refusal(workspace: Path) -> None:
    found = drafted(workspace, server() | {"smart-log": (127, b"")})
    assert inventory_of(found).hosts["h1"].items("nvme")  # declared all the same
    reasons = by_measure(found, workspace)
    assert "install the package 'nvme-cli'" in reasons["nvme.critical_warning"]
    assert "disk.present" not in reasons


def test_a_missing_tool_is_never_scoped_out(workspace: Path) -> None:
    says = {key: say for key, say in virtual().items() if key != "fio --version"}
    assert "tool.fio.version" not in by_measure(drafted(workspace, says), workspace)


def test_a_machine_that_tells_little_is_drafted_with_remarks(workspace: Path) -> None:
    says = {
        key: say
        for key, say in virtual().items()
        if key not in ("lscpu", "node/online", "cd /sys/bus/pci", "cd /sys/class/net")
    }
    found = drafted(workspace, says)
    assert any("lscpu" in remark for remark in found.remarks)
    reasons = by_measure(found, workspace)
    assert reasons["cpu.threads"] == "this machine does not tell how many hardware threads it has"
    assert reasons["pcie.present"] == "this machine shows no PCI devices"
    assert "no network port with a link" in reasons["nic.present"]


def test_a_machine_that_tells_nothing_is_still_judged_by_its_baseline(workspace: Path) -> None:
    found = drafted(workspace, {"command -v": b""})
    assert inventory_of(found).hosts["h1"].declared.disks == []
    assert "tool.fio.version" not in by_measure(found, workspace)


def test_scratch_without_a_disk_below_is_remarked(workspace: Path) -> None:
    says = virtual() | {"df ": b"Filesystem Type\ntmpfs tmpfs\n", "dd ": (1, b"")}
    remarks = "\n".join(drafted(workspace, says).remarks)
    assert "/scratch is on tmpfs (tmpfs), not on a block device" in remarks
    assert "refuses O_DIRECT" in remarks


def test_what_the_base_has_scoped_out_is_not_repeated(workspace: Path) -> None:
    extra = "scope_out: [{criteria: [G1.29], reason: no GPU in a rehearsal}]\n"
    (workspace / PLAN).write_text(PLAN_TEXT + extra, "utf-8")
    found = drafted(workspace, virtual())
    assert "G1.29" not in found.plan
    assert plan_of(found, workspace).scoped_out()["G1.29"] == "no GPU in a rehearsal"


OTHER_GATE = """
gate: G3
title: t
question: q
entry: [G1]
criteria:
  - {id: G3.1, text: a, measure: m.x, phase: p, hosts: serving, basis: b,
     where: {arm: device, over: local}, limits: {rehearsal: {at_least: 1}}}
  - {id: G3.2, text: a, measure: m.x, phase: p, hosts: serving, basis: b,
     where: {arm: local, over: recompute}, limits: {rehearsal: {at_least: 1}}}
  - {id: G3.3, text: a, measure: m.x, phase: p, hosts: serving, basis: b,
     limits: {acceptance: {at_least: 1}}}
  - {id: G3.4, text: a, measure: fio.direct, phase: p, hosts: serving, basis: b,
     limits: {rehearsal: {equals: true}}}
"""


@pytest.fixture
def two_gates(workspace: Path) -> Path:
    """Return a workspace with another gate beside G1, and a plan that runs two arms of three."""
    (workspace / "gates/g3.yaml").write_text(OTHER_GATE, "utf-8")
    text = PLAN_TEXT.replace("60 s}]", "60 s}, {gate: G3, suite: s, give_up_after: 9 s}]").replace(
        "workloads: {}",
        "workloads: {kv: {arms: [recompute, local], rounds: 1, sessions: 1, "
        "prompt_tokens: 1, output_tokens: 1, concurrency: [1]}}",
    )
    (workspace / PLAN).write_text(text, "utf-8")
    return workspace


def test_what_the_plan_does_not_run_or_limit_is_scoped_out(two_gates: Path) -> None:
    out = plan_of(drafted(two_gates, virtual()), two_gates).scoped_out()
    assert out["G3.1"] == "the plan runs no arm 'device' (its arms: recompute, local)"
    assert out["G3.3"] == "it has no limit for the profile 'rehearsal', only for 'acceptance'"
    assert not {"G3.2", "G3.4"} & set(out)


def test_o_direct_is_not_asked_of_a_folder_that_refuses_it(two_gates: Path) -> None:
    out = plan_of(drafted(two_gates, virtual() | {"dd ": (1, b"")}), two_gates).scoped_out()
    assert out["G3.4"].startswith("the scratch folder's file system (ext4) refuses O_DIRECT")


def test_a_kernel_log_that_can_not_be_read_from_a_mark_on_is_not_judged(two_gates: Path) -> None:
    """Where it can, it is judged: nothing else of this machine says anything about it."""
    gate = two_gates / "gates/g3.yaml"
    gate.write_text(gate.read_text("utf-8").replace("fio.direct", "log.new_fatal"), "utf-8")
    refused = plan_of(drafted(two_gates, virtual()), two_gates).scoped_out()["G3.4"]
    assert refused.startswith("the kernel log can't be read from a mark on: h1: 'sh' is not there")
    log = b"00000000-0000-4000-8000-000000000001\n[    1.000000] Linux version 6.8\n"
    told = drafted(two_gates, {"boot_id": log} | virtual())
    assert "G3.4" not in plan_of(told, two_gates).scoped_out()


def test_odd_words_of_a_host_stay_words(workspace: Path) -> None:
    odd = b"vda/size:8\nvda/device/modalias:x\nvda/serial:1e5: #x'\"{}, [\nvda/device/model:yes\n"
    says = {**virtual(), "cd /sys/block": odd}
    disk = inventory_of(drafted(workspace, says)).hosts["h1"].declared.disks[0]
    assert (disk.serial, disk.model) == ("1e5: #x'\"{}, [", "yes")


def test_a_machine_out_of_reach_is_not_drafted(workspace: Path) -> None:
    asked: list[str] = []

    class Dead(Machine):
        def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
            asked.append(argv[0])
            raise HostUnreachableError("h1", "no route")

    entry = {"roles": ["serving"], "transport": "local", "baseline": "rehearsal-linux"}
    host = Host.model_validate(entry).model_copy(update={"name": "h1"})
    with pytest.raises(HostUnreachableError, match="no route"):
        draft(host, Dead({}), entry, workspace=workspace, plan=PLAN)  # type: ignore[arg-type]
    assert len(asked) == 1  # its time-out is waited for once


def test_the_parts_of_a_machine_are_drafted_as_what_was_ordered(workspace: Path) -> None:
    found = drafted(workspace, server())
    assert "\nbom: bom-h1.yaml\n" in found.inventory
    serials = {
        each.serial for each in bom_of(yamlfile.parse(found.bom.encode(), "b")).value.ordered()
    }
    assert "SATA000001" in serials
    assert "G1.121" not in plan_of(found, workspace).scoped_out()
    silent = {key: say for key, say in virtual().items() if key != "cd /sys/block"}
    without = drafted(workspace, silent)
    assert without.bom == ""
    assert "no part of this machine tells" in plan_of(without, workspace).scoped_out()["G1.121"]
