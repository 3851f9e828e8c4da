"""G2's comparison of storage arms, whole: proven places, random order, looks, verdicts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvgate.store.reader import RunReader

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]
CRITERIA = ("G2.30", "G2.31", "G2.32", "G2.33")

WORKLOAD = """\
  fio_arms:
    {arms: [local, device], again: local, rounds: 5, ramp: 0 s, runtime: 200 ms, size: 4 MiB,
     token: 4 KiB, ranks: 1, jobs: [kv-restore]}
"""

FAKE_SH = """\
#!/bin/sh
# Two folders of one disk, told to be two: the way down from a folder is made up.
case "$2-${4##*/}" in
  *walk*-device) printf 'device 9:0\\nleaf nvme1n1\\nserial D1\\nwwid\\nend\\n' ;;
  *walk*-local) printf 'device 259:1\\nleaf nvme0n1\\nserial L1\\nwwid\\nend\\n' ;;
  *) exec /bin/sh "$@" ;;
esac
"""


def arms(site: Any, *, tools: str = "{}") -> None:
    """Make of the small site one with G2's comparison, and two folders as its arms."""
    text = (ROOT / "gates/g2-paths.yaml").read_text()
    head, *parts = re.split(r"(?m)^(?=  - id: )", text)
    kept = "".join(part for part in parts if part.split()[2] in CRITERIA)
    head = head.replace("entry: [G1]", "entry: []")
    (site.root / "gates/g2-paths.yaml").write_text(head.replace("# Whether", "#") + kept)
    (site.root / "suites/g2").mkdir()
    suite = (ROOT / "suites/g2_paths/test_fio_arms.py").read_text().replace(', "G2.34"', "")
    (site.root / "suites/g2/test_fio_arms.py").write_text(suite)
    for arm in ("local", "device"):
        (site.root / arm).mkdir()
    local, device = site.root / "local", site.root / "device"
    (site.root / "inventory/local/this-machine.yaml").write_text(
        "inventory: small\nhosts:\n  here:\n    roles: [serving]\n    transport: local\n"
        f"    tools: {tools}\n"
        f"    arms: {{local: {{scratch: {local}}}, device: {{scratch: {device}}}}}\n"
    )
    site.plan("G2")
    plan = site.root / "gates/plans/rehearsal.yaml"
    text = plan.read_text().replace("profile: rehearsal", "profile: acceptance")
    plan.write_text(text.replace("workloads: {}\n", f"workloads:\n{WORKLOAD}"))


def test_two_folders_of_one_disk_compare_nothing(site: Any) -> None:
    arms(site)
    assert site.kvgate("run").returncode == 2
    found = site.findings()
    assert {each["verdict"] for each in found.values()} == {"inconclusive"}
    for id_ in ("G2.31", "G2.33"):
        told = found[id_]["because"]
        assert "both arms are the same device: " in told or "lies on no block device" in told, told
    assert site.events("child_begin") == [], "fio was not even started"


@pytest.mark.fio
def test_arms_are_compared_over_the_planned_rounds(site: Any) -> None:
    fake = site.root / "fake_sh"
    fake.write_text(FAKE_SH)
    fake.chmod(0o755)
    arms(site, tools=f"{{sh: {fake}}}")
    site.kvgate("run")
    found = site.findings()
    assert (found["G2.30"]["verdict"], found["G2.31"]["verdict"]) == ("pass", "pass")
    for id_ in ("G2.32", "G2.33"):
        (place,) = found[id_]["hosts"]
        assert place["comparison"]["blocks"] == "5 blocks of 5 planned, look 1 of 1"
        assert place["comparison"]["ratio"].endswith(" x")
        assert place["comparison"]["noise"].endswith(" %")
    taken = RunReader(site.newest()).measurements()
    rates = [m for m in taken if m.name == "arms.read_bw"]
    assert {m.labels["arm"] for m in rates} == {"local", "local-again", "device"}
    assert {m.labels["round"] for m in rates} == set("12345")
    orders = {
        tuple(m.labels["arm"] for m in rates if m.labels["round"] == number) for number in "12345"
    }
    assert len(orders) > 1, "the order of arms is drawn anew each round"
    assert {m.value for m in taken if m.name == "arms.place"} == {
        "nvme1n1 (serial D1), " + kind for kind in kinds(taken)
    } | {"nvme0n1 (serial L1), " + kind for kind in kinds(taken)}
    assert not [m for m in taken if m.name.startswith("fio.")], "limits on fio.* are not of arms"
    assert list((site.root / "local").iterdir()) == list((site.root / "device").iterdir()) == []


def kinds(taken: Any) -> set[str]:
    """Return the file systems that were told."""
    return {str(m.value).rpartition(", ")[2] for m in taken if m.name == "arms.place"}
