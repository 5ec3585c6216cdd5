"""Compares both tiers of the cycle model's machine code: CPU time of compiling them, and of running kernels with them.

``python -m bench.model_tiers [--gpu h200] [--turns 3] [NAME …]`` compiles the quick and the full version and runs kernels of the corpus (large sizes) on one host
thread with both, in turns; prints the least CPU time of each and their ratios, and fails if cycles differ.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from typing import Any

from bench.kernel_sets import kernel_set
from bench.timing import KERNELS, mean


def compiled() -> dict[str, Any]:
    """The model's entry with the code of each tier, by tier; prints the CPU time of each step of compiling."""
    from warpwright.native.direct import FULL, QUICK, object_code
    from warpwright.native.tiered import TieredEntry
    from warpwright.timing import windows

    model = windows.run_windows
    began = time.process_time()
    text = model.translated()
    print(f"translation {time.process_time() - began:.2f} s, {len(text) / 1e6:.1f} MB")
    entries = {}
    for tier in (QUICK, FULL):
        began = time.process_time()
        code = object_code(text, tier)
        print(f"LLVM, {tier} {time.process_time() - began:.2f} s, {len(code) / 1e6:.2f} MB of machine code")
        entry = TieredEntry(model.py_func, "", model.sources)
        entry.parts = model.parts
        entry._take(tier, entry._callable(code))
        # An entry would look for the other tier on disk.
        entry._loaded = lambda call=entry._call: call  # type: ignore[method-assign, misc, assignment]
        entries[tier] = entry
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    import warpwright as ww
    from warpwright.timing import windows

    entries = compiled()
    ratios = []
    for name in arguments.names or KERNELS["corpus"]:
        case = kernel_set("corpus").case(name)
        kernel = ww.GPU(arguments.gpu, threads=1).compile(case.source, options=case.options)[case.kernel]
        cycles, least = set(), dict.fromkeys(entries, float("inf"))
        for turn in range(arguments.turns + 1):
            for tier, entry in entries.items():
                windows.run_windows = entry
                run = kernel[case.grid, case.block, case.shared_bytes](*copy.deepcopy(case.args))
                cycles.add(run.cycles)
                if turn:  # the first compiles the kernel
                    least[tier] = min(least[tier], run.timing.cpu_seconds)
        quick, full = least.values()
        ratios.append(quick / full)
        print(f"{name:24s} quick {quick:.3f} s, full {full:.3f} s, ratio {quick / full:.2f}", flush=True)
        if len(cycles) > 1:
            sys.exit("cycles differ between the tiers")
    print(f"geometric mean of the ratios {mean(ratios):.2f}")


if __name__ == "__main__":
    main()
