"""Compares both tiers of a kernel's machine code: ``python -m bench.code_tiers [--chip a100] [--n 512]``.

For each kernel of ``bench.engine``, prints the size of its LLVM text, the CPU time from decoded program to machine code of both tiers, and the time of a launch with
quick code relative to one with optimised code (shortest of several runs, in turns).
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import warpwright as ww
from bench.engine import FULL, SOURCE, best_of_each, launches_of, prepare
from warpwright.engine.abi import Status
from warpwright.engine.jit.codegen import CompiledKernel, compile_kernel
from warpwright.engine.jit.workspace import Workspace

REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chip", default="a100")
    parser.add_argument("--n", type=int, default=512, help="rows of the matrices, a multiple of 32")
    options = parser.parse_args()
    gpu = ww.GPU(options.chip, timing="off")
    module = gpu.compile(SOURCE)
    print(f"{'kernel':12} {'characters':>10} {'quick ms':>9} {'full ms':>9} {'quick/full run':>15}")
    for name, grid, block, arguments in launches_of(gpu, {**FULL, "n": options.n}):
        program, lowered, context = prepare(gpu, module, name, grid, block, arguments)
        codes: dict[bool, CompiledKernel] = {}

        def compiled(is_quick: bool, into: Any, p: Any = program, low: Any = lowered, s: Any = context) -> None:
            into[is_quick] = compile_kernel(p, low, s.geometry.block, trace=False, use_cache=False, is_quick=is_quick)

        quick, full = best_of_each([partial(compiled, is_quick, codes) for is_quick in (True, False)], REPEATS)
        rooms = [
            Workspace(codes[n], program.shared_static_bytes, context["local_bytes_per_thread"]) for n in (True, False)
        ]
        blocks = context.geometry.blocks
        assert all(room.run(context.address, 0, blocks).status == Status.EXIT for room in rooms)
        slower, plain = best_of_each([partial(room.run, context.address, 0, blocks) for room in rooms], REPEATS)
        text = codes[True].ir
        print(f"{name:12} {len(text):10,} {quick * 1e3:9.1f} {full * 1e3:9.1f} {slower / plain:15.2f}")


if __name__ == "__main__":
    main()
