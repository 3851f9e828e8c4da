"""Published outputs, damaged: refused, or no number of the result is made up."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvgate.parse import registry

CORPUS = Path(os.environ["KVGATE_CORPUS"])
_SPEC = importlib.util.spec_from_file_location(
    "mutations", Path(__file__).parents[1] / "unit/parse/test_mutations.py"
)
assert _SPEC
assert _SPEC.loader
mutations = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(mutations)
PUBLISHED = [
    pytest.param(
        tool,
        path.with_name(path.name.removesuffix(".expect.json")),
        id=f"{tool}/{path.name.removesuffix('.expect.json')}",
    )
    for tool in registry.tools()
    for path in sorted((CORPUS / tool).glob("*.expect.json"))
]


@pytest.mark.parametrize(("tool", "path"), PUBLISHED)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_publications(tool: str, path: Path, data: Any) -> None:
    answer = data.draw(mutations.damaged(path.read_bytes()))
    for parser in mutations.parsers(tool):
        mutations.check(tool, parser, answer)
