"""Assessments on Dask distributed: each part of a trace's sample by a worker that sees it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kvgate.errors import KvgateError, UsageError
from kvgate.kv.assess import Assessment, Question
from kvgate.kv.assess_parts import PartResult, assess_parts, follow_part
from kvgate.kv.reuse_sampled import PARTS
from kvgate.kv.trace import Options
from kvgate.workloads.dask_cluster import LOOK_S, Watch, connected


def assess(paths: Sequence[str], options: Options, question: Question, where: str) -> Assessment:
    """Return the assessment that one machine gives for the same sample.

    A lost worker's parts are followed again by another. Raises UsageError for a cluster that can't
    be had and a part that no worker brings back; errors of the trace as they are.
    """
    real = [str(Path(each).resolve()) for each in paths]
    with connected(where) as client:

        def follow(
            paths: Sequence[str], options: Options, question: Question
        ) -> Iterator[PartResult]:
            futures = [
                client.submit(follow_part, paths, options, question, part, pure=False)
                for part in range(PARTS)
            ]
            watch = Watch(client)
            for part, future in enumerate(futures):
                yield _result(future, part, watch)
                future.release()

        return assess_parts(real, options, question, follow)


def _result(future: Any, part: int, watch: Watch) -> PartResult:
    try:
        while not future.done():
            watch.look()
            time.sleep(LOOK_S / 10)
        found: PartResult = future.result()
    except KvgateError:
        raise
    except Exception as err:
        raise UsageError(
            f"part {part + 1} of {PARTS} came back from no worker: {type(err).__name__}: "
            f"{str(err)[:300]}",
            hint="do the workers carry kvgate[assess], see the trace, and have memory for a part?",
        ) from err
    return found
