"""Video instructions of Pascal that need their own look: whole words, decoded, executed, and computed again in Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.test_meaning import new_warp
from warpwright.engine.interpreter import Kernel, WarpState
from warpwright.isa.maxwell.decode import decode
from warpwright.isa.maxwell.lower import lower
from warpwright.isa.maxwell.text import format_instruction
from warpwright.isa.program import Program

rng = np.random.default_rng(4)
EDGES = np.array([0, 1, 0x7F, 0x80, 0xFF, 0x7FFF8000, 0x80FF7F01, 0xFFFFFFFF], np.uint32)
A, B, C = (np.concatenate([rng.permutation(EDGES), rng.integers(0, 1 << 32, 24, dtype=np.uint32)]) for _ in range(3))
P = np.arange(32) % 3 > 0


def execute(word: int, text: str) -> WarpState:
    """Run a word on R6, R7, R8 and P0; it is what NVIDIA's disassembler prints as ``text``."""
    instruction = decode(word, 60)
    assert format_instruction(instruction) == text
    program = Program("test", 60, [instruction])
    kernel = Kernel(program, lower(program))
    warp = new_warp(kernel)
    warp.regs[6:9] = A, B, C
    warp.preds[0] = P
    code = kernel.code_at(0)
    assert code.run is not None
    code.run(warp, np.ones(32, np.bool_), code.values)
    return warp


def part(value: int, low: int, bits: int, sign: bool) -> int:
    value = value >> low & (1 << bits) - 1
    return value - (1 << bits) if sign and value >> bits - 1 else value


def lanes(a: int, b: int, first: str, last: str, signs: tuple[bool, bool]) -> list[int]:
    """Absolute differences, lane 0 first; selectors as they are printed."""
    both = a | b << 32
    pairs = zip(reversed(first), reversed(last), strict=True)
    return [abs(part(both, 8 * int(m), 8, signs[0]) - part(both, 8 * int(n), 8, signs[1])) for m, n in pairs]


Lanes = Callable[[int, int, int], int]


def summed(
    first: str, last: str, signs: tuple[bool, bool], mask: str = "XYZW", limits: tuple[int, int] = (0, 511)
) -> Lanes:
    def of(a: int, b: int, c: int) -> int:
        found = lanes(a, b, first, last, signs)
        return c + sum(min(max(d, limits[0]), limits[1]) for d, lane in zip(found, "XYZW", strict=True) if lane in mask)

    return of


def merged(first: str, last: str, signs: tuple[bool, bool], mask: str = "XYZW") -> Lanes:
    def of(a: int, b: int, c: int) -> int:
        found = lanes(a, b, first, last, signs)
        return sum(((d if "XYZW"[n] in mask else c >> 8 * n) & 255) << 8 * n for n, d in enumerate(found))

    return of


def with_byte(value: int, of: Lanes) -> Lanes:
    return lambda a, b, c: of(a, value, c)


@pytest.mark.parametrize(
    ("word", "text", "wanted"),
    [
        (0x503B043440770605, "VABSDIFF4.ACC R5, R6, R7, R8", summed("3210", "7654", (True, True))),
        (0x501A043440770605, "VABSDIFF4.U8.S8 R5, R6, R7, R8", merged("3210", "7654", (False, True))),
        (0x503A043750770605, "VABSDIFF4.U8.S8.ACC R5, R6.6543, R7.6543, R8", summed("6543", "6543", (False, True))),
        (
            0x5025047340770605,
            "VABSDIFF4.SD.S8.U8.SAT.ACC.ZW R5, R6.3333, R7, R8",
            summed("3333", "7654", (True, False), "ZW", (-128, 127)),
        ),
        (0x5008041840770605, "VABSDIFF4.U8.U8.XZ R5, R6.3201, R7, R8", merged("3201", "7654", (False, False), "XZ")),
        (
            0x503A0434F8070605,
            "VABSDIFF4.U8.S8.ACC R5, R6, -0x80, R8",
            with_byte(0x80, summed("3210", "7654", (False, True))),
        ),
        (
            0x5AA3040000770605,
            "IMADSP.S24.S24.S32 R5, R6, R7, R8",
            lambda a, b, c: part(a, 0, 24, True) * part(b, 0, 24, True) + c,
        ),
        (
            0x5AD6040000770605,
            "IMADSP.U16H1.U16H0.U16H0 R5, R6, R7, R8",
            lambda a, b, c: (a >> 16) * (b & 0xFFFF) + (c & 0xFFFF),
        ),
        (
            0x5AA8040000770605,
            "IMADSP.U32.S24.S24 R5, R6, R7, R8",
            lambda a, b, c: a * part(b, 0, 24, True) + part(c, 0, 24, True),
        ),
    ],
)
def test_results(word: int, text: str, wanted: Lanes) -> None:
    found = execute(word, text).regs[5]
    expected = [wanted(int(a), int(b), int(c)) & 0xFFFFFFFF for a, b, c in zip(A, B, C, strict=True)]
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("word", "text", "wanted"),
    [
        (
            0x50F608004077060F,
            "VSETP.LT.U8.S16.AND P1, PT, R6, R7, P0",
            lambda a, b, p: p and part(a, 0, 8, False) < part(b, 0, 16, True),
        ),
        (
            0x50F5C0503077060F,
            "VSETP.GT.S16.U8.XOR P1, PT, R6.H1, R7.B3, P0",
            lambda a, b, p: p != (part(a, 16, 16, True) > b >> 24),
        ),
        (
            0x50F7B0606077060F,
            "VSETP.GE.OR P1, PT, R6, R7, P0",
            lambda a, b, p: p or part(a, 0, 32, True) >= part(b, 0, 32, True),
        ),
        (
            0x50F2881FFF07060F,
            "VSETP.NE.U8.S16.AND P1, PT, R6.B1, -0x10, P0",
            lambda a, b, p: p and part(a, 8, 8, False) != -16,
        ),
        (0x50F498606077060F, "VSETP.T.U32.U32.AND P1, PT, R6, R7, P0", lambda a, b, p: p),
    ],
)
def test_comparisons(word: int, text: str, wanted: Callable[[int, int, bool], bool]) -> None:
    found = execute(word, text).preds[1]
    assert found.tolist() == [wanted(int(a), int(b), bool(p)) for a, b, p in zip(A, B, P, strict=True)]
