"""The examples of the README's section on fiopy run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[3] / "README.md"
SECTION = README.read_text("utf-8").partition("\n## fiopy\n")[2].partition("\nMore: ")[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.fio
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = EXAMPLES[number].replace("/var/tmp", str(tmp_path)).replace("2**28", "2**24")
    exec(compile(text, f"README example {number}", "exec"), {})  # noqa: S102  our own page
    shown = capsys.readouterr().out
    assert "fio.dat" not in shown
    assert re.search(r"\d", shown), "it printed figures, not an error"
    assert "hint:" not in shown
    assert [each.name for each in tmp_path.iterdir()] == ["fio.dat"]
