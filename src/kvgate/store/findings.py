"""Findings as canonical JSON and back: the same result is the same bytes, on every machine."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kvgate.errors import DamagedRunError, StoreError
from kvgate.model.finding import (
    Comparison,
    Finding,
    GateResult,
    HostFinding,
    RunResult,
    ScopedOut,
)
from kvgate.model.verdict import Disposition, Verdict
from kvgate.store import disk, sums
from kvgate.store.canonical import laid_out, parse, sha256
from kvgate.store.layout import is_sums_name, listing, read_bytes, shown, unknown_format

FORMAT = "kvgate-findings/1"
FINDINGS = "findings.json"

_NAME = re.compile(r"findings(-[0-9a-z-]{1,64})?\.json", re.ASCII)
_T = TypeVar("_T")


def findings_bytes(result: RunResult) -> bytes:
    """Return `result` as the bytes of a findings file: keys sorted, fixed layout, ASCII."""
    stored = dataclasses.asdict(result)
    for gate in stored["gates"]:
        for finding in gate["findings"]:
            for host in finding["hosts"]:
                if host["comparison"] is None:
                    del host["comparison"]  # a finding of no comparison reads as it always did
    return laid_out({"format": FORMAT, **stored})


def findings_name(result: RunResult) -> str:
    """Return ``findings-<digest12>.json``: the name beside a sealed findings.json.

    The digest is of the file's own bytes, so another result never takes the same name.
    """
    return f"findings-{sha256(findings_bytes(result))[:12]}.json"


def write_findings(path: Path, result: RunResult, name: str = FINDINGS) -> Path:
    """Write `result` into the run folder `path` as `name` and return the file's path.

    Replaces an earlier file of that name, whole or not at all; one that a seal layer covers is
    left as it is where the bytes are the same, and refused with StoreError where they are not.
    """
    if not _NAME.fullmatch(name):
        raise StoreError(
            f"{shown(name)} is no name for findings",
            hint="findings.json, or findings-<digest>.json beside a sealed one",
        )
    data, target = findings_bytes(result), path / name
    if _is_covered(path, name):
        if sha256(data) != sums.hash_file(target):
            raise StoreError(
                f"{target}: is sealed with other findings and is not overwritten",
                hint=f"write them beside it, as {findings_name(result)}",
            )
        return target
    disk.replace(target, data)
    return target


def _is_covered(path: Path, name: str) -> bool:
    layers = {file: 0 for file in listing(path).files if is_sums_name(file)}
    for layer, _, data in sums.layers(path, layers):
        try:
            if name in sums.read(data):
                return True
        except DamagedRunError as err:
            raise DamagedRunError(f"{path / layer}: {err.message}") from err
    return False


def read_findings(path: Path) -> RunResult:
    """Return the result in `path`, a findings file or a run folder that holds findings.json.

    Raises StoreError where there is none or its format is unknown, DamagedRunError where it can't
    be read.
    """
    file = path / FINDINGS if path.is_dir() else path
    if not file.exists():
        raise StoreError(
            f"{file}: there are no findings: the run was not judged yet",
            hint="`kvgate judge RUN` judges it",
        )
    try:
        stored = parse(read_bytes(file))
        version = stored.pop("format")
        if version == FORMAT:
            return _run(stored)
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise DamagedRunError(f"{file}: is no findings file: {err!r}") from err
    raise unknown_format(str(file), version, FORMAT)


def _run(stored: dict[str, Any]) -> RunResult:
    gates = _each(_gate, stored.pop("gates"))
    verdict = Verdict(stored.pop("verdict"))
    return RunResult(verdict=verdict, gates=gates, **_texts(stored))


def _gate(stored: dict[str, Any]) -> GateResult:
    disposition = stored.pop("disposition")
    return GateResult(
        verdict=Verdict(stored.pop("verdict")),
        findings=_each(_finding, stored.pop("findings")),
        scoped_out=_each(lambda each: ScopedOut(**_texts(each)), stored.pop("scoped_out")),
        disposition=None if disposition is None else Disposition(disposition),
        **_texts(stored),
    )


def _finding(stored: dict[str, Any]) -> Finding:
    return Finding(
        verdict=Verdict(stored.pop("verdict")),
        marginal=_flag(stored.pop("marginal")),
        hosts=_each(_host, stored.pop("hosts")),
        evidence=_each(_text, stored.pop("evidence")),
        **_texts(stored),
    )


def _host(stored: dict[str, Any]) -> HostFinding:
    comparison = stored.pop("comparison", None)
    return HostFinding(
        comparison=None if comparison is None else Comparison(**_texts(comparison)),
        verdict=Verdict(stored.pop("verdict")),
        marginal=_flag(stored.pop("marginal")),
        evidence=_each(_text, stored.pop("evidence")),
        **_texts(stored),
    )


def _each(read: Callable[[Any], _T], stored: Any) -> tuple[_T, ...]:
    if not isinstance(stored, list):
        raise TypeError(f"{stored!r} is no list")
    return tuple(read(each) for each in stored)


def _flag(stored: object) -> bool:
    if not isinstance(stored, bool):
        raise TypeError(f"{stored!r} is neither true nor false")
    return stored


def _text(stored: object) -> str:
    if not isinstance(stored, str):
        raise TypeError(f"{stored!r} is no text")
    return stored


def _texts(stored: dict[str, Any]) -> dict[str, str]:
    """Return what is left of a table, all texts; the dataclass refuses unknown and absent names."""
    return {key: _text(value) for key, value in stored.items()}
