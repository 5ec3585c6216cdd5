"""Task graphs and the same kernels in streams, by shape, on a card with nvcc: ``python -m bench.machine.graphs --out FILE``.

The program of ``graphs.cu`` runs under ``warpwright run --gpu h200`` too, which gives the model's times between events.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="sm_90")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "graphs"
        subprocess.run(["nvcc", "-O2", f"-arch={options.arch}", "-o", program, SOURCE], check=True)
        found = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    card = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True, capture_output=True
    )
    about = {"command": "python -m bench.machine.graphs --out FILE", "device": card.stdout.decode().strip()}
    options.out.write_text(json.dumps({**about, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
