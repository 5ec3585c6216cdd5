"""``pytest --warpwright=a100`` runs a project's GPU tests on a simulated card.

The simulated driver replaces CUDA's in the test process and its children, and every ``warpwright.GPU`` simulates that
chip.  With ``--warpwright-check`` a test fails if the checks find an error in its launches, or in those of processes
that it started.  The fixture ``warpwright_runs`` holds these launches, for assertions about cycles and metrics.

Every pytest in an environment with this package imports this module, so it imports the rest only on demand.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import UserList
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    import argparse

    from warpwright.run import Run
    from warpwright.tools.checks import Finding

OPTION = "--warpwright"


@dataclass(slots=True)
class Children:
    """Results that processes started by the tests leave in a folder when they end."""

    folder: Path
    runs: list[Run] = field(default_factory=list)
    """Launches since the present test began."""
    findings: list[Finding] = field(default_factory=list)
    """Findings that no test has reported yet."""

    def collect(self) -> None:
        """Take the results that have arrived since the last call."""
        from warpwright.driver import launch_records

        runs, _, findings = launch_records.collect(self.folder)
        self.runs += runs
        self.findings += findings

    def take_findings(self) -> list[Finding]:
        """The findings, each once."""
        self.collect()
        found, self.findings = self.findings, []
        return found


CHILDREN = pytest.StashKey[Children]()
OUTSIDE = pytest.StashKey[list["Finding"]]()
"""Findings in processes that ended between tests."""


def _do_not_rewrite(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let this package be imported as it is.

    pytest rewrites the assertions of every package that brings a plug-in.  Here these are hundreds of modules: each process that imports
    them would parse and compile them anew where no bytecode can be written, and the assertions would take longer in every run.
    """
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("warpwright")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the plug-in's options, which ``--help`` shows."""
    _do_not_rewrite(pluginmanager)
    group = parser.getgroup("warpwright", "simulated GPU")
    group.addoption(
        OPTION,
        metavar="CHIP",
        help="run GPU code on a simulated card: v100, a100, h200 … or a TOML file; several cards separated by commas",
    )
    group.addoption(
        "--warpwright-timing",
        metavar="MODE",
        choices=("full", "sampled", "off"),
        help="full (cycles, the default), sampled (times a part of large grids) or off",
    )
    group.addoption(
        "--warpwright-check",
        metavar="CHECKS",
        help="checks separated by commas, or all; a test fails on an error that they find (launches are then timed only in tests that use warpwright_runs, or with --warpwright-timing=full)",
    )
    group.addoption(
        "--warpwright-check-level",
        metavar="GRADE",
        choices=("info", "warning", "error"),
        help="lowest level of findings in a test's report: info, warning (the default) or error; only errors fail the test",
    )

    group.addoption(
        "--warpwright-timeout",
        metavar="SECONDS",
        type=float,
        help="host time after which a test fails, with the source lines at which the warps of its kernel were",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install the simulated device before any conftest is imported, which may import a package that loads the driver."""
    # The options that config.option has here are empty, or defaults only (pytest 9.2).
    _prepare(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Install the simulated device if another plug-in loaded this one."""
    _prepare(config, config.option)


def _prepare(config: pytest.Config, options: argparse.Namespace) -> None:
    chip, timing, check = options.warpwright, options.warpwright_timing, options.warpwright_check
    level = options.warpwright_check_level
    if chip is None:
        if timing or check or options.warpwright_timeout:
            raise pytest.UsageError("--warpwright-timing, -check and -timeout go with --warpwright=CHIP")
        return
    if level and not check:
        raise pytest.UsageError("--warpwright-check-level goes with --warpwright-check")
    from warpwright.errors import WarpwrightError
    from warpwright.session import known_chips, session
    from warpwright.tracebacks import TRACEBACK

    try:
        chips = known_chips(chip)
        if check:
            from warpwright.tools.checks import parse

            parse(check)
    except WarpwrightError as error:
        raise pytest.UsageError(str(error)) from None
    if options.fulltrace:
        os.environ[TRACEBACK] = "full"
    session.chip, session.timing = chips[0], timing
    session.check, session.check_level = check, level
    if os.name == "posix" and os.uname().sysname == "Linux":
        from warpwright.driver import attach
        from warpwright.libraries import provide

        provide()
        if CHILDREN not in config.stash:
            config.stash[CHILDREN] = _new_children(config)
        os.environ.update(attach.child_environment(chip, timing, config.stash[CHILDREN].folder))
        attach.preload()


def _new_children(config: pytest.Config) -> Children:
    """Make the folder for the results of the tests' processes, which exists until pytest ends."""
    from warpwright.driver.launch_records import FOLDER
    from warpwright.session import session

    outer = os.environ.get(FOLDER)
    folder = Path(tempfile.mkdtemp(prefix="warpwright-"))

    def end() -> None:
        # A worker of pytest-xdist was started by pytest, which must not be told what its tests have told.
        if outer is None or hasattr(config, "workerinput"):
            os.environ.pop(FOLDER, None)
        else:
            os.environ[FOLDER] = outer
        shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(end)
    if session.on_launch is None and outer is None:
        # Launches of this process are the fixture's alone.
        session.on_launch = lambda run: None
    return Children(folder)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Report which chip the tests run on."""
    chip = config.getoption(OPTION)
    if chip is None:
        return None
    check = config.getoption("--warpwright-check")
    return f"warpwright: GPU code runs on a simulated {chip}" + (f", checks: {check}" if check else "")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set aside the results of processes that ended before this test."""
    _set_apart(item.config)


def _set_apart(config: pytest.Config) -> None:
    children = config.stash.get(CHILDREN, None)
    if children is None:
        return
    found = children.take_findings()
    if config.getoption("--warpwright-check"):
        config.stash.setdefault(OUTSIDE, []).extend(found)
    children.runs.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test if the checks find an error in its launches; other findings are shown in its report.

    A failed driver call does not fail the test: the caller gets the result code, and many tests expect it.
    """
    limit = item.config.getoption("--warpwright-timeout")
    checks = item.config.getoption("--warpwright-check")
    if not limit and not checks:
        return (yield)
    from warpwright.programs import outside_launch
    from warpwright.session import session

    try:
        with session.time_limit(limit):
            return (yield from _checked_call(item)) if checks else (yield)
    except KeyboardInterrupt as stop:
        if not session.timed_out:
            raise
        at = session.stopped_at or outside_launch(stop, item.path, launched=True)
        message = f"the time limit of {limit:g} s has passed (--warpwright-timeout); {at}"
    pytest.fail(message, pytrace=False)


def _checked_call(item: pytest.Item) -> Generator[None, object, object]:
    """The call of a test, which fails on errors that the checks find."""
    from warpwright.session import session

    before = {id(f): f.count for f in session.findings()}
    errors: list[Finding] = []
    try:
        result = yield
    finally:
        new = [f for f in session.findings() if before.get(id(f), 0) < f.count]
        if CHILDREN in item.config.stash:
            new += item.config.stash[CHILDREN].take_findings()
        errors = _errors(new)
        # Where the test fails by itself, as by a fault, that is its failure: the findings are beside it.
        rest = new if sys.exc_info()[0] is not None else [f for f in new if f not in errors]
        if rest:
            item.add_report_section("call", "warpwright checks", _told(rest))
    if errors:
        _fail(errors)
    return result


def _fail(errors: list[Finding]) -> NoReturn:
    """Fail with the report; pytest's summary shows its first line."""
    from warpwright.tools.checks import arranged

    first, *others = arranged(errors)
    more = f", and {len(others)} more" if others else ""
    pytest.fail(f"{first.check}: {first.sentence()}{more}\n{_told(errors)}", pytrace=False)


def _errors(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that fail a test."""
    return [f for f in findings if f.severity == "error" and not f.of_call]


def _told(findings: list[Finding]) -> str:
    from warpwright.tools.checks import arranged

    return "\n".join(map(str, arranged(findings)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the teardown of a test if the checks find an error in a process that ends there, as one that a fixture started."""
    result = yield
    if CHILDREN in item.config.stash and item.config.getoption("--warpwright-check"):
        found = item.config.stash[CHILDREN].take_findings()
        errors = _errors(found)
        if rest := [f for f in found if f not in errors]:
            item.add_report_section("teardown", "warpwright checks", _told(rest))
        if errors:
            _fail(errors)
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if the checks found an error in a process that no test can answer for."""
    _set_apart(session.config)
    outside: list[Finding] = session.config.stash.get(OUTSIDE, [])
    if _errors(outside) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the findings in processes that ended between tests."""
    found = config.stash.get(OUTSIDE, [])
    if found:
        terminalreporter.section("warpwright checks: processes that ended outside of tests")
        terminalreporter.write_line(_told(found))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    """Show only the user's frames of an error raised by this package (``--full-trace`` shows all)."""
    error = call.excinfo.value if call.excinfo is not None else None
    if error is not None and type(error).__module__.split(".")[0] == "warpwright":
        hide_own_frames(error)
    return (yield)


def hide_own_frames(error: BaseException) -> None:
    """Hide the frames of this package's modules from pytest, through their globals."""
    own = __name__.split(".")[0]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            names = trace.tb_frame.f_globals
            if str(names.get("__name__", "")).split(".")[0] == own:
                names["__tracebackhide__"] = True
            trace = trace.tb_next
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None:
            return
        error = following


class Launches(UserList["Run"]):
    """Launches of a test; those of a process that it started come when that has ended.

    Args:
        runs: the launches so far.
        arrived: returns further ones, and is asked whenever the list is read.
    """

    def __init__(self, runs: Iterable[Run] = (), arrived: Callable[[], list[Run]] = list) -> None:
        self._runs, self._arrived = list(runs), arrived

    @property
    def data(self) -> list[Run]:  # type: ignore[override]
        """The launches, in the order in which they ended or their processes did."""
        self._runs += self._arrived()
        return self._runs


@pytest.fixture
def warpwright_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launches]:
    """The launches of this test, in order: ``run.cycles``, ``run.metrics[...]``, ``run.bottleneck``.

    With checks, each launch runs twice: first checked, then timed.  Launches of processes that the test starts are
    there when the process has ended.
    """
    from warpwright.driver.launch_records import TIMES_CHECKED
    from warpwright.session import session

    children = request.config.stash.get(CHILDREN, None)

    def arrived() -> list[Run]:
        if children is None:
            return []
        children.collect()
        runs, children.runs = children.runs, []
        return runs

    runs = Launches(arrived=arrived)
    before = session.on_launch

    def add(run: Run) -> None:
        runs.append(run)
        if before is not None:
            before(run)

    timed_before = session.times_checked
    session.on_launch, session.times_checked = add, session.timing != "off"
    if session.times_checked:
        monkeypatch.setenv(TIMES_CHECKED, "1")
    yield runs
    session.on_launch, session.times_checked = before, timed_before
