"""`kvgate parse`: JSON of what is read, or the error and its exit code."""

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvgate.cli import main
from kvgate.cli.parse import FIO_LOGS
from kvgate.parse import registry

RECORDED = Path(__file__).parents[2] / "recorded"
Captured = pytest.CaptureFixture[str]


def read(capsys: Captured, *words: str) -> Any:
    assert main(["parse", *words]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return json.loads(shown.out)


def test_a_file_is_printed_with_units_in_the_order_declared(capsys: Captured) -> None:
    (first, second) = read(capsys, "numactl", str(RECORDED / "numactl/composed-2.0.14-2node.txt"))
    assert list(first) == ["number", "cpus", "size_mib", "free_mib", "distances"]
    assert (first["size_mib"], second["free_mib"]) == (257_543, None)


def test_decimals_and_keys_that_are_numbers(capsys: Captured) -> None:
    found = read(capsys, "ibstat", str(RECORDED / "ibstat/composed-43.0.txt"))
    assert [port["rate_gbps"] for port in found[1]["ports"]] == [2.5, 40]
    qos = read(capsys, "mlnx_qos", str(RECORDED / "mlnx_qos/composed-5.2-prio3.txt"))
    assert qos["dscp2prio"]["26"] == 3


@pytest.mark.parametrize("file", [[], ["-"]])
def test_standard_input(capsys: Captured, monkeypatch: pytest.MonkeyPatch, file: list[str]) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"CPU(s): 4\n")))
    assert read(capsys, "lscpu", *file)["cpus"] == 4


def test_the_list_names_every_tool_and_fio(capsys: Captured) -> None:
    assert main(["parse", "--list"]) == 0
    assert capsys.readouterr().out.split() == sorted((*registry.tools(), "fio", *FIO_LOGS))


def test_a_refused_answer_is_told_with_exit_code_3(capsys: Captured, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.write_bytes(b"\x00\xff")
    assert main(["parse", "lscpu", str(saved)]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "lscpu: the answer holds a NUL byte" in shown.err


def test_no_more_is_read_than_of_a_host(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["parse", "lscpu", "/dev/zero"]) == 3  # it has no end
    assert "over 16 MiB" in capsys.readouterr().err
    stdin = SimpleNamespace(buffer=io.BytesIO(b"CPU(s): 2\n" * 2_000_000))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["parse", "lscpu"]) == 3
    assert stdin.buffer.tell() <= 2**24 + 1


def test_the_exit_code_of_the_command_counts(capsys: Captured) -> None:
    saved = str(RECORDED / "rdma_link/composed-6.1.txt")
    assert main(["parse", "rdma_link", saved, "--exit-code", "1"]) == 3
    assert "exit code 1" in capsys.readouterr().err
    assert len(read(capsys, "rdma_link", saved, "--exit-code", "0")) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nvme-lst"], "nvme_list"),
        (["foi"], "fio"),
        ([], "--list"),
        (["lscpu", "no/such"], "no/such"),
        (["lscpu", "."], "can't be read"),
    ],
)
def test_usage_errors_name_the_next_step(capsys: Captured, words: list[str], told: str) -> None:
    assert main(["parse", *words]) == 64
    assert told in capsys.readouterr().err


def test_fio_is_read_by_fiopy(capsys: Captured) -> None:
    found = read(capsys, "fio", str(RECORDED / "fio/fio-3.33_verify_ok.json"))
    assert (found["failed"], found["version"]) == (False, "fio-3.33")
    assert found["jobs"][0]["read"]["bytes_per_s"] > 0
    failed = read(capsys, "fio", str(RECORDED / "fio/fio-3.33_verify_ok.json"), "--exit-code", "1")
    assert (failed["failed"], failed["exit_status"]) == (True, 1)


def test_logs_of_fio_are_read_by_fiopy(capsys: Captured, tmp_path: Path) -> None:
    log = tmp_path / "x_clat.1.log"
    log.write_text("".join(f"{at}, 900, 0, 4096, 0\n" for at in (1, 2, 700)))
    found = read(capsys, "fio_lat_log", str(log))
    assert (found["unit"], found["gaps"]["all"][0]["length_ms"]) == ("ns", 698)
    few = found["figures"]["read"]["percentiles"][1]
    assert (few["ns"], few["because"]) == (None, "p99 takes 100 latencies; there are 3")
    assert main(["parse", "fio_hist_log", str(log)]) == 3
    assert "log 1, line 1: a histogram of 2 bins is none of fio's" in capsys.readouterr().err
    log.write_text("1, 0, 4096" + ", 2" * 29 + "\n")
    assert read(capsys, "fio_hist_log", str(log))["whole"]["read"]["samples"] == 58


def test_what_is_not_fio_is_refused(capsys: Captured, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.write_bytes(b"hello\n")
    assert main(["parse", "fio", str(saved)]) == 3
    assert capsys.readouterr().err.startswith("kvgate: fio: nothing that fio prints")


def test_every_recorded_answer_is_read_or_refused(capsys: Captured) -> None:
    for tool in registry.tools():
        for path in sorted((RECORDED / tool).glob("*")):
            assert main(["parse", tool, str(path)]) in (0, 3), path
            shown = capsys.readouterr()
            assert bool(shown.out) != bool(shown.err), path


def test_nothing_of_it_is_imported_for_the_help() -> None:
    script = "import sys, kvgate.cli.parser as p; p.build_parser(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert not [name for name in done.stdout.split() if name.startswith(("kvgate.parse", "fiopy"))]
