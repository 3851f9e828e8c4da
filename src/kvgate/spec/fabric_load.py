"""What a plan asks of the fabric: reads over all paths of a subsystem, and RDMA between hosts."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import Duration, Size, Strict, at_least_one, within

Runtime = Annotated[Duration, within("1 s", "1 h")]


Tool = Literal["ib_write_bw", "ib_read_bw"]


class PathsWorkload(Strict):
    """Reads of every declared subsystem's namespaces, to see which paths carry them.

    fio reads the block device that multipath shows, and nothing else (``--readonly``), ``jobs``
    at once; the kernel's own counters tell what each path carried. A path may carry nothing
    beneath ``least``: less than that in all is too little to tell.
    """

    runtime: Runtime
    block: Annotated[Size, within("512 B", "16 MiB")] = Quantity.of(128, "KiB")
    jobs: Annotated[int, pydantic.Field(ge=1, le=256)] = 8
    least: Annotated[Size, within("1 KiB", "1 TiB")] = Quantity.of(64, "MiB")


class PerftestWorkload(Strict):
    """perftest between the pairs that hosts declare under ``fabric``: each alone, then all at once.

    A server listens on the other host at ``port`` and upwards, one port a pair, while a run lasts.
    """

    runtime: Runtime
    tools: Annotated[list[Tool], pydantic.AfterValidator(at_least_one)]
    size: Annotated[Size, within("2 B", "8 MiB")] = Quantity.of(64, "KiB")
    queue_pairs: Annotated[int, pydantic.Field(ge=1, le=1024)] = 4
    port: Annotated[int, pydantic.Field(ge=1024, le=65000)] = 18515
