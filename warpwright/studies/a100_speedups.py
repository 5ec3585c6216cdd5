"""Table 2 and Figure 14 of the A100 whitepaper: rates of V100 and A100 by format, and what a product of 16 x 16 x 16 takes of an SM.

Rates are measured as for Table 3.  Instructions and registers are counted in the machine code that NVIDIA's compiler makes for either chip.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.api import GPU
from warpwright.isa.program import Instruction
from warpwright.studies.a100_tensor_cores import (
    FORMATS,
    PAPER,
    Format,
    loop_of,
    rates,
    tera_operations,
)
from warpwright.studies.study import Cell, Result, Step, Table, study

SPEEDUP_TOLERANCE = 0.05
CYCLE_TOLERANCE = 0.05
SUB_CORES = 4
PRODUCT_OPERATIONS = 2 * 16 * 16 * 16


@dataclass(frozen=True, slots=True)
class Scalar(Format):
    """A format of the SM's ordinary pipes: ``text`` is its instruction in CUDA C++, which changes s[0] (and s[1])."""

    text: str = ""

    @property
    def step(self) -> str:
        return self.text


def _scalar(name: str, chip: str, sums: int, operations: int, tops: float) -> Scalar:
    text = {
        "FP16": 'asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));',
        "FP32": 'asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));',
        "FP64": 'asm volatile("fma.rn.f64 %0, %1, %1, %0;" : "+d"(reinterpret_cast<double *>(s)[0]) : '
        '"d"(__hiloint2double(a[1], b[1])));',
        "INT8": 'asm volatile("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));',
    }[name]
    return Scalar(f"{chip.upper()}, {name}", chip, "", (1, 1, sums), operations, tops, loop=loop_of(name), text=text)


SCALARS = (
    _scalar("FP16", "v100", 1, 32 * 4, 31.4),
    _scalar("FP16", "a100", 1, 32 * 4, 78.0),
    _scalar("FP32", "v100", 1, 32 * 2, 15.7),
    _scalar("FP32", "a100", 1, 32 * 2, 19.5),
    _scalar("FP64", "v100", 2, 32 * 2, 7.8),
    _scalar("FP64", "a100", 2, 32 * 2, 9.7),
    _scalar("INT8", "v100", 1, 32 * 8, 62.0),
)
ROWS = (
    # row of the paper, A100's format, V100's, speedup, speedup with sparsity
    ("FP16", "A100, FP16", "V100, FP16", 2.5, None),
    ("FP16 TC", "A100, FP16 to FP32", "V100, FP16 to FP32", 2.5, 5.0),
    ("BF16 TC vs FP16 TC", "A100, BF16 to FP32", "V100, FP16 to FP32", 2.5, 5.0),
    ("FP32", "A100, FP32", "V100, FP32", 1.25, None),
    ("TF32 TC vs FP32", "A100, TF32", "V100, FP32", 10.0, 20.0),
    ("FP64", "A100, FP64", "V100, FP64", 1.25, None),
    ("FP64 TC vs FP64", "A100, FP64 TC", "V100, FP64", 2.5, None),
    ("INT8 TC vs INT8", "A100, INT8", "V100, INT8", 10.0, 20.0),
)


def _named(kind: Format) -> str:
    """A format's name among those of both kinds of pipes."""
    tensor = kind.instruction and kind.row == "A100, FP64"
    return f"{kind.row}{' TC' if tensor else ''}{', sparse' if kind.sparse else ''}"


@study("a100-table2", f"{PAPER}, Table 2")
def table_2(step: Step) -> Result:
    """Speedups of A100 over V100 by format, on tensor cores and on ordinary pipes."""
    tensor = [kind for kind in FORMATS if kind.instruction and "INT4" not in kind.row and "binary" not in kind.row]
    found = {_named(kind): value for kind, value in rates([*SCALARS, *tensor], step).items()}
    cells = []
    for row, new, old, dense, sparse in ROWS:
        cells.append(Cell(row, "speedup", found[new] / found[old], dense, SPEEDUP_TOLERANCE))
        if sparse is not None:
            cells.append(Cell(row, "with sparsity", found[f"{new}, sparse"] / found[old], sparse, SPEEDUP_TOLERANCE))
    tops = [Cell(_named(kind), "rate", found[_named(kind)], kind.tops, SPEEDUP_TOLERANCE) for kind in SCALARS]
    return Result([Table("Speedup over V100", "times", cells), Table("Ordinary pipes", "TOPS", tops)])


PRODUCT = """
extern "C" __global__ void product(const unsigned *from, float *to)
{
    unsigned a[16], b[16];
    float d[16];
    for (int n = 0; n < 16; n++) { a[n] = from[32 * n + threadIdx.x]; b[n] = from[512 + 32 * n + threadIdx.x]; d[n] = to[32 * n + threadIdx.x]; }
#if __CUDA_ARCH__ < 800
#pragma unroll
    for (int k = 0; k < 4; k++)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
            : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[2 * k]), "r"(b[2 * k + 1]));
#else
#pragma unroll
    for (int n = 0; n < 2; n++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[4 * n]), "+f"(d[4 * n + 1]), "+f"(d[4 * n + 2]), "+f"(d[4 * n + 3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * n]), "r"(b[2 * n + 1]));
#endif
    for (int n = 0; n < 16; n++) to[32 * n + threadIdx.x] = d[n];
}
"""
REGISTERS = {
    # A, B, and the sums that an instruction of FP32 sums reads and writes
    "884": (2, 2, 2),
    "16816": (4, 2, 4),
}
"""Registers of a tensor instruction by its shape."""


def accesses(instruction: Instruction) -> int:
    """Registers that a tensor instruction reads and writes.

    A step of Volta's takes two of the sums; A and B are read in the first of four and kept.
    """
    shape = next(m for m in instruction.modifiers if m in REGISTERS)
    a, b, sums = REGISTERS[shape]
    later = any(m in ("STEP1", "STEP2", "STEP3") for m in instruction.modifiers)
    return 2 * sums + (0 if later else a + b)


def product_of(chip: str) -> list[Instruction]:
    """The tensor instructions of a product of 16 x 16 x 16 by one warp."""
    kernel = GPU(chip, timing="off").compile(PRODUCT)["product"]
    return [i for i in kernel._loaded.program.instructions if i.opcode == "HMMA"]


@study("a100-fig14", f"{PAPER}, Figure 14")
def figure_14(step: Step) -> Result:
    """Instructions, register accesses and cycles of a product of 16 x 16 x 16 on V100 and A100."""
    counts, cycles = [], []
    for chip, instructions, registers, clocks in (("v100", 16, 80, 32), ("a100", 2, 28, 16)):
        step(chip)
        found = product_of(chip)
        counts.append(Cell("hardware instructions", chip, len(found), instructions, 0.0))
        counts.append(Cell("register accesses", chip, sum(map(accesses, found)), registers, 0.0))
        gpu = GPU(chip, timing="full")
        kind = next(k for k in FORMATS if k.row == f"{chip.upper()}, FP16 to FP32" and not k.sparse)
        per_clock = tera_operations(gpu, kind) * 1e6 / gpu.chip.clocks.sm_clock_mhz / gpu.chip.sm.sm_count / SUB_CORES
        cycles.append(Cell("cycles per SM partition", chip, PRODUCT_OPERATIONS / per_clock, clocks, CYCLE_TOLERANCE))
    return Result(
        [Table("Counts", "", counts), Table("Cycles", "cycles", cycles)],
        [
            "The figure prints its cycle counts in a picture: 32 and 16 follow from 128 and 256 products a clock and partition."
        ],
    )
