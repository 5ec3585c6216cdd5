"""A CUDA program of this folder on a card with nvcc: it is built, run, and what it prints is stored with the card's name."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main(module: Path, description: str | None, measure: Callable[[Callable[[], Any]], dict[str, Any]]) -> None:
    """The command line of a module that has such a program.

    Args:
        module: the module's file; the program is in the same folder and has the same name.
        measure: receives a function that runs the program and returns its JSON output; returns the data to store.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="sm_90")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / module.stem
        subprocess.run(["nvcc", "-O2", f"-arch={options.arch}", "-o", program, module.with_suffix(".cu")], check=True)
        found = measure(lambda: json.loads(subprocess.run([program], check=True, capture_output=True).stdout))
    card = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True, capture_output=True
    )
    about = {"command": f"python -m bench.machine.{module.stem} --out FILE", "device": card.stdout.decode().strip()}
    options.out.write_text(json.dumps({**about, **found}, indent=1) + "\n")
