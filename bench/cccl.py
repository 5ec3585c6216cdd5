"""Run test programs of CUB, Thrust and libcu++ on the simulated device, and print which of their test cases pass.

    python -m bench.cccl FOLDER [--gpu h200] [--timing off] [--count 120] [--seed 1] [--only TEXT ...]
                         [--seconds 300] [--tiny] [--cases N] [--json FILE]

FOLDER holds programs that a build of github.com/NVIDIA/cccl has left, linked with the shared runtime; those of other kinds are
passed over.  A program with Catch2 (CUB) or with Thrust's framework has many cases; one of libcu++ is a single case, which runs
on the host and on the device.  When a case ends its program, the cases after it run in another process.  ``--cases 4`` runs at
most four cases of each program, spread over its list: what full timing can do in minutes.  With ``--json`` what the file already
has is not run again, so that a long run can be taken up where it ended.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpwright.driver import attach, launch_records

LARGE = "~[large-mem]"
"""CUB's tag of cases that need gigabytes of memory; its own test runner leaves them to a run of their own."""
_THRUST = re.compile(r"\[(PASS|FAILURE|KNOWN FAILURE|ERROR)\] +(?:[\d.e+-]+ ms)? *(\S.*?)\s*$", re.MULTILINE)
_CATCH2 = re.compile(r'<TestCase name="([^"]*)".*?<OverallResult success="(true|false)"( skips="[1-9]\d*")?', re.DOTALL)
_EXPRESSION = re.compile(r'success="false"[^>]*line="(\d+)".*?<Expanded>\s*(.*?)\s*</Expanded>', re.DOTALL)


@dataclass
class Report:
    """The result of a test program."""

    cases: int = 0
    passed: int = 0
    skipped: int = 0
    """Cases that found the device unfit for them."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by case."""
    not_reached: int = 0
    """Cases for which the time was not enough."""
    launches: int = 0
    seconds: float = 0.0
    """CPU seconds."""

    def __str__(self) -> str:
        told = (
            f"{self.cases:4} cases {self.passed:4} passed {len(self.failed):3} failed {self.not_reached:3} not reached"
        )
        return f"{told} {self.skipped:3} skipped {self.launches:6} launches {self.seconds:7.1f} s"


class Program:
    """A program with one case: it fails when its exit code is not zero."""

    def __init__(self, path: Path, tiny: bool) -> None:
        self.path, self.tiny = path, tiny

    def listing(self) -> list[str]:
        """Arguments that make it list its cases; none when it has but one."""
        return []

    def cases(self, listed: str) -> list[str]:
        return [self.path.name]

    def arguments(self, cases: Sequence[str], folder: Path) -> list[str]:
        """Arguments that make it run these cases."""
        return []

    def results(self, output: str, exit_code: int | None) -> dict[str, str]:
        """For each case that ended: empty, ``skipped``, or the error. The exit code is None if the time ran out."""
        if exit_code is None:
            return {}
        last = (output.strip().splitlines() or ["no output"])[-1]
        return {self.path.name: "" if exit_code == 0 else f"exit {exit_code}: {last[:160]}"}


class ThrustProgram(Program):
    """Cases of Thrust's framework, which prints a line for each."""

    def listing(self) -> list[str]:
        return ["--list"]

    def cases(self, listed: str) -> list[str]:
        return [line for line in listed.splitlines() if line.strip()]

    def arguments(self, cases: Sequence[str], folder: Path) -> list[str]:
        return [*cases, "--verbose", *(["--sizes=tiny"] if self.tiny else [])]

    def results(self, output: str, exit_code: int | None) -> dict[str, str]:
        messages = dict(re.findall(r"^(?:FAILURE|ERROR): (\S.*?)\s*\n(.*)$", output, re.MULTILINE))
        return {
            name: "" if kind in ("PASS", "KNOWN FAILURE") else f"{kind}: {messages.get(name, '')[:160]}"
            for kind, name in _THRUST.findall(output)
        }


class Catch2Program(Program):
    """Cases of Catch2, which writes what became of each as XML."""

    count = 0

    def listing(self) -> list[str]:
        return [LARGE, "--list-tests", "--verbosity", "quiet"]

    def cases(self, listed: str) -> list[str]:
        found = [line.strip() for line in listed.splitlines() if line.strip()]
        self.count = len(found)
        return found

    def arguments(self, cases: Sequence[str], folder: Path) -> list[str]:
        if len(cases) == self.count:
            return [LARGE, "--reporter", "xml"]
        # Each line is taken as a quoted name, in which backslashes and quotes are escaped.
        lines = (re.sub(r'(["\\])', r"\\\1", case) for case in cases)
        (folder / "cases").write_text("".join(f"{line}\n" for line in lines))
        return ["--input-file", str(folder / "cases"), "--reporter", "xml"]

    def results(self, output: str, exit_code: int | None) -> dict[str, str]:
        found = {}
        for match in _CATCH2.finditer(output):
            name = html.unescape(match[1]).strip()
            wrong = _EXPRESSION.search(match[0])
            told = f"line {wrong[1]}: {html.unescape(wrong[2])[:160]}" if wrong else "a requirement failed"
            found[name] = "skipped" if match[3] else "" if match[2] == "true" else told
        return found


