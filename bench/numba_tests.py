"""Run numba-cuda's own CUDA tests on the simulated device and print which pass, by file and group.

    python -m bench.numba_tests FOLDER [--gpu a100] [--only PART ...] [--binaries FOLDER] [--seconds 600] [--json FILE] [--resume]

FOLDER is a checkout of github.com/NVIDIA/numba-cuda of the installed version.  Needs numba-cuda, pytest 8, psutil, cffi,
filecheck, ml_dtypes and pytest-benchmark.  A few files of tests at a time are one process under ``warpwright run``; a test
that is still running when the time of the process is over, that ends it, or that leaves an error which stays, has failed,
and those behind it are run again without it.  ``--binaries`` is the folder in which ``make`` built the repository's ``testing`` files; tests that need
them are skipped without it.  ``--json`` keeps the outcomes by file as they come, with the processor's seconds of the
process that ran them; with ``--resume`` the files that it holds are not run again, so that several runs add up.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

TESTS = Path("numba_cuda/numba/cuda/tests")
_OUTCOME = re.compile(r"^(\S*::\S+) (PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR)?", re.MULTILINE)
_REASON = re.compile(r"^(?:FAILED|ERROR) (\S+) - (.*)", re.MULTILINE)
_STICKY = re.compile("CUDA_ERROR_(ILLEGAL|MISALIGNED|LAUNCH_FAILED|LAUNCH_TIMEOUT|ASSERT)")
"""Results that every later call of the process returns as well."""
_WORDS = {"PASSED": "pass", "XFAIL": "pass", "FAILED": "fail", "XPASS": "fail", "ERROR": "fail", "SKIPPED": "skip"}


def run(command: list[str], folder: Path, seconds: int, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and output of a command; it and its children are killed when the time is over."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "400", **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        return child.returncode, output.read()


def pytest_command(folder: Path, paths: list[Path], *options: str) -> list[str]:
    """Runs the tests of some files of the installed package, to be called in the checkout's folder ``testing``."""
    specification = importlib.util.find_spec("numba_cuda")
    if specification is None or specification.origin is None:
        raise SystemExit("numba-cuda is not installed")
    installed = Path(specification.origin).parents[1]
    command = [sys.executable, "-m", "pytest", "-v", "--tb=line", "--color=no", *options]
    command += ["-p", "no:cacheprovider", "-p", "conftest", "-o", "addopts=", "--benchmark-disable"]
    command += ["-c", str(folder / "testing" / "pytest.ini"), f"--rootdir={installed}"]
    return [*command, *(str(installed / TESTS / p) for p in paths)]


def run_files(folder: Path, paths: list[Path], gpu: str, seconds: int) -> tuple[dict[str, str], dict[str, str]]:
    """Run the tests of some files: a word for each test, and reasons of those that fail."""
    device = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", gpu, "--timing", "off"]
    command = [*device, *pytest_command(folder, paths, "-rfE")]
    words: dict[str, str] = {}
    reasons: dict[str, str] = {}
    while True:
        done = list(words)
        # What -v prints is a path from the present folder; pytest selects by paths from its root.
        without = (f"--deselect={name[name.index(str(TESTS)) :]}" for name in done)
        code, text = run([*command, *without], folder / "testing", seconds)
        begun = ""
        for name, word in _OUTCOME.findall(text):
            begun = "" if word else name
            if word:
                words.setdefault(name, _WORDS[word])
        reasons.update(_REASON.findall(text))
        spoilt = [n for n in words if n not in done and words[n] == "fail" and _STICKY.search(reasons.get(n, ""))]
        for name in spoilt[1:]:
            del words[name]
        if spoilt[1:]:
            continue
        killed = code == -signal.SIGKILL
        if begun and begun not in done:
            words[begun] = "fail"
            reasons[begun] = f"not done after {seconds} s" if killed else f"ends the process with {code}"
        elif not killed or len(words) == len(done):
            if code not in (0, 1, 5):
                print(f"exit {code}: {text.strip()[-2000:]}")
            return words, reasons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", default="a100")
    parser.add_argument("--only", nargs="*", help="parts of paths of files")
    parser.add_argument("--without", nargs="*", default=[], help="parts of paths of files")
    parser.add_argument("--binaries", type=Path)
    parser.add_argument("--together", type=int, default=16, help="files in one process")
    parser.add_argument("--seconds", type=int, default=600, help="for one process")
    parser.add_argument("--json", type=Path, help="also write the outcomes here, by file")
    parser.add_argument("--resume", action="store_true", help="leave out the files that --json's file holds")
    arguments = parser.parse_args()
    if arguments.resume and not arguments.json:
        parser.error("--resume goes with --json")
    if arguments.binaries:
        os.environ["NUMBA_CUDA_TEST_BIN_DIR"] = str(arguments.binaries.resolve())
    folder: Path = arguments.folder.resolve()
    paths = sorted(p.relative_to(folder / TESTS) for p in (folder / TESTS).rglob("test_*.py"))
    paths = [p for p in paths if not arguments.only or any(part in str(p) for part in arguments.only)]
    paths = [p for p in paths if not any(part in str(p) for part in arguments.without)]
    kept: dict[str, Any] = {}
    if arguments.resume and arguments.json.is_file():
        kept = json.loads(arguments.json.read_text())
        paths = [p for p in paths if str(p) not in kept]
    for first in range(0, len(paths), arguments.together):
        chunk = paths[first : first + arguments.together]
        began = _processor_seconds()
        found, why = run_files(folder, chunk, arguments.gpu, arguments.seconds)
        spent = _processor_seconds() - began
        for path in chunk:
            mine = {name.split("::", 1)[1]: word for name, word in found.items() if f"{TESTS / path}::" in name}
            reasons = {name.split("::", 1)[1]: text for name, text in why.items() if f"{TESTS / path}::" in name}
            kept[str(path)] = {"outcomes": mine, "reasons": reasons, "seconds": round(spent / len(chunk), 1)}
            counts = Counter(mine.values())
            print(f"{path!s:50} {counts['pass']:4} pass {counts['fail']:4} fail {counts['skip']:4} skipped", flush=True)
            for name in (name for name, word in mine.items() if word == "fail"):
                print(f"    {name}: {reasons.get(name, '')[:200]}", flush=True)
        print(f"{spent:8.1f} s of the processor for these {len(chunk)}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(kept, indent=1))
    _summary(kept)


def _summary(kept: dict[str, Any]) -> None:
    """Counts by group, with how many files and the processor's seconds."""
    groups: dict[str, Counter[str]] = {}
    for path, one in kept.items():
        counts = groups.setdefault(path.split("/", 1)[0], Counter())
        counts.update(one["outcomes"].values())
        counts["files"] += 1
        counts["seconds"] += one["seconds"]
    groups["all"] = sum(groups.values(), Counter())
    for group, c in groups.items():
        line = f"{group:20} {c['files']:4} files {c['pass']:5} pass {c['fail']:4} fail {c['skip']:4} skipped"
        print(f"{line} {c['seconds']:8.0f} s of the processor")


def _processor_seconds() -> float:
    """CPU time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
