"""Results of the corpus on the chips of before 2016 beside P100's: equal in every bit, or listed with what differs."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.kernels import case, names
from tests.test_r600 import NEVER_ENDS
from warpwright.errors import ExecutionError, LaunchError, UnsupportedError
from warpwright.toolchain import CompileError

CHIPS = ("g80", "gtx480", "hd5870", "hd6970")
MULTIPLY_ADD = "the multiply-add truncates its product"
SPECIAL = "special functions, quotients or roots are the chip's approximations"
SUBNORMAL = "subnormals are flushed"
_AMD = {
    **dict.fromkeys(
        (
            "float_divide_root",
            "libm_exponential",
            "fast_math_option",
            "dft_direct",
            "fft_radix2",
            "black_scholes",
            "softmax_rows",
            "layer_norm",
        ),
        SPECIAL,
    ),
    "float_minmax_special": SUBNORMAL,
    "bfs_level": "which of several neighbours reaches a vertex first is a race",
}
DIFFERENT: dict[str, dict[str, str]] = {
    "g80": {
        **dict.fromkeys(
            (
                "stream_triad",
                "matmul_naive",
                "matmul_tiled",
                "stencil_2d",
                "convolution_2d",
                "spmv_scalar",
                "libm_special",
            ),
            MULTIPLY_ADD,
        ),
        **dict.fromkeys(
            ("dft_direct", "fft_radix2", "nbody_forces", "black_scholes", "softmax_rows", "layer_norm", "gelu_bias"),
            f"{MULTIPLY_ADD}; {SPECIAL}",
        ),
        **dict.fromkeys(("libm_exponential", "fast_math_option"), f"{MULTIPLY_ADD}; {SPECIAL}"),
        "float_minmax_special": SUBNORMAL,
    },
    "gtx480": {
        **dict.fromkeys(("fast_intrinsics", "dft_direct", "fft_radix2", "black_scholes"), SPECIAL),
        "clock_read": "clocks",
    },
    "hd5870": _AMD,
    "hd6970": _AMD,
}
"""Kernels whose results differ from P100's, with the operations of theirs whose results are not those of IEEE 754 or of P100."""
LEAST_EQUAL = {"g80": 62, "gtx480": 90, "hd5870": 79, "hd6970": 79}


def results(name: str, chip: str) -> dict[int, np.ndarray]:
    found = case(name, "small")
    _, outputs = found.run(ww.GPU(chip, timing="off").compile(found.source, options=found.options))
    return outputs


def later_results(name: str) -> dict[int, np.ndarray]:
    """P100's; those of V100 or A100, which have the same arithmetic, where the source file has another kernel that P100 cannot run."""
    for chip in ("p100", "v100"):
        try:
            return results(name, chip)
        except (UnsupportedError, CompileError):
            continue
    return results(name, "a100")


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_results_equal_p100s(chip: str) -> None:
    equal, other = 0, {}
    for name in names():
        if name in NEVER_ENDS:
            continue
        try:
            found = results(name, chip)
        except (UnsupportedError, LaunchError, CompileError, ExecutionError):
            continue
        wanted = later_results(name)
        counts = {
            n: int((a.reshape(-1).view("u1") != wanted[n].reshape(-1).view("u1")).sum()) for n, a in found.items()
        }
        if any(counts.values()):
            other[name] = {n: (count, found[n].nbytes) for n, count in counts.items() if count}
        else:
            equal += 1
    print(f"{chip}: {equal} equal; differ: {other}")
    assert set(other) == set(DIFFERENT[chip]), other
    assert equal >= LEAST_EQUAL[chip]
