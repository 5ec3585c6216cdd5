"""Measures the cost of a warp's special function in the functional engine: ``python -m bench.silicon.mufu_speed``.

Prints ns of one function of 32 lanes in a loop, and of the loop without one.  CPU time, shortest of thirty runs.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import warpwright as ww
from bench.engine import best_of_each, prepare
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.engine.jit.workspace import Workspace

INSTRUCTIONS = {
    **{name: f"{name}.approx.ftz.f32" for name in ("rcp", "sqrt", "ex2", "lg2", "sin", "cos")},
    "rsq": "rsqrt.approx.ftz.f32",
    "tanh": "tanh.approx.f32",
    "none": "mov.b32",
}
KERNEL = """
extern "C" __global__ void turns_%s(int turns, float *y) {
    float x = y[threadIdx.x], sum = 0;
    for (int k = 0; k < turns; k++) {
        float r;
        asm volatile("%s %%0, %%1;" : "=f"(r) : "f"(x));
        sum += r;
        x += 0.01f;
    }
    y[threadIdx.x] = sum;
}
"""
BLOCKS, TURNS = 200, 256


def main() -> None:
    gpu = ww.GPU("a100", timing="off")
    module = gpu.compile("".join(KERNEL % named for named in INSTRUCTIONS.items()))
    for name in INSTRUCTIONS:
        y = gpu.array(np.linspace(0.5, 9, 32).astype(np.float32))
        program, lowered, context = prepare(gpu, module, f"turns_{name}", (BLOCKS,), (32,), [TURNS, y])
        kernel = compile_kernel(program, lowered, context.geometry.block, trace=False)
        room = Workspace(kernel, program.shared_static_bytes, context["local_bytes_per_thread"])
        (seconds,) = best_of_each([partial(room.run, context.address, 0, BLOCKS)], 30)
        print(f"{name:6} {seconds * 1e9 / BLOCKS / TURNS:6.1f} ns")


if __name__ == "__main__":
    main()
