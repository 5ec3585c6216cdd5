"""Programs with one planted fault each, and programs that look faulty and are right, under the checks.

    python -m bench.planted_faults [--gpu h200] [--only NAME ...] [--files races ...] [--build FOLDER] [--workers N] [--json FILE]

The programs are the cases of ``bench/faults`` (``cases.h`` says how lines are marked); those in CUDA C++ are built with nvcc and need zstandard, those in Python
need numba-cuda and cuda-python.  Each case runs in a process of its own under memcheck, racecheck, synccheck and initcheck, and the
check that its mark names.  A fault is found when that check names its line; a finding whose lines are all unmarked is false.

What compute-sanitizer displays for them on a card is set beside the results (``--json``) of a run::

    python -m bench.planted_faults --card raw.json --results results.json
    python -m bench.planted_faults --show

``raw.json`` is what ``bench/sanitizer_card.py`` has made; ``--show`` prints what is stored.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from warpwright.driver import attach, launch_records
from warpwright.session import session
from warpwright.tools.checks import Finding

FOLDER = Path(__file__).parent / "faults"
STORED = Path(__file__).parent / "data" / "h200" / "sanitizer_faults.json"
CARD_TOOLS = {"leakcheck": "memcheck"}
"""compute-sanitizer's tool for a check of another name."""
MARK = re.compile(r"(?://|#)([!?=]) ([A-Za-z]\w+)(?: (\w+))?$")
USUAL = ("memcheck", "racecheck", "synccheck", "initcheck")


@dataclass
class Planted:
    """A case: what is wrong with it, and where."""

    name: str
    file: Path
    check: str = ""
    """The check that should find the fault; empty for a correct program."""
    lines: set[int] = field(default_factory=set)
    """Lines that must be reported."""
    others: set[int] = field(default_factory=set)
    """Lines that may be reported as well."""
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


_ASKED = threading.Lock()
"""While the session holds the checks of one case."""


def run(one: Planted, program: list[str], gpu: str, seconds: int) -> tuple[str, list[Finding]]:
    """The output of a case and the findings of the checks."""
    with tempfile.TemporaryDirectory(prefix="warpwright-") as folder:
        with _ASKED:
            session.check, session.check_level = one.checks, "warning"
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
        return said, launch_records.collect(Path(folder))[2]


def lines_of(text: str, file: Path) -> set[int]:
    """Lines of a file that a text names."""
    return {int(n) for n in re.findall(rf"\b{re.escape(file.name)}:(\d+)", text)}


def told_by(finding: Finding, file: Path) -> set[int]:
    """The lines that a finding names: the kernel's if it has any, otherwise the host's.

    The line at which an array was allocated belongs to a leak, not to an access to the array.
    """
    leak = finding.check == "leakcheck"
    details = (detail for detail in finding.details if leak or not detail.startswith("allocated at "))
    places = lines_of(" ".join((*(p.line for p in finding.places), *details)), file)
    return places or lines_of(" ".join(finding.host), file)


REPORT = re.compile(
    r"=+ (?:Error: |Warning: )?(Invalid|Potential invalid|Uninitialized|Host API memory|Race reported|Barrier error|Malloc/Free|"
    r"Leaked|Program hit|Stack overflow|Unknown Error|Illegal|Trace/break|Out-of-range|Misaligned)"
)
"""How compute-sanitizer's findings begin."""


def displayed(text: str, file: Path, check: str) -> list[tuple[str, set[int]]]:
    """(check, lines of the file) of each finding in what one of compute-sanitizer's tools printed."""
    found: list[tuple[str, set[int]]] = []
    for part in re.split(r"(?m)^=+ *$", text):
        begin = REPORT.search(part)
        if begin is None:
            continue
        what = "leakcheck" if begin[1] == "Leaked" else check
        device = part.split("Saved host backtrace")[0]
        found.append((what, lines_of(device, file) or lines_of(part, file)))
    return found


