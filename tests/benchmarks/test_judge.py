from __future__ import annotations

import datetime
from typing import Any

from kvgate.judge.gate import judge_gate
from kvgate.model.finding import Attempt
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.model.verdict import Verdict
from kvgate.spec.gate import Gate
from kvgate.spec.inventory import Inventory

HOSTS, CRITERIA, ROUNDS = 50, 20, 10


def test_judging_10000_measurements(benchmark: Any) -> None:
    inventory = Inventory.model_validate(
        {
            "inventory": "lab",
            "hosts": {f"h{i}": {"roles": ["serving"], "address": "10.0.0.1"} for i in range(HOSTS)},
        }
    )
    gate = Gate.model_validate(
        {
            "gate": "G2",
            "title": "t",
            "question": "q",
            "entry": [],
            "criteria": [
                {
                    "id": f"G2.{i}",
                    "text": "t",
                    "measure": f"m{i}",
                    "phase": "steady_state",
                    "hosts": "serving",
                    "where": {"job": "kv"},
                    "basis": "b",
                    "limits": {"rehearsal": {"at_most": "10 ms"}},
                }
                for i in range(CRITERIA)
            ],
        }
    )
    taken = [
        Measurement(
            name=f"m{c}",
            value=Quantity.of(5 + (h * r % 50) / 10, "ms"),
            host=f"h{h}",
            phase="steady_state",
            labels={"job": "kv", "round": str(r)},
            evidence=(f"{c}-{h}-{r}",),
            taken_at=datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC),
        )
        for c in range(CRITERIA)
        for h in range(HOSTS)
        for r in range(ROUNDS)
    ]
    assert len(taken) == 10_000
    attempts = [Attempt(criterion=f"G2.{i}", outcome="ran") for i in range(CRITERIA)]
    result = benchmark(
        judge_gate,
        gate,
        profile="rehearsal",
        inventory=inventory,
        expected={},
        taken=taken,
        attempts=attempts,
        scoped_out={},
    )
    assert result.verdict is Verdict.PASS
