"""Rates of A100's and V100's tensor cores, dense and sparse, as the A100 whitepaper's Table 3 states them.

Each format's instruction runs from registers in all sub-cores, in launches of two lengths, so that what a launch takes besides cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpwright.api import GPU
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "NVIDIA A100 Tensor Core GPU Architecture"
SOURCE = """
#ifndef CHAINS
#define CHAINS 8
#endif
#ifndef STEPS
#define STEPS 8
#endif
extern "C" __global__ void products(unsigned *out, int repeats)
{
    unsigned d[CHAINS][SUMS] = {}, a[4], b[4], e = 0x44444444;
    for (int n = 0; n < 4; n++) { a[n] = threadIdx.x * n; b[n] = threadIdx.x + n; }
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
#pragma unroll
        for (int k = 0; k < STEPS * CHAINS; k++) { unsigned *s = d[k % CHAINS]; STEP }
    }
    unsigned sum = 0;
    for (int c = 0; c < CHAINS; c++)
        for (int n = 0; n < SUMS; n++) sum += d[c][n];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
LOOP = 8, 8
"""Instructions per chain of the loop's body, and chains."""
UNROLLED_LOOP = 24, 12
"""For instructions that issue every cycle: the loop's own four instructions count little, and no accumulator shares a register bank with a factor (with 8 chains one does on P100)."""


def loop_of(name: str) -> tuple[int, int]:
    """The loop that measures the peak rate of a scalar format."""
    return UNROLLED_LOOP if name == "FP16" else LOOP


