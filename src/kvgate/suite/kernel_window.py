"""The kernel logs of a gate's hosts while it tests: marked once as it begins, read since then."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvgate.engine.fanout import asked_again, fan_out
from kvgate.engine.gate import MOST_TEXT
from kvgate.errors import KvgateError
from kvgate.parse.dmesg import Mark
from kvgate.probes import kernel_since
from kvgate.probes.base import Probe, answer, untold
from kvgate.probes.kernel_since import BootMark
from kvgate.spec.inventory import Host
from kvgate.store.ledger import Event
from kvgate.store.reader import RunReader
from kvgate.suite.blocks import Block, key_of
from kvgate.transport.connect import Connections
from kvgate.witness import Answer, Witness

if TYPE_CHECKING:
    from kvgate.suite.bench import Bench

MARK = "kernel_mark"
"""The journal's record of a mark: gate, host and either the mark or the problem that there is."""

_QUESTION = "kernel log since the gate began"
_MISSING = "the kernel log was not marked when the gate began"


class KernelWindow:
    """The window of one gate: its hosts' marks, of which the journal has the only record."""

    def __init__(self, bench: Bench, connections: Connections) -> None:
        self._bench = bench
        self._connections = connections

    def mark(self) -> None:
        """Mark the logs of the hosts on which this gate judges them, and journal the marks.

        A host that has a mark, or the problem that it had none, keeps it when the run goes on: what
        was logged before the interruption belongs to the window too.
        """
        known = self._journalled()
        left = [host for host in self.hosts if host.name not in known]
        if not left:
            return
        answers = fan_out(
            left,
            self._ask,
            at_once=self._connections.at_once,
            name=lambda host: host.name,
            tell=lambda text, awaits: self._bench.progress(text, awaits=awaits),
        )
        with contextlib.closing(answers):  # type: ignore[type-var]  # it is a generator
            for group in answers:
                for host, told in group:
                    self._journal(host, told)
        self._bench.run.sync()  # before anything is done whose trace the window is to show

    def survey(self, *, phase: str) -> None:
        """Ask what the kernels have logged since their marks, and record it.

        Blocks that ended after an earlier answer (an interrupted gate that goes on) need another
        one: its block is a new one then, and every answer is judged.
        """
        self._bench.require(
            "" if self.hosts else "nothing that this plan judges is read from the kernel log"
        )
        known = self._journalled()

        def ask(witness: Witness) -> Answer:
            mark = known.get(witness.host.name, _MISSING)
            if isinstance(mark, BootMark):
                return kernel_since.ask_since(witness, mark)
            return answer(untold(kernel_since.MEASURES, mark))

        name = f"{_QUESTION}, {self._ended()} blocks on"
        probe = Probe(name=name, measures=kernel_since.MEASURES, ask=ask, tools=("dmesg",))
        self._bench.survey([probe], self.hosts, phase=phase)

    @functools.cached_property
    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts on which a criterion, not scoped out, judges the log since a mark."""
        setup, gate = self._bench.setup, self._bench.gate
        out = setup.plan.value.scoped_out()
        roles = {
            each.hosts
            for each in setup.gates[gate].value.criteria
            if each.measure in kernel_since.MEASURES and each.id not in out
        }
        found = {host.name: host for role in roles for host in self._bench.hosts(role)}
        return tuple(host for name, host in found.items() if not host.is_device)

    def _ended(self) -> int:
        """Return how many blocks of this gate have ended, without the answers of the log."""
        own = key_of(self._bench.gate, "survey", {})
        return sum(
            key.startswith(f"{self._bench.gate}/")
            and not (key.startswith(own) and f"probes={_QUESTION}" in key)
            for key in self._bench.run.finished_blocks()
        )

    def _ask(self, host: Host) -> BootMark | str:
        """Return where the log of `host` ends now, or why that is not known."""
        block = Block(self._bench, key_of(self._bench.gate, "kernel-mark", {"host": host.name}), {})
        self._bench.asks_for(block)
        try:
            return asked_again(lambda: kernel_since.mark(self._bench.witness(host)))
        except KvgateError as err:
            return f"{_MISSING}: {err.message}"[:MOST_TEXT]
        finally:
            self._bench.asks_for(None)
            self._connections.rest(host)

    def _journal(self, host: Host, told: BootMark | str) -> None:
        where = {"gate": self._bench.gate, "host": host.name}
        if isinstance(told, str):
            self._bench.run.event(MARK, **where, problem=told)
            return
        self._bench.run.event(
            MARK,
            **where,
            boot_id=told.boot,
            stamp=told.mark.stamp,
            text=told.mark.text,
            times=told.mark.times,
            problem="",
        )

    def _journalled(self) -> Mapping[str, BootMark | str]:
        """Return host → its first mark in this gate, or why it has none."""
        self._bench.run.sync()
        found: dict[str, BootMark | str] = {}
        for event in RunReader(self._bench.run.path).events(MARK):
            if event.fields["gate"] == self._bench.gate:
                found.setdefault(str(event.fields["host"]), _told(event))
        return found


def _told(event: Event) -> BootMark | str:
    fields = event.fields
    if problem := str(fields["problem"]):
        return problem
    mark = Mark(stamp=str(fields["stamp"]), text=str(fields["text"]), times=int(fields["times"]))
    return BootMark(str(fields["boot_id"]), mark)
