"""In which rows of a GEMM a token may be computed so that its bits stay the same.

BLAS works through the rows of a matrix in tiles, and kernels for tiles of other sizes add in other
orders (OpenBLAS on Haswell: 6, 6 and 4 of 16 rows). Rows whose results are the same bits form a
class, found by trying. A token may sit in any row of its own row's class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvgate.serving.weights import Array, Weights


class Seating:
    """The free rows of one GEMM, by class."""

    def __init__(self, classes: Sequence[int]) -> None:
        self._classes = classes
        self._free: dict[int, list[int]] = {}
        for row in reversed(range(len(classes))):
            self._free.setdefault(classes[row], []).append(row)

    def take(self, position: int) -> int | None:
        """Return the row of a token at `position`, None where all of its class are taken."""
        free = self._free[self._classes[position % len(self._classes)]]
        return free.pop() if free else None


def row_classes(weights: Weights, rows: int) -> list[int]:
    """Return each row's class: those that every weight matrix treats alike, by trying it."""
    layer = weights.layers[0]
    matrices = (layer.qkv, layer.out, layer.gate_up, layer.down, weights.head)
    found = [_alike(matrix, rows) for matrix in matrices]
    numbers: dict[tuple[bytes, ...], int] = {}
    return [numbers.setdefault(each, len(numbers)) for each in zip(*found, strict=True)]


def _alike(matrix: Array, rows: int) -> list[bytes]:
    """Return what each row gives for the same numbers, in three tries."""
    results = [b""] * rows
    for attempt in range(3):
        numbers = np.sin(np.arange(1, matrix.shape[0] + 1, dtype=np.float32) * (attempt + 1.7))
        product = np.matmul(np.repeat(numbers[None], rows, axis=0), matrix)
        results = [told + row.tobytes() for told, row in zip(results, product, strict=True)]
    return results
