"""Compares other forms of a kernel's machine code with its ordinary code: ``python -m bench.code_forms [--chip h200]``.

- Quick code with optimised code, traced code with untraced code, and traced code for blocks of any length with traced code for the launch's own block (which knows how
  many warps there are and which lanes run). The kernels are those of ``bench.engine`` with one-dimensional blocks.
- Unrolled code that is compiled once, as a loop, with the same code compiled copy by copy: ``barriers`` and ``sums``, of about 10,000 instructions each.

Prints CPU seconds of compiling both and how long a launch takes relative to the first form (shortest of several alternating runs). The records of traced code are not read.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import warpwright as ww
from bench.engine import FULL, SOURCE, TRACE_MARGIN_WORDS, TRACE_WORDS, best_of_each, prepare, without_reader
from warpwright.engine.abi import Status
from warpwright.engine.jit import codegen
from warpwright.engine.jit.codegen import CompiledKernel, compile_kernel
from warpwright.engine.jit.shape_inference import CodeForm
from warpwright.engine.jit.workspace import Workspace
from warpwright.engine.kernels import ANY_LENGTH
from warpwright.engine.launch import aligned_words

REPEATS = 5
UNROLLED = """
#define R4(s) s s s s
#define R256(s) R4(R4(R4(R4(s))))
extern "C" __global__ void barriers(float *out, const float *in) {
    __shared__ float s[256];
    float x = in[blockIdx.x * 256 + threadIdx.x];
    R256(R4(s[threadIdx.x] = x; __syncthreads(); x = x * 0.5f + s[threadIdx.x ^ 33]; __syncthreads();))
    out[blockIdx.x * 256 + threadIdx.x] = x;
}
extern "C" __global__ void sums(float *out, const float *in) {
    float x = in[blockIdx.x * 256 + threadIdx.x], y = x;
    R256(R4(R4(asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y)); asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(y) : "f"(x));)))
    out[blockIdx.x * 256 + threadIdx.x] = x + y;
}
"""

Form = Callable[[], CompiledKernel]


class Compared:
    """Two forms of a launch's code."""

    def __init__(self, gpu: Any, module: Any, name: str, grid: tuple[int, ...], arguments: list[Any]) -> None:
        self.name = name
        self.program, self.lowered, self.context = prepare(gpu, module, name, grid, (256,), arguments)
        self.sink = aligned_words(8 * (TRACE_WORDS + TRACE_MARGIN_WORDS))

    def form(self, block: tuple[int, int, int] = (256, 1, 1), **options: Any) -> Form:
        """A function that compiles a form of the code."""
        return partial(compile_kernel, self.program, self.lowered, block, use_cache=False, **options)

    def print_row(self, what: str, first: Form, second: Form) -> None:
        """Compile both forms and run them alternately."""
        codes, seconds = [], []
        for form in (first, second):
            began = time.process_time()
            # A launch with code for any length has the block's own shape.
            codes.append(dataclasses.replace(form(), block_shape=self.context.geometry.block))
            seconds.append(time.process_time() - began)
        rooms = [
            Workspace(
                without_reader(code, self.sink) if code.trace else code,
                self.program.shared_static_bytes,
                self.context["local_bytes_per_thread"],
            )
            for code in codes
        ]
        blocks = self.context.geometry.blocks
        counts = set()
        for room in rooms:
            outcome = room.run(self.context.address, 0, blocks)
            assert outcome.status == Status.EXIT, outcome
            counts.add(outcome.warp_instructions)
        assert len(counts) == 1, "forms of one kernel execute the same instructions"
        shortest = best_of_each([partial(room.run, self.context.address, 0, blocks) for room in rooms], REPEATS)
        print(
            f"{self.name:10} {what:32} {seconds[0] * 1e3:11.0f} {seconds[1] * 1e3:12.0f} {shortest[1] / shortest[0]:10.2f}",
            flush=True,
        )


def without_repeats(form: Form) -> Form:
    """The form compiled copy by copy."""

    def compiled() -> CompiledKernel:
        found = codegen.repeats_of
        codegen.repeats_of = lambda program, lowered: None  # type: ignore[assignment]
        try:
            return form()
        finally:
            codegen.repeats_of = found

    return compiled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chip", default="h200")
    options = parser.parse_args()
    gpu = ww.GPU(options.chip, timing="off", threads=1)
    many = FULL["many"] // 4
    x, y, z = (gpu.array(np.random.default_rng(0).random(many, dtype=np.float32)) for _ in range(3))
    engine, unrolled = gpu.compile(SOURCE), gpu.compile(UNROLLED)
    print(f"{'kernel':10} {'second form, first form':32} {'first, ms':>11} {'second, ms':>12} {'run, ratio':>10}")
    launches = (
        (engine, "triad", (many // 256,), [many, 2.0, x, y, z]),
        (unrolled, "barriers", (16,), [z, x]),
        (unrolled, "sums", (64,), [z, x]),
    )
    for module, name, grid, arguments in launches:
        one = Compared(gpu, module, name, grid, arguments)
        plain, traced = one.form(trace=False), one.form(trace=True)
        one.print_row("quick, optimised", plain, one.form(trace=False, is_quick=True))
        one.print_row("traced, untraced", plain, traced)
        any_length = one.form(ANY_LENGTH, trace=True, form=CodeForm(any_length=True))
        one.print_row("traced: any length, own block", traced, any_length)
        if module is unrolled:
            one.print_row("compiled once, copy by copy", without_repeats(plain), plain)
            one.print_row("traced: once, copy by copy", without_repeats(traced), traced)


if __name__ == "__main__":
    main()
