"""Runs points: a process that has imported everything and forks for each point, so that a point costs no start of Python.

A point that crashes, runs out of memory or takes too long ends its own process alone. The server reads points as lines of JSON
from its standard input and writes an outcome for each to its standard output. It ends, with the point that runs, when its input
ends: nothing is left over when whoever started it is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpwright.sweeps.specification import Point

MEMORY_POLL_SECONDS = 0.1
MOST_MESSAGE = 2000
"""Characters of a failed program's output that are kept."""
PRELOADED = (
    *("warpwright.api", "warpwright.run_launch", "warpwright.tools.export", "warpwright.timing.simulate"),
    *(
        "warpwright.programs",
        "warpwright.driver.attach",
        "warpwright.driver.launch_records",
        "warpwright.driver.kernel_groups",
    ),
    *("warpwright.driver.drm.attach", "warpwright.driver.nvtx", "warpwright.libraries", "warpwright.tools.checks"),
)
"""What every point's process would import otherwise."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a point."""

    key: str
    status: str
    """``done``, ``failed`` (its program), ``timed out``, ``out of memory`` or ``killed``."""
    message: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One per launch."""
    host_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Processor time of the point's process and of those that it waited for."""
    overhead_cpu_seconds: float = 0.0
    """Processor time of the worker since its previous outcome, without that of points."""
    peak_mib: float = 0.0
    """Largest resident memory of one of these processes."""

    def to_json(self) -> str:
        """The outcome on one line."""
        return json.dumps(asdict(self))


class WorkerLost(Exception):
    """The server ended before it gave the outcome of its point."""


class PointServer:
    """A server that runs one point at a time, from its user's side."""

    def __init__(self, threads: int = 1) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "WARPWRIGHT_THREADS": str(threads)}
        # Ctrl-C goes to whoever uses the server, which then ends it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "warpwright.sweeps.point_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Process that forks for each point."""
        return self._process.pid

    def run(self, point: Point) -> Outcome:
        """Run a point.

        Raises:
            WorkerLost: the server was killed; its point has to be run again.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(point.to_json() + "\n")
            self._process.stdin.flush()
            told = self._process.stdout.readline()
        except (OSError, ValueError):
            told = ""
        if not told.endswith("\n"):
            raise WorkerLost(f"worker process {self.pid} ended")
        return Outcome(**json.loads(told))

    def close(self) -> None:
        """End the server and the point that it runs."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


_servers = threading.local()
_told_cpu = 0.0
_told_lock = threading.Lock()


def _own_cpu_seconds() -> float:
    """Processor time of this process since the last call: part of a worker's work that is not a point's."""
    global _told_cpu
    with _told_lock:
        now = time.process_time()
        passed, _told_cpu = now - _told_cpu, now
    return passed


def run_here(text: str) -> str:
    """Run a point, given and answered as JSON, on a server of the calling thread: what a Dask worker executes."""
    point = Point.from_json(text)
    server = getattr(_servers, "server", None)
    if server is None or _servers.threads != point.threads:
        server, _servers.threads = PointServer(point.threads), point.threads
        _servers.server = server
    try:
        outcome = server.run(point)
    except WorkerLost:
        server.close()
        _servers.server = None
        raise
    outcome.overhead_cpu_seconds += _own_cpu_seconds()
    return outcome.to_json()


# --- in the server ------------------------------------------------------------------------------------------------------


def _chip_file(point: Point, folder: Path) -> str:
    """The chip's name, or a file with its overrides."""
    if not point.overrides:
        return point.chip
    name = Path(point.chip).stem if point.chip.endswith(".toml") else point.chip
    lines = [f"base = {json.dumps(point.chip)}", f"name = {json.dumps(name)}"]
    lines += [f"{field} = {json.dumps(value)}" for field, value in point.overrides.items()]
    path = folder / "chip.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def _execute(point: Point, folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Run the point's program in this process or, if it is not a Python file, in its own."""
    from warpwright import programs
    from warpwright.session import session
    from warpwright.tools.export import launch_rows

    os.chdir(point.folder)
    session.threads = point.threads
    chip, (program, *arguments) = _chip_file(point, folder), point.words
    if programs.is_python_file(program):
        with programs.child_results(chip, point.timing) as children:
            runs = programs.execute(Path(program), arguments, chip, point.timing)
        return launch_rows(runs + children.runs), 0
    children, code = programs.execute_command(list(point.words), chip, point.timing)
    return launch_rows(children.runs), code


def _point_process(point: Point, folder: Path) -> None:
    """Run a point in a process that was forked for it; never returns."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        for number, file in enumerate((nothing, output, output)):
            os.dup2(file, number)
        rows, code = _execute(point, folder)
        (folder / "rows").write_text(json.dumps(rows), encoding="utf-8")
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(min(code, 255))


def _resident_mib(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * resource.getpagesize() / (1 << 20)


def _end(pid: int) -> None:
    """Kill a point's process and those that it started."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)


def _follow(pid: int, point: Point) -> tuple[int, str, resource.struct_rusage]:
    """Wait for a point's process; return its exit status, why it was stopped (empty if it was not), and what it used."""
    requests: Any = sys.stdin.buffer
    begun = time.monotonic()
    looked = begun
    why = ""
    # Readable when the process has ended, so that a long point costs its worker nothing.
    end = os.pidfd_open(pid)
    try:
        while True:
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                return status, why, used
            left = max(begun + point.timeout_seconds - time.monotonic(), 0.0) if not why else MEMORY_POLL_SECONDS
            limit = left if point.memory_mib is None else min(left, MEMORY_POLL_SECONDS)
            ready, _, _ = select.select([requests, end], [], [], limit)
            if requests in ready and not requests.peek(1):
                _end(pid)
                os._exit(0)
            now = time.monotonic()
            if not why and now - begun > point.timeout_seconds:
                why = "timed out"
            elif not why and point.memory_mib is not None and now - looked >= MEMORY_POLL_SECONDS:
                looked = now
                why = "out of memory" if _resident_mib(pid) > point.memory_mib else ""
            if why:
                _end(pid)
    finally:
        os.close(end)


def _last(folder: Path) -> str:
    try:
        text = (folder / "output").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return text[-MOST_MESSAGE:]


def _run(point: Point) -> Outcome:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warpwright-sweep-") as name:
        folder = Path(name)
        pid = os.fork()
        if not pid:
            _point_process(point, folder)
        status, why, used = _follow(pid, point)
        outcome = Outcome(point.key, why or "done", host_seconds=time.monotonic() - begun)
        outcome.cpu_seconds, outcome.peak_mib = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        if not why and status:
            code = os.waitstatus_to_exitcode(status)
            outcome.status = "killed" if code == -signal.SIGKILL else "failed"
            outcome.message = f"signal {-code}" if code < 0 else _last(folder) or f"exit code {code}"
        elif why:
            limit = f"{point.timeout_seconds:g} s" if why == "timed out" else f"{point.memory_mib} MiB"
            outcome.message = f"over the limit of {limit}"
        else:
            outcome.rows = json.loads((folder / "rows").read_text(encoding="utf-8"))
    outcome.overhead_cpu_seconds = _own_cpu_seconds()
    return outcome


def main() -> None:
    """Serve points until the input ends."""
    import importlib

    for name in PRELOADED:
        importlib.import_module(name)
    for line in iter(sys.stdin.buffer.readline, b""):
        print(_run(Point.from_json(line.decode())).to_json(), flush=True)


if __name__ == "__main__":
    main()