WARPS, REPEATS = 8, (2, 6)
TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class Format:
    """A row of the table: an instruction with ``operations`` additions and multiplications per warp, and the table's TOPS."""

    row: str
    chip: str
    instruction: str
    registers: tuple[int, int, int]
    """32-bit registers of A, B and the sums."""
    operations: int
    tops: float
    sparse: bool = False
    ends: str = ""
    loop: tuple[int, int] = LOOP

    @property
    def step(self) -> str:
        """The instruction as CUDA C++."""
        if not self.instruction:
            return 'asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));'
        a, b, sums = self.registers
        left, right = (
            [f'"r"({name}[{n}])' for n in range(count)]
            if self.ends != "f64"
            else [f'"d"(__hiloint2double({name}[{n}], {name}[{n}]))' for n in range(count // 2)]
            for name, count in (("a", a), ("b", b))
        )
        if self.ends == "f64":
            outputs = [f'"+d"(reinterpret_cast<double *>(s)[{n}])' for n in range(sums // 2)]
        else:
            outputs = [f'"+r"(s[{n}])' for n in range(sums)]
        places = _places(len(outputs), len(left), len(right))
        metadata = f", %{len(outputs) + len(left) + len(right)}, 0x0" if self.sparse else ""
        inputs = ", ".join([*left, *right, *(['"r"(e)'] if self.sparse else [])])
        return f'asm volatile("{self.instruction} {places}{metadata};" : {", ".join(outputs)} : {inputs});'


def _places(sums: int, left: int, right: int) -> str:
    """Operands d, a, b and c of an instruction, numbered."""
    first = 0
    groups = []
    for count in (sums, left, right):
        groups.append("{" + ", ".join(f"%{first + n}" for n in range(count)) + "}")
        first += count
    return ", ".join([*groups, groups[0]])


def _a100(
    row: str, shape: str, types: str, registers: tuple[int, int, int], operations: int, tops: float
) -> list[Format]:
    """A format of A100 and its sparse form, of twice the depth."""
    front, depth = shape.split("k")
    sparse_shape = f"{front}k{2 * int(depth)}"
    a, b, sums = registers
    ends = f".sync.aligned.{{}}.row.col.{types}"
    dense = Format(row, "a100", "mma" + ends.format(shape), registers, operations, tops)
    form = "mma.sp::ordered_metadata" + ends.format(sparse_shape)
    return [dense, Format(row, "a100", form, (a, 2 * b, sums), 2 * operations, 2 * tops, sparse=True)]


FORMATS = (
    Format("V100, FP32", "v100", "", (1, 1, 1), 64, 15.7),
    Format(
        "V100, FP16 to FP32",
        "v100",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        (2, 2, 8),
        4 * 2 * 8 * 8 * 4,
        125.0,
    ),
    Format("A100, FP32", "a100", "", (1, 1, 1), 64, 19.5),
    *_a100("A100, TF32", "m16n8k8", "f32.tf32.tf32.f32", (4, 2, 4), 2 * 16 * 8 * 8, 156.0),
    *_a100("A100, FP16 to FP32", "m16n8k16", "f32.f16.f16.f32", (4, 2, 4), 2 * 16 * 8 * 16, 312.0),
    *_a100("A100, BF16 to FP32", "m16n8k16", "f32.bf16.bf16.f32", (4, 2, 4), 2 * 16 * 8 * 16, 312.0),
    *_a100("A100, FP16 to FP16", "m16n8k16", "f16.f16.f16.f16", (4, 2, 2), 2 * 16 * 8 * 16, 312.0),
    *_a100("A100, INT8", "m16n8k32", "s32.s8.s8.s32", (4, 2, 4), 2 * 16 * 8 * 32, 624.0),
    *_a100("A100, INT4", "m16n8k64", "s32.s4.s4.s32", (4, 2, 4), 2 * 16 * 8 * 64, 1248.0),
    Format(
        "A100, binary",
        "a100",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        (4, 2, 4),
        2 * 16 * 8 * 256,
        4992.0,
    ),
    Format(
        "A100, FP64",
        "a100",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        (2, 2, 4),
        2 * 8 * 8 * 4,
        19.5,
        ends="f64",
    ),
)


def tera_operations(gpu: GPU, kind: Format) -> float:
    """Operations in 10¹² per second that the whole chip does of a format."""
    steps, chains = kind.loop
    defines: dict[str, str | int | None] = {
        "SUMS": kind.registers[2],
        "STEPS": steps,
        "CHAINS": chains,
        "STEP": kind.step,
    }
    kernel = gpu.compile(SOURCE, defines=defines, name=f"{kind.row}.cu")["products"]
    sms = gpu.chip.sm.sm_count
    out = np.zeros(sms * WARPS * 32, np.uint32)
    few, many = (kernel[sms, WARPS * 32](out.copy(), repeats).cycles for repeats in REPEATS)
    count = steps * chains * (REPEATS[1] - REPEATS[0]) * sms * WARPS
    return count * kind.operations / (many - few) * gpu.chip.clocks.sm_clock_mhz / 1e6


def rates(formats: Sequence[Format], step: Step) -> dict[Format, float]:
    """The rate that each format reaches."""
    gpus = {name: GPU(name, timing="full") for name in dict.fromkeys(kind.chip for kind in formats)}
    found = {}
    for kind in formats:
        step(f"{kind.row}{', sparse' if kind.sparse else ''}")
        found[kind] = tera_operations(gpus[kind.chip], kind)
    return found


@study("a100-table3", f"{PAPER}, Table 3")
def table_3(step: Step) -> Result:
    """Rates of tensor-core formats, dense and sparse, and their factor over FP32."""
    found = rates(FORMATS, step)
    scalar = {kind.chip: (ours, kind.tops) for kind, ours in found.items() if not kind.instruction}
    tops, factors = [], []
    for kind, ours in found.items():
        column = "sparse" if kind.sparse else "dense"
        tops.append(Cell(kind.row, column, ours, kind.tops, TOLERANCE))
        our_scalar, paper_scalar = scalar[kind.chip]
        factors.append(Cell(kind.row, column, ours / our_scalar, round(kind.tops / paper_scalar), TOLERANCE))
    return Result([Table("Rate", "TOPS", tops), Table("Factor over FP32", "times", factors)])
