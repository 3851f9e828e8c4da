"""A survey: every probe on every host, many hosts at once, answers recorded as they come."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvgate.engine.fanout import fan_out
from kvgate.errors import AskerLostError, HarnessError, KvgateError
from kvgate.model.record import EvidenceRef, Reading
from kvgate.probes import ALL
from kvgate.probes.base import Probe
from kvgate.probes.gather import Facts
from kvgate.probes.parts import MEASURES
from kvgate.spec.expect import coverage
from kvgate.spec.inventory import Host
from kvgate.suite.blocks import Block, key_of
from kvgate.suite.reach import OUT_OF_REACH, Questioning, Reach
from kvgate.transport.connect import Connections
from kvgate.untrusted import mask, plain
from kvgate.witness import Answer

if TYPE_CHECKING:
    from kvgate.suite.bench import Bench

_CROWD = 64
"""From so many hosts on it is told how many have answered, not what each is asked."""

_Part = tuple[Host, Block]


class Surveys:
    """The surveys of one gate: what its hosts have told, and which of them are lost."""

    def __init__(self, bench: Bench, connections: Connections) -> None:
        self._bench = bench
        self._connections = connections
        self._facts: dict[str, Facts] = {}
        self._facts_lock = threading.Lock()
        self._reach = Reach()

    def survey(self, probes: Sequence[Probe], hosts: Sequence[Host], *, phase: str) -> None:
        """Ask `probes` on `hosts` and record the answers (see `Bench.survey`)."""
        left = self._left(probes, hosts)
        if not left:
            return
        crowd = len(left) >= _CROWD
        answers = fan_out(
            left,
            lambda part: self._ask_host(probes, *part, quiet=crowd),
            at_once=self._connections.at_once,
            name=lambda part: part[0].name,
            tell=lambda text, awaits: self._bench.progress(text, awaits=awaits),
            give_up=self._connections.close,
        )
        with contextlib.closing(answers):  # type: ignore[type-var]  # it is a generator
            for group in answers:
                self._record(group, phase)

    def _left(self, probes: Sequence[Probe], hosts: Sequence[Host]) -> list[_Part]:
        """Return the hosts whose blocks are not finished yet."""
        bench, title = self._bench, "+".join(probe.name for probe in probes)
        finished = bench.run.finished_blocks()
        left = []
        for host in hosts:
            labels = {"probes": title, "host": host.name}
            block = Block(bench, key_of(bench.gate, "survey", labels), labels)
            if block.key not in finished:
                left.append((host, block))
        return left

    def _record(self, group: Sequence[tuple[_Part, list[Answer]]], phase: str) -> None:
        """Record each host's answers in its block; one wait for the disk ends all of them."""
        run = self._bench.run
        begun: list[str] = []
        try:
            for (host, block), answers in group:
                run.begin_block(block.key)
                begun.append(block.key)
                for answer in answers:
                    self._bench.record(answer, host=host, phase=phase, block=block.key)
        except BaseException as err:
            for key in begun:
                with contextlib.suppress(Exception):  # the error under way matters more
                    run.discard_block(key, f"{type(err).__name__}: {err}")
            raise
        run.end_blocks(begun)

    def _ask_host(
        self, probes: Sequence[Probe], host: Host, block: Block, *, quiet: bool
    ) -> list[Answer]:
        """Return each probe's answer; a host whose asker was lost is asked all of it once more."""
        self._bench.asks_for(block)
        asking = Questioning(self._bench.witness(host), self._reach)
        try:
            found = self._ask_all(probes, host, asking, quiet=quiet)
            if isinstance(asking.lost, AskerLostError):
                self._bench.run.event("note", text=f"asked again: {asking.lost.message}")
                asking = Questioning(self._bench.witness(host), self._reach)
                found = self._ask_all(probes, host, asking, quiet=quiet)
            asking.end()
            return found
        finally:
            self._bench.asks_for(None)
            self._connections.rest(host)

    def _ask_all(
        self, probes: Sequence[Probe], host: Host, asking: Questioning, *, quiet: bool
    ) -> list[Answer]:
        """Return each probe's answer; once the host is out of reach it is not tried again."""
        bench, found = self._bench, list[Answer]()
        self._tell(quiet, "facts", host, "the host's answers")
        try:
            asking.begin()
            if host.transport != "recorded" and not host.is_device:  # these answer one by one
                asking.over(self._facts_of(host).answered(probes))
        except OUT_OF_REACH as err:
            asking.lost = err
        except KvgateError as err:  # no folder for answers, or a shell that is none
            bench.run.event("note", text=f"asked one by one, as facts failed: {err.message}")
        for probe in probes:
            self._tell(quiet, probe.name, host, "the host's answer")
            try:
                found.append(_checked(probe, asking.put(probe)))
            except KvgateError as err:
                found.append(self._problems(probe, host, err.message, asking.refs))
            except Exception as err:  # noqa: BLE001  our own fault costs one answer, not a gate
                told = f"{host.name}: kvgate broke over the answer: {type(err).__name__}: {err}"
                bench.run.event("note", text=mask(f"{probe.name}: {told}"))
                found.append(self._problems(probe, host, plain(told), asking.refs))
        return found

    def _tell(self, quiet: bool, text: str, host: Host, awaits: str) -> None:
        if not quiet:
            self._bench.progress(text, host=host.name, awaits=awaits)

    def _facts_of(self, host: Host) -> Facts:
        """Return what `host` tells for the probes whose measures this gate judges."""
        with self._facts_lock:
            if host.name not in self._facts:
                transport = self._connections.to(host)
                self._facts[host.name] = Facts(host, transport, self._judged)
            return self._facts[host.name]

    @functools.cached_property
    def _judged(self) -> tuple[Probe, ...]:
        gate = self._bench.setup.gates[self._bench.gate].value
        judged = {each.measure for each in gate.criteria}
        if self._bench.setup.bom is None:
            judged -= set(MEASURES)  # without a bill of materials nobody asks for parts
        return tuple(probe for probe in ALL if judged.intersection(probe.measures))

    @functools.cached_property
    def _covered(self) -> tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]:
        """Return for each criterion its measure and the items that it covers on each host."""
        setup = self._bench.setup
        expected = setup.expected
        return tuple(
            (criterion.measure, coverage(criterion, self._bench.inventory, expected))
            for gate in setup.gates.values()
            for criterion in gate.value.criteria
        )

    def _problems(
        self, probe: Probe, host: Host, because: str, evidence: tuple[EvidenceRef, ...]
    ) -> Answer:
        """Return a problem for every item of every measure that `probe` was to answer for."""
        wanted: dict[tuple[str, str], None] = {}
        for measure, covered in self._covered:
            if measure in probe.measures:
                for item in covered.get(host.name, ()):
                    wanted[measure, item] = None
        readings = [
            Reading(name=name, value=None, item=item, problem=because) for name, item in wanted
        ]
        return Answer(tuple(readings), evidence)


def _checked(probe: Probe, answer: Answer) -> Answer:
    strange = sorted({r.name for r in answer.readings} - set(probe.measures))
    if strange:
        raise HarnessError(f"probe {probe.name} returned {strange[0]}, which it doesn't declare")
    return answer
