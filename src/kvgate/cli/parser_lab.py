"""The verb `lab` and its own verbs: build, up, status, ssh, fault, down, destroy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_lab(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add the verb `lab` to `verbs`; `add` makes a parser, `verb` names what it calls."""
    parser = add(
        verbs,
        "lab",
        "two virtual machines on this machine: an NVMe-oF target and an initiator, two networks",
        "kvgate lab build && kvgate lab up && kvgate hosts --inventory inventory/lab.yaml",
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        default="",
        help="which lab, where several run side by side (default: $KVGATE_LAB, else 'default')",
    )
    own = parser.add_subparsers(
        title="verbs", metavar="VERB", required=True, parser_class=type(parser)
    )
    _build(own, add).set_defaults(verb=verb("lab", "build_verb"))
    _up(own, add).set_defaults(verb=verb("lab", "up_verb"))
    _ssh(own, add).set_defaults(verb=verb("lab", "ssh_verb"))
    _fault(own, add).set_defaults(verb=verb("lab", "fault_verb"))
    for name, text in (
        ("status", "tell which machines run, their ports, and the inventory (2: not all run)"),
        ("down", "end the machines; their drives and the image stay"),
        ("destroy", "end the machines and remove their drives; the image stays"),
    ):
        added = add(own, name, text, f"kvgate lab {name}")
        added.set_defaults(verb=verb("lab", f"{name}_verb"))


def _build(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "build",
        "make the machines' image of Debian packages, unless it is there (two minutes, 400 MB)",
        "kvgate lab build",
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="install what is missing here by sudo and apt (root does so unasked, and says it)",
    )
    parser.add_argument(
        "--mirror", metavar="ADDRESS", default="", help="a Debian mirror (default: that of apt)"
    )
    return parser


def _up(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "up",
        "start the machines; returns when SSH answers and the initiator is connected",
        "kvgate lab up --connect rdma",
    )
    parser.add_argument(
        "--accel",
        metavar="HOW",
        default="",
        help="auto, kvm or tcg (default: $LAB_ACCEL, else auto: KVM where a guest boots by it)",
    )
    parser.add_argument(
        "--connect",
        choices=("tcp", "rdma", "none"),
        default="tcp",
        help="how the initiator is connected to the target (default: %(default)s)",
    )
    parser.add_argument(
        "--patience", metavar="S", type=float, default=300.0, help="seconds to wait for each"
    )
    return parser


def _ssh(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs, "ssh", "log in to a machine, or run a command there", "kvgate lab ssh ini nvme list"
    )
    parser.add_argument("machine", metavar="MACHINE", help="tgt or ini")
    parser.add_argument("words", metavar="WORD", nargs=argparse.REMAINDER, help="the command")
    return parser


def _fault(verbs: Any, add: Add) -> argparse.ArgumentParser:
    parser = add(
        verbs,
        "fault",
        "do a fault to the lab, or undo it, and prove it (--list names them)",
        "kvgate lab fault cable-a && kvgate lab fault cable-a --undo",
    )
    parser.add_argument("fault", metavar="NAME", nargs="?", default="", help="see --list")
    parser.add_argument("--undo", action="store_true", help="repair it")
    parser.add_argument("--list", action="store_true", help="name the faults and exit")
    return parser
