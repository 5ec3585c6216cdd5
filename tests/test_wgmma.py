"""wgmma against what an H200 gave (``bench/silicon/check_wgmma.py``): sums and places of operands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.silicon import wgmma as source
from tests.test_silicon import aligned, compiled_mma
from warpwright.engine import numerics

DATA = Path(__file__).parent.parent / "bench" / "silicon" / "data"


def fragments_of(kernel: str) -> tuple[tuple[str, str, str, int, int, int, int], np.ndarray, np.ndarray]:
    """The operation's attribute, its registers and results [tile, register, lane]."""
    first, second, accumulator = source.SUMS[kernel]
    with np.load(DATA / "wgmma_sample.npz") as stored:
        inputs, outputs = stored[f"{kernel}.in"], stored[f"{kernel}.out"]
    # The four warps of a group share the B of the first.
    inputs[:, 4:6] = np.repeat(inputs[::4, 4:6], 4, axis=0)
    element = first if first == second else first + second
    n_c = outputs.shape[1]
    return (f"m16n8k{source.K[first]}", element, accumulator, 4, 2, n_c, 90), inputs, outputs


@pytest.mark.parametrize("kernel", source.SUMS)
def test_interpreter_sums_as_the_card(kernel: str) -> None:
    attr, inputs, outputs = fragments_of(kernel)
    with np.errstate(all="ignore"):
        for tile, want in zip(inputs, outputs, strict=True):
            np.testing.assert_array_equal(np.stack(numerics.mma(attr, list(tile))), want)


@pytest.mark.parametrize("kernel", source.SUMS)
def test_compiled_sums_as_the_card(kernel: str) -> None:
    attr, inputs, outputs = fragments_of(kernel)
    run = compiled_mma("_".join(("ww_mma", *map(str, attr))))
    buffer = aligned(16)
    for tile, want in zip(inputs, outputs, strict=True):
        buffer[: len(tile)] = tile
        run(buffer.ctypes.data)
        np.testing.assert_array_equal(buffer[: len(want)], want)
