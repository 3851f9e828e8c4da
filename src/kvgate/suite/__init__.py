"""All that suites may import: ``from kvgate.suite import Bench, settles``.

Loaded at first use, since the pytest entry point lives beside it and must cost nothing in a
pytest run that is none of kvgate's.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvgate import load as load
    from kvgate import probes as probes
    from kvgate import serving as serving
    from kvgate import workloads as workloads
    from kvgate.errors import NotRunError as NotRunError
    from kvgate.model.quantity import Quantity as Quantity
    from kvgate.model.record import ALL_HOSTS as ALL_HOSTS
    from kvgate.model.record import Measurement as Measurement
    from kvgate.model.record import Reading as Reading
    from kvgate.model.record import evidence_of as evidence_of
    from kvgate.suite.bench import Bench as Bench
    from kvgate.suite.blocks import Block as Block
    from kvgate.suite.lanes import one_by_one as one_by_one
    from kvgate.suite.lanes import side_by_side as side_by_side
    from kvgate.suite.marks import settles as settles
    from kvgate.suite.ordered import compare_parts as compare_parts
    from kvgate.suite.ordered import no_bom as no_bom
else:
    _PLACES = {
        "Bench": "kvgate.suite.bench",
        "Block": "kvgate.suite.blocks",
        "settles": "kvgate.suite.marks",
        "one_by_one": "kvgate.suite.lanes",
        "side_by_side": "kvgate.suite.lanes",
        "compare_parts": "kvgate.suite.ordered",
        "no_bom": "kvgate.suite.ordered",
        "NotRunError": "kvgate.errors",
        "Quantity": "kvgate.model.quantity",
        "ALL_HOSTS": "kvgate.model.record",
        "Measurement": "kvgate.model.record",
        "Reading": "kvgate.model.record",
        "evidence_of": "kvgate.model.record",
    }

    _PACKAGES = ("load", "probes", "serving", "workloads")

    def __getattr__(name: str) -> Any:
        if name in _PACKAGES:
            return importlib.import_module(f"kvgate.{name}")
        if name in _PLACES:
            return getattr(importlib.import_module(_PLACES[name]), name)
        raise AttributeError(f"kvgate.suite has no '{name}'")
