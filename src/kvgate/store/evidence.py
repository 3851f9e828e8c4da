"""Evidence on the disk: adding pieces to packs, and finding one again by its SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from kvgate.errors import DamagedRunError, StoreError
from kvgate.model.record import Evidence, EvidenceRef
from kvgate.store import disk, pack
from kvgate.store.layout import open_regular
from kvgate.store.ledger import Extent


def digest(piece: Evidence) -> tuple[EvidenceRef, bytes]:
    """Return the SHA-256 that `piece` will be stored by, and its header line."""
    head = pack.header(piece)
    whole = hashlib.sha256(head)
    whole.update(piece.stdout)
    whole.update(piece.stderr)
    return whole.hexdigest(), head


class PackWriter:
    """Adds pieces to the last pack and begins the next one when it is full; not thread-safe.

    Knows the SHA-256 of every piece in the run (some 120 bytes of memory each), so that the same
    piece is stored once. Raises WriteFailedError.
    """

    def __init__(self, folder: Path, *, limit_bytes: int = pack.PACK_LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._refs: set[bytes] = set()
        self._file: disk.File | None = None
        self._number, self._size = 0, 0
        self._dirty = False

    def __contains__(self, ref: EvidenceRef) -> bool:
        """Tell whether the piece `ref` is stored."""
        try:
            return bytes.fromhex(ref) in self._refs
        except ValueError:
            return False

    @property
    def extent(self) -> Extent:
        """Return how far the evidence reaches."""
        return Extent(self._number, self._size, len(self._refs))

    def recover(self, bound: Extent) -> list[str]:
        """Read what is there, cut what a crash tore off behind `bound`, and say what was cut.

        Raises DamagedRunError if anything up to `bound` is missing or is no whole piece.
        """
        notes = []
        numbers = pack.packs(self._folder)
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < bound.pack:
            raise DamagedRunError(
                f"{self._folder}: has packs {numbers}; the journal binds 1 to {bound.pack}"
            )
        for number in numbers:
            path = self._folder / pack.pack_name(number)
            scan = self._count(path, number, bound)
            if scan.torn:
                if number != numbers[-1]:
                    raise DamagedRunError(f"{path}: byte {scan.end} is no piece of evidence")
                notes.append(f"{path.name}: {scan.torn} bytes cut that were no whole piece")
                with disk.File(path) as file:
                    file.truncate(scan.end)
                    file.sync()
            self._number, self._size = number, scan.end
        if self._number:
            self._file = disk.File(self._folder / pack.pack_name(self._number))
            self._dirty = True  # pieces behind `bound` may not have been fsync'd
        return notes

    def _count(self, path: Path, number: int, bound: Extent) -> pack.Scan:
        """Read one pack: up to `bound` its frames, behind it every byte."""
        firm = bound.bytes if number == bound.pack else None
        scan = pack.Scan(path, upto=0 if number > bound.pack else firm)
        for piece in scan:
            self._refs.add(bytes.fromhex(piece.ref))
        if scan.torn or (firm is not None and scan.end != firm):
            raise DamagedRunError(
                f"{path}: byte {scan.end} is no piece of evidence, but was acknowledged",
                hint="`kvgate verify` names every piece that was altered",
            )
        return scan if number < bound.pack else self._count_unbound(path, scan.end)

    def _count_unbound(self, path: Path, start: int) -> pack.Scan:
        scan = pack.Scan(path, start, hashing=True)
        end = start
        for piece in scan:
            if piece.actual != piece.ref:
                scan.end, scan.torn = end, path.stat().st_size - end
                break
            self._refs.add(bytes.fromhex(piece.ref))
            end = piece.end
        return scan

    def add(self, piece: Evidence, ref: EvidenceRef, head: bytes) -> int:
        """Store `piece` (its `digest` given) unless it is there; return the bytes written."""
        key = bytes.fromhex(ref)
        if key in self._refs:
            return 0
        length = len(head) + len(piece.stdout) + len(piece.stderr)
        total = pack.FRAME_BYTES + length + 1
        file = self._file_for(total)
        self._dirty = True
        try:
            file.write(pack.frame(ref, length), head, piece.stdout, piece.stderr, b"\n")
            self._size += total
        except disk.WriteFailedError:
            raise
        except BaseException:  # an interrupt: take back what may be half there
            file.truncate(self._size)
            raise
        self._refs.add(key)
        return total

    def _file_for(self, length: int) -> disk.File:
        if self._file is None or (self._size and self._size + length > self._limit):
            self.sync()
            new = disk.File.make_or_open(self._folder / pack.pack_name(self._number + 1))
            disk.sync_folder(self._folder)
            self.close()
            self._file, self._number, self._size = new, self._number + 1, 0
        return self._file

    def sync(self) -> None:
        """Return once every piece is on the medium."""
        if self._file is not None and self._dirty:
            self._file.sync()
            self._dirty = False

    def close(self) -> None:
        """Close the pack, without fsync."""
        if self._file is not None:
            self._file.close()


class PackReader:
    """Finds pieces by SHA-256; its index is made from the packs and grows with them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[bytes, pack.Place] = {}
        self._read: dict[int, int] = {}  # pack → how far it was indexed

    def __getitem__(self, ref: EvidenceRef) -> Evidence:
        """Return the piece `ref`; raises StoreError: not there, DamagedRunError: altered."""
        place = self._place(ref)
        with open_regular(self._folder / pack.pack_name(place.pack)) as file:
            file.seek(place.offset)
            return pack.decode(file.read(place.bytes), ref)

    def refs(self) -> tuple[EvidenceRef, ...]:
        """Return the SHA-256 of every piece that is whole, in the order they were stored in."""
        self._index()
        return tuple(key.hex() for key in self._places)

    def _place(self, ref: EvidenceRef) -> pack.Place:
        try:
            key = bytes.fromhex(ref)
        except ValueError as err:
            raise StoreError(f"{ref!r} is not the SHA-256 of a piece of evidence") from err
        if key not in self._places:
            self._index()
        if key not in self._places:
            raise StoreError(f"{self._folder}: holds no evidence {ref}")
        return self._places[key]

    def _index(self) -> None:
        for number in pack.packs(self._folder):
            scan = pack.Scan(self._folder / pack.pack_name(number), self._read.get(number, 0))
            for piece in scan:
                place = pack.Place(number, piece.offset, piece.bytes)
                self._places[bytes.fromhex(piece.ref)] = place
            self._read[number] = scan.end
