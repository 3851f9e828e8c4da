"""Large files are read by libyaml and small ones by PyYAML: to the same values and lines."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
import yaml

from kvgate.errors import SpecError
from kvgate.spec import yamlfile

SHIPPED = Path(__file__).resolve().parents[3]
FILES = sorted([*SHIPPED.glob("gates/*.yaml"), *SHIPPED.glob("inventory/**/*.yaml")])

needs_libyaml = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML without libyaml")


def both(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[tuple[object, ...]]:
    """Return what each of the two makes of `content`: value and lines, or the error's words."""
    found: list[tuple[object, ...]] = []
    for large in (0, 1 << 60):
        monkeypatch.setattr(yamlfile, "_LARGE", large)
        try:
            file = yamlfile.parse(content, "x")
            found.append((file.value, file.lines))
        except SpecError as err:
            found.append((err.message,))
    return found


@needs_libyaml
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_shipped(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    quick, plain = both(monkeypatch, path.read_bytes())
    assert quick == plain


@needs_libyaml
@hypothesis.given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=12),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
        max_leaves=20,
    ),
    flow=st.booleans(),
)
def test_what_may_be_written(value: object, flow: bool) -> None:
    content = yaml.safe_dump(value, allow_unicode=True, default_flow_style=flow).encode()
    with pytest.MonkeyPatch.context() as patch:
        quick, plain = both(patch, content)
    assert quick == plain


@needs_libyaml
@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",
        "a: [1, 2\nb: 3\n",
        "a: *nowhere\n",
        "a: &x [*x]\n",
        "<<: {a: 1}\n",
        "a:\tb: c\n",
        "- a\n b: c\n",
        '"\\q"\n',
    ],
)
def test_mistakes_are_told_in_the_same_words(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    quick, plain = both(monkeypatch, text.encode())
    assert quick == plain
    assert len(quick) == 1


@pytest.mark.parametrize(
    "deep", ["[" * 50_000, "- " * 50_000, "]" * 9_999 + "[" * 50_000, "{a: " * 9000]
)
def test_what_is_nested_without_end_is_refused(deep: str) -> None:
    padded = "# " + "x" * yamlfile._LARGE + "\n" + deep
    with pytest.raises(SpecError):
        yamlfile.parse(padded.encode(), "x")
