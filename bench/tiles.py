"""Programs with shared memory, and the same with its loads and stores remapped to L1: ``python -m bench.tiles [--gpu p100,v100] [NAME …]``.

Figure 4 of Choquette et al. (Volta, IEEE Micro 2018) is a set of applications that were written for shared memory.  Here it is every kernel of the validation set that keeps
arrays of a fixed size there and makes no atomics on them: nothing was chosen by what it gives.  The same source is compiled twice: a
declaration ``__shared__ float t[16][17];`` becomes a reference to the block's own part of an array in global memory, which L1
caches; four times as many parts as blocks are resident, so that their lines are used again (more, up to one for each block, where a slow
block's part would be another's too early).  Both are verified.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import validation
from tests.kernels.case import Case

NOT_APPLICATIONS = {"mechanisms"}
"""Source files of single mechanisms."""
PART_BYTES = 32768 + 256
PARTS_FOR_EACH = 4
DECLARATION = re.compile(r"__shared__ ([\w ]+?) ((?:\w+(?:\[[^\]]+\])+(?:, )?)+);")
HEAD = f"""
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 610
static __device__ __forceinline__ int __dp4a(int a, int b, int c) {{
    for (int i = 0; i < 32; i += 8) c += (int)(signed char)(a >> i) * (int)(signed char)(b >> i);
    return c;
}}
#endif
extern "C" {{ __device__ __align__(256) char tiles_in_l1[(size_t)TILES_PARTS * {PART_BYTES}]; }}
static __device__ __forceinline__ char *tiles_part() {{
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    return tiles_in_l1 + (size_t)(block % TILES_PARTS) * {PART_BYTES};
}}
"""


def remapped(source: str) -> str:
    """A source whose shared arrays are in global memory."""

    taken: dict[int, str] = {}  # of the part, by where the function begins

    def reference(declaration: re.Match[str]) -> str:
        kind, names = declaration.groups()
        function, lines = source.rfind("__global__", 0, declaration.start()), []
        for name, size in re.findall(r"(\w+)((?:\[[^\]]+\])+)", names):
            at = taken.get(function, "0")
            lines.append(
                f"typedef {kind} {name}_array{size}; {name}_array &{name} = *({name}_array *)(tiles_part() + {at});"
            )
            taken[function] = f"{at} + (sizeof({name}_array) + 127) / 128 * 128"
        return " ".join(lines)

    return DECLARATION.sub(reference, source)


def body(source: str, kernel: str) -> str:
    """The text of a kernel."""
    found = re.search(rf"__global__ [^;{{]*\b{kernel}\(.*?\n}}", source, re.DOTALL)
    return found.group() if found else ""


def cases(names: Sequence[str] = ()) -> Iterator[tuple[str, Case]]:
    """Kernels of the set, or those of these names, that keep all that they share in arrays of a fixed size, without atomics on them."""
    for name in names or validation.names():
        case = validation.case(name)
        text = body(case.source.read_text(), case.kernel)
        shared = re.findall(r"__shared__", text)
        arrays = DECLARATION.findall(text)
        stored = [array for _, declared in arrays for array in re.findall(r"(\w+)\[", declared)]
        atomics = any(re.search(rf"atomic\w+\(&?{array}\b", text) for array in stored)
        if arrays and len(arrays) == len(shared) and not atomics and case.source.stem not in NOT_APPLICATIONS:
            yield name, case


def launch(gpu: Any, case: Case, source: str, parts: int) -> Any:
    """One verified run."""
    module = gpu.compile(source, options=[*case.options, f"-DTILES_PARTS={parts}"])
    run, outputs = case.run(module)
    case.verify(outputs)
    return run


@dataclass(frozen=True)
class Pair:
    """A program's two verified runs, their sources, and of how many parts the second one's array is."""

    name: str
    case: Case
    sources: tuple[str, str]
    parts: int
    shared: Any
    cached: Any
    overhead_cycles: int

    @property
    def slowdown(self) -> float:
        """How many times as long it takes with its arrays in L1."""
        return (self.cached.cycles - self.overhead_cycles) / (self.shared.cycles - self.overhead_cycles)


def pair(gpu: Any, name: str, case: Case) -> Pair:
    """A program's runs with its arrays in shared memory and in L1."""
    text = case.source.read_text()
    sources = HEAD + text, HEAD + remapped(text)
    shared = launch(gpu, case, sources[0], 1)
    blocks = int(np.prod(case.grid))
    parts = min(PARTS_FOR_EACH * shared.resident.blocks_per_sm * gpu.chip.sm.sm_count, blocks)
    while True:
        try:
            cached = launch(gpu, case, sources[1], parts)
            break
        except AssertionError:  # two blocks had the same part at once
            if parts == blocks:
                raise
            parts = min(4 * parts, blocks)
    return Pair(name, case, sources, parts, shared, cached, gpu.chip.launch.launch_overhead_cycles)


def pairs(gpu: Any, names: Sequence[str] = ()) -> Iterator[Pair]:
    """Both runs of every program that the chip can run."""
    for name, case in cases(names):
        if not (case.source.stem == "tensors" and gpu.chip.arch < 80):
            yield pair(gpu, name, case)


def record(chip: str, names: Sequence[str], path: Path) -> None:
    """Add a chip's slowdowns to a file, in the order of the programs; those that it has are not run again."""
    import warpwright as ww

    data: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"programs": {}}
    data["command"] = "python -m bench.tiles --gpu CHIP --out FILE"
    gpu = ww.GPU(chip, timing="full")
    for name, case in cases():
        of_program = data["programs"].setdefault(name, {})
        if chip in of_program or (names and name not in names):
            continue
        if case.source.stem == "tensors" and gpu.chip.arch < 80:
            continue
        of_program[chip] = round(pair(gpu, name, case).slowdown, 4)
        path.write_text(json.dumps(data, indent=1) + "\n")
        print(f"{chip} {name} {of_program[chip]}", flush=True)


def main() -> None:
    import warpwright as ww

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="p100,v100")
    parser.add_argument("--out", type=Path, help="write the slowdowns into this file instead")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for chip in given.gpu.split(","):
        if given.out:
            record(chip, given.names, given.out)
            continue
        print(f"{chip:20s} {'shared':>9s} {'in L1':>9s} {'slower':>8s} {'found in L1':>11s}")
        all_of_them = []
        for both in pairs(ww.GPU(chip, timing="full"), given.names):
            all_of_them.append(both.slowdown)
            print(
                f"{both.name:20s} {both.shared.cycles:9,} {both.cached.cycles:9,} {100 * (both.slowdown - 1):+7.0f}%"
                f" {both.cached.metrics['l1tex__t_sector_hit_rate.pct']:10.0f}%",
                flush=True,
            )
        print(
            f"{len(all_of_them)} programs: mean {100 * (np.mean(all_of_them) - 1):+.0f}%, geometric mean"
            f" {100 * (np.exp(np.mean(np.log(all_of_them))) - 1):+.0f}%, median {100 * (np.median(all_of_them) - 1):+.0f}%"
        )


if __name__ == "__main__":
    main()
