"""Countersigns the journal's head while a run goes on, by a key that the parties registered.

So that nobody, without that key, can write the whole chain anew before it is sealed.
"""

from __future__ import annotations

import base64
import datetime
import os
import zoneinfo
from pathlib import Path

from kvgate.errors import StoreError, UsageError
from kvgate.spec.plan import Plan
from kvgate.store.canonical import parse
from kvgate.store.registered import CONTROL_INPUT
from kvgate.store.run import RunWriter
from kvgate.store.signature import check, fingerprint, sign, signing_key
from kvgate.store.statement import HEAD, Statement, now_text
from kvgate.store.story import COUNTERSIGNED

KEY_VARIABLE = "KVGATE_CONTROLLER_KEY"
"""The environment variable that names the key file, for the supervisor and its children."""


def use_key(plan: Plan, key: str) -> None:
    """Let this process and its children countersign by `key`, "" for what the environment names.

    Raises UsageError where the plan names a controller key and none is given, or the reverse.
    """
    named = key or os.environ.get(KEY_VARIABLE, "")
    wanted = plan.control is not None and plan.control.controller_key is not None
    if wanted and not Path(named or "absent").expanduser().is_file():
        raise UsageError(
            f"plan '{plan.plan}' has a controller key to countersign the journal by, and "
            + (f"'{named}' is no key file" if named else "none is given"),
            hint=f"name it with --controller-key or {KEY_VARIABLE}; a .pub file uses the agent",
        )
    if key and not wanted:
        raise UsageError(
            f"plan '{plan.plan}' registers no control.controller_key, so nobody would know it",
            hint="add it to the plan, then have the protocol signed",
        )
    if wanted:
        _try(plan, Path(named).expanduser())
    if named:
        os.environ[KEY_VARIABLE] = str(Path(named).expanduser().resolve())


def _try(plan: Plan, key: Path) -> None:
    """Raise UsageError unless `key` signs with nobody there, as the plan's controller key."""
    registered = plan.control.controller_key if plan.control else None
    try:
        blob = signing_key(sign(b"kvgate", key=key, unattended=True))
    except StoreError as err:
        raise UsageError(
            f"{key}: can't countersign with nobody there: {err.message}",
            hint="a key without a passphrase, or one that an agent holds (ssh-add) and whose "
            "signatures nobody has to confirm",
        ) from err
    if registered is not None and fingerprint(blob) != fingerprint(
        base64.b64decode(registered.key.split()[1])
    ):
        raise UsageError(
            f"{key}: is not the controller key that plan '{plan.plan}' registers "
            f"({registered.principal})",
            hint=f"its fingerprint is {fingerprint(blob)}",
        )


def controller(run: Path) -> str:
    """Return the principal of the controller's key in the run's plan, "" where it names none."""
    control = run / "inputs" / CONTROL_INPUT
    key = parse(control.read_bytes())["controller_key"] if control.is_file() else None
    return "" if key is None else str(key["principal"])


def countersign(run: RunWriter, at: str) -> bool:
    """Sign the journal's head as it is now, and journal that; `at` says when: "the opening of G2".

    Returns False where the run's plan names no controller key. A signature that can't be made is
    journalled as a note, with the reason, and stops nothing: `kvgate verify` tells that it lacks.
    """
    principal = controller(run.path)
    if not principal:
        return False
    try:
        _sign(run, principal, at)
    except StoreError as err:
        run.event("note", text=f"{at} is not countersigned: {err.message}")
        return False
    return True


def _sign(run: RunWriter, principal: str, at: str) -> None:
    named = os.environ.get(KEY_VARIABLE, "")
    if not named:
        raise StoreError(f"no key is given ({KEY_VARIABLE})")
    point = run.journal_point()
    manifest = parse((run.path / "manifest.json").read_bytes())
    statement = Statement(
        purpose=HEAD,
        run=str(manifest["run"]),
        role="controller",
        party="",
        name="",
        principal=principal,
        claimed_at=now_text(),
        document="",
        of={"at": at, "head": point.chain, "seq": point.count},
    )
    data = statement.content()
    armour = sign(data, key=Path(named), unattended=True)
    signers = (run.path / "inputs" / "allowed_signers").read_bytes()
    made = check(data, armour, allowed_signers=signers, principal=principal, at=statement.at)
    if not made.good:
        raise StoreError(f"{named}: {made.text}")
    run.event(COUNTERSIGNED, statement=data.decode("ascii"), signature=armour)
    run.sync()


class Nights:
    """Countersigns once after each midnight (of the plan's time zone) that passes in a soak."""

    def __init__(self, run: RunWriter, plan: Plan) -> None:
        self._run = run
        zone = plan.control.document.time_zone if plan.control else "UTC"
        self._zone = datetime.UTC if zone == "UTC" else zoneinfo.ZoneInfo(zone)
        self._signed = self._today()

    def _today(self) -> datetime.date:
        return datetime.datetime.now(datetime.UTC).astimezone(self._zone).date()

    def passed(self) -> bool:
        """Countersign if a midnight has passed since the last time; tell whether it was done."""
        today = self._today()
        if today <= self._signed:
            return False
        self._signed = today
        return countersign(self._run, f"the night to {today.isoformat()}")
