"""One host under questioning in a survey: when to stop asking, so that it delays only itself."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Mapping, Sequence

from kvgate.errors import (
    CommandError,
    HostKeyError,
    HostUnreachableError,
    KvgateError,
    LoginError,
    TransportError,
)
from kvgate.model.record import EvidenceRef
from kvgate.probes.base import Probe
from kvgate.transport.base import OUTPUT_CAP_BYTES, Transport
from kvgate.witness import Answer, Testimony, Witness

OUT_OF_REACH = (HostUnreachableError, HostKeyError, LoginError)
"""After one of these no other question would be answered either."""

SIGN_OF_LIFE_S = 10.0
"""How long a host may take to run ``true`` where it is in doubt whether it runs anything."""

SURVEY_S = 150.0
"""How long one survey may ask a host; what is left then is inconclusive."""

_UNENDED = 2  # probes in a row whose commands came to no end, before the host is in doubt
_LOSSES = 2  # surveys in which a host was lost, before it is left alone for the rest of the gate


class UnendedError(CommandError):
    """A command came to no end: its deadline ended it, or the host told no exit status."""


class Reach:
    """Which hosts a gate has lost, and how often; thread-safe."""

    def __init__(self) -> None:
        self._lost: dict[str, list[KvgateError]] = {}
        self._lock = threading.Lock()

    def note(self, host: str, lost: KvgateError | None) -> None:
        """Remember how a survey of `host` ended: None, or why it was lost."""
        with self._lock:
            if lost is None:
                self._lost.pop(host, None)
            else:
                self._lost.setdefault(host, []).append(lost)

    def losses(self, host: str) -> tuple[KvgateError, ...]:
        """Return why `host` was lost in the surveys just before."""
        with self._lock:
            return tuple(self._lost.get(host, ()))


@dataclasses.dataclass(frozen=True, slots=True)
class Asking(Witness):
    """A Witness that notes the evidence it kept and takes no answer without an end.

    A device is asked the same thing once: topics share documents, and one look is one state.
    """

    refs: list[EvidenceRef] = dataclasses.field(default_factory=list)
    told: dict[tuple[str, ...], Testimony] = dataclasses.field(default_factory=dict)
    unended: list[str] = dataclasses.field(default_factory=list)
    until: float = math.inf  # by time.monotonic()

    def ask(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> Testimony:
        """Ask as a Witness does; UnendedError where the command came to no end: it told nothing."""
        told = self.told.get(tuple(argv))
        if told is None:
            if self.host.is_device:
                timeout_s = self._time_left(timeout_s)
            told = Witness.ask(
                self, argv, timeout_s=timeout_s, env=env, stdin=stdin, cap_bytes=cap_bytes
            )
            if self.host.is_device:
                self.told[tuple(argv)] = told
        self.refs.append(told.ref)
        if told.result.exit_status is None and told.result.signal is None:
            self.unended.append(told.result.describe())
            raise UnendedError(self.host.name, told.result.describe())
        return told

    def _time_left(self, timeout_s: float) -> float:
        """Return how long a device may take; HostUnreachableError where it is not asked any more.

        Many questions make one topic there, so that it is given up in the midst of one.
        """
        left = self.until - time.monotonic()
        if left <= 0 or len(self.unended) >= _UNENDED:
            raise HostUnreachableError(
                self.host.name,
                f"the device answers too slowly: {(self.unended or ['its time is over'])[-1]}",
                hint="see its load, and who else asks it",
            )
        return min(timeout_s, left)


class Questioning:
    """One survey of one host; use from one thread.

    Asking ends at the first answer that says it is out of reach, when it does not even run
    ``true`` after commands that came to no end, and after `SURVEY_S`. A host that was lost in the
    survey before is asked for a sign of life first, and one that was lost twice is left alone.
    """

    def __init__(self, witness: Witness, reach: Reach) -> None:
        self._real = witness.transport
        self._until = time.monotonic() + SURVEY_S
        self._witness = Asking(
            witness.host,
            witness.transport,
            witness.store,
            adapter=witness.adapter,
            until=self._until,
        )
        self._reach = reach
        # Devices know no `true`, recordings only what was asked then.
        self._silent = witness.host.transport == "recorded" or witness.host.is_device
        self._unended = 0
        self.lost: KvgateError | None = None

    @property
    def refs(self) -> tuple[EvidenceRef, ...]:
        """Return the evidence of the last question."""
        return tuple(self._witness.refs)

    def begin(self) -> None:
        """Raise why the host is not asked, where it was lost before and still is."""
        before = self._reach.losses(self._witness.host.name)
        if len(before) >= _LOSSES:
            raise before[-1]
        if before:
            self._sign_of_life(before[-1])

    def over(self, transport: Transport) -> None:
        """Ask by way of `transport` from now on."""
        self._witness = dataclasses.replace(self._witness, transport=transport)

    def put(self, probe: Probe) -> Answer:
        """Return the answer of `probe`; raises KvgateError: why there is none."""
        self._witness.refs.clear()
        if self.lost is None and time.monotonic() > self._until:
            self.lost = HostUnreachableError(
                self._witness.host.name,
                f"the survey was given up after {SURVEY_S:.0f} s: the host answers too slowly",
            )
        if self.lost is not None:
            raise self.lost
        try:
            answer = probe.ask(self._witness)
        except OUT_OF_REACH as err:
            self.lost = err
            raise
        except UnendedError as err:
            self._unended += 1
            if self._unended >= _UNENDED:
                self._doubt(err)
            raise
        self._unended = 0
        return answer

    def end(self) -> None:
        """Remember how it went, for the gate's next survey."""
        self._reach.note(self._witness.host.name, self.lost)

    def _doubt(self, because: KvgateError) -> None:
        try:
            self._sign_of_life(because)
        except TransportError as err:
            self.lost = err
        else:
            self._unended = 0

    def _sign_of_life(self, because: KvgateError) -> None:
        """Raise `because` as what keeps the host out of reach, unless it runs ``true``."""
        if self._silent:
            return
        result = self._real.run(["true"], timeout_s=SIGN_OF_LIFE_S, cap_bytes=4096)
        if result.exit_status is None:
            host = self._witness.host.name
            told = because.message.removeprefix(f"{host}: ")
            raise HostUnreachableError(
                host, f"no command comes to an end there; {told}", hint=because.hint
            )
