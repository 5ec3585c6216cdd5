"""The time of texture filters on Cypress and Cayman: four addresses per cycle, one for each mean of each lane."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.r600_bound import ComputeProgram, load_bound
from warpwright.isa.r600.assemble import assemble
from warpwright.isa.r600.bindings import IMAGE_RECORD_BYTES, MIP_LINEAR, MIP_NONE, WRAP, Bindings, BoundImage, Sampler
from warpwright.kernel import Module
from warpwright.run_launch import launch_packed

pytestmark = pytest.mark.ci
CHIPS = ("hd5870", "hd6970")
WAVEFRONTS, WIDTH, LEVELS = 16, 16, 2
STEPS = (8, 24)
FLOAT, NUMBER = 0x0E, 2
NO_LIMIT = 0xFFF


def sampler(mip: int, anisotropy: int) -> Sampler:
    return Sampler((WRAP,) * 3, True, True, mip, anisotropy, 0, NO_LIMIT, 0, 0)


def program(name: str, count: int, across: float) -> str:
    """Fetches of one place, halfway between the two levels; gradients of ``across`` widths of the image and of a quarter of that."""
    gradients = ""
    if name == "SAMPLE_G":
        gradients = "  SET_GRADIENTS_H T6.x, T2.xyz, 0\n  SET_GRADIENTS_V T6.x, T3.xyz, 0\n"
    return f"""
alu
  MOV T4.x, 0.25; MOV T4.y, 0.25; MOV T4.w, 0.5
  MOV T2.x, {across}; MOV T2.y, 0; MOV T2.z, 0
  MOV T3.x, 0; MOV T3.y, {across / 4}; MOV T3.z, 0
  MOV T7.x, 1
loop
  alu break
    PRED_SETGT_INT _, T7.x, {count}
  fetch
  {gradients}  {name} T5.x, T4.xyzw, 0
  alu
    ADD_INT T7.x, T7.x, 1
end
"""


def cycles(chip: str, name: str, how: Sampler, across: float = 0.375) -> float:
    """Cycles of one fetch of a wavefront, on a SIMD with many of them."""
    gpu = ww.GPU(chip, timing="full")
    texels = gpu.memory.allocate(4 * WIDTH * WIDTH * 2, "texels")
    gpu.memory.copy_in(texels.address, np.ones(2 * WIDTH * WIDTH, np.float32))
    words = b"".join(
        struct.pack("<Q6I", texels.address + 4 * WIDTH * WIDTH * n, WIDTH >> n, WIDTH >> n, 1, WIDTH, WIDTH * WIDTH, 0)
        for n in range(LEVELS)
    )
    image = BoundImage(0, 2, False, FLOAT, NUMBER, False, LEVELS, (0, 0, 0, 0))
    bindings = Bindings(textures={0: image}, samplers={0: how}, size_bytes=LEVELS * IMAGE_RECORD_BYTES)

    def run(count: int) -> Any:
        code = assemble(program(name, count, across), gpu.chip.identity.generation)
        made = ComputeProgram(f"f{count}", code, bindings, 8, 0, 0)
        kernel = Module(gpu, load_bound(made, gpu.chip.arch, gpu.memory))[made.name]
        return launch_packed(kernel[(1, 1, 1), (64 * WAVEFRONTS, 1, 1)], words)

    few, many = (run(count).cycles for count in STEPS)
    return float((many - few) / (STEPS[1] - STEPS[0]) / WAVEFRONTS)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("name", "mip", "anisotropy", "means"),
    [
        ("SAMPLE_LZ", MIP_NONE, 1, 1),
        ("SAMPLE_L", MIP_LINEAR, 1, 2),
        ("SAMPLE_G", MIP_NONE, 2, 2),
        ("SAMPLE_G", MIP_NONE, 16, 4),
        ("SAMPLE_G", MIP_LINEAR, 16, 8),
    ],
)
def test_each_mean_of_a_filter_takes_16_cycles_of_a_wavefront(
    chip: str, name: str, mip: int, anisotropy: int, means: int
) -> None:
    """Also on Cayman, where loads of one place are joined to a single address."""
    assert cycles(chip, name, sampler(mip, anisotropy)) == pytest.approx(16 * means, rel=0.01)


def test_an_anisotropic_fetch_without_gradients_needs_one_mean() -> None:
    assert cycles("hd6970", "SAMPLE_G", sampler(MIP_NONE, 16), across=0.0) == pytest.approx(16, rel=0.01)
