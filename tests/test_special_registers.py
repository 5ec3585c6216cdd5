"""Special registers that tell of the chip and of the launch, by every engine."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

REGISTERS = ("nsmid", "smid", "nwarpid", "warpid", "total_smem_size", "dynamic_smem_size")
SOURCE = """
extern "C" __global__ void told(unsigned* out) {{
    __shared__ int words[250];
    words[threadIdx.x] = out[0];
    __syncthreads();
    out[60] = words[threadIdx.x + 1];
    unsigned value;
    {reads}
    unsigned long long grid;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
    out[50] = grid;
}}
"""


def told(gpu: ww.GPU, registers: tuple[str, ...], dynamic: int = 0) -> dict[str, int]:
    """What the last warp of the third block reads."""
    reads = "".join(
        f'asm volatile("mov.u32 %0, %%{name};" : "=r"(value)); out[{n}] = value;' for n, name in enumerate(registers)
    )
    out = np.zeros(64, np.uint32)
    gpu.compile(SOURCE.format(reads=reads))["told"][3, 64, dynamic](out)
    assert out[50] == 1
    return dict(zip(registers, out.tolist(), strict=False))


@pytest.mark.parametrize("engine", ["compiled", "interpreter", "tiered"])
@pytest.mark.parametrize("chip", ["p100", "v100", "a100", "h200"])
def test_kernels_are_told_of_the_chip(chip: str, engine: str) -> None:
    gpu = ww.GPU(chip, timing="off", engine=engine)
    found = told(gpu, REGISTERS)
    assert found == {
        "nsmid": gpu.chip.sm.sm_count,
        "smid": 2,
        "nwarpid": 64,
        "warpid": 1,
        "total_smem_size": 1024,
        "dynamic_smem_size": 0,
    }


@pytest.mark.parametrize(
    ("dynamic", "total", "exact"), [(0, 1024, 2024), (1, 1024, 2025), (100, 1152, 2124), (5000, 6016, 7024)]
)
def test_sizes_of_shared_memory_are_an_h200s(dynamic: int, total: int, exact: int) -> None:
    """1,000 bytes of its own, as read on a card."""
    gpu = ww.GPU("h200", timing="off")
    found = told(gpu, ("total_smem_size", "aggr_smem_size", "dynamic_smem_size"), dynamic)
    assert found == {"total_smem_size": total, "aggr_smem_size": exact, "dynamic_smem_size": dynamic}
