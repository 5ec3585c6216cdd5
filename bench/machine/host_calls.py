"""Times of launches by the host's clock on a card, with nvcc: ``python -m bench.machine.host_calls --out FILE``."""

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
        program = Path(folder) / "host_calls"
        subprocess.run(["nvcc", "-O2", f"-arch={options.arch}", "-o", program, SOURCE], check=True)
        runs = [json.loads(subprocess.run([program], check=True, capture_output=True).stdout) for _ in range(2)]
    card = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True, capture_output=True
    )
    about = {"command": "python -m bench.machine.host_calls --out FILE", "device": card.stdout.decode().strip()}
    options.out.write_text(json.dumps({**about, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
