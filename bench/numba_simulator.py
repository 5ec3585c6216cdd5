"""Compare how long numba-cuda's own tests take on the simulated device, under Numba's simulator and on a card.

    python -m bench.numba_simulator FOLDER [FILE ...] [--sides cold warm simulator card] [--gpu a100] [--jobs 1] [--seconds 600] [--json FILE]

FOLDER is a checkout as for ``bench.numba_tests``, FILEs are paths of tests in it such as ``cudapy/test_matmul.py`` (all when there is none).  Sides:

========= ==========================================================================
cold      the simulated device; the disk holds no code of kernels, only what all share
warm      the same once more: every kernel's code is on the disk
simulator Numba's simulator (NUMBA_ENABLE_CUDASIM=1), which compiles nothing
card      the CUDA device of the machine
========= ==========================================================================

A test counts when it passes on all sides.  Seconds are the processor's, with all threads.  Two things are compared: whole tests, by the part of
the program that takes them (``bench.test_seconds``), and launches alone, for each thread that they launch,
since many tests choose smaller sizes when they find the simulator.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bench.numba_tests import TESTS, pytest_command, run

Tests = dict[str, dict[str, Any]]
SIDES = ("cold", "warm", "simulator", "card")
HOME = Path(__file__).parent.parent


def seconds_of(folder: Path, paths: list[Path], side: str, gpu: str, cache: Path, seconds: int) -> Tests:
    """Seconds of the passing tests of a file (or of some of them, as ``FILE::NAME``) on one side."""
    command = pytest_command(folder, paths, "-p", "bench.test_seconds")
    if side in ("cold", "warm"):
        command = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", gpu, "--timing", "off", *command]
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place) / "seconds.json"
        others = os.environ.get("PYTHONPATH")
        environment = {
            "TEST_SECONDS_FILE": str(kept),
            "PYTHONPATH": os.pathsep.join([str(HOME), *([others] if others else [])]),
            "NUMBA_ENABLE_CUDASIM": "1" if side == "simulator" else "0",
            "WARPWRIGHT_CACHE": str(cache),
        }
        run(command, folder / "testing", seconds, environment)
        found: Tests = json.loads(kept.read_text()) if kept.is_file() else {}
    return {name.split("::", 1)[-1]: one for name, one in found.items()}


def sides_of(folder: Path, path: Path, sides: Iterable[str], gpu: str, seconds: int, shared: Path) -> dict[str, Tests]:
    """The tests of a file on each side, with a cache of their own that holds what is in ``shared``; a side runs what passed on those before."""
    found: dict[str, Tests] = {}
    with tempfile.TemporaryDirectory() as place:
        cache = Path(place) / "cache"
        shutil.copytree(shared, cache)
        paths = [path]
        for side in sides:
            found[side] = seconds_of(folder, paths, side, gpu, cache, seconds) if paths else {}
            paths = [Path(f"{path}::{name}") for name in in_common(found)]
    return found


def prepare_shared(gpu: str, cache: Path) -> None:
    """Create what all kernels share (the driver's library and the engine's functions), so that no test pays for it."""
    command = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", gpu, "--timing", "off", sys.executable, "-c"]
    program = "from warpwright.engine.jit.shared_library import shared_library; shared_library()"
    cache.mkdir()
    _, text = run([*command, program], HOME, 600, {"WARPWRIGHT_CACHE": str(cache)})
    if not any(cache.iterdir()):
        raise SystemExit(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=["simulator", "cold", "warm"])
    parser.add_argument("--gpu", default="a100")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument(
        "--seconds", type=int, default=600, help="for one file; of a process that takes longer the first tests count"
    )
    parser.add_argument("--json", type=Path, help="also write each test's figures here, by file and side")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    # Long ones first, so that no core waits for another at the end.
    files = arguments.files or [
        p.relative_to(folder / TESTS)
        for p in sorted((folder / TESTS).rglob("test_*.py"), key=lambda p: p.stat().st_size, reverse=True)
    ]
    results: dict[str, dict[str, Tests]] = {}
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(arguments.jobs) as pool:
        shared = Path(place) / "cache"
        prepare_shared(arguments.gpu, shared)
        work = {
            pool.submit(sides_of, folder, path, arguments.sides, arguments.gpu, arguments.seconds, shared): str(path)
            for path in files
        }
        for future in as_completed(work):
            path = work[future]
            results[path] = future.result()
            print(f"{path:44} {_line(results[path])}", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1))
    show(results)


def in_common(sides: dict[str, Tests]) -> list[str]:
    """Tests of a file that passed on every side."""
    first, *others = sides.values()
    return [name for name in first if name != "context" and all(name in other for other in others)]


def _line(sides: dict[str, Tests]) -> str:
    names = in_common(sides)
    parts = (f"{side} {sum(tests[n]['seconds'] for n in names):8.2f} s" for side, tests in sides.items())
    return f"{len(names):4} tests: {', '.join(parts)}"


def show(results: dict[str, dict[str, Tests]]) -> None:
    """Sums over all files: seconds by side and phase, and launches for each thread."""
    sides = list(next(iter(results.values())))
    count = sum(len(in_common(one)) for one in results.values())
    print(f"\n{count} tests that pass on all sides, seconds of the processor (in brackets: by the clock)")
    totals = {}
    for side in sides:
        kept = [one[side][name] for one in results.values() for name in in_common(one)]
        totals[side] = sum(test["seconds"] for test in kept)
        phases: Counter[str] = Counter()
        for test in kept:
            phases.update(test["phases"])
        parts = ", ".join(f"{phase} {spent:.1f}" for phase, spent in phases.most_common())
        clock = sum(test["clock"] for test in kept)
        print(f"{side:10} {totals[side]:8.1f} ({clock:.1f}): {parts}")
        launches, threads, launched = (sum(test[w] for test in kept) for w in ("launches", "threads", "launched"))
        print(
            f"{'':10} {launched:,} launches of {threads:,} threads: {1e6 * launches / max(threads, 1):.3f} µs a thread"
        )
    if "simulator" in sides:
        ratios = ", ".join(f"{side} {totals[side] / totals['simulator']:.2f}" for side in sides if side != "simulator")
        print(f"for each second of Numba's simulator: {ratios}")


if __name__ == "__main__":
    main()
