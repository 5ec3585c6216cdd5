"""How fast the functional engine runs: ``python -m bench.engine [--chip a100] [--generic] [--n 512]``.

Prints warp-instructions per second of one host thread, compile time from decoded program to machine code, how much
longer a run with trace records takes, and NumPy's time for the same triad.  Where ``pyopencl`` and the Debian packages
``oclgrind`` or ``pocl-opencl-icd`` are installed, the same kernels in OpenCL run beside them.  Times are the process's CPU time, the
shortest of several runs; ratios are of runs that follow each other.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import warpwright as ww
from warpwright.engine.abi import WARP, Status
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.geometry import Geometry
from warpwright.engine.jit.codegen import CompiledKernel, compile_kernel
from warpwright.engine.jit.object_code import load_object, make_target, to_object
from warpwright.engine.jit.shape_inference import CodeForm
from warpwright.engine.jit.workspace import Workspace
from warpwright.engine.launch import aligned_words, make_context
from warpwright.isa.sass.lower import lower

SOURCE = Path(__file__).parent / "kernels" / "engine.cu"


def prepare(
    gpu: Any, module: Any, name: str, grid: tuple[int, ...], block: tuple[int, ...], arguments: list[Any]
) -> Any:
    """(program, lowered, context) of a launch whose arrays stay on the device."""
    from warpwright.engine.arguments import pack

    kernel = module[name]
    program = kernel._loaded.program
    geometry = Geometry((*grid, 1, 1)[:3], (*block, 1, 1)[:3])
    packed = pack(kernel.parameters, name, arguments, gpu.memory)
    bank0 = constant_bank0(program, geometry, packed.parameters)
    context = make_context(program, geometry, gpu.memory, bank0, kernel._loaded.banks, gpu.chip.sm.sm_count)
    return program, lower(program), context


TRACE_WORDS = 1 << 16
"""Size of the trace buffer: small enough to stay in the second-level cache if the reader follows the writer closely."""
TRACE_MARGIN_WORDS = 1 << 16
"""Room after the limit for one basic block's records."""


def without_reader(kernel: CompiledKernel, buffer: Any) -> CompiledKernel:
    """A traced kernel whose records nobody reads: a small function empties the buffer at each call, and jumps to the kernel's.

    A run of a warp that fills it would end with TRACE_FULL.
    """
    fields = {name: WARP[name] for name in ("trace_base", "trace_used", "trace_limit")}
    values = {"trace_base": int(buffer.ctypes.data), "trace_used": 0, "trace_limit": TRACE_WORDS}
    stores = "\n".join(
        f"  %{name} = getelementptr i8, ptr %warp, i64 {at}\n  store i64 {values[name]}, ptr %{name}"
        for name, at in fields.items()
    )
    text = f"""
define i32 @run_traced(ptr %warp) {{
{stores}
  %status = musttail call i32 inttoptr (i64 {kernel.warp_function} to ptr)(ptr %warp)
  ret i32 %status
}}
"""
    target = make_target()
    address = load_object(to_object(text, target), target).get_function_address("run_traced")
    return dataclasses.replace(kernel, warp_function=address, trace=False)


