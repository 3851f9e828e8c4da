"""Who a host is: machine id, product serial, serials of its declared disks."""

from __future__ import annotations

import re

from kvgate.parse import system
from kvgate.parse.text import decoded
from kvgate.probes import drives, parts
from kvgate.probes.base import SHORT_S, Command, Probe, answer, reading
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

MACHINE_ID = "/etc/machine-id"
PRODUCT_SERIAL = "/sys/class/dmi/id/product_serial"  # DMI type 1; readable by root only
_MACHINE_ID = ("cat", MACHINE_ID)
_MACS = 'for port in /sys/class/net/*; do [ -e "$port/device" ] && cat "$port/address"; done; true'
_MAC = re.compile(r"(?!(?:00:){5}00)[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)


def _commands(host: Host) -> tuple[Command, ...]:
    return (Command(argv=_MACHINE_ID), Command(argv=host.as_root("cat", PRODUCT_SERIAL)))


def _machine_id(witness: Witness) -> tuple[str | None, Testimony]:
    asked = witness.ask(_MACHINE_ID, timeout_s=SHORT_S)
    if asked.result.exit_status is None:
        asked.result.expect_ok()  # without an end it does not say that there is none
    found = system.machine_id(asked.stdout) if asked.result.ok else None
    return found, asked


def _product_serial(witness: Witness) -> tuple[str | None, Testimony]:
    asked = witness.ask(witness.host.as_root("cat", PRODUCT_SERIAL), timeout_s=SHORT_S)
    if not asked.result.ok or not asked.stdout.strip():
        return None, asked
    return system.serial(decoded(asked.stdout, "DMI product serial").strip()), asked


def ask_identity(witness: Witness) -> Answer:
    """Return host.machine_id and host.serial (DMI product serial, where readable and real)."""
    machine, asked = _machine_id(witness)
    product, asked_too = _product_serial(witness)
    return answer(
        [
            reading("host.machine_id", machine, f"{MACHINE_ID} is absent or not initialised"),
            reading(
                "host.serial",
                product,
                f"{PRODUCT_SERIAL} is absent, not readable (root only), or a placeholder",
            ),
        ],
        asked,
        asked_too,
    )


def identity(witness: Witness, kinds: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return what this hardware is known by, sorted: ``machine-id:…``, ``product:…``, ``disk:…``.

    Where there is none of these, by the MAC addresses of its ports (``mac:…``). Parts of `kinds`,
    those that a bill of materials orders by serial number, count too (``drive:…``, ``gpu:…``).

    Later gates compare it with what G1 saw. Disks are the declared ones that are there, by
    declared serial or WWN. Empty where the host can be told from no other. Raises TransportError
    and ParseError.
    """
    machine, _ = _machine_id(witness)
    product, _ = _product_serial(witness)
    found = [f"machine-id:{machine}"] if machine else []
    found += [f"product:{product}"] if product else []
    known = {disk.id for disk in witness.host.declared.disks if disk.serial or disk.wwn}
    if known:
        found += [
            f"disk:{told.item}"
            for told in drives.ask_disks(witness).readings
            if told.name == "disk.present" and told.value is True and told.item in known
        ]
    found += [f"{kind}:{serial}" for kind, serial in parts.serials(witness, kinds)]
    return tuple(sorted(found)) or _mac_addresses(witness)


def _mac_addresses(witness: Witness) -> tuple[str, ...]:
    """Return ``mac:…`` of the ports that are devices: the last resort, where nothing else tells."""
    asked = witness.ask(("sh", "-c", _MACS), timeout_s=SHORT_S)
    found = asked.stdout.decode("ascii", "replace").split() if asked.result.ok else []
    return tuple(sorted(f"mac:{mac}" for mac in found if _MAC.fullmatch(mac)))


PROBES: tuple[Probe, ...] = (
    Probe(
        name="identity",
        measures=("host.machine_id", "host.serial"),
        ask=ask_identity,
        commands=_commands,
    ),
)
