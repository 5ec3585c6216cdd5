"""Compile the microbenchmarks' `*.cu` to cubins and say which machine instructions each kernel became.

``python -m bench.micro.build --arch 90 --out FOLDER [--sass]``. Uses `warpwright.toolchain` (NVRTC and nvJitLink).
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.micro.patch import write_variants

HERE = Path(__file__).parent


def build(arch: str = "90", out: Path | None = None) -> Path:
    """Compile every source for sm_`arch` into `out` (a folder of its own by architecture when left out)."""
    from warpwright.toolchain import compile_source

    folder = out or Path(tempfile.gettempdir()) / f"warpwright-micro-sm{arch}"
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(HERE.glob("*.cu")):
        made = compile_source(source, arch, include_folders=[HERE], options=["-std=c++17", "-lineinfo"])
        (folder / f"{source.stem}.sm_{arch}.cubin").write_bytes(made.cubin)
    write_variants(folder / f"bank.sm_{arch}.cubin", folder / "bank")
    return folder


def opcodes(cubin: Path, nvdisasm: str) -> dict[str, dict[str, int]]:
    """Count of each opcode in each kernel, by NVIDIA's disassembler."""
    text = subprocess.run([nvdisasm, "-c", str(cubin)], capture_output=True, text=True, check=True).stdout
    found: dict[str, collections.Counter[str]] = {}
    kernel = ""
    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            kernel = section[1]
            found[kernel] = collections.Counter()
        elif kernel and (op := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ +)?([A-Z][\w.]*)", line)):
            found[kernel][op[1]] += 1
    return {name: dict(counts.most_common()) for name, counts in found.items()}


def main() -> int:
    """Build; with ``--sass`` also write sass.json beside the cubins."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.build", description=__doc__)
    parser.add_argument("--arch", default="90")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sass", metavar="NVDISASM", nargs="?", const=shutil.which("nvdisasm") or "nvdisasm")
    options = parser.parse_args()
    folder = build(options.arch, options.out)
    if options.sass:
        table = {p.stem: opcodes(p, options.sass) for p in sorted(folder.glob(f"*.sm_{options.arch}.cubin"))}
        (folder / "sass.json").write_text(json.dumps(table, indent=1))
    print(f"{len(list(folder.rglob('*.cubin')))} cubins in {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
