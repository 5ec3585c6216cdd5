"""What compute-sanitizer's tools display on a real card for the cases of ``bench/faults``.

    nvcc -std=c++17 -g -lineinfo -arch=sm_90 -o FOLDER/races bench/faults/races.cu      (so for every file, where nvcc is)
    python bench/sanitizer_card.py FOLDER --out raw.json                                (on the machine with the card)
    python -m bench.planted_faults --card raw.json                                      (both beside each other)

Needs nothing but Python and the CUDA toolkit there.  Every case runs in a process of its own under each tool, 16 at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOOLS = {
    "memcheck": ["--leak-check", "full"],
    "racecheck": ["--racecheck-report", "analysis"],
    "synccheck": [],
    "initcheck": [],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the programs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=25, help="for one run")
    parser.add_argument("--all-seconds", type=int, default=400, help="behind these no run begins")
    parser.add_argument("--only", nargs="*", help="names of cases")
    parser.add_argument("--at-once", type=int, default=16)
    arguments = parser.parse_args()
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    version = (
        subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.strip().split("\n")[-1]
    )
    programs = [p for p in sorted(arguments.folder.iterdir()) if os.access(p, os.X_OK) and p.is_file()]
    runs = [
        (program, name, check)
        for check in TOOLS
        for program in programs
        for name in subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
        if not arguments.only or name in arguments.only
    ]
    end = time.monotonic() + arguments.all_seconds

    def display(run: tuple[Path, str, str]) -> str:
        program, name, check = run
        if time.monotonic() > end:
            return "not run"
        command = [tool, "--tool", check, *TOOLS[check], "--print-limit", "20", str(program), name]
        # A separate process group, so that the tool's child, the program, ends with it.
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            try:
                text, late = process.communicate(timeout=arguments.seconds)[0], ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                text, late = process.communicate()[0], f"not done after {arguments.seconds} s\n"
        return late + text.decode(errors="replace")[:6000]

    with ThreadPoolExecutor(arguments.at_once) as pool:
        shown = list(pool.map(display, runs))
    found: dict[str, dict[str, str]] = {}
    for (_, name, check), text in zip(runs, shown, strict=True):
        found.setdefault(name, {})[check] = text
    arguments.out.write_text(json.dumps({"version": version, "displayed": found}) + "\n")
    print(len(runs), "runs,", sum(t == "not run" for t in shown), "not begun, ", version)


if __name__ == "__main__":
    main()
