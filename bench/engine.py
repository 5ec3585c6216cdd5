"""How fast the functional engine runs: ``python -m bench.engine [--chip a100] [--generic]``.

Prints warp-instructions per second of one host thread, compile time from decoded program to machine code, and
NumPy's time for the same triad.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import warpwright as ww
from warpwright.engine.abi import Status
from warpwright.engine.jit.compile import compile_kernel
from warpwright.engine.jit.workspace import Workspace
from warpwright.engine.launch import Geometry, constant_bank0, make_context
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


def best(function: Any, repeats: int = 5) -> float:
    """Shortest of some runs, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chip", default="a100")
    parser.add_argument("--generic", action="store_true", help="without lane patterns")
    options = parser.parse_args()
    gpu = ww.GPU(options.chip, timing="off")
    module = gpu.compile(SOURCE)
    generator = np.random.default_rng(0)
    n = 512
    many = 1 << 24
    x, y, z = (gpu.array(generator.random(many, dtype=np.float32)) for _ in range(3))
    a, b, c = (gpu.array(generator.random(n * n, dtype=np.float32)) for _ in range(3))
    counts = gpu.array(np.zeros(1024 * 512, dtype=np.int32))
    launches: list[tuple[str, tuple[int, ...], tuple[int, ...], list[Any]]] = [
        ("triad", (many // 256,), (256,), [many, 2.0, x, y, z]),
        ("matmul", (n // 32, n // 8), (32, 8), [n, a, b, c]),
        ("mandelbrot", (1024 // 32, 512 // 8), (32, 8), [1024, 512, 256, counts]),
        ("tiled", (n // 16, n // 16), (16, 16), [n, a, b, c]),
    ]
    print(f"{'kernel':12} {'compile ms':>10} {'run ms':>9} {'G warp-instr/s':>15}")
    seconds: dict[str, float] = {}
    for name, grid, block, arguments in launches:
        program, lowered, context = prepare(gpu, module, name, grid, block, arguments)
        shape = context.geometry.block

        def fresh(p: Any = program, low: Any = lowered, s: Any = shape) -> Any:
            return compile_kernel(p, low, s, trace=False, patterns=not options.generic, use_cache=False)

        fresh()
        compiling = best(fresh, 3)
        kernel = fresh()
        room = Workspace(kernel, program.shared_static_bytes, context["local_bytes_per_thread"])
        blocks = context.geometry.blocks
        outcome = room.run(context.address, 0, blocks)
        assert outcome.status == Status.EXIT, outcome
        seconds[name] = best(lambda r=room, k=context, m=blocks: r.run(k.address, 0, m))
        speed = outcome.warp_instructions / seconds[name]
        print(f"{name:12} {compiling * 1e3:10.1f} {seconds[name] * 1e3:9.2f} {speed / 1e9:15.2f}")
    host = [generator.random(many, dtype=np.float32) for _ in range(2)]
    out = np.empty_like(host[0])

    def numpy_triad() -> None:
        np.multiply(host[0], np.float32(2), out=out)
        np.add(out, host[1], out=out)

    reference = best(numpy_triad)
    print(
        f"triad of {many:,} floats: NumPy {reference * 1e3:.2f} ms, here {seconds['triad'] / reference:.2f} times that"
    )
    for name, found in (
        ("Oclgrind", shutil.which("oclgrind")),
        ("PoCL", shutil.which("poclcc")),
        ("Triton interpreter", importlib.util.find_spec("triton")),
    ):
        if found:
            print(f"{name} is installed ({found}); its own numbers: see docs")


if __name__ == "__main__":
    main()
