"""Short programs, each in a process of its own that is forked from one which has imported the driver.

A hundred of them would otherwise spend most of their time on the same imports. Nothing has begun in the process that is forked: the driver
reads the environment, chooses its chips and compiles in the child.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START = f"""
import sys
sys.path.insert(0, {os.fspath(ROOT)!r})
from tests.forked_programs import serve
asked = serve()
exec(compile(asked, "<program>", "exec"), {{"__name__": "__main__"}})
"""
"""The child returns from ``serve`` with its program, and ends as any interpreter does."""
READ_AT_IMPORT = frozenset(["WARPWRIGHT_RESULTS", "WARPWRIGHT_DEBUG", "WARPWRIGHT_BOUNDSCHECK"])
"""Variables that act when ``warpwright`` is imported: programs that have them start as others do."""


def _import_all() -> None:
    """What every program on the driver imports sooner or later."""
    for name in (
        *("warpwright.driver.process", "warpwright.driver.register_all", "warpwright.libraries"),
        *("warpwright.timing.simulate", "warpwright.toolchain", "warpwright.resident_launches"),
        *("warpwright.tools.progress", "tests.driver_library"),
    ):
        importlib.import_module(name)


def serve() -> str:
    """Run one program after the other; in the process of a program, its text."""
    _import_all()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            answers.close()
            return _become(asked)
        answers.write(json.dumps(_ended(child, asked["seconds"])) + "\n")
        answers.flush()
    os._exit(0)


def _become(asked: dict[str, Any]) -> str:
    """Take the program's environment and files."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, path in enumerate((os.devnull, asked["out"], asked["errors"])):
        file = os.open(path, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.argv = ["-c", *asked["words"]]
    program: str = asked["program"]
    return program


def _ended(child: int, seconds: float) -> int | None:
    """The exit code, negative for a signal; None when the time has passed."""
    watch = os.pidfd_open(child)
    try:
        in_time = bool(select.select([watch], [], [], seconds)[0])
    finally:
        os.close(watch)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if in_time else None


@cache
def _server() -> subprocess.Popen[str]:
    # Threads of a library do not live on in a forked process.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    for name in READ_AT_IMPORT:
        environment.pop(name, None)
    server = subprocess.Popen(
        [sys.executable, "-c", START], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    server.kill()
    server.wait()


def run_program(
    program: str, environment: dict[str, str], *words: str, seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """What ``python -c`` does with the program, its arguments and the environment.

    Raises:
        subprocess.TimeoutExpired: it did not end in so many seconds.
    """
    command = [sys.executable, "-c", program, *words]
    if READ_AT_IMPORT & environment.keys() or not hasattr(os, "pidfd_open"):
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=seconds)
    with contextlib.ExitStack() as files:
        out, errors = (files.enter_context(tempfile.NamedTemporaryFile("r")) for _ in range(2))
        asked = {"program": program, "words": words, "environment": environment, "seconds": seconds}
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps({**asked, "out": out.name, "errors": errors.name}) + "\n")
        server.stdin.flush()
        code = json.loads(server.stdout.readline())
        if code is None:
            raise subprocess.TimeoutExpired(command, seconds)
        return subprocess.CompletedProcess(command, code, out.read(), errors.read())
