"""Programs with one planted fault each, and programs that look faulty and are right, under the checks.

    python -m bench.planted_faults [--gpu h200] [--only NAME ...] [--files races ...] [--build FOLDER] [--json FILE]

The programs are the cases of ``bench/faults`` (``cases.h`` says how lines are marked); those in CUDA C++ are built with nvcc, those in Python
need numba-cuda and cuda-python.  Each case runs in a process of its own under memcheck, racecheck, synccheck and initcheck, and the
check that its mark names.  A fault is found when that check names its line; a finding whose lines are all unmarked is false.

``--card FILE`` sets what compute-sanitizer displayed on a card beside it (``python bench/sanitizer_card.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from warpwright.driver import attach, recording
from warpwright.session import session
from warpwright.tools.checks import Finding

FOLDER = Path(__file__).parent / "faults"
MARK = re.compile(r"(?://|#)([!?=]) ([A-Za-z]\w+)(?: (\w+))?$")
USUAL = ("memcheck", "racecheck", "synccheck", "initcheck")


@dataclass
class Planted:
    """A case: what is wrong with it, and where."""

    name: str
    file: Path
    check: str = ""
    """The check that is to find the fault; empty for a program that is right."""
    lines: set[int] = field(default_factory=set)
    """That are to be named."""
    others: set[int] = field(default_factory=set)
    """That may be named beside them."""
    further: tuple[str, ...] = ()
    """Checks of a right program beyond the usual ones."""

    @property
    def checks(self) -> str:
        return ",".join(dict.fromkeys((*USUAL, *([self.check] if self.check else []), *self.further)))

    def judge(self, told: list[tuple[str, set[int]]]) -> str:
        """``found``, ``missed``, ``other line``, ``other check``, ``right`` or ``false finding``.

        Args:
            told: of each finding its check and the lines of this file that it names.
        """
        known = self.lines | self.others
        false = any(not lines & known for _, lines in told)
        if not self.check:
            return "false finding" if told else "right"
        if any(check == self.check and lines & self.lines for check, lines in told):
            return "found, and a false finding" if false else "found"
        if any(lines & self.lines for _, lines in told):
            return "other check"
        return "other line" if told else "missed"


def planted(files: list[str]) -> Iterator[Planted]:
    """The cases of the files, in their order."""
    for path in sorted(FOLDER.glob("*.*")):
        if path.suffix not in (".cu", ".py") or (files and path.stem not in files):
            continue
        text = path.read_text()
        names = re.findall(r"^CASE\((\w+)\)|^@case\ndef (\w+)", text, re.M)
        cases = {name: Planted(name, path) for both in names for name in both if name}
        for number, line in enumerate(text.split("\n"), 1):
            if found := MARK.search(line):
                kind, name, check = found.groups()
                one = cases[name]
                if kind == "!":
                    one.check = check
                    one.lines.add(number)
                elif kind == "?":
                    one.others.add(number)
                else:
                    one.further += (check,)
        yield from cases.values()


def build(path: Path, target: Path, arch: str, runtime: str = "shared") -> None:
    """Compile a file of cases."""
    command = ["nvcc", "-std=c++17", "-w", "-cudart", runtime, "-g", "-lineinfo", f"-arch={arch}", "-o", target, path]
    subprocess.run(command, check=True)


def run(one: Planted, program: list[str], gpu: str, seconds: int) -> tuple[str, list[Finding]]:
    """What a case printed, and what the checks found."""
    session.check, session.check_level = one.checks, "warning"
    with tempfile.TemporaryDirectory(prefix="warpwright-") as folder:
        environment = {**os.environ, **attach.child_environment(gpu, "off", Path(folder))}
        try:
            done = subprocess.run(
                [*program, one.name],
                capture_output=True,
                env=environment,
                timeout=seconds,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            said = f"exit {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')}"
        except subprocess.TimeoutExpired:
            said = f"not done after {seconds} s"
        return said, recording.collect(Path(folder))[2]


def lines_of(text: str, file: Path) -> set[int]:
    """Lines of a file that a text names."""
    return {int(n) for n in re.findall(rf"\b{re.escape(file.name)}:(\d+)", text)}


def told_by(finding: Finding, file: Path) -> set[int]:
    """The lines that a finding names: of the kernel where it has some, else of the host."""
    places = lines_of(" ".join(p.line for p in finding.places), file)
    return places or lines_of(" ".join((*finding.details, *finding.host)), file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--files", nargs="*", default=[])
    parser.add_argument(
        "--build", type=Path, help="keep programs here, and take those that are newer than their source"
    )
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--json", type=Path, help="also write results here")
    parser.add_argument("--say", action="store_true", help="print every finding")
    arguments = parser.parse_args()
    kept = arguments.build or Path(tempfile.mkdtemp(prefix="planted-faults-"))
    kept.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, object]] = {}
    for one in planted(arguments.files):
        if arguments.only and one.name not in arguments.only:
            continue
        program = [sys.executable, str(one.file)]
        if one.file.suffix == ".cu":
            target = kept.resolve() / one.file.stem
            if not target.is_file() or target.stat().st_mtime < one.file.stat().st_mtime:
                build(one.file, target, arguments.arch)
            program = [str(target)]
        said, findings = run(one, program, arguments.gpu, arguments.seconds)
        # A launch that a fault ended makes calls fail behind it.
        own = [f for f in findings if not (f.of_call and one.check and len(findings) > 1)]
        verdict = one.judge([(f.check, told_by(f, one.file)) for f in own])
        if not one.check and not said.startswith("exit 0"):
            verdict = f"fails: {said.splitlines()[:2]}"
        results[one.name] = {"planted": one.check, "verdict": verdict, "findings": [str(f) for f in findings]}
        print(f"{one.file.stem:10} {one.name:30} {one.check:10} {verdict}", flush=True)
        if arguments.say:
            print(said, *findings, sep="\n", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    for kind, some in (("faulty", True), ("right", False)):
        counts = Counter(str(r["verdict"]) for r in results.values() if bool(r["planted"]) == some)
        print(f"{kind}: {sum(counts.values())}; " + ", ".join(f"{what}: {n}" for what, n in counts.most_common()))


if __name__ == "__main__":
    main()
