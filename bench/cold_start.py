"""Measures what the first command costs: README's comparison of three chips with empty caches, and again with the caches of the first run.

``python -m bench.cold_start [--turns N] [--against CHECKOUT]`` prints seconds of wall clock and of CPU, the lowest of the turns; with another
checkout of Warpwright both run in turns.  Bytecode is compiled before, as an installation does.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.checkouts import turns_and_checkouts

COMMAND = ("compare", "v100", "a100", "h200", "--", "examples/matmul.py")
RUN = "from warpwright.cli import main; main()"


def once(checkout: Path, environment: dict[str, str], *words: str) -> tuple[float, float]:
    """Seconds of wall clock and of CPU that a process takes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=checkout, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold_and_warm(checkout: Path, bytecode: str) -> list[tuple[float, float]]:
    """The command with empty caches, then again."""
    with tempfile.TemporaryDirectory() as caches:
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": caches,
            "WARPWRIGHT_CACHE": "",
            "PYTHONPATH": str(checkout),
            "PYTHONPYCACHEPREFIX": bytecode,
            "PYTHONDONTWRITEBYTECODE": "",
        }
        once(checkout, environment, "-m", "compileall", "-q", str(checkout / "warpwright"))
        return [once(checkout, environment, "-c", RUN, *COMMAND) for _ in range(2)]


def main() -> None:
    turns, checkouts = turns_and_checkouts(__doc__)
    found: dict[Path, list[list[tuple[float, float]]]] = {checkout: [] for checkout in checkouts}
    with tempfile.TemporaryDirectory() as bytecode:
        for _ in range(turns):
            for checkout, runs in found.items():
                runs.append(cold_and_warm(checkout, bytecode))
    print(f"{'':40s} {'wall s':>8s} {'CPU s':>8s}")
    for checkout, runs in found.items():
        for number, what in enumerate(("empty caches", "again")):
            wall, cpu = (min(run[number][kind] for run in runs) for kind in (0, 1))
            print(f"{checkout.name + ', ' + what:40s} {wall:8.2f} {cpu:8.2f}")


if __name__ == "__main__":
    main()
