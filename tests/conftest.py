"""Shared by all tests."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from warpwright.run import Progress

REPOSITORY = Path(__file__).parent.parent

MOST_PROCESSES = 16
"""More take the memory of a machine with many cores, and gain little."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process for each core that this one may use: hardware threads count, and other users' cores do not."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return REPOSITORY


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
