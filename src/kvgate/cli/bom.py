"""Verbs on bills of materials: bom import, draft, diff, check."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.errors import SpecError, UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.engine.bom_diff import Unit
    from kvgate.spec.inventory import Inventory
    from kvgate.spec.load import Loaded


def import_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Make a bill of materials from a supplier's CSV or XLSX; 64: refused, with the cell."""
    from kvgate.spec.importing.bom import import_bom, options_of

    try:
        content = Path(arguments.file).read_bytes()
    except OSError as err:
        raise UsageError(f"{arguments.file}: {err.strerror or err}") from err
    options = options_of(arguments.map, arguments.kind, arguments.ignore, arguments.sheet)
    name = arguments.name or Path(arguments.out or arguments.file).stem
    made = import_bom(content, Path(arguments.file).name, name=name, options=options)
    for remark in made.remarks:
        print(plain(f"  {remark}"), file=sys.stderr)
    told = f"{made.lines} lines, {made.serials} serial numbers"
    return _write(made.text, arguments.out, told)


def draft_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Ask the hosts of an inventory for their parts; 2: some could not be asked."""
    from kvgate.cli.places import site_of
    from kvgate.engine.bom_draft import ask_all, text_of
    from kvgate.model.record import Evidence
    from kvgate.witness import Witness

    def forget(piece: Evidence) -> str:
        return hashlib.sha256(piece.stdout).hexdigest()  # a draft proves nothing

    site = site_of(arguments)
    inventory, hosts = site.inventory, tuple(site.inventory.hosts.values())
    with site.connections() as connections:
        told, lost = ask_all(
            [Witness(host, connections.to(host), forget, site.adapter(host)) for host in hosts],
            inventory,
        )
    for host, why in lost.items():
        print(plain(f"  {host}: not asked: {why}"), file=sys.stderr)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    text = text_of(arguments.name or f"{inventory.inventory}-bom"[:64], told, date=today)
    if not text:
        raise SpecError("no host tells a serial number of any part: there is nothing to draft")
    written = _write(text, arguments.out, f"{len(told.found)} parts of {len(hosts)} hosts")
    return written or (2 if lost else 0)


def diff_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Name what was added, removed, moved or replaced; 0: nothing, 1: something."""
    from kvgate.engine.bom_diff import changes

    found = changes(_units(arguments, arguments.before), _units(arguments, arguments.after))
    for change in found:
        print(plain(f"{change.what}: {change.text}"))
    if not found:
        print("the same parts, in the same places")
    return 1 if found else 0


def check_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Validate a bill of materials, with an inventory its hosts too; 1: refused."""
    from kvgate.spec.load import load_inventory
    from kvgate.spec.load_bom import load_bom

    inventory: Loaded[Inventory] | None = None
    try:
        if arguments.inventory:
            inventory = load_inventory(Path(arguments.inventory))
        bom = load_bom(Path(arguments.file), inventory).value
    except SpecError as err:
        print(err, file=sys.stderr)
        return 1
    parts = bom.ordered()
    count = sum(each.count for each in parts)
    known = sum(bool(each.serial) for each in parts)
    by_hand = count - sum(each.count for each in bom.judged())
    print(
        f"bill of materials '{bom.bom}': {len(bom.lines)} lines, {count} parts, {known} of them by "
        f"serial number; {by_hand} are counted by people"
    )
    return 0


def _units(arguments: argparse.Namespace, named: str) -> tuple[Unit, ...]:
    """Return the parts of a file, or those that a run found."""
    from kvgate.cli.places import run_of
    from kvgate.engine.bom_diff import units_of_bom, units_of_run
    from kvgate.spec.load_bom import load_bom
    from kvgate.store.reader import RunReader

    if Path(named).is_file():
        return units_of_bom(load_bom(Path(named)).value)
    return units_of_run(RunReader(run_of(arguments, named)))


def _write(text: str, out: str | None, told: str) -> int:
    """Print `text`, or write it into the new file `out`; raises UsageError where that is there."""
    from kvgate.cli.places import write_new

    if not out:
        print(text, end="")
        return 0
    write_new(out, text.encode())
    print(
        f"{out}: {told}\nname it in the inventory ('bom: {Path(out).name}'), then: kvgate check "
        "--inventory FILE"
    )
    return 0
