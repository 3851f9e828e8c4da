"""Assessments on Dask distributed, by workers that see the trace.

A sample's disjoint parts are followed by a worker each and put together. Exact distances can't be
put together of parts, so an exact assessment is one worker's: of the node with the memory for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kvgate.errors import KvgateError, UsageError
from kvgate.kv.assess import Assessment, Question
from kvgate.kv.assess import assess as assess_here
from kvgate.kv.assess_parts import PartResult, assess_parts, follow_part
from kvgate.kv.reuse_sampled import PARTS
from kvgate.kv.trace import Options, batches
from kvgate.workloads.dask_cluster import LOOK_S, Watch, connected


def assess(paths: Sequence[str], options: Options, question: Question, where: str) -> Assessment:
    """Return the assessment that one machine gives, exact or for the same sample.

    A lost worker's part is followed again by another. Raises UsageError for a cluster that can't
    be had and a part that no worker brings back; errors of the trace as they are.
    """
    real = [str(Path(each).resolve()) for each in paths]
    with connected(where) as client:
        if question.rate is None and question.size is None:
            future = client.submit(_whole, real, options, question, pure=False)
            found: Assessment = _result(future, "the assessment", Watch(client))
            return found

        def follow(
            paths: Sequence[str], options: Options, question: Question
        ) -> Iterator[PartResult]:
            futures = [
                client.submit(follow_part, paths, options, question, part, pure=False)
                for part in range(PARTS)
            ]
            watch = Watch(client)
            for part, future in enumerate(futures):
                yield _result(future, f"part {part + 1} of {PARTS}", watch)
                future.release()

        return assess_parts(real, options, question, follow)


def _whole(paths: Sequence[str], options: Options, question: Question) -> Assessment:
    """Assess exactly, on a worker."""
    return assess_here(batches([Path(each) for each in paths], options), question)


def _result(future: Any, what: str, watch: Watch) -> Any:
    try:
        while not future.done():
            watch.look()
            time.sleep(LOOK_S / 10)
        return future.result()
    except KvgateError:
        raise
    except Exception as err:
        raise UsageError(
            f"{what} came back from no worker: {type(err).__name__}: {str(err)[:300]}",
            hint="do the workers carry kvgate[assess], see the trace, and have the memory?",
        ) from err
