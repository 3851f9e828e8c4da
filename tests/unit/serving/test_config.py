import dataclasses
import subprocess
import sys

import pytest

from kvgate.errors import UsageError
from kvgate.serving.config import MODELS, model_named


def test_the_tiny_model_has_4096_bytes_of_kv_a_token() -> None:
    tiny = model_named("tiny")
    assert tiny.block_bytes == 64 * 4096
    assert tiny.heads // tiny.kv_heads == tiny.group == 4


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UsageError, match="'huge' is not a model"):
        model_named("huge")


@pytest.mark.parametrize(
    "change",
    [{"rows": 15}, {"heads": 3, "kv_heads": 2}, {"head_dim": 3}, {"layers": 1, "head_dim": 2}],
)
def test_shapes_that_do_not_divide_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="pico"):
        dataclasses.replace(MODELS["pico"], **change)


def test_arms_need_no_numpy() -> None:
    check = "import sys, kvgate.serving.arms, kvgate.serving.proof; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"
