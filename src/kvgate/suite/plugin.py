"""The pytest plugin: makes an ordinary pytest of one suite the process of one gate.

What pytest shows meanwhile is provisional: the judge decides after the gate, from the record.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.engine.direct import Direct
from kvgate.engine.gate import GateSession
from kvgate.engine.progress import Progress
from kvgate.engine.scope_out import retested
from kvgate.engine.workspace import Workspace
from kvgate.errors import GateClosedError, KvgateError, NotRunError, RepairError
from kvgate.store.reader import RunReader
from kvgate.suite.bench import Bench
from kvgate.suite.marks import criteria_of
from kvgate.untrusted import mask, plain


class KvgatePlugin:
    """One gate's session inside pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.progress = Progress(config.getoption("--progress-fd"))
        self.direct: Direct | None = None
        self.session: GateSession | None = None
        self._bench: Bench | None = None
        self.deselected: list[pytest.Item] = []
        self.outcome = "done"
        self._watch_supervisor(config.getoption("--alive-fd"))

    @property
    def gate_session(self) -> GateSession:
        """Return the open session; a use before it is open is a mistake of ours."""
        if self.session is None:
            raise KvgateError("the gate's session is not open")
        return self.session

    @property
    def open_bench(self) -> Bench:
        """Return the bench of the open session."""
        if self._bench is None:
            raise KvgateError("the bench is not connected")
        return self._bench

    # before the tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse tests that settle nothing, and in a retest leave out those not to be repeated."""
        for item in items:
            if not criteria_of(item):
                raise pytest.UsageError(f'{item.nodeid}: names no criterion; add @settles("G…")')
        run = self.config.getoption("--kvgate-run")
        again = set(retested(RunReader(Path(run)))) if run else set()
        if again:
            items[:] = [item for item in items if again & set(criteria_of(item))]
            if not items:
                raise pytest.UsageError(f"no test here settles {', '.join(sorted(again))}")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember what was deselected: a criterion is settled by all of its tests or not."""
        self.deselected += items

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Make or open the run, and open the gate, once it is known which tests there are."""
        if self.config.option.collectonly or not session.items:
            return
        try:
            self._open(session)
        except GateClosedError as err:
            self.outcome = "refused"
            pytest.exit(str(err), returncode=err.exit_code)
        except KvgateError as err:
            self.outcome = "broken"
            pytest.exit(str(err), returncode=err.exit_code)

    def _open(self, session: pytest.Session) -> None:
        run, gate = self.config.getoption("--kvgate-run"), self.config.getoption("--kvgate-gate")
        workspace = Workspace.find(Path(session.items[0].path).parent)
        if run is None:
            self.direct = Direct.begin(
                workspace,
                Path(self.config.getoption("--inventory")),
                self.config.getoption("--plan"),
                {Path(item.path) for item in session.items},
                command=sys.argv,
                forced=self.config.getoption("--force-gate"),
            )
            run, gate = self.direct.run, self.direct.gate
            self.direct.soak(workspace, self.progress)
        self.session = GateSession(workspace, Path(run), gate, self.progress)
        self._bench = Bench(gate, self.session.setup, self.session.run, self.progress)
        self.session.begin(self._bench.witness, self._bench.connections)
        self._bench.undo_left_faults()
        self._bench.mark_kernel_logs()
        for item in self.deselected:
            self._attempt(item, "not_run", ("it was deselected on the command line",))

    # the tests

    @pytest.fixture
    def bench(self) -> Bench:
        """Return the inventory, connected and recording."""
        return self.open_bench

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Tell which test begins."""
        self.progress.send("test", _sentence(item), awaits="its first measurement")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        """Journal how the test ended for the criteria it settles; requirements unmet are a skip."""
        report: pytest.TestReport = yield  # type: ignore[assignment]  # a hook wrapper's result
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, NotRunError):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"not run: {error.message}")
            self._attempt(item, "not_run", error.reasons, error.hint)
        elif error is not None and not isinstance(error, pytest.exit.Exception | KeyboardInterrupt):
            hint = error.hint if isinstance(error, KvgateError) else ""
            self._attempt(item, "error", (_describe(error),), hint)
        elif call.when == "call":
            self._attempt(item, "ran", ())
        _make_harmless(report)
        return report  # type: ignore[return-value]  # ditto

    def _attempt(
        self, item: pytest.Item, outcome: str, reasons: tuple[str, ...], hint: str = ""
    ) -> None:
        for criterion in criteria_of(item):
            self.gate_session.attempt(criterion, outcome, reasons, item.name, hint)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell how the test ended."""
        if report.when == "call" or report.outcome != "passed":
            self.progress.send("done", f"{report.outcome}: {report.nodeid.rpartition('::')[2]}")

    def pytest_exception_interact(self, call: pytest.CallInfo[None]) -> None:
        """Stop at once when a fault could not prove its repair: the bench is not as we found it."""
        if call.excinfo is not None and isinstance(call.excinfo.value, RepairError):
            self.outcome = "interrupted"
            pytest.exit(f"stopped: {call.excinfo.value}", returncode=3)

    # after the tests

    def pytest_keyboard_interrupt(self) -> None:
        """Remember that the gate was not finished; it can be resumed."""
        if self.outcome == "done":
            self.outcome = "interrupted"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close the connections and the gate; judge, and end an ordinary run."""
        if self.session is None:
            return
        if self._bench is not None:
            self._bench.close()
        result = self.session.finish(self.outcome)
        if self.outcome == "done" and session.exitstatus in (0, 1, 5):
            session.exitstatus = 0  # whether it passes is the judge's to say, below
        if self.direct is not None and result is not None:
            self.direct.end()
            session.exitstatus = self.direct.exit_code

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the verdict and where the run lies, for a direct pytest."""
        if self.direct is not None:
            for line in self.direct.lines():
                terminalreporter.write_line(plain(line))

    def _watch_supervisor(self, fd: int | None) -> None:
        """Interrupt this process when the supervisor is gone: nobody would finish the run."""
        if fd is None:
            return
        # Background jobs of a shell have SIGINT ignored, and children inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def watch() -> None:
            with contextlib.suppress(OSError):
                os.read(fd, 1)  # returns at the end of file: the supervisor's end was closed
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()


def _make_harmless(report: pytest.TestReport) -> None:
    """Show control characters in what pytest will print of a test, and mask secrets in it."""
    if report.longrepr is not None and not isinstance(report.longrepr, tuple):
        report.longrepr = mask(plain(str(report.longrepr)))
    report.sections = [(name, mask(plain(text))) for name, text in report.sections]


def _sentence(item: pytest.Item) -> str:
    return item.name.removeprefix("test_").replace("_", " ")


def _describe(error: BaseException) -> str:
    if isinstance(error, KvgateError):
        return error.message
    return mask(f"{type(error).__name__}: {error}")
