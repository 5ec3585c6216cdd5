"""The texture units of G80 as "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008) describes them.

A pixel program of three instructions samples a texture for a square of pixels; the texture unit counts what it does for each quad.  Its caches
stream hits among misses without stalling, and nothing is published of what misses cost: the rates are the unit's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwright.chips import load_chip
from warpwright.graphics.shader_programs import Pixels, ShaderProgram, load_program
from warpwright.graphics.texture_fields import LINEAR, MIP_LINEAR, MIP_NONE, TWO_D, UNORM
from warpwright.graphics.texture_unit import TextureUnit
from warpwright.isa.nv50.decode import context_of, encode, rows_called
from warpwright.isa.nv50.fields import DoesNotFit, Token, register
from warpwright.isa.program import Kind, Operand
from warpwright.studies.study import Cell, Result, Step, Table, study
from warpwright.studies.tesla import PAPER

CORE_MHZ = 600.0
"""The GPU core clock that the paper calls typical, at which 38.4 gigabilerps/s are eight units of eight filters."""
SIZE, LEVELS, PIXELS = 256, 9, 128
ADDRESS = 1 << 29
MODES: tuple[tuple[str, int, int, float, float, float], ...] = (
    # what, anisotropy's code, filter of levels, texels along x per pixel, Gbilerp/s, Gsamples/s
    ("bilinear", 0, MIP_NONE, 1.0, 19.2, 19.2),
    ("trilinear", 0, MIP_LINEAR, 1.5, 38.4, 19.2),
    ("2:1 anisotropic", 1, MIP_NONE, 2.0, 38.4, 19.2),
    ("4:1 anisotropic", 2, MIP_NONE, 4.0, 38.4, 9.6),
    ("16:1 anisotropic", 7, MIP_NONE, 16.0, 38.4, 2.4),
)
TOLERANCE = 0.01


class _Image:
    """The texture's memory."""

    def __init__(self) -> None:
        self.bytes = np.random.default_rng(3).integers(0, 256, 1 << 19, dtype=np.uint8)

    def texture_room(self, address: int, what: str) -> tuple[int, int]:
        return int(self.bytes.ctypes.data) + address - ADDRESS, self.bytes.nbytes


def _instruction(opcode: str, tokens: list[Token], tail: str = "") -> bytes:
    context = context_of(10, "fp")
    for row in rows_called(opcode):
        if row.is_wide and row.fits(context):
            try:
                return encode(row, tokens, context, None, tail).to_bytes(8, "little")
            except DoesNotFit:
                continue
    raise ValueError(f"{opcode} {tokens} has no encoding")


def _program() -> ShaderProgram:
    """Two interpolated coordinates and a sample at them."""
    zero = Operand(Kind.IMMEDIATE)
    unit, sampler = Operand(Kind.SPECIAL, 0, name="t0"), Operand(Kind.SPECIAL, 0, name="s0")
    to: list[Token] = ["{", *(register(n) for n in range(4)), "}"]
    at: list[Token] = ["{", register(0), register(1), "}"]
    code = b"".join(
        _instruction("interp", ["interp", register(n), Operand(Kind.MEMORY, value=4 * n, name="v")]) for n in range(2)
    )
    code += _instruction("tex", ["texauto", "live", *to, unit, sampler, *at, zero, zero, zero], "exit")
    return load_program(code, 0, "pixel", results=4, name="tesla-texture")


def _counts(program: ShaderProgram, anisotropy: int, mip: int, stretch: float) -> dict[str, int]:
    """Counters of the texture unit for a square of pixels whose coordinates step by a given number of texels along x, and by a matching number along y."""
    types, sources = (sum(value << 3 * n for n, value in enumerate(v)) for v in ((UNORM,) * 4, range(2, 6)))
    header = [0x08 | types << 6 | sources << 18, ADDRESS, TWO_D << 14 | 1 << 31 | 4 << 22]
    header += [0, SIZE, SIZE | 1 << 16 | LEVELS - 1 << 28, 0, 0]
    sampler = [anisotropy << 20, LINEAR | LINEAR << 4 | mip << 6, 15 << 20, 0, 0, 0, 0, 0]
    unit = TextureUnit({0: header}, {0: sampler}, _Image())
    y, x = np.mgrid[0:PIXELS:2, 0:PIXELS:2]
    quads_x, quads_y = ((v.reshape(-1, 1) + d).ravel() for v, d in ((x, [0, 1, 0, 1]), (y, [0, 0, 1, 1])))
    planes = np.zeros((1, 2, 4), np.float32)
    planes[0, 0, 1], planes[0, 1, 2] = stretch / SIZE, (1.0 if anisotropy else stretch) / SIZE
    pixels = Pixels(np.zeros(PIXELS**2, np.int32), quads_x.astype(np.float32), quads_y.astype(np.float32), planes)
    program.run_pixels(pixels, {}, unit)
    return unit.counts(0)


@study("tesla-texture", f"{PAPER}, Texture unit")
def texture_units(step: Step) -> Result:
    """Rates of the texture units with bilinear, trilinear and anisotropic filters."""
    chip = load_chip("g80-ultra")
    units = len(chip.sm.gpc_sm_counts)
    program = _program()
    bilerps, samples = [], []
    for what, anisotropy, mip, stretch, most_bilerps, most_samples in MODES:
        step(what)
        found: dict[str, Any] = _counts(program, anisotropy, mip, stretch)
        per_second = units * CORE_MHZ / 1e3 / found["cycles"]
        bilerps.append(Cell(what, "Gbilerp/s", found["filters"] * per_second, most_bilerps, TOLERANCE))
        samples.append(Cell(what, "Gsamples/s", found["samples"] * per_second, most_samples, TOLERANCE))
    result = Result([Table("Bilinear filters", "Gbilerp/s", bilerps), Table("Samples", "Gsamples/s", samples)])
    result.remarks.append(
        "The paper gives 38.4 gigabilerps/s and full speed for 2:1 anisotropic filters; the other rows follow from four addresses and eight"
        " filters a clock. What misses of the texture caches cost is not anchored and not counted."
    )
    return result