def by_card(one: Planted, raw: dict[str, str]) -> str:
    """What compute-sanitizer makes of a case, in the words of :meth:`Planted.judge`."""
    tool = CARD_TOOLS.get(one.check, one.check)
    if one.check and tool not in raw:
        return "no such tool"
    told = [told for check, text in raw.items() for told in displayed(text, one.file, check)]
    # Cases do not free what they allocate: only those about leaks are asked for them.
    wanted = [t for t in told if t[0] != "leakcheck" or one.check == "leakcheck" or "leakcheck" in one.further]
    verdict = one.judge(wanted)
    if verdict == "missed" and raw[tool].startswith("not done"):
        return "not done"
    return "found" if verdict == "found, and a false finding" else verdict


def compare(raw: Path, results: Path) -> None:
    """Store what both find."""
    card, ours = json.loads(raw.read_text()), json.loads(results.read_text())
    rows = {}
    for one in planted([]):
        if one.name in card["displayed"] and one.name in ours:
            verdict = ours[one.name]["verdict"]
            rows[one.name] = {
                "planted": one.check,
                "here": "found" if verdict == "found, and a false finding" else verdict,
                "card": by_card(one, card["displayed"][one.name]),
            }
    made = (
        f"python bench/sanitizer_card.py PROGRAMS --out raw.json, compute-sanitizer {card['version']}, one H200, programs built with nvcc 13.0 "
        "-std=c++17 -g -lineinfo -arch=sm_90; python -m bench.planted_faults --gpu h200 --json results.json; "
        "python -m bench.planted_faults --card raw.json --results results.json"
    )
    STORED.write_text(json.dumps({"made": made, "cases": rows}, indent=1) + "\n")


def show() -> None:
    """How often both find the planted fault, by check, and where they differ."""
    rows = json.loads(STORED.read_text())["cases"]
    for check in sorted({r["planted"] for r in rows.values()}):
        some = {name: r for name, r in rows.items() if r["planted"] == check}
        good = "found" if check else "right"
        here, card = (sum(r[side] == good for r in some.values()) for side in ("here", "card"))
        print(f"{check or 'right':10} {len(some):3} programs, {good} here {here}, by compute-sanitizer {card}")
        for name, r in some.items():
            if r["here"] != good or r["card"] != good:
                print(f"    {name:30} here: {r['here']:15} compute-sanitizer: {r['card']}")


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
    parser.add_argument("--workers", type=int, default=1, help="cases that run at once")
    parser.add_argument("--json", type=Path, help="also write results here")
    parser.add_argument("--card", type=Path, help="what bench/sanitizer_card.py has made")
    parser.add_argument("--results", type=Path, help="what --json of a run has made")
    parser.add_argument("--show", action="store_true", help="print what is stored of both")
    parser.add_argument("--say", action="store_true", help="print every finding")
    arguments = parser.parse_args()
    if arguments.card:
        compare(arguments.card, arguments.results)
    if arguments.card or arguments.show:
        show()
        return
    if importlib.util.find_spec("zstandard") is None:
        parser.error("nvcc packs the PTX of the programs with Zstandard: pip install zstandard")
    kept = arguments.build or Path(tempfile.mkdtemp(prefix="planted-faults-"))
    kept.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, object]] = {}
    cases = [one for one in planted(arguments.files) if not arguments.only or one.name in arguments.only]
    for path in sorted({one.file for one in cases if one.file.suffix == ".cu"}):
        target = kept.resolve() / path.stem
        if not target.is_file() or target.stat().st_mtime < path.stat().st_mtime:
            build(path, target, arguments.arch)

    def outcome(one: Planted) -> tuple[Planted, str, list[Finding]]:
        program = [str(kept.resolve() / one.file.stem)] if one.file.suffix == ".cu" else [sys.executable, str(one.file)]
        return one, *run(one, program, arguments.gpu, arguments.seconds)

    with ThreadPoolExecutor(arguments.workers) as pool:
        for one, said, findings in pool.map(outcome, cases):
            # A launch that a fault ended makes later calls fail.
            own = [f for f in findings if not (f.of_call and one.check and len(findings) > 1)]
            verdict = one.judge([(f.check, told_by(f, one.file)) for f in own])
            if said.startswith("not done") and verdict in ("missed", "right"):
                verdict = said
            elif verdict in ("missed", "right") and not said.startswith("exit 0"):
                verdict = (
                    f"{'missed' if one.check else 'fails'}: {said.splitlines()[0]}, {said.strip().splitlines()[-1]}"
                )
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
