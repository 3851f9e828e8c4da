"""The lab's own faults, its deduplicating volume and its second initiator: each is what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from kvgate.errors import CommandError
from kvgate.lab import faults

if TYPE_CHECKING:
    from conftest import Running  # of this folder

NQN = "nqn.2026-11.lab:array1"
HEAD = f"""
D=$(for s in /sys/class/nvme-subsystem/nvme-subsys*; do
    [[ $(<$s/subsysnqn) == {NQN} ]] || continue
    for n in $s/nvme*n1; do echo /dev/${{n##*/}}; done
done)
"""
STATES = """
for c in /sys/class/nvme/nvme*; do
    [[ -e $c/reconnect_delay ]] && cat $c/state
done; true
"""
WRITES = (
    "fio --name=w --filename=$D --rw=randwrite --bs=4k --size=8m --ioengine=libaio --iodepth=4 "
    "--direct=1 --time_based --runtime=20 --rate_iops=50 --verify=crc32c --verify_backlog=32 "
)
BEGUN, RC, SAID = "/tmp/begun", "/tmp/rc", "/tmp/said"  # in the guest
OF_EACH_KIND = (
    "cables",
    "port-tcp-b",
    "port-rdma-a",
    "ana-tcp-a",
    "ana-slow-tcp-b",
    "ana-change-tcp-a",
)
PULLED = ("pull-tgt-raid0", "pull-ini-free")


def begun(script: str) -> str:
    """Return what starts `script` on its own, as a command's group ends with it; its status: RC."""
    own = f"echo >{BEGUN}; {script}; echo $? >{RC}"
    until_begun = f"until [[ -e {BEGUN} ]]; do sleep 0.1; done"
    start = f"setsid sh -c '{own}' >{SAID} 2>&1 </dev/null &"
    return f"{HEAD} export D; rm -f {RC} {BEGUN}; {start} {until_begun}"


def ended(lab: Running) -> str:
    """Return the exit status of what was begun, "" while it runs."""
    return lab.sh("ini", f"cat {RC} 2>/dev/null || true").strip()


def until(holds: Callable[[], bool], limit_s: float = 300) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(1)


def states(lab: Running) -> list[str]:
    return lab.sh("ini", STATES).split()


@pytest.fixture
def connected(lab: Running) -> Iterator[Running]:
    """Return the lab connected by TCP on both networks, before and after."""

    def again() -> None:
        lab.sh("ini", f"nvme disconnect -n {NQN} >/dev/null || true; /lab/connect.sh tcp")
        until(lambda: states(lab) == ["live", "live"])

    again()
    yield lab
    again()


def test_each_fault_is_done_and_undone_with_proof(connected: Running) -> None:
    for name in (*OF_EACH_KIND, *PULLED):
        for undo in (False, True):
            said = faults.inflict(connected.lab, name, undo=undo, say=lambda _line: None)
            assert said.startswith("undone" if undo else "done")
    until(lambda: states(connected) == ["live", "live"])
    connected.sh("ini", f"{HEAD} dd if=$D of=/dev/null bs=64k count=4 iflag=direct")


def test_io_waits_for_both_paths_within_ctrl_loss_tmo(connected: Running) -> None:
    # I/O is given up after fast_io_fail_tmo, which is shorter than the fault may take here.
    connected.sh("ini", f"nvme disconnect -n {NQN} >/dev/null; FAST=300 /lab/connect.sh tcp")
    log = "--output=/tmp/within.json --output-format=json"
    connected.sh("ini", begun(f"{WRITES} {log}"))
    assert connected.kvgate("fault", "cables").returncode == 0
    until(lambda: states(connected) == ["connecting", "connecting"])
    assert connected.kvgate("fault", "cables", "--undo").returncode == 0
    until(lambda: states(connected) == ["live", "live"])
    until(lambda: ended(connected) != "")
    assert ended(connected) == "0"
    assert connected.sh("ini", "jq '.jobs[0].error' /tmp/within.json").strip() == "0"


def test_beyond_ctrl_loss_tmo_it_ends_in_a_clear_error(connected: Running) -> None:
    connected.sh("ini", f"nvme disconnect -n {NQN} >/dev/null; LOSS=8 /lab/connect.sh tcp")
    connected.sh("ini", begun(f"{WRITES} --runtime=120"))
    assert connected.kvgate("fault", "cables").returncode == 0
    until(lambda: states(connected) == [])
    until(lambda: ended(connected) != "")
    assert ended(connected) != "0"
    told = connected.sh("ini", f"cat {SAID}")
    assert "Input/output error" in told
    assert "verify:" not in told
    assert connected.kvgate("fault", "cables", "--undo").returncode == 0


def test_a_second_initiator_is_another_host_to_the_target(connected: Running) -> None:
    uuid = "00000000-0000-4000-8000-000000000099"
    other = f"nqn.2014-08.org.nvmexpress:uuid:{uuid}"
    connected.sh("ini", f"HOSTNQN={other} HOSTID={uuid} /lab/connect.sh tcp")
    told = connected.sh("ini", "cat /sys/class/nvme/nvme*/hostnqn 2>/dev/null || true").split()
    assert told.count(other) == 2
    assert len(set(told)) == 2


def test_the_vdo_volume_really_deduplicates(connected: Running) -> None:
    connected.sh("tgt", "/lab/vdo.sh up; /lab/nvmet.sh add 2 /dev/vgv/v")
    copies = (
        "for i in 0 1 2; do dd if=/tmp/c of=${D%n1}n2 bs=1M seek=$((i * 16)) oflag=direct; done"
    )
    source = "dd if=/dev/urandom of=/tmp/c bs=1M count=16"
    connected.sh("ini", f"{HEAD} until [[ -b ${{D%n1}}n2 ]]; do sleep 1; done; {source}; {copies}")
    saved = (
        "lvs --reportformat json -o vdo_saving_percent vgv | "
        "jq -r '[.report[0].lv[].vdo_saving_percent | select(. != \"\")][0]'"
    )
    until(lambda: float(connected.sh("tgt", saved).strip() or 0) > 50)
    connected.sh(
        "ini",
        f"{HEAD} for i in 0 1 2; do dd if=${{D%n1}}n2 bs=1M skip=$((i * 16)) "
        "count=16 iflag=direct | cmp - /tmp/c; done",
    )
    connected.sh("tgt", "/lab/nvmet.sh remove 2; /lab/vdo.sh down")


def test_a_target_that_was_reset_serves_again_and_io_goes_on(connected: Running) -> None:
    for name in ("freeze-tgt", "reset-tgt"):
        assert connected.kvgate("fault", name).returncode == 0
        until(lambda: "live" not in states(connected))
        done = connected.kvgate("fault", name, "--undo")
        assert done.returncode == 0, done.stderr
        until(lambda: states(connected) == ["live", "live"])
        connected.sh("ini", f"{HEAD} dd if=$D of=/dev/null bs=64k count=4 iflag=direct")


def test_a_command_in_d_state_is_told_and_holds_nobody_up(connected: Running) -> None:
    connected.sh("ini", f"nvme disconnect -n {NQN} >/dev/null; /lab/connect.sh rdma")
    # The trap of docs/lab.md, on purpose: nvme-rdma over rxe can't get over it.
    connected.sh("ini", "ip link set dataA down; sleep 8; ip link set dataA up; sleep 12")
    began = time.monotonic()
    with pytest.raises(CommandError, match=r"ini: `nvme disconnect .* by its deadline") as told:
        connected.guests.run("ini", ["nvme", "disconnect", "-n", NQN], timeout_s=10)
    assert told.value.host == "ini"
    assert time.monotonic() - began < 120
    assert connected.sh("ini", "echo still there").strip() == "still there"
    for words in ((), ("--undo",)):
        done = connected.kvgate("fault", "reset-ini", *words)
        assert done.returncode == 0, done.stderr
    connected.hang_up()
