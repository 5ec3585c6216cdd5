"""Runs piglit's self-checking shader tests on the simulated GeForce 8800 and prints how many pass, and every failure.

``python -m bench.piglit [--count N] [--output FILE]`` takes a fixed random choice of the ``.shader_test`` files of GLSL 1.10 to 3.30 of the system's
piglit (package ``piglit``).  Files are run in groups by one process each; a group that ends without all its results goes on with
the file after the one that ended it.  Tests that piglit itself skips for this driver are not counted.  With ``--output`` results are kept after each
group, and a run that was stopped goes on where it was; a smaller ``--count`` is the beginning of a larger one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

VERSIONS = ("glsl-1.10", "glsl-1.20", "glsl-1.30", "glsl-1.40", "glsl-1.50", "glsl-3.30")
SEED, CHOSEN = 21, 1500
GROUP = 25
SECONDS_PER_TEST = 40


def piglit_folder() -> Path:
    """Where the system's piglit is.

    Raises:
        SystemExit: it is not installed.
    """
    for folder in Path("/usr/lib").glob("*/piglit"):
        if (folder / "bin" / "shader_runner").is_file():
            return folder
    raise SystemExit("piglit is not installed: apt-get install piglit")


def chosen(folder: Path, count: int) -> list[Path]:
    """The first of a fixed random choice of ``CHOSEN`` tests."""
    found = sorted(
        path
        for tree in ("tests", "generated_tests")
        for version in VERSIONS
        for path in (folder / tree / "spec" / version).rglob("*.shader_test")
    )
    return random.Random(SEED).sample(found, min(max(count, CHOSEN), len(found)))[:count]


def run_group(folder: Path, tests: list[Path], command: list[str]) -> tuple[list[str], bool, str]:
    """Results of the first tests of a group, in order, whether the last of them ended the process, and what the process said."""
    environment = {**os.environ, "PIGLIT_PLATFORM": "surfaceless_egl", "PIGLIT_SOURCE_DIR": str(folder)}
    runner = [*command, str(folder / "bin" / "shader_runner"), *map(str, tests), "-auto", "-fbo", "-report-subtests"]
    try:
        done = subprocess.run(
            runner,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS_PER_TEST * len(tests),
            check=False,
        )
        text = done.stdout
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        text += "\nwarpwright: the time limit of the group has passed"
    return *_results(tests, text), text


def _results(tests: list[Path], text: str) -> tuple[list[str], bool]:
    """Results by name; a test that ends the process, as one that does not link, has the process's result."""
    named = dict(re.findall(r'PIGLIT: \{"subtest": \{"([^"]*)" : "(\w+)"', text))
    whole = re.findall(r'PIGLIT: \{"result": "(\w+)"', text)
    found: list[str] = []
    for test in tests:
        if test.stem not in named:
            return [*found, *whole[-1:]], bool(whole)
        found.append(named[test.stem])
    return found, False


def reason(text: str) -> str:
    """The first line that explains why a test failed."""
    lines = [line for line in text.splitlines() if line.startswith("warpwright") or "Probe" in line or "rror" in line]
    return lines[0][:160] if lines else ""


Found = dict[str, tuple[str, str]]
"""Result and reason of tests, by their paths below piglit's folder."""


def run_all(folder: Path, tests: list[Path], command: list[str], output: Path | None) -> Found:
    """Results of all tests; those that the output file has are not run again."""
    known = json.loads(output.read_text()) if output is not None and output.is_file() else {}
    names = [str(test.relative_to(folder)) for test in tests]
    found: Found = {name: tuple(known[name]) for name in names if name in known}
    left = [test for test, name in zip(tests, names, strict=True) if name not in found]
    while left:
        group = left[:GROUP]
        results, ended, text = run_group(folder, group, command)
        parts = re.split(r"(?m)^PIGLIT TEST: \d+ - .*$", text)[1:]
        parts = parts[len(parts) // 2 :] if len(parts) == 2 * len(group) else parts
        for number, (test, result) in enumerate(zip(group, results, strict=False)):
            said = reason(parts[number]) if number < len(parts) and result == "fail" else ""
            found[str(test.relative_to(folder))] = (result, said)
        done = len(results)
        if done < len(group) and not ended:
            # Some files end piglit itself, whatever the driver.
            broken = "Unexpected vbo column name" in text
            found[str(group[done].relative_to(folder))] = ("skip" if broken else "crash", reason(text))
            done += 1
        left = left[done:]
        if output is not None:
            output.write_text(json.dumps(found, indent=1))
        counts = Counter(result for result, _ in found.values())
        print(f"{len(found)} of {len(tests)}: {dict(counts)}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=CHOSEN, help="how many tests")
    parser.add_argument("--output", type=Path, help="keep the results in this file, as JSON, and go on from it")
    parser.add_argument("--mesa", action="store_true", help="on Mesa's own choice of driver instead, for comparison")
    arguments = parser.parse_args()
    folder = piglit_folder()
    command = [] if arguments.mesa else [sys.executable, "-m", "warpwright", "run", "--gpu", "g80"]
    found = run_all(folder, chosen(folder, arguments.count), command, arguments.output)
    counts = Counter(result for result, _ in found.values())
    asked = sum(counts.values()) - counts["skip"]
    print(f"{counts['pass']} of {asked} pass ({100 * counts['pass'] / max(1, asked):.1f}%); {counts['skip']} skipped")
    for test, (result, said) in sorted(found.items()):
        if result not in ("pass", "skip"):
            print(f"{result:6} {test}  {said}")


if __name__ == "__main__":
    main()
