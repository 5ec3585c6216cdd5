"""Runs piglit's programs for raster, depth, stencil, blending, clipping, multisampling and texture formats on the simulated GeForce 8800.

``python -m bench.piglit_programs [--area AREA] [--output FILE] [NAME …]`` runs the fixed list ``bench/data/piglit_programs.txt`` and prints how
many of each area pass, and every failure.  Programs that piglit itself skips for this driver are not counted.  With ``--output`` results are kept after
each program, and a run that was stopped goes on where it was.  ``--mesa`` runs them on Mesa's own choice of driver instead.  A program may take
``SECONDS_PER_PROGRAM`` of CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.piglit import piglit_folder, reason
from warpwright.driver.drm.attach import child_environment

LIST = Path(__file__).parent / "data" / "piglit_programs.txt"
SECONDS_PER_PROGRAM = 300


@dataclass
class Outcome:
    """The outcome of one program: ``pass``, ``fail``, ``skip`` or ``warn``; ``crash``: no result; ``late``: it did not end; ``refused``: the device dropped
    part of its work."""

    result: str
    seconds: float
    said: str = ""


KNOWN = "! "
"""Before a program of the list that is known to fail."""


def known_failures() -> set[str]:
    """Programs of the fixed list that are known to fail."""
    return {line.removeprefix(KNOWN) for line in LIST.read_text().splitlines() if line.startswith(KNOWN)}


def programs() -> dict[str, list[str]]:
    """Command lines of the fixed list by area."""
    areas: dict[str, list[str]] = {}
    for line in LIST.read_text().splitlines():
        if line.startswith("["):
            area = areas.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            area.append(line.removeprefix(KNOWN))
    return areas


def simulated() -> dict[str, str]:
    """Environment variables with which a program finds the simulated chip."""
    return {**child_environment("g80"), "WARPWRIGHT_GPU": "g80"}


def run_program(folder: Path, line: str, variables: dict[str, str]) -> Outcome:
    """Runs one program without a window, with these environment variables."""
    name, *arguments = line.split()
    begun = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [str(folder / "bin" / name), *arguments, "-auto", "-fbo"],
        env={**os.environ, **variables, "PIGLIT_PLATFORM": "surfaceless_egl", "PIGLIT_SOURCE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_PER_PROGRAM, SECONDS_PER_PROGRAM)),
        check=False,
    )
    seconds = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begun, 1)
    whole = re.findall(r'PIGLIT: \{"result": ?"(\w+)"', done.stdout)
    refusals = [text for text in done.stdout.splitlines() if text.startswith("warpwright: ")]
    if not whole:
        result = "late" if seconds > 0.9 * SECONDS_PER_PROGRAM else "crash"
    else:
        result = "refused" if refusals and whole[-1] == "pass" else whole[-1]
    said = "" if result in ("pass", "skip") else reason(done.stdout) or done.stdout[-160:]
    return Outcome(result, seconds, said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs to run instead of all")
    parser.add_argument("--area", help="only this area")
    parser.add_argument("--output", type=Path, help="keep the results in this file, as JSON, and go on from it")
    parser.add_argument("--mesa", action="store_true", help="on Mesa's own choice of driver instead, for comparison")
    arguments = parser.parse_args()
    folder = piglit_folder()
    variables = {} if arguments.mesa else simulated()
    output: Path | None = arguments.output
    known = json.loads(output.read_text()) if output is not None and output.is_file() else {}
    found = {line: Outcome(**outcome) for line, outcome in known.items()}
    wanted = {
        area: [line for line in lines if not arguments.names or line.split()[0] in arguments.names]
        for area, lines in programs().items()
        if arguments.area in (None, area)
    }
    for line in (line for lines in wanted.values() for line in lines if line not in found):
        found[line] = run_program(folder, line, variables)
        print(f"{found[line].result:7} {found[line].seconds:6.1f} s  {line}", file=sys.stderr, flush=True)
        if output is not None:
            output.write_text(json.dumps({line: asdict(outcome) for line, outcome in found.items()}, indent=1))
    for area, lines in wanted.items():
        counts = Counter(found[line].result for line in lines)
        print(f"{area}: {counts['pass']} of {len(lines) - counts['skip']} pass; {counts['skip']} skipped")
    for line in (line for lines in wanted.values() for line in lines):
        if found[line].result not in ("pass", "skip"):
            print(f"{found[line].result:7} {line}  {found[line].said}")


if __name__ == "__main__":
    main()
