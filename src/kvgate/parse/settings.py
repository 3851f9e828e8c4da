"""How a host is set up: huge pages, governor, kernel parameters, time, failed units."""

from __future__ import annotations

import decimal
import re

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import decoded, lines, refuse, shown, whole

_MEMINFO = re.compile(r"(HugePages_Total|Hugepagesize):\s*([0-9]{1,15})(?: kB)?")
_CHOSEN = re.compile(r"\[([a-z-]{1,30})\]")
_UPTIME = re.compile(r"([0-9]{1,12}\.[0-9]{2}) [0-9]{1,15}\.[0-9]{2}\s*")
_UNIT = re.compile(r"(?:[●*×x] )?\s*([\w:@\\.-]{1,200}\.[a-z]{4,9})\s+\S+\s+failed\s.*")
_SECONDS = re.compile(r"-?[0-9]{1,9}\.[0-9]{1,12}")
_TRACKING = re.compile(r"Reference ID\s*:")
_STRATUM = re.compile(r"Stratum\s*:\s*([0-9]{1,3})")
_SLOW = re.compile(r"System time\s*:\s*([0-9]{1,9}\.[0-9]{1,12}) seconds (slow|fast) of NTP time")
_DOMAIN = re.compile(r"[A-Za-z-]{1,20}")


def kernel_parameters(answer: bytes) -> str:
    """Return /proc/cmdline, one line."""
    text = decoded(answer, "/proc/cmdline").strip()
    if "\n" in text:
        refuse("/proc/cmdline", f"{shown(text)} is not one line")
    return text


def huge_pages(answer: bytes) -> tuple[int, int]:
    """Return how many huge pages /proc/meminfo has set aside, and the size of one in KiB."""
    found: dict[str, int] = {}
    for line in lines(answer, "meminfo"):
        if match := _MEMINFO.fullmatch(line.strip()):
            if match[1] in found:
                refuse("meminfo", f"{match[1]} stands twice")
            found[match[1]] = int(match[2])
    if set(found) != {"HugePages_Total", "Hugepagesize"}:
        refuse("meminfo", "it does not tell HugePages_Total and Hugepagesize")
    return found["HugePages_Total"], found["Hugepagesize"]


def chosen(answer: bytes, what: str) -> str:
    """Return the word in brackets of a sysfs choice: ``always [madvise] never``."""
    match = _CHOSEN.findall(decoded(answer, what))
    if len(match) != 1:
        refuse(what, f"{shown(answer)} chooses {len(match)} words, not one")
    return str(match[0])


def governors(answer: bytes) -> tuple[str, ...]:
    """Return the different scaling governors of all processors, sorted."""
    what = "cpufreq"
    found = _different(sysfs.attributes(answer, what), "cpufreq/scaling_governor", what)
    return tuple(sorted(each for each in found if each))


def _different(items: sysfs.Attributes, name: str, what: str) -> set[str | None]:
    """Return what the attribute `name` is anywhere: hundreds of items have the same few."""
    told = dict.fromkeys(values.get(name) for values in items.values())
    return {sysfs.line(value, name, what) for value in told}


def uptime_s(answer: bytes) -> decimal.Decimal:
    """Return the seconds since boot in /proc/uptime."""
    match = _UPTIME.fullmatch(decoded(answer, "/proc/uptime"))
    return decimal.Decimal(match[1]) if match else refuse("/proc/uptime", shown(answer))


def failed_units(answer: bytes) -> tuple[str, ...]:
    """Return the units that ``systemctl --failed --plain --no-legend`` lists; it may list none."""
    if not answer.strip():
        return ()
    found = []
    for line in lines(answer, "systemctl"):
        match = _UNIT.fullmatch(line)
        if match:
            found.append(match[1])
        elif line.strip():
            refuse("systemctl", f"{shown(line)} is no failed unit")
    return tuple(found)


def synchronised(answer: bytes) -> bool:
    """Return what ``timedatectl show -p NTPSynchronized --value`` says."""
    told = decoded(answer, "timedatectl").strip()
    if told not in ("yes", "no"):
        refuse("timedatectl", f"{shown(told)} is neither yes nor no")
    return told == "yes"


