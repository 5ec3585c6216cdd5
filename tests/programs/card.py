"""Run the programs on a real H200, check the computed references and record the other results.

On a machine with the package installed::

    python -m tests.programs.card prepare --to build/programs
On the machine with the card (needs NumPy and NVIDIA's driver)::

    python -m tests.programs.card record --from build/programs --out tests/programs/h200.npz
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.corpus_card import cubin_path, launch_case
from bench.device import Card
from tests.programs import names, programs

ARCH = 90
SECONDS = 6.0
"""A program that takes longer hangs."""


def prepare(folder: Path) -> None:
    """Compile every program for the card."""
    from warpwright.toolchain import compile_source

    folder.mkdir(parents=True, exist_ok=True)
    for case in programs(recorded=False):
        path = cubin_path(folder, case)
        if not path.exists():
            path.write_bytes(compile_source(case.source, ARCH, options=case.options).cubin)


def launch_from(folder: Path, first: int, into: Path) -> None:
    """Launch programs from number ``first`` on; a fault of the card ends the process (its context is lost)."""
    card = Card()
    for number, case in enumerate(programs(recorded=False)):
        if number < first:
            continue
        (into / "at").write_text(str(number))
        after = launch_case(card, case, cubin_path(folder, case).read_bytes())
        try:
            if case.expected or case.check is not None:
                case.verify(after)
            else:
                changed = {
                    f"{case.name}/{index}": value
                    for index, value in after.items()
                    if value.tobytes() != np.asarray(case.args[index]).tobytes()
                }
                np.savez(into / f"{case.name}.npz", **changed)
        except AssertionError as problem:
            print(f"{case.name}: {str(problem).strip()[:600]}", flush=True)
    (into / "at").write_text("done")


def record(folder: Path, out: Path) -> None:
    """All programs, in a new process after every fault; one file with what those without a reference left."""
    with tempfile.TemporaryDirectory() as scratch:
        into, first = Path(scratch), 0
        while first < len(names()):
            command = [sys.executable, "-m", "tests.programs.card", "launch", "--from", str(folder)]
            child = subprocess.Popen(
                [*command, "--first", str(first), "--out", scratch], stderr=subprocess.PIPE, text=True
            )
            reached, since = "", time.monotonic()
            while child.poll() is None:
                time.sleep(0.1)
                now = (into / "at").read_text() if (into / "at").exists() else ""
                if now != reached:
                    reached, since = now, time.monotonic()
                if time.monotonic() - since > SECONDS:
                    child.kill()
            reached = (into / "at").read_text()
            if reached == "done":
                break
            why = ((child.stderr.read() if child.stderr else "").strip().splitlines() or ["hangs"])[-1]
            print(f"{names()[int(reached)]}: {why}", flush=True)
            first = int(reached) + 1
        results = {}
        for path in sorted(into.glob("*.npz")):
            with np.load(path) as data:
                results.update(data)
        np.savez_compressed(out, **results)
        print(f"{len(results)} buffers → {out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "launch", "record"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/programs"))
    parser.add_argument("--out", type=Path, default=Path("tests/programs/h200.npz"))
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        prepare(arguments.folder)
    elif arguments.what == "launch":
        launch_from(arguments.folder, arguments.first, arguments.out)
    else:
        record(arguments.folder, arguments.out)


if __name__ == "__main__":
    main()
