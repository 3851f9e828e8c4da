"""Progress: rates between documents as they come, in whatever pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fiopy.progress import Progress, Watch


@pytest.mark.parametrize("piece", [1, 7, 4096, 10**6])
def test_each_document_is_one_word_whatever_the_pieces(
    recorded: Callable[[str], bytes], piece: int
) -> None:
    said: list[Progress] = []
    watch = Watch(said.append)
    text = b"noise\n" + recorded("fio-3.33_status_interval.json")
    for at in range(0, len(text), piece):
        watch.feed(text[at : at + piece])
    assert len(said) == 5
    assert [each.elapsed_s for each in said] == sorted(each.elapsed_s or 0 for each in said)
    assert all(each.job == "kv-restore" for each in said)
    assert all(each.write_bytes_per_s == 0 for each in said)
    assert sum(each.bytes_per_s > 0 for each in said) >= 4
    assert "kv-restore: " in str(said[-2])


def test_damaged_and_endless_documents_are_passed_over(recorded: Callable[[str], bytes]) -> None:
    said: list[Progress] = []
    watch = Watch(said.append)
    whole = recorded("fio-3.33_verify_ok.json")
    watch.feed(whole.replace(b'"iops"', b'"iop"') + b'{\n"fio version"\n}\n')
    for _ in range(20):
        watch.feed(b"x" * 2**20)
    watch.feed(b"\n}\n" + whole)
    assert len(said) == 1
