"""Where the recorded answers are, and the one comparison with the corpus of published outputs.

A module `test_corpus_….py` has `ADAPTERS: dict[str, Adapter]` (corpus folder → function from what
`registry.parse` returned to the names of the facts) and one test that takes `corpus_sample` and
calls `holds(corpus_sample)`. The comparison and the meaning of the flags are the corpus's (its
README.md and compare.py).
"""

import dataclasses
import importlib.util
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.parse import registry

RECORDED = Path(__file__).parents[2] / "recorded"
CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"
ABSENT = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus in ../shared/{CORPUS.name}")
Adapter = Callable[[Any], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Sample:
    """A published output, its facts, and the adapter of its tool."""

    tool: str
    sidecar: Path
    adapter: Adapter

    @property
    def answer(self) -> bytes:
        return self.sidecar.with_name(self.sidecar.name.removesuffix(".expect.json")).read_bytes()

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.sidecar.read_text("utf-8"))["facts"]
        return facts


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every sample of the module's tools to a test that asks for `corpus_sample`."""
    if "corpus_sample" not in metafunc.fixturenames:
        return
    adapters: dict[str, Adapter] = metafunc.module.ADAPTERS
    samples = [
        pytest.param(
            Sample(tool, path, adapter), id=f"{tool}/{path.name.removesuffix('.expect.json')}"
        )
        for tool, adapter in adapters.items()
        for path in sorted((CORPUS / tool).glob("*.expect.json"))
    ]
    metafunc.parametrize("corpus_sample", samples or [pytest.param(None, marks=ABSENT)])


@pytest.fixture
def recorded() -> Callable[[str], bytes]:
    return lambda name: (RECORDED / name).read_bytes()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of the corpus; without it the test is skipped, with the reason."""
    if not CORPUS.is_dir():
        pytest.skip(f"no corpus in ../shared/{CORPUS.name}")
    return CORPUS


@pytest.fixture(scope="session")
def compare(corpus: Path) -> Callable[[object, object], list[str]]:
    """Return the corpus's own comparison: paths that differ, [] when all facts hold."""
    spec = importlib.util.spec_from_file_location("corpus_compare", corpus / "compare.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cmp: Callable[[object, object], list[str]] = module.cmp
    return cmp


@pytest.fixture
def holds(compare: Callable[[object, object], list[str]]) -> Callable[[Sample], None]:
    """Return the check of one sample: its facts hold, or it is refused where it should be."""

    def check(sample: Sample) -> None:
        facts = sample.facts
        code = facts.pop("exit_code", None)
        if facts.get("must_report_parse_error") or facts.get("must_report_no_data"):
            with pytest.raises(ParseError):
                registry.parse(sample.tool, sample.answer, code)
            return
        try:
            found = registry.parse(sample.tool, sample.answer, code)
        except ParseError:
            if facts.get("may_refuse"):
                return
            raise
        result = sample.adapter(found)
        assert compare(facts, result) == []
        for flag in (key for key in facts if key.startswith("must_not_")):
            _must_not(flag, facts[flag], result)

    return check


def _must_not(flag: str, value: Any, result: dict[str, Any]) -> None:
    """Check that `result` does not do what `flag` forbids: the adapter says so by its name."""
    assert flag in result, f"the adapter says nothing about {flag}"
    done: bool | Collection[Any] = result[flag]
    if isinstance(value, list):
        assert isinstance(done, Collection)
        assert not set(value) & set(done)
    else:
        assert not done
