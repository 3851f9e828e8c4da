"""What a plan asks of faults under load: which ones, on what, how much load, and for how long."""

from __future__ import annotations

from typing import Annotated

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import (
    Duration,
    Size,
    Slug,
    Strict,
    Text,
    at_least_one,
    exactly_one_of,
    within,
)

Time = Annotated[Duration, within("100 ms", "24 h")]


class FailoverWorkload(Strict):
    """Faults of the inventory, one after the other, while fio writes and verifies.

    ``nqn`` is the subsystem whose paths are watched every ``sample_every``, ``namespace`` the
    number in its block device's name (``nvme3n1``: 1). The load is on the declared disk ``serial``
    or, with ``file``, on a file in the scratch folder of serving host ``host``, which must lie on
    that namespace.

    ``rate`` caps each direction, in I/Os of ``block`` a second. Before the first fault nothing is
    broken for ``quiet``. Each fault comes ``lead`` after the load has begun, lasts ``hold`` from
    when it is proven, and the load goes on for ``after`` from when its repair is.
    """

    model_config = exactly_one_of("serial", "file")

    nqn: Text
    namespace: Annotated[int, pydantic.Field(ge=1, le=65535)] = 1
    serial: Text | None = None
    file: bool = False
    host: Slug | None = None
    faults: Annotated[list[Slug], pydantic.AfterValidator(at_least_one)]
    size: Annotated[Size, within("1 MiB", "1 TiB")] = Quantity.of(64, "MiB")
    block: Annotated[Size, within("512 B", "4 MiB")] = Quantity.of(16, "KiB")
    queue_depth: Annotated[int, pydantic.Field(ge=1, le=1024)] = 8
    rate: Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
    quiet: Time = Quantity.of(30, "s")
    lead: Time = Quantity.of(5, "s")
    hold: Time = Quantity.of(30, "s")
    after: Time = Quantity.of(30, "s")
    sample_every: Annotated[Duration, within("50 ms", "1 s")] = Quantity.of(100, "ms")

    @pydantic.model_validator(mode="after")
    def _sound(self) -> FailoverWorkload:
        if (self.serial is None) != self.file:
            raise ValueError("the load is on exactly one of 'serial' (a disk) or 'file: true'")
        if self.file != (self.host is not None):
            raise ValueError("host goes with 'file: true': where its scratch folder is")
        if len(set(self.faults)) != len(self.faults):
            raise ValueError("faults: one stands there twice")
        if self.block.base % 512 or self.size.base % self.block.base:
            raise ValueError("size is a multiple of block, and block one of 512 B")
        return self
