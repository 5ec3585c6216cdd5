"""G80 as "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008) describes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpwright.api import GPU
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "Lindholm et al., NVIDIA Tesla, 2008"
SOURCE = """
#define FUNCTION(NAME, INSTRUCTION)                                                       \\
    extern "C" __global__ void NAME(const float *x, float *y)                             \\
    {                                                                                     \\
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                    \\
        float r;                                                                          \\
        asm(INSTRUCTION " %0, %1;" : "=f"(r) : "f"(x[i]));                                \\
        y[i] = r;                                                                         \\
    }
FUNCTION(reciprocal, "rcp.approx.ftz.f32")
FUNCTION(reciprocal_root, "rsqrt.approx.ftz.f32")
FUNCTION(power, "ex2.approx.ftz.f32")
FUNCTION(logarithm, "lg2.approx.ftz.f32")
FUNCTION(sine, "sin.approx.ftz.f32")
"""
PART = 1 << 20
"""Inputs of one launch."""
BITS_TOLERANCE, ULP_TOLERANCE, SHARE_TOLERANCE = 0.05, 0.05, 1.0

Function = Callable[[Any], Any]
# Function: kernel, reference, first and last input, good bits, ulp, share rounded exactly (None: not given).
TABLE_1: tuple[tuple[str, str, Function, float, float, float, float | None, float | None], ...] = (
    ("1/x", "reciprocal", lambda x: 1 / x, 1.0, 2.0, 24.02, 0.98, 87.0),
    ("1/sqrt(x)", "reciprocal_root", lambda x: 1 / np.sqrt(x), 1.0, 4.0, 23.40, 1.52, 78.0),
    ("2^x", "power", np.exp2, 0.0, 1.0, 22.51, 1.41, 74.0),
    ("log2(x)", "logarithm", np.log2, 1.0, 2.0, 22.57, None, None),
    ("sin(x)", "sine", np.sin, 0.0, np.pi / 2, 22.47, None, None),
)


def _inputs(first: float, end: float) -> Any:
    """Every float32 of [1, 2) or [1, 4); of an interval from 0, the 2**23 fixed-point numbers that the unit distinguishes in [0, 1), or as many steps."""
    if first == 0.0:
        return (np.arange(1 << 23) * (end / (1 << 23))).astype(np.float32)
    low, high = (int(np.float32(v).view(np.uint32)) for v in (first, end))
    return np.arange(low, high, dtype=np.uint32).view(np.float32)


@study("tesla-table1", f"{PAPER}, Table 1")
def function_units(step: Step) -> Result:
    """Accuracy of the special-function unit over all inputs of the table's intervals."""
    gpu = GPU("g80", timing="off")
    module = gpu.compile(SOURCE)
    bits, ulps, shares = [], [], []
    for name, kernel, exact, first, end, good, ulp, share in TABLE_1:
        step(name)
        x = _inputs(first, end)
        y = np.zeros_like(x)
        for at in range(0, len(x), PART):
            module[kernel][PART // 256, 256](x[at : at + PART], y[at : at + PART])
        wanted = exact(x.astype(np.float64))
        error = np.abs(y - wanted)
        bits.append(Cell(name, "good bits", float(-np.log2(error.max())), good, BITS_TOLERANCE, absolute=True))
        if ulp is not None and share is not None:
            rounded = wanted.astype(np.float32)
            worst = float((error / np.spacing(np.abs(rounded)).astype(np.float64)).max())
            ulps.append(Cell(name, "ulp", worst, ulp, ULP_TOLERANCE, absolute=True))
            shares.append(
                Cell(name, "% exact", float(100 * (y == rounded).mean()), share, SHARE_TOLERANCE, absolute=True)
            )
    found = Result([Table("Good bits: minus log2 of the largest error", "bits", bits)])
    found.tables.append(Table("Largest error", "ulp", ulps))
    found.tables.append(Table("Rounded exactly", "%", shares))
    found.remarks.append(
        "The table's 22.47 bits of sin(x) do not agree with public models of the chip at the level of bits, which have 21.46."
    )
    return found
