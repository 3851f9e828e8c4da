"""What lies below a folder: the block devices, their PCI links, and ports of NVMe over fabrics.

`SCRIPT` prints it from sysfs, a fact a line; `way` reads it.
"""

from __future__ import annotations

import dataclasses
import re

from kvgate.model.quantity import Quantity
from kvgate.parse.text import lines, refuse

WHAT = "what lies below a folder"
SCRIPT = r"""
d=$(stat -c %d -- "$1") || exit 1
M=$(( (d >> 8) & 4095 )); m=$(( (d & 255) | ((d >> 12) & 1048320) ))
say() { printf '%s\n' "$*" | tr -d '\r' ; }
one() { head -c 200 -- "$1" 2>/dev/null | head -n 1 | tr -s ' \t' '  ' ; }
links() {
  p=$1
  while [ "$p" != /sys/devices ] && [ -n "$p" ]; do
    if [ -f "$p/vendor" ] && [ -f "$p/class" ]; then
      say "function ${p##*/} $(one "$p/vendor")"
      if [ -f "$p/current_link_speed" ]; then
        say "link ${p##*/} $(one "$p/current_link_width") $(one "$p/current_link_speed")"
      fi
    fi
    p=${p%/*}
  done
}
control() {
  t=$(one "$1/transport"); a=$(one "$1/address")
  say "controller ${1##*/} $t"
  if [ "$t" = pcie ]; then links "$(cd -P "$1/device" && pwd)"; return; fi
  a=${a#*traddr=}; a=${a%%,*}
  n=$(ip -o route get "$a" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
  say "port ${n:-unknown} $(one "/sys/class/net/$n/speed")"
}
walk() {
  b=$(cd -P "$1" 2>/dev/null && pwd) || return
  if [ -f "$b/partition" ]; then b=${b%/*}; fi
  set -- "$b"/slaves/*
  if [ -e "$1" ]; then
    say "over ${b##*/} $(one "$b/md/level")"
    for s in "$@"; do ( walk "$s" ); done
    return
  fi
  say "leaf ${b##*/}"
  say "serial $(one "$b/serial")$(one "$b/device/serial")"
  say "wwid $(one "$b/wwid")$(one "$b/device/wwid")"
  case $b in
    */nvme-subsystem/*) for c in "${b%/*}"/nvme*/transport; do
        c=${c%/transport}; case ${c##*/} in *n[0-9]*) ;; *) control "$(cd -P "$c" && pwd)";; esac
      done ;;
    */nvme/*) control "${b%/*}" ;;
    */virtual/*) say "virtual ${b##*/}" ;;
    *) links "$b" ;;
  esac
}
say "device $M:$m"
walk "/sys/dev/block/$M:$m"
say end
"""

EMULATED = {
    "0x1af4": "virtio",
    "0x1b36": "emulated by QEMU",
    "0x15ad": "emulated by VMware",
    "0x1414": "emulated by Hyper-V",
    "0x1d0f": "a virtual one of AWS",
    "0x1ae0": "a virtual one of Google",
}
"""PCI vendors of functions that hypervisors make up: their link's speed is nobody's."""

_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?)\s*GT/s(?: PCIe)?")


@dataclasses.dataclass(slots=True)
class Leaf:
    """A block device at the bottom; links and ports are those that its bytes go through."""

    name: str
    serial: str = ""
    wwid: str = ""
    emulated: str = ""  # why its links say nothing
    transports: list[str] = dataclasses.field(default_factory=list)
    links: list[tuple[str, Quantity, int]] = dataclasses.field(default_factory=list)
    ports: list[tuple[str, Quantity | None, str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Way:
    """The device a folder is on, what lies between (``md0 raid0``), and the leaves."""

    device: str
    over: list[str] = dataclasses.field(default_factory=list)
    leaves: list[Leaf] = dataclasses.field(default_factory=list)


def way(answer: bytes) -> Way:
    """Read what SCRIPT printed; raises ParseError for anything that it does not print."""
    told = [line.split() for line in lines(answer, WHAT) if line.strip()]
    if not told or told[0][:1] != ["device"] or len(told[0]) != 2 or told[-1] != ["end"]:
        refuse(WHAT, "it does not begin with a device and end with 'end'")
    found = Way(device=told[0][1])
    for words in told[1:-1]:
        _take(found, words)
    return found


def _take(found: Way, words: list[str]) -> None:
    key, rest = words[0], words[1:]
    if key == "over" and rest:
        found.over.append(" ".join(rest))
    elif key == "leaf" and len(rest) == 1:
        found.leaves.append(Leaf(rest[0]))
    elif found.leaves:
        _add(found.leaves[-1], key, rest)
    else:
        refuse(WHAT, f"'{key}' before any device")


def _add(leaf: Leaf, key: str, rest: list[str]) -> None:
    if key == "serial":
        leaf.serial = " ".join(rest)
    elif key == "wwid":
        leaf.wwid = " ".join(rest)
    elif key == "virtual":
        leaf.emulated = leaf.emulated or "virtual"
    elif key == "function" and len(rest) == 2:
        leaf.emulated = leaf.emulated or EMULATED.get(rest[1], "")
    elif key == "controller" and rest:
        leaf.transports.append(rest[1] if len(rest) > 1 else "")
    elif key == "link" and len(rest) >= 3:
        _link(leaf, rest[0], rest[1], " ".join(rest[2:]))
    elif key == "port" and rest:
        megabits = rest[1] if len(rest) > 1 else ""
        known = megabits.isdecimal() and megabits.isascii() and 0 < len(megabits) < 9
        speed = Quantity.of(int(megabits), "Mbit/s") if known and int(megabits) else None
        leaf.ports.append((rest[0], speed, leaf.transports[-1] if leaf.transports else ""))
    elif key != "link":
        refuse(WHAT, f"an unknown line '{key}'")


def _link(leaf: Leaf, address: str, width: str, speed: str) -> None:
    """Take in a link that tells its speed ("16.0 GT/s PCIe"); one that does not says nothing."""
    match = _SPEED.fullmatch(speed)
    if match and width.isdecimal() and width.isascii() and len(width) < 4:
        leaf.links.append((address, Quantity.of(match[1], "GT/s"), int(width)))
