"""The agreed trace of a plan: the file whose digest was agreed, or one made from a seed."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

from kvgate.kv.trace_files import TraceError

BLOCK = 512


def digest_of(path: Path) -> str:
    """Return a file's SHA-256 as it lies there, packed or not; raises TraceError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as err:
        raise TraceError(f"{path}: {err.strerror or err}") from err


def generated(seed: int, *, requests: int, conversations: int) -> bytes:
    """Return a trace of Mooncake's form, the same for the same seed on every machine.

    Conversations begin with one shared block and go on by one to four blocks a turn; the older
    one is, the less often it goes on.
    """
    dice = random.Random(seed)  # noqa: S311  not for secrets
    turns: list[list[int]] = []
    lines, count = [], 1
    for at in range(requests):
        if not turns or (len(turns) < conversations and dice.random() < 0.3):
            turns.append([0])
        place = len(turns) - 1 - int(len(turns) * dice.random() ** 2)
        more = 1 + int(4 * dice.random())
        ids = [*turns[place], *range(count, count + more)]
        count += more
        turns[place] = ids
        tokens = BLOCK * len(ids) - int(BLOCK * dice.random())
        output = 1 + int(400 * dice.random())
        lines.append(
            {"timestamp": 500 * at, "input_length": tokens, "output_length": output}
            | {"hash_ids": ids}
        )
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()
