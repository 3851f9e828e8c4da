import json
from pathlib import Path

import pytest

from kvgate.load.from_trace import Replay
from kvgate.load.parts import (
    Part,
    Traced,
    in_open_loop,
    levels,
    r2_cold,
    stored_then_restored,
)
from kvgate.load.rows import Request
from kvgate.load.sessions import Sessions
from kvgate.load.shape import Closed

WHAT = Sessions(seed=1, input_tokens=64, output_tokens=8)


def sent(part: Part) -> list[Request]:
    source = part.source()
    found: list[Request] = []
    while (request := source.next()) is not None:
        found.append(request)
    return found


def test_levels_have_sessions_of_their_own() -> None:
    parts = levels(WHAT, [2, 4], requests=lambda level: 3 * level)
    names = [{each.session for each in sent(part)} for part in parts]
    assert [len(each) for each in names] == [6, 12]
    assert not names[0] & names[1]
    endless = levels(WHAT, [1, 1], requests=None, duration_s=5)
    firsts = [part.source().next() for part in endless]
    assert firsts[0] != firsts[1]


def test_r2_stores_34_and_restores_those_read_longest_ago() -> None:
    store, *restores = stored_then_restored(r2_cold(7), (8, 16, 32))
    stored = {each.session: each.prompt for each in sent(store)}
    assert len(stored) == 34
    assert not store.counts
    read = [sent(part) for part in restores]
    assert [len(each) for each in read] == [8, 16, 32]
    assert all(stored[each.session] == each.prompt for part in read for each in part)
    assert not {each.session for each in read[0]} & {each.session for each in read[1]}
    assert {len(prompt) for prompt in stored.values()} == {30_272}
    assert {each.output_tokens for part in read for each in part} == {64}


def test_more_users_than_stored_sessions_are_refused() -> None:
    with pytest.raises(ValueError, match="takes as many sessions"):
        stored_then_restored(r2_cold(7), (35,))


@pytest.mark.parametrize("clients", [1, 2, 3, 5])
def test_clients_share_a_part_without_rest(clients: int) -> None:
    (part,) = levels(WHAT, [7], requests=lambda _: 20)
    shares = [part.of(number, clients) for number in range(clients)]
    users = [each.shape.concurrency for each in shares if isinstance(each.shape, Closed)]
    assert sum(users) == 7
    together = sorted(request.session for each in shares for request in sent(each))
    assert together == sorted(request.session for request in sent(part))


def test_an_open_loop_is_shared_by_sessions_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [
        {"timestamp": 10 * at, "input_length": 9, "output_length": 1, "hash_ids": [at]}
        for at in range(9)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    traced = Traced(paths=(str(path),), how=Replay(seed=1))
    part = in_open_loop(traced, max_in_flight=8, duration_s=None, warm_up_s=0)
    assert part.name == "trace at 1 times its speed"
    due = sorted(
        request.due_s or 0.0 for number in range(2) for request in sent(part.of(number, 2))
    )
    assert due == [each.due_s for each in sent(part)]
    assert len(due) == 9
