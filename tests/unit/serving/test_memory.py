import numpy as np

from kvgate.serving import memory as memory_module
from kvgate.serving.memory import Memory


def test_memory_comes_back_when_the_last_view_is_gone() -> None:
    memory = Memory()
    array, new = memory.take(8192)
    assert new
    assert not array.any()
    assert array.ctypes.data % 4096 == 0
    array[:] = 7
    view = memoryview(array.view(np.float32).reshape(2, -1)[1])
    del array
    assert memory.kept_bytes == 0  # the view still looks at it
    del view
    assert memory.kept_bytes == 8192
    again, new = memory.take(4096)
    assert not new
    assert len(again) == 4096
    assert (again == 7).all()


def test_what_is_much_too_large_is_not_used() -> None:
    memory = Memory()
    memory.take(1 << 20)
    _, new = memory.take(4096)
    assert new


def test_not_more_is_kept_than_the_bound(monkeypatch) -> None:
    monkeypatch.setattr(memory_module, "KEPT_BYTES", 10000)
    memory = Memory()
    held = [memory.take(4096)[0] for _ in range(4)]
    held.clear()
    assert memory.kept_bytes == 8192
