"""Shared by all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.driver_library import Driver
    from tests.library_calls import Device, Library
    from warpwright.run import Progress

REPOSITORY = Path(__file__).parent.parent

MOST_PROCESSES = 16
"""More take the memory of a machine with many cores, and gain little."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process for each core that this one may use: hardware threads count, and other users' cores do not."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def pytest_configure(config: pytest.Config) -> None:
    """Processes that tests start share compiled modules even if PYTHONDONTWRITEBYTECODE is set, in a folder that is removed.

    Otherwise each of them compiles some 400 modules, which takes longer than most of these tests do.
    """
    # Numba highlights the error message of each alternative that fails, which takes an eighth of its time where pytest captures the streams.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="warpwright-tests-", ignore_cleanup_errors=True)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name
        config.add_cleanup(folder.cleanup)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose ``pytestmark`` is a mark that the command leaves out is not imported: reading such files takes a worker seconds."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    marks = config.option.markexpr
    left_out = re.findall(r"not (\w+)", marks) if " or " not in marks else []
    found = re.search(r"^pytestmark = (?:\[\s*)?pytest\.mark\.(\w+)", collection_path.read_text("utf-8"), re.MULTILINE)
    return True if found and found[1] in left_out else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Of several processes that collect all tests, each first imports a part of the test files: on a clean checkout that is most of the collection's time.

    pytest compiles a test file at its first import, and keeps the result for the other processes.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(name).resolve() for name in session.config.args] != [REPOSITORY / "tests"]:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in sorted((REPOSITORY / "tests").glob("test_*.py"))[number::count]:
        if pytest_ignore_collect(file, session.config) is None:
            with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports them
                importlib.import_module(f"tests.{file.stem}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Without the tests marked ci, Hypothesis draws no constants of the package's source: each process would first parse 500 modules for them.

    Of the selected tests, the long ones come first.
    """
    if "not ci" in config.option.markexpr:
        from hypothesis.internal.conjecture import providers

        if hasattr(providers, "_get_local_constants"):
            providers._get_local_constants = lambda: providers._local_constants
    yield
    items[:] = long_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def long_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests, with those marked ``long`` dealt out in turn to the front of each process's part.

    pytest-xdist gives each process an equal part of the list, and at the end takes tests from the back of the longest queue: a long test there would
    keep one process busy after the others had finished.
    """
    found = [item for item in items if item.get_closest_marker("long")]
    rest = [item for item in items if not item.get_closest_marker("long")]
    parts = []
    for process in range(processes):
        begin, end = (len(rest) * n // processes for n in (process, process + 1))
        parts.append(found[process::processes] + rest[begin:end])
    return [item for part in parts for item in part]


def pytest_collection_finish() -> None:
    """Keep the garbage collector from visiting the thousands of tests, and run it less often: it took 7% of the tests' time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="module")
def memory() -> Iterator[Device]:
    """Memory of the simulated device, for the tests of the drop-in libraries."""
    from tests.library_calls import device

    with device() as found:
        yield found


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """The drop-in driver of an A100 in this process, for tests of its calls."""
    from tests.driver_library import attached

    with attached() as made:
        yield made


@pytest.fixture(scope="module")
def blas(memory: Device) -> Library:
    """The drop-in cuBLAS of CUDA 13."""
    from tests import library_calls

    return library_calls.Library("libcublas.so.13")


@pytest.fixture
def early_inspections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches with timing are judged soon, so that tests of those that never end are quick."""
    from warpwright.timing import livelock

    monkeypatch.setattr(livelock, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(livelock, "PAUSE_SECONDS", 0.0)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return REPOSITORY


def _other_driver() -> str:
    """What the simulated driver simulates in this process, if that is not what ``tests.driver_library`` asks for; else empty."""
    from tests.driver_library import ENVIRONMENT
    from warpwright.programs import has_begun_driver

    if not has_begun_driver():
        return ""
    from warpwright.driver.driver_state import state

    asked = ENVIRONMENT["WARPWRIGHT_GPU"]
    for device in state().devices:
        gpu = device.made_gpu
        if gpu is None and device._chip != asked:
            return device._chip or "the default chip"
        if gpu is not None and (gpu.chip.name, gpu.timing) != (asked, ENVIRONMENT["WARPWRIGHT_TIMING"]):
            return f"{gpu.chip.name}, timing {gpu.timing}"
    return ""


def _environment() -> dict[str, str]:
    """The variables that make programs run on the simulated driver."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("WARPWRIGHT_", "LD_", "PYTHONPATH", "TRITON_LIBCUDA_PATH"))
    }


def _watched(what: str) -> Iterator[None]:
    """Fail what runs meanwhile if it leaves a driver of another chip or a changed environment to the tests after it."""
    driver, environment = _other_driver(), _environment()
    yield
    if (now := _other_driver()) and not driver:
        pytest.fail(
            f"{what} left the tests' process with the simulated driver of {now}, which the process keeps, so that later tests "
            "of tests.driver_library's device would fail; run the program in a separate process",
            pytrace=False,
        )
    if (left := _environment()) != environment:
        names = sorted(name for name in {*left, *environment} if left.get(name) != environment.get(name))
        pytest.fail(f"{what} changed {', '.join(names)} in the environment; use monkeypatch.setenv", pytrace=False)


@pytest.fixture(scope="module", autouse=True)
def _module_leaves_no_driver(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the fixtures of a module leave is the module's fault."""
    yield from _watched(request.node.nodeid)


@pytest.fixture(autouse=True)
def _leaves_no_driver(request: pytest.FixtureRequest, _module_leaves_no_driver: None) -> Iterator[None]:
    """What a test leaves is the test's fault, not that of those after it in the same process."""
    yield from _watched(request.node.nodeid)


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and messages do not depend on the terminal that runs the tests."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background and inherit that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def interrupted(interruptible: None, monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """What a kernel named ``endless`` shows of itself; Ctrl-C comes a moment after the first of it."""
    from warpwright.session import session  # here, so that pytest prints its first line at once

    seen: list[Progress] = []

    def show(progress: Progress) -> None:
        if progress.kernel != "endless":
            return
        seen.append(progress)
        if len(seen) == 1:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    monkeypatch.setattr(session, "on_progress", show)
    return seen
