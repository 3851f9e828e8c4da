"""What a suite records of its hosts while it works on them."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import threading
import time
from pathlib import Path

import pytest

from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Setup
from kvgate.spec import load, yamlfile
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import verify
from kvgate.suite.bench import Bench
from kvgate.telemetry.archive import Archive, has_telemetry

GATE = b"""
gate: G3
title: t
question: q
entry: []
criteria:
  - {id: G3.1, text: x, measure: a.done, phase: inspection, hosts: serving, basis: b,
     limits: {acceptance: {equals: true}}}
"""
PLAN = b"""
plan: p
title: t
profile: acceptance
seed: 1
gates: [{gate: G3, suite: suites/g3, give_up_after: 1 h}]
workloads: {}
"""
INVENTORY = b"""
inventory: here
hosts:
  a:
    roles: [serving]
    transport: local
"""


def setup(inventory: bytes = INVENTORY) -> Setup:
    return Setup(
        load.plan_of(yamlfile.parse(PLAN, "plan.yaml"), None),
        load.inventory_of(yamlfile.parse(inventory, "inventory.yaml")),
        None,
        {"G3": load.gate_of(yamlfile.parse(GATE, "g3.yaml"))},
    )


def test_a_suite_records_what_hosts_do_and_the_run_still_verifies(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with (
        RunWriter.create(path, {}, {}) as run,
        contextlib.closing(Bench("G3", setup(), run, Progress(None))) as bench,
        bench.telemetry(every_s=0.2) as watching,
    ):
        with bench.telemetry() as inner:
            assert inner is watching
        end = time.monotonic() + 60
        while watching.counts()["a"] < 4:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert len(Archive(path).line("a", "cpu.busy_pct").points) >= 3
    bound = [event.fields["name"] for event in RunReader(path).events("telemetry_file")]
    assert len(bound) == 3
    assert [problem.kind for problem in verify(path).problems] == ["unsealed"]


def test_what_the_inventory_says_of_a_host_is_sampled(tmp_path: Path) -> None:
    """Sample an engine's metrics and a tool that only the inventory names."""
    metrics = tmp_path / "metrics"
    metrics.write_text("# TYPE answered counter\nanswered 5\n")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told = tmp_path / "told.json"
    told.write_text('{"degrees": 41}')
    asked = (
        INVENTORY
        + (
            f"    telemetry:\n"
            f"      metrics: {{near: 'http://127.0.0.1:{server.server_port}/metrics'}}\n"
            f"      tools: [{{name: sensor, command: [cat, '{told}']}}]\n"
            f"      gpu: amd-smi\n"
        ).encode()
    )
    path = tmp_path / "run"
    with (
        RunWriter.create(path, {}, {}) as run,
        contextlib.closing(Bench("G3", setup(asked), run, Progress(None))) as bench,
        bench.telemetry(every_s=0.2) as watching,
    ):
        end = time.monotonic() + 60
        while watching.counts()["a"] < 12:
            assert time.monotonic() < end
            time.sleep(0.05)
    server.shutdown()
    server.server_close()
    archive = Archive(path)
    assert archive.line("a", "engine.answered").points
    assert archive.line("a", "tool.sensor.degrees").points[0].mean == 41
    (said,) = archive.events("sampler")
    assert ("amd-smi: not installed" in said["text"]) == (shutil.which("amd-smi") is None)


def test_an_error_of_the_work_passes_through(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with (
        RunWriter.create(path, {}, {}) as run,
        contextlib.closing(Bench("G3", setup(), run, Progress(None))) as bench,
    ):
        with pytest.raises(ZeroDivisionError), bench.telemetry(hosts=()):
            raise ZeroDivisionError
        with bench.telemetry(hosts=()) as again:
            assert again.counts() == {}
    assert not has_telemetry(path)
