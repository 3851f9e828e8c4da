"""The one comparison with a corpus of published outputs, which is no part of the project.

Only collected where the environment variable KVGATE_CORPUS names its folder (`make test-corpus`).
A module here has `ADAPTERS: dict[str, Adapter]` (corpus folder → function from what
`registry.parse` returned to the names of the facts) and one test that takes `corpus_sample` and
calls `holds(corpus_sample)`. The comparison and the meaning of the flags are the corpus's (its
README.md and compare.py).
"""

import dataclasses
import importlib.util
import json
import os
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.parse import registry

CORPUS = Path(os.environ.get("KVGATE_CORPUS", ""))
collect_ignore_glob = [] if os.environ.get("KVGATE_CORPUS") else ["test_*.py"]
ENDS: Counter[str] = Counter()
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
    metafunc.parametrize("corpus_sample", samples)


@pytest.fixture(scope="session")
def corpus() -> Path:
    assert CORPUS.is_dir(), f"KVGATE_CORPUS is no folder: {CORPUS}"
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
            ENDS["refused, as it must be"] += 1
            return
        try:
            found = registry.parse(sample.tool, sample.answer, code)
        except ParseError:
            if facts.get("may_refuse"):
                ENDS["refused, as it may be"] += 1
                return
            raise
        result = sample.adapter(found)
        assert compare(facts, result) == []
        for flag in (key for key in facts if key.startswith("must_not_")):
            _must_not(flag, facts[flag], result)
        ENDS["read, and all facts hold"] += 1

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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how the samples ended, and how many are for others to read."""
    if collect_ignore_glob:
        return
    known = {*registry.tools(), "fio", "sse"}  # the last two have tests of their own here
    waiting = {
        path.name: len(list(path.glob("*.expect.json")))
        for path in sorted(CORPUS.iterdir())
        if path.is_dir() and path.name not in known
    }
    for end, number in sorted(ENDS.items()):
        terminalreporter.write_line(f"corpus: {number} {end}")
    listed = ", ".join(f"{tool} ({number})" for tool, number in waiting.items())
    terminalreporter.write_line(f"corpus: {sum(waiting.values())} of other readers: {listed}")
