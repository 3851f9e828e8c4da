"""The command line of a simulated switch: answers as SONiC's ``show`` does, from a state file.

A program of its own, of the standard library only: sshd starts it as its ForceCommand for every
command that a client sends (``python -I -S switch.py STATE``). Nothing it is sent is executed.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

State = dict[str, Any]


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as SONiC prints them: right-aligned under titles and a row of dashes."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(t), *(len(row[n]) for row in cells), 2) for n, t in enumerate(titles)]
    lines = [titles, ["-" * width for width in widths], *cells]
    return "".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + "\n"
        for line in lines
    )


def _version(state: State) -> str:
    return (
        f"SONiC Software Version: {state['firmware']}\nDistribution: simulated by kvgate\n"
        f"\nHwSKU: {state['model']}\nSerial Number: {state['serial']}\n"
    )


def _status(state: State) -> str:
    titles = ("Interface", "Lanes", "Speed", "MTU", "FEC", "Alias", "Oper", "Admin", "Type")
    return table(
        titles,
        [
            (name, n, p["speed"], p["mtu"], "rs", f"etp{n}", p["state"], "up", "QSFP28")
            for n, (name, p) in enumerate(state["ports"].items(), 1)
        ],
    )


def _pfc(state: State) -> str:
    rows = [(name, p["pfc"]) for name, p in state["ports"].items()]
    return table(("Interface", "Lossless priorities"), rows)


def _ecn(state: State) -> str:
    rule = "-" * 23 + "  " + "-" * 7 + "\n"
    return (
        f"Profile: AZURE_LOSSLESS\n{rule}red_max_threshold        2097152\n"
        f"ecn                      {state['ecn']}\nwred_green_enable        true\n{rule}"
    )


def _counters(state: State) -> str:
    titles = ("IFACE", "STATE", "RX_OK", "RX_ERR", "RX_DRP", "TX_OK", "TX_ERR", "TX_DRP")
    return table(
        titles,
        [
            (name, p["state"][0].upper(), "1,000,000", 0, 0, "1,000,000", 0, f"{p['drops']:,}")
            for name, p in state["ports"].items()
        ],
    )


def _lldp(state: State) -> str:
    rows = [
        (name, p["neighbour"][0], p["neighbour"][1], "BR", "simulated")
        for name, p in state["ports"].items()
        if p["neighbour"]
    ]
    titles = ("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr")
    return f"Capability codes: (R) Router, (B) Bridge, (O) Other\n{table(titles, rows)}"


COMMANDS: dict[str, Callable[[State], str]] = {
    "show version": _version,
    "show interfaces status": _status,
    "show pfc priority": _pfc,
    "show ecn": _ecn,
    "show interfaces counters": _counters,
    "show lldp table": _lldp,
}


def answer(command: str, state: State) -> tuple[int, str]:
    """Return the exit status and what is printed for `command`."""
    known = COMMANDS.get(" ".join(command.split()))
    if known is None:
        return 2, f"Error: No such command {command[:80]!r}.\n"
    return 0, known(state)


def main() -> int:
    """Answer the command that sshd passes on; an interactive session gets a refusal."""
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123  quicker to start without
        state = json.load(file)
    status, text = answer(os.environ.get("SSH_ORIGINAL_COMMAND", ""), state)
    (sys.stdout if status == 0 else sys.stderr).write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
