"""Compare how long numba-cuda's own tests take on the simulated device and under Numba's simulator (NUMBA_ENABLE_CUDASIM=1).

    python -m bench.numba_simulator FOLDER FILE ... [--gpu a100] [--seconds 600] [--json FILE]

FOLDER is a checkout as for ``bench.numba_tests``, FILEs are paths of tests in it such as ``cudapy/test_matmul.py``.  A test counts
when it passes under both.  Seconds are the processor's, with all threads.  Two things are compared: whole tests, which on the device
are nearly all Numba's compiler, without which its simulator does; and launches alone, for each thread that they launch,
since many tests choose smaller sizes when they find the simulator.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.numba_tests import pytest_command, run

Tests = dict[str, dict[str, float]]


def seconds_of(folder: Path, path: Path, gpu: str | None, seconds: int) -> Tests:
    """What the tests of a file that pass take, on the device, or under Numba's simulator when there is no ``gpu``."""
    command = pytest_command(folder, [path], "-p", "bench.test_seconds")
    if gpu is not None:
        command = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", gpu, "--timing", "off", *command]
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place) / "seconds.json"
        before = dict(os.environ)
        os.environ["TEST_SECONDS_FILE"] = str(kept)
        os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
        os.environ["NUMBA_ENABLE_CUDASIM"] = "0" if gpu else "1"
        try:
            run(command, folder / "testing", seconds)
        finally:
            os.environ.clear()
            os.environ.update(before)
        found: Tests = json.loads(kept.read_text()) if kept.is_file() else {}
    return {name.split("::", 1)[1]: one for name, one in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--gpu", default="a100")
    parser.add_argument(
        "--seconds", type=int, default=600, help="for one file; a process that takes longer counts nothing"
    )
    parser.add_argument("--json", type=Path, help="also write each test's figures here: ours, the simulator's")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    results: dict[str, dict[str, tuple[dict[str, float], dict[str, float]]]] = {}
    for path in arguments.files:
        ours = seconds_of(folder, path, arguments.gpu, arguments.seconds)
        theirs = seconds_of(folder, path, None, arguments.seconds)
        results[str(path)] = {name: (ours[name], theirs[name]) for name in ours if name in theirs}
        print(f"{path!s:36} {_line(list(results[str(path)].values()))}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
    print(f"{'all':36} {_line([pair for both in results.values() for pair in both.values()])}")


def _line(pairs: list[tuple[dict[str, float], dict[str, float]]]) -> str:
    """Seconds of whole tests, and microseconds of launches for each thread that is launched: ours, the simulator's."""
    ours, theirs = (
        {what: sum(pair[side][what] for pair in pairs) for what in ("seconds", "launches", "threads")}
        for side in (0, 1)
    )
    each = [1e6 * one["launches"] / max(one["threads"], 1) for one in (ours, theirs)]
    return (
        f"{len(pairs):4} tests: {ours['seconds']:8.2f} s and {theirs['seconds']:8.2f} s; {ours['threads']:10,.0f} and "
        f"{theirs['threads']:8,.0f} threads, {each[0]:9.3f} and {each[1]:9.1f} µs each: {each[1] / max(each[0], 1e-9):8.1f} times"
    )


if __name__ == "__main__":
    main()
