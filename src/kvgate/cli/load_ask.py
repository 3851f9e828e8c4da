"""From the options of `kvgate load` to an endpoint and the parts of a load."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kvgate.errors import UsageError

if TYPE_CHECKING:
    from kvgate.load.endpoint import Endpoint
    from kvgate.load.finding import Search
    from kvgate.load.parts import Part, What
    from kvgate.load.prompts import Ids, TextRate
    from kvgate.load.sessions import Sessions
    from kvgate.load.slo import Slo

T = TypeVar("T")
MOST_CONCURRENCY = 65_536
MAX_IN_FLIGHT = 4096
_SPACED = re.compile(r"([0-9.])([A-Za-zµ])")
LEAST_REQUESTS, REQUESTS_A_USER = 100, 4


def endpoint_of(arguments: argparse.Namespace) -> Endpoint:
    """Return the endpoint that is meant, not asked yet; raises UsageError."""
    from kvgate.load.endpoint import Endpoint

    key = None
    if arguments.key_env:
        key = os.environ.get(arguments.key_env)
        if not key:
            raise UsageError(
                f"--key-env: the environment has no {arguments.key_env}",
                hint=f"export {arguments.key_env}=… first; a key is never an option",
            )
    endpoint = Endpoint(
        base_url=arguments.url,
        model=arguments.model,
        timeout_s=seconds("--timeout", arguments.timeout),
        extensions=not arguments.plain,
        chat=arguments.chat,
        ca_file=arguments.ca,
        key=key,
    )
    endpoint.address()
    endpoint.tls()
    return endpoint


def seed_of(arguments: argparse.Namespace) -> int:
    """Return the seed that is asked for, else a new one: what was sent once may be stored."""
    return secrets.randbits(32) if arguments.seed is None else int(arguments.seed)


def wants_text(arguments: argparse.Namespace) -> bool:
    """Tell whether prompts are texts."""
    return bool(arguments.chat or arguments.text)


def slo_of(arguments: argparse.Namespace) -> Slo | None:
    """Return the service level, None where no limit is told; raises UsageError."""
    from kvgate.load.slo import Slo

    ttft_s = _seconds_or_none("--slo-ttft", arguments.slo_ttft)
    tpot_s = _seconds_or_none("--slo-tpot", arguments.slo_tpot)
    if ttft_s is None and tpot_s is None:
        if arguments.find_concurrency:
            raise UsageError("--find-concurrency takes a limit: --slo-ttft, --slo-tpot, or both")
        return None
    return checked(lambda: Slo(ttft_s=ttft_s, tpot_s=tpot_s, percent=arguments.slo_percent))


def search_of(arguments: argparse.Namespace, slo: Slo) -> Search:
    """Return what --find-concurrency searches for; raises UsageError."""
    from kvgate.load.finding import Search

    taken = [
        name
        for name in ("concurrency", "rate", "trace", "duration", "requests", "dask")
        if getattr(arguments, name) is not None
    ]
    if taken or arguments.workload != "distinct":
        raise UsageError(
            f"--find-concurrency chooses the load itself; leave out --{(taken or ['workload'])[0]}"
        )
    if not 1 <= arguments.most <= MOST_CONCURRENCY or not 1 <= arguments.repeats <= 99:
        raise UsageError(f"--most: 1 to {MOST_CONCURRENCY}; --repeats: 1 to 99")
    if not 0 < arguments.tolerance <= 1:
        raise UsageError("--tolerance: above 0, at most 1")
    return Search(
        slo=slo,
        most=arguments.most,
        tolerance=arguments.tolerance,
        repeats=arguments.repeats,
    )


def sessions_of(arguments: argparse.Namespace, seed: int, text: TextRate | None) -> Sessions:
    """Return what the sessions are like; raises UsageError."""
    from kvgate.load.parts import r2_cold
    from kvgate.load.sessions import Sessions

    fields: dict[str, Any] = {
        "seed": seed,
        "input_tokens": arguments.input_tokens or 512,
        "output_tokens": arguments.output_tokens or 64,
    }
    if arguments.workload == "r2-cold":
        named = r2_cold(seed)
        fields["input_tokens"] = arguments.input_tokens or named.input_tokens
        fields["count"] = arguments.requests or named.count
    for name in ("input_tokens", "output_tokens", "turn_tokens", "requests"):
        value = getattr(arguments, name)
        if value is not None and not 1 <= value <= 10**7:
            raise UsageError(f"--{name.replace('_', '-')}: from 1 to 10,000,000")
    return checked(
        lambda: Sessions(
            **fields,
            shared=arguments.shared,
            prefixes=arguments.prefixes,
            turns=arguments.turns,
            turn_tokens=arguments.turn_tokens or (64 if arguments.turns > 1 else 0),
            think_s=seconds("--think", arguments.think),
            rate=arguments.rate,
            pattern="constant" if arguments.steady else "poisson",
            ids=_ids(arguments.token_ids),
            text=text,
            chat=arguments.chat,
        )
    )


def parts_of(arguments: argparse.Namespace, seed: int, text: TextRate | None) -> tuple[Part, ...]:
    """Return the parts of the load that is asked for; raises UsageError."""
    from kvgate.load import parts

    duration_s = _seconds_or_none("--duration", arguments.duration)
    warm_up_s = seconds("--warm-up", arguments.warm_up)
    if warm_up_s and (duration_s is None or warm_up_s >= duration_s):
        raise UsageError("--warm-up is the beginning of --duration, which is longer")
    taken = (arguments.concurrency, arguments.rate, arguments.trace)
    if sum(each is not None for each in taken) > 1:
        raise UsageError("one of --concurrency (closed loop), --rate and --trace (open loop)")
    if arguments.trace:
        return (_open(_traced(arguments, seed, text), duration_s, warm_up_s),)
    what = sessions_of(arguments, seed, text)
    if arguments.workload == "r2-cold":
        if arguments.rate is not None or arguments.turns > 1 or arguments.shared or duration_s:
            raise UsageError("r2-cold is a closed loop of distinct sessions of one turn")
        levels = _levels(arguments.concurrency or ",".join(map(str, parts.R2_CONCURRENCY)))
        return checked(lambda: parts.stored_then_restored(what, levels))
    if arguments.rate is not None:
        what = dataclasses.replace(what, count=_count(arguments, duration_s))
        return (_open(what, duration_s, warm_up_s),)
    asked = arguments.requests
    requests = None if duration_s else lambda level: asked or _usual(level)
    return parts.levels(
        what,
        _levels(arguments.concurrency or "1"),
        requests=requests,
        ramp_s=seconds("--ramp", arguments.ramp),
        duration_s=duration_s,
        warm_up_s=warm_up_s,
    )


def _open(what: What, duration_s: float | None, warm_up_s: float) -> Part:
    from kvgate.load.parts import in_open_loop

    return checked(
        lambda: in_open_loop(
            what, max_in_flight=MAX_IN_FLIGHT, duration_s=duration_s, warm_up_s=warm_up_s
        )
    )


def _count(arguments: argparse.Namespace, duration_s: float | None) -> int | None:
    """Return how many sessions arrive, None without an end: then there is a time."""
    if arguments.requests is not None or duration_s is not None:
        return None if arguments.requests is None else int(arguments.requests)
    return LEAST_REQUESTS


def _usual(concurrency: int) -> int:
    return max(LEAST_REQUESTS, REQUESTS_A_USER * concurrency)


def _traced(arguments: argparse.Namespace, seed: int, text: TextRate | None) -> What:
    from kvgate.load.from_trace import Replay
    from kvgate.load.parts import Traced

    missing = [each for each in arguments.trace if not Path(each).exists()]
    if missing:
        raise UsageError(f"--trace: {missing[0]} is not there")
    if arguments.chat:
        raise UsageError("a trace is replayed by completions; leave out --chat")
    how = checked(
        lambda: Replay(
            seed=seed,
            speed=arguments.speed,
            turns="after answers" if arguments.after_answers else "as told",
            think_s=seconds("--think", arguments.think),
            block=arguments.block_tokens,
            most=arguments.requests,
            ids=_ids(arguments.token_ids),
            text=text,
        )
    )
    return Traced(paths=tuple(arguments.trace), how=how)


def _ids(text: str) -> Ids:
    from kvgate.load.prompts import Ids

    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and len(text) < 24):
        raise UsageError(f"--token-ids: '{text}' is no LOW-HIGH", hint="write e.g. 1000-100000")
    return checked(lambda: Ids(int(low), int(high) + 1))


def _levels(text: str) -> tuple[int, ...]:
    levels = [int(word) if word.isdecimal() and len(word) < 6 else 0 for word in text.split(",")]
    if not all(1 <= each <= MOST_CONCURRENCY for each in levels):
        raise UsageError(
            f"--concurrency: '{text}': whole numbers from 1 to {MOST_CONCURRENCY}, by commas"
        )
    return tuple(levels)


def seconds(option: str, text: str) -> float:
    """Return the time that `text` says ('2s', '1.5 min'); raises UsageError."""
    from kvgate.cli.places import quantity_of

    found = quantity_of(option, _SPACED.sub(r"\1 \2", text.strip()), "write e.g. 2s or 50ms")
    if found.dimension != "time" or not 0 <= found.base < 10**8:
        raise UsageError(f"{option}: '{text}' is no time", hint="write e.g. 2s or 50ms")
    return float(found.base)


def _seconds_or_none(option: str, text: str | None) -> float | None:
    return None if text is None else seconds(option, text)


def checked(make: Callable[[], T]) -> T:
    """Return what `make` makes; what it refuses is the command line's mistake."""
    try:
        return make()
    except ValueError as err:
        raise UsageError(str(err), hint="see kvgate load --help") from err
