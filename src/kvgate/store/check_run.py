"""Checks what a run says of itself, sealed or not: manifest, chains, blocks, bindings, evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store import manifest as manifests
from kvgate.store import pack
from kvgate.store.canonical import sha256
from kvgate.store.chain import LONGEST_LINE_BYTES
from kvgate.store.check_lines import LineCheck, Seen
from kvgate.store.check_packs import PackCheck, check_pack
from kvgate.store.check_series import BOUND, check_series
from kvgate.store.layout import (
    EVIDENCE,
    INPUTS,
    JOURNAL,
    MANIFEST,
    MEASUREMENTS,
    TELEMETRY,
    beginning,
    open_regular,
    read_bytes,
)
from kvgate.store.ledger import GENESIS, Ledger, Point, Stored, event
from kvgate.store.statement import LONGEST_STATEMENT_BYTES, SIGNATURES, is_head_name
from kvgate.store.story import Story, named_record
from kvgate.store.sums import hash_file
from kvgate.store.verification import Kind, Problem


class RunCheck:
    """One check of a run's content; `problems` is complete after `check`."""

    def __init__(self, run: Path, files: Mapping[str, int]) -> None:
        self.problems: list[Problem] = []
        self._run, self._files = run, files
        self.story = Story(_signed_at(run, files))
        self._series: dict[str, str] = {}  # file of telemetry → SHA-256 in the journal
        self._cited: dict[str, int] = {}  # evidence → first measurement line that cites it

    def check(self, pool: Executor) -> None:
        """Check everything; packs are read by `pool` meanwhile.

        1. Manifest and inputs. 2. Journal: chain, order, manifest, blocks. 3. Measurements:
        chain, bindings, blocks. 4. Telemetry: chain, bindings, its folder. 5. Evidence: every
        piece, every citation, as many pieces as bound.
        """
        packs = self._start_packs(pool)
        digest = self._manifest()  # 1
        ledger, genesis = self._journal(digest)  # 2
        self._measurements(ledger, genesis)  # 3
        self._telemetry(ledger, genesis)  # 4
        self.problems += check_series(self._run, self._files, self._series)
        self._evidence(packs, ledger.stored)  # 5

    def _report(self, path: str, kind: Kind, detail: str) -> None:
        self.problems.append(Problem(path, kind, detail))

    def _there(self, name: str) -> bool:
        if name not in self._files:
            self._report(name, "missing", "it is not in the run folder")
        return name in self._files

    def _manifest(self) -> str:
        """Check manifest and inputs; return the manifest's SHA-256."""
        if not self._there(MANIFEST):
            return ""
        try:
            manifest, digest = manifests.read(self._run)
        except StoreError as err:
            digest = sha256(read_bytes(self._run / MANIFEST))
            if not isinstance(err, DamagedRunError) and self._first_record_binds(digest):
                raise  # as it was written, by another version
            self._report(MANIFEST, "altered", err.message)
            return digest
        self._inputs(manifest["inputs"])
        return digest

    def _first_record_binds(self, digest: str) -> bool:
        if JOURNAL not in self._files:
            return False
        with open_regular(self._run / JOURNAL) as file:
            return digest.encode() in file.readline(LONGEST_LINE_BYTES)

    def _inputs(self, frozen: dict[str, Any]) -> None:
        for name, digest in frozen.items():
            path = f"{INPUTS}/{name}"
            if self._there(path) and (actual := hash_file(self._run / path)) != digest:
                self._report(path, "altered", f"SHA-256 is {actual}; the manifest says {digest}")
        for path in self._files:
            if path.startswith(f"{INPUTS}/") and path[len(INPUTS) + 1 :] not in frozen:
                self._report(path, "added", "the manifest names no such input")

    def _journal(self, manifest: str) -> tuple[Ledger, str]:
        """Check the journal; return what it adds up to and the chain that other files begin at."""
        ledger, genesis = Ledger(manifest), manifest
        if not self._there(JOURNAL):
            return ledger, genesis
        lines = LineCheck(self._run / JOURNAL, JOURNAL, GENESIS, "seq")
        said: list[Problem] = []
        for line in lines:
            if line.number == 1 and line.good and line.record:
                genesis = str(line.record.get("sha256"))
                ledger = Ledger(genesis)
                if genesis != manifest:
                    self._report(
                        MANIFEST,
                        "altered",
                        f"SHA-256 is {manifest}; the journal's first record binds {genesis}",
                    )
            try:
                if line.record is not None:
                    told = event(line.body, line.number)
                    ledger.take(told)
                    self.story.take(told, line.head)
                    if told.kind == BOUND:
                        self._series[str(told.fields.get("name"))] = str(told.fields.get("sha256"))
            except DamagedRunError as err:
                said.append(Problem(JOURNAL, "altered", f"record seq {line.number}: {err.message}"))
        if not lines.count:
            self._report(JOURNAL, "missing", "record seq 1: it holds no record")
        # Contradictions behind a broken line are only its echo.
        self.problems += lines.problems or said
        return ledger, genesis

    def _measurements(self, ledger: Ledger, genesis: str) -> None:
        if not self._there(MEASUREMENTS):
            return
        blocks = {begin: hashlib.sha256() for begin in ledger.ends}
        counts = dict.fromkeys(blocks, 0)

        def see(line: Seen) -> None:
            record = line.record or {}
            begin = record.get("begin")
            if isinstance(begin, int) and begin in blocks:
                blocks[begin].update(line.raw)
                counts[begin] += 1
            taken = record.get("measurement")
            refs = taken.get("evidence") if isinstance(taken, dict) else None
            for ref in refs if isinstance(refs, list) else ():
                self._cited.setdefault(str(ref), line.number)

        points = {seq: stored.measurements for seq, stored in ledger.bindings}
        if self._bound_lines(MEASUREMENTS, genesis, points, see):
            for begin, end in ledger.ends.items():
                said = (end.measurements, end.digest)
                if said != (counts[begin], blocks[begin].hexdigest()):
                    self._report(
                        MEASUREMENTS,
                        "altered",
                        f"block {end.key!r} has {counts[begin]} lines, or "
                        f"others than the {end.measurements} that journal record {end.seq} binds",
                    )

    def _telemetry(self, ledger: Ledger, genesis: str) -> None:
        if self._there(TELEMETRY):
            points = {seq: stored.telemetry for seq, stored in ledger.bindings}
            self._bound_lines(TELEMETRY, genesis, points, lambda _: None)

    def _bound_lines(self, name: str, genesis: str, points: Mapping[int, Point], see: Any) -> bool:
        """Check a chained file against the journal's bindings; tell whether it is as written."""
        lines = LineCheck(self._run / name, name, genesis, "n")
        wanted = {point.count for point in points.values()}
        heads = {0: genesis}
        for line in lines:
            see(line)
            if line.good and line.number in wanted:
                heads[line.number] = line.head
        problems = lines.problems
        for seq, point in points.items():
            if problems or heads.get(point.count) == point.chain:
                continue
            if point.count > lines.count:
                problems.append(
                    Problem(
                        name,
                        "missing",
                        f"line {lines.count + 1} to {point.count}"
                        f", which journal record {seq} binds",
                    )
                )
            else:
                problems.append(
                    Problem(
                        name,
                        "altered",
                        f"line {point.count} or one before it is "
                        f"not what journal record {seq} binds",
                    )
                )
        self.problems += problems
        return not problems

    def _start_packs(self, pool: Executor) -> dict[str, Future[PackCheck]]:
        started = {}
        for name in self._files:
            if not name.startswith(f"{EVIDENCE}/"):
                continue
            if pack.pack_number(name[len(EVIDENCE) + 1 :]) is None:
                self._report(name, "added", "it is no pack of evidence")
            else:
                started[name] = pool.submit(check_pack, self._run / name, name)
        return started

    def _evidence(self, packs: Mapping[str, Future[PackCheck]], stored: Stored) -> None:
        refs: set[bytes] = set()
        altered: set[str] = set()
        for name, future in packs.items():
            try:
                found = future.result()
            except (StoreError, OSError) as err:
                self._report(name, "altered", f"it can't be read: {err}")
                continue
            refs |= found.refs
            altered |= found.altered
            self.problems += found.problems
        for number in range(1, stored.evidence.pack + 1):
            self._there(f"{EVIDENCE}/{pack.pack_name(number)}")
        if len(refs) < stored.evidence.pieces:
            self._report(
                EVIDENCE,
                "missing",
                f"{stored.evidence.pieces - len(refs)} of the "
                f"{stored.evidence.pieces} pieces that the journal binds",
            )
        for ref, line in self._cited.items():
            if ref not in altered and not _in(ref, refs):
                self._report(
                    EVIDENCE, "missing", f"evidence {ref}, cited by {MEASUREMENTS} line {line}"
                )


def _signed_at(run: Path, files: Mapping[str, int]) -> frozenset[int]:
    """Return the journal records whose chain people signed while the run went on."""
    prefix = f"{SIGNATURES}/"
    leaves = [name[len(prefix) :] for name in files if name.startswith(prefix)]
    statements = [leaf for leaf in leaves if is_head_name(leaf) and leaf.endswith(".json")]
    texts = (beginning(run / SIGNATURES / leaf, LONGEST_STATEMENT_BYTES) for leaf in statements)
    return frozenset(named_record(text.decode("utf-8", "replace")) for text in texts)


def _in(ref: str, refs: set[bytes]) -> bool:
    try:
        return bytes.fromhex(ref) in refs
    except ValueError:
        return False
