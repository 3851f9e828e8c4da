"""`kvgate probe`: one question to one host, and what it was read from."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvgate.cli import main

Captured = pytest.CaptureFixture[str]

INVENTORY = """\
inventory: small
hosts:
  here:
    roles: [serving]
    transport: local
    tools: {{uname: {uname}, nvme: /nosuch/nvme}}
  away: {{roles: [serving], address: 127.0.0.1, port: 1, known_hosts: /dev/null}}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace of one host, whose uname is a script, and one that is away."""
    for folder in ("gates", "suites", "inventory/local", "runs"):
        (tmp_path / folder).mkdir(parents=True)
    tool = tmp_path / "uname"
    tool.write_text(
        "#!/bin/sh\necho Linux h1 6.8.0-45-generic x86_64 GNU/Linux\nprintf 'warned\\033[2J' >&2\n"
    )
    tool.chmod(0o755)
    text = INVENTORY.format(uname=tool)
    (tmp_path / "inventory/local/this-machine.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def probe(capsys: Captured, *words: str) -> tuple[int, list[str], str]:
    code = main(["probe", *words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_what_was_read_and_from_which_command(site: Path, capsys: Captured) -> None:
    code, lines, _ = probe(capsys, "here", "kernel")
    assert code == 0
    assert lines[0] == f"$ {site}/uname -a"
    assert lines[1].startswith("  exit 0, ")
    assert lines[1].endswith(" s, 43 + 10 bytes")
    assert lines[2:] == ["kernel.release: 6.8.0-45-generic"]


def test_with_raw_what_it_printed_harmless(site: Path, capsys: Captured) -> None:
    _, lines, _ = probe(capsys, "here", "kernel", "--raw")
    assert lines[2:4] == ["  | Linux h1 6.8.0-45-generic x86_64 GNU/Linux", "  | warned\\x1b[2J"]


def test_what_is_not_told_has_a_reason_and_exit_code_2(site: Path, capsys: Captured) -> None:
    code, lines, err = probe(capsys, "here", "tool", "nvme")
    assert (code, err) == (2, "")
    assert lines[0] == "$ /nosuch/nvme version"
    assert any(line.startswith("tool.nvme.version: not told: ") for line in lines)


def test_nothing_declared_is_nothing_read(site: Path, capsys: Captured) -> None:
    code, lines, _ = probe(capsys, "here", "pcie", "ways")
    assert code == 2
    assert "the inventory declares nothing" in lines[-1]


def test_a_host_that_is_away_exits_3(site: Path, capsys: Captured) -> None:
    code, lines, err = probe(capsys, "away", "kernel")
    assert (code, lines) == (3, [])
    assert err.startswith("kvgate: away: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "`kvgate probe --list` has them all"),
        (("here",), "`kvgate probe --list` has them all"),
        (("here", "kernl"), "did you mean 'kernel'?"),
        (("her", "kernel"), "did you mean 'here'?"),
    ],
)
def test_usage_errors_name_the_next_step(
    site: Path, capsys: Captured, words: tuple[str, ...], told: str
) -> None:
    code, lines, err = probe(capsys, *words)
    assert (code, lines) == (64, [])
    assert told in err


def test_the_list_names_every_probe(capsys: Captured) -> None:
    from kvgate.probes import ALL, devices

    code, lines, _ = probe(capsys, "--list")
    assert code == 0
    assert len(lines) == len(ALL) + sum(map(len, devices.OF_ROLE.values()))
    assert any(line.split() == ["kernel", "kernel.release"] for line in lines)


def test_names_stay_different_with_dashes() -> None:
    from kvgate.probes import ALL, devices

    probes = [*ALL, *(each for role in devices.OF_ROLE.values() for each in role)]
    assert len({each.name.replace("-", " ") for each in probes}) == len(probes)


def test_nothing_of_it_is_imported_for_the_help() -> None:
    code = (
        "import sys; from kvgate.cli.parser import build_parser; build_parser(); "
        "sys.exit('kvgate.probes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