def best_of_each(functions: list[Callable[[], Any]], repeats: int = 9) -> list[float]:
    """Shortest run of each, in seconds of CPU time; they take turns, so that a busy minute is one for all."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for taken, function in zip(times, functions, strict=True):
            begin = time.process_time()
            function()
            taken.append(time.process_time() - begin)
    return [min(taken) for taken in times]


def best(function: Callable[[], Any]) -> float:
    """Shortest of some runs."""
    return best_of_each([function])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chip", default="a100")
    parser.add_argument("--generic", action="store_true", help="without lane patterns")
    parser.add_argument("--n", type=int, default=512, help="rows of the matrices, a multiple of 32")
    options = parser.parse_args()
    gpu = ww.GPU(options.chip, timing="off")
    module = gpu.compile(SOURCE)
    many = FULL["many"]
    launches = launches_of(gpu, {**FULL, "n": options.n})
    print(f"{'kernel':12} {'compile ms':>10} {'run ms':>9} {'G warp-instr/s':>15} {'traced/untraced':>16}")
    seconds: dict[str, float] = {}
    for name, grid, block, arguments in launches:
        program, lowered, context = prepare(gpu, module, name, grid, block, arguments)
        shape = context.geometry.block

        def fresh(p: Any = program, low: Any = lowered, s: Any = shape) -> Any:
            return compile_kernel(p, low, s, trace=False, form=CodeForm(patterns=not options.generic), use_cache=False)

        fresh()
        compiling = best(fresh)
        kernel = fresh()
        room = Workspace(kernel, program.shared_static_bytes, context["local_bytes_per_thread"])
        blocks = context.geometry.blocks
        outcome = room.run(context.address, 0, blocks)
        assert outcome.status == Status.EXIT, outcome
        traced = compile_kernel(
            program, lowered, shape, trace=True, form=CodeForm(patterns=not options.generic), use_cache=False
        )
        sink = aligned_words(8 * (TRACE_WORDS + TRACE_MARGIN_WORDS))
        traced_room = Workspace(
            without_reader(traced, sink), program.shared_static_bytes, context["local_bytes_per_thread"]
        )
        traced_outcome = traced_room.run(context.address, 0, blocks)
        assert traced_outcome.status == Status.EXIT, traced_outcome
        assert traced_outcome.warp_instructions == outcome.warp_instructions
        rooms = (room, traced_room)
        plain, slower = best_of_each([partial(r.run, context.address, 0, blocks) for r in rooms])
        seconds[name] = plain
        speed = outcome.warp_instructions / plain
        print(f"{name:12} {compiling * 1e3:10.1f} {plain * 1e3:9.2f} {speed / 1e9:15.2f} {slower / plain:16.2f}")
    generator = np.random.default_rng(0)
    host = [generator.random(many, dtype=np.float32) for _ in range(2)]
    out = np.empty_like(host[0])

    def numpy_triad() -> None:
        np.multiply(host[0], np.float32(2), out=out)
        np.add(out, host[1], out=out)

    reference = best(numpy_triad)
    print(
        f"triad of {many:,} floats: NumPy {reference * 1e3:.2f} ms, here {seconds['triad'] / reference:.2f} times that"
    )
    beside(gpu, module, options.generic)


FULL = {"many": 1 << 24, "n": 512, "width": 1024, "height": 512, "limit": 256}
SMALL = {"many": 1 << 16, "n": 64, "width": 64, "height": 32, "limit": 256}
"""Seconds that an interpreter of single threads takes."""


def launches_of(gpu: Any, sizes: dict[str, int]) -> list[tuple[str, tuple[int, ...], tuple[int, ...], list[Any]]]:
    """(kernel, grid, block, arguments) with new arrays."""
    generator = np.random.default_rng(0)
    many, n, width, height = (sizes[k] for k in ("many", "n", "width", "height"))
    x, y, z = (gpu.array(generator.random(many, dtype=np.float32)) for _ in range(3))
    a, b, c = (gpu.array(generator.random(n * n, dtype=np.float32)) for _ in range(3))
    counts = gpu.array(np.zeros(width * height, dtype=np.int32))
    return [
        ("triad", (many // 256,), (256,), [many, 2.0, x, y, z]),
        ("matmul", (n // 32, n // 8), (32, 8), [n, a, b, c]),
        ("mandelbrot", (width // 32, height // 8), (32, 8), [width, height, sizes["limit"], counts]),
        ("tiled", (n // 16, n // 16), (16, 16), [n, a, b, c]),
    ]


def seconds_here(gpu: Any, module: Any, sizes: dict[str, int], generic: bool) -> dict[str, float]:
    """Time of each kernel, without trace."""
    found = {}
    for name, grid, block, arguments in launches_of(gpu, sizes):
        program, lowered, context = prepare(gpu, module, name, grid, block, arguments)
        kernel = compile_kernel(
            program, lowered, context.geometry.block, trace=False, form=CodeForm(patterns=not generic)
        )
        room = Workspace(kernel, program.shared_static_bytes, context["local_bytes_per_thread"])
        blocks = context.geometry.blocks
        room.run(context.address, 0, blocks)
        found[name] = best(lambda r=room, k=context, m=blocks: r.run(k.address, 0, m))
    return found


def beside(gpu: Any, module: Any, generic: bool) -> None:
    """The same work by others, on one thread: an OpenCL simulator, and a runtime that compiles for this CPU."""
    if importlib.util.find_spec("pyopencl") is None:
        print("Oclgrind, PoCL: pyopencl is not installed")
        return
    for title, wrapper, sizes in (("Oclgrind", ["oclgrind"], SMALL), ("PoCL", [], FULL)):
        if wrapper and not shutil.which(wrapper[0]):
            print(f"{title}: not installed")
            continue
        command = [*wrapper, sys.executable, "-m", "bench.opencl", json.dumps(sizes)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "POCL_MAX_PTHREAD_COUNT": "1"}, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{title}: not installed or not working: {reason}")
            continue
        theirs = json.loads(done.stdout)
        ours = seconds_here(gpu, module, sizes, generic)
        print(f"{theirs['platform'].split(',')[0].strip()}, kernels built in {theirs['building'] * 1e3:.0f} ms:")
        for name, seconds in theirs["seconds"].items():
            print(
                f"  {name:12} {seconds * 1e3:10.2f} ms, here {ours[name] * 1e3:8.3f} ms: {seconds / ours[name]:.1f} times as long"
            )


if __name__ == "__main__":
    main()
