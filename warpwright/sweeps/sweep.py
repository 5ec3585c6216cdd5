"""Runs a sweep: leaves out what earlier runs have finished, shows progress, keeps results and writes the page."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from warpwright.messages import report
from warpwright.quantity_text import figures
from warpwright.sweeps.page import write_page
from warpwright.sweeps.result import Sweep
from warpwright.sweeps.specification import (
    Point,
    Specification,
    SweepError,
    points_of,
    read_specification,
    specification_of,
)
from warpwright.sweeps.store import Store
from warpwright.sweeps.workers import DaskWorkers, LocalWorkers, Workers
from warpwright.tools.progress import LINE_SECONDS, duration


def check_packages() -> None:
    """Check for the packages of a sweep before hours of simulation.

    Raises:
        SweepError: one is missing.
    """
    missing = [name for name in ("pyarrow", "duckdb") if importlib.util.find_spec(name) is None]
    if missing:
        raise SweepError(f"a sweep needs {' and '.join(missing)}: pip install 'warpwright[sweep]'")


def sweep(
    specification: str | os.PathLike[str] | Mapping[str, Any],
    folder: str | os.PathLike[str] | None = None,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    retry_failed: bool = False,
    progress: bool = True,
) -> Sweep:
    """Run every point of a specification that has no result yet.

    Args:
        specification: a TOML file, or what one would hold as a mapping.
        folder: where results go; beside the file by default (``cache.toml``: ``cache.sweep``).
        workers: processes of this machine; one per core by default.
        scheduler: address of a Dask scheduler, which replaces them.
        retry_failed: whether points that failed before are run again.
        progress: whether progress is shown on standard error.

    Raises:
        SweepError: a wrong specification, a missing package, or a folder in use. Nothing has run then.
    """
    check_packages()
    if isinstance(specification, Mapping):
        if folder is None:
            raise SweepError("a specification that is not a file needs a folder for its results")
        asked = specification_of(specification)
    else:
        asked = read_specification(Path(specification))
        folder = folder if folder is not None else Path(specification).with_suffix(".sweep")
    points = points_of(asked, Path.cwd())
    target = Path(folder).resolve()
    with Store(target) as store:
        return _run(asked, points, store, _workers(asked, workers, scheduler), retry_failed, progress)


def _workers(asked: Specification, count: int | None, scheduler: str | None) -> Callable[[], Workers]:
    if scheduler is not None:
        return lambda: DaskWorkers(scheduler)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = count or max(1, cores // asked.threads_per_point)
    return lambda: LocalWorkers(number, asked.threads_per_point)


def _run(
    asked: Specification, points: list[Point], store: Store, start: Callable[[], Workers], retry: bool, shown: bool
) -> Sweep:
    finished = store.finished()
    if retry:
        again = {point.key for point in points if finished.get(point.key, "done") != "done"}
        store.remove(again)
        finished = {key: status for key, status in finished.items() if key not in again}
    left = [point for point in points if point.key not in finished]
    statuses = {point.key: finished[point.key] for point in points if point.key in finished}
    begun, busy, efficiency = time.monotonic(), 0.0, None
    cpu, overhead = 0.0, 0.0
    if left:
        workers = start()
        with _shown(len(points), statuses, shown) as show:
            try:
                for point, outcome in workers.outcomes(left):
                    store.add(point, outcome)
                    statuses[point.key] = outcome.status
                    busy += outcome.host_seconds
                    cpu += outcome.cpu_seconds
                    overhead += outcome.overhead_cpu_seconds
                    show()
            finally:
                wall = time.monotonic() - begun
        efficiency = busy / (wall * max(1, min(workers.count, len(left))))
    store.flush()
    seconds = time.monotonic() - begun
    of_cpu = cpu / (cpu + overhead) if cpu else None
    result = Sweep(store.folder, tuple(points), len(left), statuses, seconds, efficiency, of_cpu)
    write_page(result, asked.page)
    return result


@contextmanager
def _shown(
    total: int, statuses: Mapping[str, str], shown: bool, stream: TextIO | None = None
) -> Iterator[Callable[[], None]]:
    """Show how many points are finished: a bar on a terminal, a line every few seconds elsewhere."""
    console = Console(stderr=True)
    before, begun = len(statuses), time.monotonic()

    def told() -> str:
        failed = sum(status != "done" for status in list(statuses.values()))
        ran, passed = len(statuses) - before, time.monotonic() - begun
        text = f"{len(statuses):,} of {total:,} points" + (f", {failed:,} failed" if failed else "")
        if ran:
            return text + f", {figures(ran / passed)}/s, {duration(passed / ran * (total - len(statuses)))} left"
        return text + f", {duration(passed)} for the first ones (workers start, and a new chip's model is compiled)"

    if not shown:
        yield lambda: None
    elif console.is_terminal:
        with Progress(TextColumn("sweep"), BarColumn(), TextColumn("{task.fields[told]}"), console=console) as bar:
            task = bar.add_task("sweep", total=total, completed=before, told=told())
            with _ticking(lambda: bar.update(task, completed=len(statuses), told=told()), 1.0) as show:
                yield show
    else:
        last = begun

        def line() -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_SECONDS or len(statuses) == total:
                last = time.monotonic()
                report(told(), stream)

        with _ticking(line, LINE_SECONDS) as show:
            yield show


@contextmanager
def _ticking(show: Callable[[], None], seconds: float) -> Iterator[Callable[[], None]]:
    """``show``, which is also called every so many seconds: points may take minutes."""
    ended, lock = threading.Event(), threading.Lock()

    def one() -> None:
        with lock:
            if not ended.is_set():
                show()

    def tick() -> None:
        while not ended.wait(seconds):
            one()

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        with lock:
            ended.set()
        thread.join()
