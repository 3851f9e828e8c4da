"""The pytest entry point: a few options, and nothing else unless one of them is given."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add kvgate's options; without ``--inventory`` or ``--kvgate-run`` nothing is done."""
    group = parser.getgroup("kvgate", "kvgate: measure for a gate and judge it")
    group.addoption(
        "--inventory", metavar="FILE", help="the hosts: makes this an ordinary kvgate run"
    )
    group.addoption("--plan", metavar="FILE", help="the plan (default: the site's rehearsal)")
    group.addoption(
        "--force-gate",
        metavar="REASON",
        default="",
        help="open the gate for diagnosis; bars the run from acceptance",
    )
    group.addoption("--kvgate-run", metavar="RUN", help="work on this run (set by `kvgate run`)")
    group.addoption(
        "--kvgate-gate", metavar="GATE", help="work for this gate (set by `kvgate run`)"
    )
    group.addoption("--progress-fd", metavar="N", type=int, help="where progress goes (ditto)")
    group.addoption("--alive-fd", metavar="N", type=int, help="closes when `kvgate run` is gone")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that works, if this pytest run is one of kvgate's."""
    config.addinivalue_line("markers", "settles(*criteria): the criteria this test measures for")
    if config.getoption("--inventory") or config.getoption("--kvgate-run"):
        from kvgate.suite.plugin import KvgatePlugin

        config.pluginmanager.register(KvgatePlugin(config), "kvgate-session")