def program_of(path: Path, tiny: bool = False) -> Program | None:
    """The test program in a file, None for files of other kinds."""
    data = path.read_bytes()
    if data[:4] != b"\x7fELF" or b"libcudart.so" not in data:
        return None
    if b"--sizes={tiny" in data:
        return ThrustProgram(path, tiny)
    if b"Catch2 v" in data:
        return Catch2Program(path, tiny)
    return Program(path, tiny) if b"Testing on device" in data else None


class Runner:
    """Runs programs as a shell with the simulated device would."""

    def __init__(self, gpu: str, timing: str, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, **attach.child_environment(gpu, timing, folder)}
        self.said = ""
        """The last of what the last process said on standard error: this package's words, or its own."""

    def __call__(self, path: Path, arguments: Sequence[str], seconds: float) -> tuple[str, int | None, float]:
        """Output, exit code (None when the time was up) and the processor's seconds of a program."""
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Unbuffered: what a process has written before its time is up counts.
        unbuffered = ["stdbuf", "-o0"] if shutil.which("stdbuf") else []
        limit = ["/bin/sh", "-c", f'ulimit -t {max(1, round(seconds))}; exec "$0" "$@"']
        command = [*limit, *unbuffered, str(path), *arguments]
        with (self.folder / "out").open("w+b") as out, (self.folder / "err").open("w+b") as err:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=self.folder, env=self.environment
            )
            try:
                code = process.wait(timeout=20 * seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = -signal.SIGXCPU
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = [
            line for line in texts[1].splitlines() if line.startswith("warpwright: ") and "assembled for" not in line
        ]
        self.said = (own or texts[1].strip().splitlines() or [""])[-1][:240]
        late = code in (-signal.SIGXCPU, -signal.SIGKILL)
        return texts[0], None if late else code, ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def spread(cases: Sequence[str], count: int | None) -> list[str]:
    """At most ``count`` of the cases, evenly spaced in their list; all if it is None."""
    if count is None or count >= len(cases):
        return list(cases)
    return [cases[i * len(cases) // count] for i in range(count)]


def run(program: Program, gpu: str, timing: str, seconds: float, count: int | None = None) -> Report:
    """Run a program's cases, or so many of them, for at most so many of the processor's seconds in all."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="warpwright-") as place:
        folder = Path(place)
        runner = Runner(gpu, timing, folder)
        listed = runner(program.path, program.listing(), seconds)[0] if program.listing() else ""
        left = spread(program.cases(listed), count)
        report.cases = len(left)
        while left:
            output, code, spent = runner(program.path, program.arguments(left, folder), seconds - report.seconds)
            report.seconds += spent
            results = program.results(output, code)
            for case in [case for case in left if case in results]:
                told = results[case]
                report.passed += told == ""
                report.skipped += told == "skipped"
                if told not in ("", "skipped"):
                    report.failed[case] = f"{told} {runner.said}".strip()
            left = [case for case in left if case not in results]
            if code is None or report.seconds >= seconds:
                break
            if left:
                # The first case without a result ended the process.
                report.failed[left.pop(0)] = f"ended its process (exit {code}): {runner.said}"
        report.not_reached = len(left)
        report.launches = launch_records.collect(folder)[1]
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--timing", default="off")
    parser.add_argument("--count", type=int, help="a choice of so many programs; all without it")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--only", nargs="*", help="programs whose names hold one of these")
    parser.add_argument("--seconds", type=float, default=300, help="of the processor, for one program")
    parser.add_argument("--tiny", action="store_true", help="Thrust's tests on their smallest sizes")
    parser.add_argument("--cases", type=int, help="at most so many of each program, spread over its list")
    parser.add_argument("--json", type=Path, help="keep results here, and do not run again what it has")
    arguments = parser.parse_args()
    kept: dict[str, dict[str, Any]] = {}
    if arguments.json and arguments.json.is_file():
        kept = json.loads(arguments.json.read_text())
    found = [
        path for path in sorted(arguments.folder.resolve().rglob("*")) if path.is_file() and os.access(path, os.X_OK)
    ]
    programs = [made for path in found if (made := program_of(path, arguments.tiny))]
    if arguments.count:
        programs = random.Random(arguments.seed).sample(programs, min(arguments.count, len(programs)))
    total = Report()
    shown = [p for p in programs if not arguments.only or any(text in p.path.name for text in arguments.only)]
    for program in shown:
        key = f"{program.path.name} {arguments.gpu} {arguments.timing}{' tiny' * arguments.tiny}"
        if arguments.cases:
            key += f" cases={arguments.cases}"
        if key not in kept:
            report = run(program, arguments.gpu, arguments.timing, arguments.seconds, arguments.cases)
            kept[key] = asdict(report)
            if arguments.json:
                arguments.json.write_text(json.dumps(kept, indent=1))
        report = Report(**kept[key])
        print(f"{program.path.name:60} {report}", flush=True)
        for case, why in report.failed.items():
            print(f"    {case}: {why}", flush=True)
        for name in ("cases", "passed", "skipped", "not_reached", "launches", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(report, name))
        total.failed |= {f"{program.path.name} {case}": why for case, why in report.failed.items()}
    print(f"{f'{len(shown)} programs':60} {total}")


if __name__ == "__main__":
    main()