def chrony_offset_s(answer: bytes) -> decimal.Decimal | None:
    """Return by how much the system's clock is ahead of NTP time, by ``chronyc tracking``.

    None where chrony follows no server (stratum 0). Of ``chronyc -c tracking`` the fifth field is
    the correction that is still to be made, positive where the clock is slow: chrony's client.c
    prints it as "N seconds slow of NTP time" then, else as "fast", without its sign.
    """
    text = decoded(answer, "chronyc").strip()
    if _TRACKING.match(text):
        return _chrony_text(text)
    fields = text.split(",")
    if len(fields) < 14 or not _SECONDS.fullmatch(fields[4]):
        refuse("chronyc", f"{shown(answer)} is not the line of `chronyc -c tracking`")
    if whole(fields[2], "chronyc", "stratum") == 0:
        return None
    return -decimal.Decimal(fields[4])


def _chrony_text(text: str) -> decimal.Decimal | None:
    told = [match for line in text.splitlines() if (match := _SLOW.fullmatch(line.strip()))]
    strata = [match for line in text.splitlines() if (match := _STRATUM.fullmatch(line.strip()))]
    if len(told) != 1 or len(strata) != 1:
        refuse("chronyc", "it has not one line 'Stratum' and one 'System time'")
    if int(strata[0][1]) == 0:
        return None
    number = decimal.Decimal(told[0][1])
    return -number if told[0][2] == "slow" else number


def iommu_domains(answer: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the number of IOMMU groups and the different types of their default domains."""
    what = "/sys/kernel/iommu_groups"
    groups = sysfs.attributes(answer, what)
    types = {each or "" for each in _different(groups, "type", what)}
    if bad := [each for each in types if not _DOMAIN.fullmatch(each)]:
        refuse(what, f"{shown(bad[0])} is no type of a domain")
    return len(groups), tuple(sorted(types))


def on_off(answer: bytes, what: str) -> bool:
    """Return the switch in /proc/sys that `answer` is: 0 is off, 1 (and more) on."""
    return whole(decoded(answer, what).strip(), what, "the switch") > 0


def yes_no(answer: bytes, what: str) -> bool:
    """Return a module's parameter that is a switch: Y or N (also 1 or 0)."""
    told = decoded(answer, what).strip()
    if told not in ("Y", "N", "1", "0"):
        refuse(what, f"{shown(told)} is neither Y nor N")
    return told in ("Y", "1")


def dmi(answer: bytes) -> dict[str, str]:
    """Return the attributes below /sys/class/dmi/id that have a text."""
    what = "DMI"
    values = sysfs.attributes(answer, what).get("id", {})
    told = {name: sysfs.text(values, name, what) for name in values}
    return {name: text for name, text in told.items() if text}


def _choice(answer: bytes) -> str:
    return chosen(answer, "the choice")


def _switch(answer: bytes) -> bool:
    return on_off(answer, "the switch")


def _parameter(answer: bytes) -> bool:
    return yes_no(answer, "the parameter")


TOOLS = {
    "module_parameter": reads("a module's parameter", _parameter),
    "proc_cmdline": reads("/proc/cmdline", kernel_parameters),
    "proc_uptime": reads("/proc/uptime", uptime_s),
    "huge_pages": reads("meminfo", huge_pages),
    "sysfs_choice": reads("sysfs", _choice),
    "proc_switch": reads("/proc/sys", _switch),
    "sysfs_cpufreq": reads("cpufreq", governors, fine=(0, 1, 2)),
    "systemctl_failed": reads("systemctl", failed_units),
    "timedatectl": reads("timedatectl", synchronised),
    "chronyc": reads("chronyc", chrony_offset_s),
    "sysfs_iommu": reads("/sys/kernel/iommu_groups", iommu_domains, fine=(0, 1, 2)),
    "sysfs_dmi": reads("DMI", dmi, fine=(0, 1, 2)),
}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
