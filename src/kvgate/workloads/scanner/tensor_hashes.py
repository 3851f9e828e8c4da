"""Hashes a safetensors file's tensors while the file passes by once, window by window."""

from __future__ import annotations

from typing import Any

from kvgate.workloads.scanner import hashing, kinds, tensors
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.reading import WINDOW, OpenFile, Piece

MOST_BYTES = 1 << 40
"""Larger files are scanned as plain bytes: their tensors would take a worker too long."""


class TensorHashes:
    """The hashes of one file's tensors; a header that lies makes a problem, and no tensors."""

    def __init__(self, unit: Any, piece: Piece) -> None:
        self._unit, self._piece = unit, piece
        self._tensors: list[tensors.Tensor] = []
        self._next = 0
        self._hash = hashing.stream()

    @classmethod
    def of(cls, unit: Any, piece: Piece) -> TensorHashes | None:
        """Return one for a whole safetensors file, None for anything else."""
        fits = piece.kind in kinds.TENSOR_KINDS and piece.path.endswith(".safetensors")
        return cls(unit, piece) if fits and piece.length == piece.size else None

    def read_header(self, file: OpenFile) -> None:
        """Read which tensors there are, from the begin of the file."""
        size = self._piece.size
        try:
            first = self._bytes(file, min(8, size))
            length = tensors.header_length(first, size)
            found = tensors.read_header(self._bytes(file, 8 + length)[8:], size)
        except ScanError as err:
            told = f"not read tensor by tensor: {err.message}"
            self._unit.problem(self._piece, told)
            return
        self._tensors = [each for each in found if each.end > each.start]

    def _bytes(self, file: OpenFile, count: int) -> bytes:
        parts: list[bytes] = []
        for at in range(0, count, WINDOW):
            want = min(WINDOW, count - at)
            if file.read(at, want) < want:
                raise ScanError("ends in its header")
            parts.append(bytes(self._unit.reader.data[:want]))
        return b"".join(parts)

    def feed(self, data: memoryview, at: int) -> None:
        """Take the bytes of the file from `at` on; windows come in the file's order."""
        end = at + len(data)
        while self._next < len(self._tensors):
            tensor = self._tensors[self._next]
            if tensor.start >= end:
                return
            self._hash.update(data[max(tensor.start - at, 0) : min(tensor.end, end) - at])
            if tensor.end > end:
                return
            row = (self._piece.file, self._hash.hexdigest(), tensor.name[:300], tensor.dtype)
            self._unit.tensors.append((*row, tensor.end - tensor.start))
            self._hash = hashing.stream()
            self._next += 1
