"""Measures the cost of accesses of 4, 8 and 16 bytes per lane in the functional engine: ``python -m bench.wide_accesses``.

Prints the time of one turn of a warp in loops that copy: whole lines, unpredictable addresses, every third
element, columns of a tile in shared memory, and asynchronous copies (``cp.async``) of 16 bytes per lane.  CPU time, shortest of nine runs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import warpwright as ww
from bench.engine import best_of_each, prepare
from warpwright.engine.abi import Status
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.engine.jit.workspace import Workspace

SOURCE = Path(__file__).parent / "kernels" / "wide_accesses.cu"
TURNS = 32
BLOCKS = 2000
PLACES = 32 * TURNS
PITCH = 16 * TURNS


def main() -> None:
    gpu = ww.GPU("a100", timing="off")
    module = gpu.compile(SOURCE)
    rng = np.random.default_rng(0)
    source = gpu.array(rng.random((3 * (PLACES + 32), 4)).astype(np.float32))
    target = gpu.zeros((3 * (PLACES + 32), 4), np.float32)
    places = gpu.array(rng.permutation(PLACES).astype(np.int32))
    copies: list[tuple[str, tuple[int, ...], list[Any]]] = [
        *((f"lines_{n}", (32,), [TURNS, source, target]) for n in (4, 8, 16)),
        *((f"scattered_{n}", (32,), [TURNS, places, source, target]) for n in (4, 8, 16)),
        *((f"strided_{n}", (32,), [TURNS, source, target]) for n in (8, 16)),
        *((f"turned_{n}", (32,), [TURNS, target]) for n in (8, 16)),
        ("async_lines", (32,), [TURNS, source, target]),
        ("async_rows", (16, 16), [TURNS, PITCH, source, target]),
        ("async_scattered", (32,), [TURNS, places, source, target]),
    ]
    print(f"{'kernel':16} {'compile ms':>10} {'ns a turn':>10}")
    for name, block, arguments in copies:
        program, lowered, context = prepare(gpu, module, name, (BLOCKS,), block, arguments)
        shape = context.geometry.block
        build = partial(compile_kernel, program, lowered, shape, trace=False, use_cache=False)
        kernel = build()
        (compiling,) = best_of_each([build], 3)
        room = Workspace(kernel, program.shared_static_bytes, context["local_bytes_per_thread"])

        assert room.run(context.address, 0, BLOCKS).status == Status.EXIT
        (running,) = best_of_each([partial(room.run, context.address, 0, BLOCKS)])
        turns = TURNS * BLOCKS * context.geometry.warps_per_block
        print(f"{name:16} {compiling * 1e3:10.1f} {running * 1e9 / turns:10.1f}")


if __name__ == "__main__":
    main()
