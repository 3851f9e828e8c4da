"""A program travels to a host: whole or not at all, run by a Python new enough, and gone after."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import CommandError, NotRunError, ParseError
from kvgate.workloads.travel import program_of, travelled

SAYS = b"import sys\ndef main():\n    print('here', *sys.argv[1:])\n    return 3\n"


def test_it_is_run_there_and_removed(bench: Any) -> None:
    program = program_of({"kvgate.kv.told": SAYS}, main="kvgate.kv.told")
    with travelled(bench.witness, program, name="told.pyz", purpose="told") as there:
        done = bench.witness.ask([there.python, there.path, "and now"], timeout_s=60).result
        assert (done.exit_status, done.stdout) == (3, b"here and now\n")
        assert Path(there.path).parent == Path(there.folder)
        assert there.free_bytes > 0
        assert set(there.evidence) <= set(bench.kept)
    assert list(bench.scratch.iterdir()) == []


def test_it_is_removed_on_errors_too(bench: Any) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        travelled(bench.witness, b"pass", name="a.py", purpose="told"),
    ):
        raise ZeroDivisionError
    assert list(bench.scratch.iterdir()) == []


def test_a_large_one_arrives_whole(bench: Any) -> None:
    program = b"#" + b"x" * 2**19 + b"\nprint(5)\n"
    with travelled(bench.witness, program, name="a.py", purpose="told") as there:
        assert Path(there.path).read_bytes() == program
        assert bench.witness.ask([there.python, there.path], timeout_s=60).stdout == b"5\n"


def test_what_arrives_altered_is_not_run(bench: Any) -> None:
    def altered(result: Any) -> Any:
        if result.argv[4].endswith("/a.py"):
            with Path(result.argv[4]).open("r+b") as file:
                file.write(b"!")
        return result

    bench.transport.answers["sh"] = altered
    with (
        pytest.raises(CommandError, match="arrived as SHA-256"),
        travelled(bench.witness, b"pass\n", name="a.py", purpose="told"),
    ):
        pytest.fail("it was altered")
    assert list(bench.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", r"no Python of 3\.8 or newer\n"),
        (b"3.6 /usr/bin/python3\n", r"/usr/bin/python3 is 3\.6"),
    ],
)
def test_without_a_python_new_enough_the_package_is_named(
    bench: Any, said: bytes, why: str
) -> None:
    bench.transport.answers["sh"] = lambda result: dataclasses.replace(result, stdout=said)
    with (
        pytest.raises(NotRunError, match=why) as err,
        travelled(bench.witness, b"pass", name="a.py", purpose="told"),
    ):
        pytest.fail("nothing can run it")
    assert "package 'python3'" in err.value.hint


def test_an_answer_that_is_no_version_is_no_python(bench: Any) -> None:
    bench.transport.answers["sh"] = lambda result: dataclasses.replace(result, stdout=b"hello\n")
    with (
        pytest.raises(ParseError, match="no Python's version"),
        travelled(bench.witness, b"pass", name="a.py", purpose="told"),
    ):
        pytest.fail("nothing can run it")


def test_the_inventory_s_python_is_taken(bench: Any) -> None:
    host = bench.witness.host.model_copy(update={"tools": {"python3": sys.executable}})
    witness = dataclasses.replace(bench.witness, host=host)
    with travelled(witness, b"pass", name="a.py", purpose="told") as there:
        assert there.python == sys.executable


def test_the_same_modules_are_the_same_bytes() -> None:
    both = [program_of({"a.b": SAYS, "c": b""}, main="a.b") for _ in range(2)]
    assert both[0] == both[1]
