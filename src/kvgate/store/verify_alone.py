"""The verifier without kvgate: the main of the single file that ships inside runs (`single`)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvgate.errors import KvgateError
from kvgate.store.layout import plain
from kvgate.store.verify_archive import opened
from kvgate.store.verify_steps import REQUIRE_HEAD, VERDICTS, Step, add_step

_NOT_HERE = "judging again needs kvgate: `kvgate verify` does it; all else is checked here"


def main(words: list[str], own_folder: str) -> int:
    """Verify the run or archive that `words` name, by default the run in `own_folder`.

    Prints the steps and the conclusion. Returns 0: verified, but for the verdicts; 1: something is
    not as it was; 2: signatures could not be checked; 3: it is no run, or can't be read.
    """
    parser = argparse.ArgumentParser(
        prog="verify.py",
        description="Verify a run of kvgate: what was altered, who signed what. Offline; needs "
        "Python 3.8 or later and, for signatures, ssh-keygen.",
    )
    parser.add_argument(
        "run", nargs="?", default=own_folder, help="folder or archive (default: %(default)s)"
    )
    parser.add_argument(
        "--allowed-signers", metavar="FILE", help="keys to trust instead of those the run names"
    )
    parser.add_argument(
        "--require",
        metavar="ROLE",
        action="append",
        default=[],
        help=f"this role must have signed ({REQUIRE_HEAD}: the journal's head, throughout)",
    )
    parser.add_argument(
        "--tsa-ca", metavar="FILE", help="certificates (PEM) of whose time stamps are believed"
    )
    arguments = parser.parse_args(words)
    signers = Path(arguments.allowed_signers) if arguments.allowed_signers else None
    authority = Path(arguments.tsa_ca) if arguments.tsa_ca else None
    try:
        with opened(Path(arguments.run), signers, arguments.require, authority) as (_, outcome):
            shown = add_step(outcome, Step(0, *VERDICTS, "not done", (_NOT_HERE,)))
    except KvgateError as err:
        sys.stderr.write(f"verify: {plain(err.message)}\n")
        return 3
    for line in shown.lines():
        sys.stdout.write(f"{line}\n")
    return shown.exit_code
