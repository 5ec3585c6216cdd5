"""SASS meanings against Python integers and NumPy: one instruction at a time, on 32 lanes of awkward values.

An instruction is written as nvdisasm prints it and parsed by :func:`assemble`; :func:`execute` runs it through the
interpreter.
"""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import case
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter import ClusterState, Kernel, Launch, WarpState, lane_mask
from warpwright.engine.interpreter.gather_scatter import GlobalBytes
from warpwright.isa.effects import register_effects
from warpwright.isa.program import Instruction, Kind, Operand, Program
from warpwright.isa.sass.load import program_from_cubin
from warpwright.isa.sass.lower import (
    UnsupportedInstruction,
    depends_on_place,
    exclusive_mask,
    lower,
    lower_instruction,
)
from warpwright.isa.sass.meaning import MEANINGS
from warpwright.toolchain import compile_source


def property_of(*values: Any, **named: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property of any values, tried on few of them: each try runs an interpreter."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        return settings(max_examples=25, deadline=None)(given(*values, **named)(test))

    return decorate


MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
LANES = 32
SPECIALS = {"RZ": (Kind.REGISTER, 255), "URZ": (Kind.UNIFORM_REGISTER, 63)}
PREDICATES = {"PT": (Kind.PREDICATE, 7), "UPT": (Kind.UNIFORM_PREDICATE, 7)}
FILES = {
    "R": Kind.REGISTER,
    "UR": Kind.UNIFORM_REGISTER,
    "P": Kind.PREDICATE,
    "UP": Kind.UNIFORM_PREDICATE,
    "B": Kind.BARRIER,
}
OPERAND = re.compile(r"(?P<mark>[-~!|]*)(?P<name>U?R\d+|U?P\d|B\d+|URZ|RZ|UPT|PT)(?P<suffix>[.\w]*)\|?$")


def operand(text: str, wide_float: bool = False) -> Operand:
    """One operand as printed."""
    text = text.strip()
    found = OPERAND.match(text)
    if found is not None:
        mark, name = found["mark"], found["name"]
        kind, index = {**SPECIALS, **PREDICATES}.get(name) or (
            FILES[name.rstrip("0123456789")],
            int(name.lstrip("URPB")),
        )
        return Operand(
            kind,
            index,
            negate="-" in mark,
            invert="~" in mark or "!" in mark,
            absolute="|" in mark,
            suffix=found["suffix"].replace(".reuse", ""),
        )
    if text.startswith("SR"):
        return Operand(Kind.SPECIAL, name=text)
    if text.startswith("Rpc"):
        return Operand(Kind.NAME, name=text)
    bank = re.match(r"(-?)(~?)c\[(\w+)\]\[(\w+)\]$", text)
    if bank is not None:
        return Operand(Kind.CONSTANT, int(bank[3], 0), int(bank[4], 0), negate=bool(bank[1]), invert=bool(bank[2]))
    memory = re.match(r"\[(?:(R\d+|RZ)(\.\w+)?)?(?:\+?(UR\d+))?\+?(-?0x\w+)?\]$", text)
    if memory is not None:
        base = operand(memory[1] + (memory[2] or "")) if memory[1] else None
        uniform = operand(memory[3]) if memory[3] else None
        return Operand(Kind.MEMORY, value=int(memory[4] or "0", 0), base=base, uniform=uniform)
    if "." in text:
        bits = struct.unpack("<Q", struct.pack("<d", float(text)))[0] if wide_float else None
        value = bits >> 32 if bits is not None else struct.unpack("<I", struct.pack("<f", float(text)))[0]
        return Operand(Kind.FLOAT, value=value)
    return Operand(Kind.IMMEDIATE, value=int(text, 0))


def assemble(text: str, address: int = 0) -> Instruction:
    """An instruction as printed, control bits left out."""
    guard = None
    if text.startswith("@"):
        mark, text = text.split(" ", 1)
        guard = operand(mark[1:])
    opcode, _, rest = text.partition(" ")
    name, *modifiers = opcode.split(".")
    wide = name.startswith("D")
    operands = tuple(operand(part, wide) for part in rest.split(",")) if rest else ()
    return Instruction(address, name, tuple(modifiers), operands, guard)


def program_of(lines: Sequence[str], **more: Any) -> Program:
    """A kernel of the given instructions, closed by EXIT."""
    instructions = [assemble(line, 16 * n) for n, line in enumerate([*lines, "EXIT"])]
    return Program("test", 80, instructions, **more)


def new_warp(kernel: Kernel, constants: bytes = b"", threads: int = LANES) -> WarpState:
    """A warp at the first instruction of a one-block launch without global memory."""
    memory = GlobalBytes(np.zeros(64, np.uint8), 0, np.zeros((0, 2), np.uint64))
    launch = Launch(kernel, Geometry((1, 1, 1), (threads, 1, 1)), memory, {0: constants})
    return ClusterState(launch, 0).blocks[0].warps[0]


def execute(
    lines: str | Sequence[str],
    registers: Mapping[int, Sequence[int]] | None = None,
    predicates: Mapping[int, Sequence[bool]] | None = None,
    constants: bytes = b"",
) -> WarpState:
    """Run straight-line instructions on one full warp."""
    program = program_of([lines] if isinstance(lines, str) else lines)
    kernel = Kernel(program, lower(program))
    warp = new_warp(kernel, constants)
    for number, values in (registers or {}).items():
        warp.regs[number, : len(values)] = values
    for number, truths in (predicates or {}).items():
        warp.preds[number, : len(truths)] = truths
    everyone = np.ones(LANES, np.bool_)
    with np.errstate(all="ignore"):
        for index in range(len(kernel.code) - 1):
            code = kernel.code_at(index)
            mask = everyone
            if code.guard is not None:
                _, number, inverted = code.guard
                mask = ~warp.preds[number] if inverted else warp.preds[number].copy()
            if code.run is not None and mask.any():
                code.run(warp, mask, code.values)
    return warp


EDGES = [0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF]
words = st.one_of(st.sampled_from(EDGES), st.integers(0, MASK32))
lanes = st.lists(words, min_size=LANES, max_size=LANES)
bits = st.lists(st.booleans(), min_size=LANES, max_size=LANES)
wides = st.lists(
    st.integers(0, MASK64) | st.sampled_from([0, 1, MASK32, 1 << 32, 1 << 63, MASK64]), min_size=LANES, max_size=LANES
)


def signed(value: int, width: int = 32) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def low(values: Sequence[int]) -> list[int]:
    return [v & MASK32 for v in values]


def high(values: Sequence[int]) -> list[int]:
    return [v >> 32 for v in values]


def pair(warp: WarpState, number: int) -> list[int]:
    return [int(a) | int(b) << 32 for a, b in zip(warp.regs[number], warp.regs[number + 1], strict=True)]


# --- integers -------------------------------------------------------------------------------------
@property_of(lanes, lanes, lanes)
def test_iadd3_gives_both_carries(a: list[int], b: list[int], c: list[int]) -> None:
    warp = execute("IADD3 R4, P0, P1, R1, R2, R3", {1: a, 2: b, 3: c})
    sums = [x + y + z for x, y, z in zip(a, b, c, strict=True)]
    assert warp.regs[4].tolist() == low(sums)
    assert warp.preds[0].tolist() == [s >= 1 << 32 for s in sums]
    assert warp.preds[1].tolist() == [s >= 2 << 32 for s in sums]


@property_of(wides, wides, wides)
def test_three_64_bit_addends_with_two_carries(a: list[int], b: list[int], c: list[int]) -> None:
    lines = ["IADD3 R8, P0, P1, R2, R4, R6", "IADD3.X R9, R3, R5, R7, P0, P1"]
    warp = execute(lines, {2: low(a), 3: high(a), 4: low(b), 5: high(b), 6: low(c), 7: high(c)})
    assert pair(warp, 8) == [(x + y + z) & MASK64 for x, y, z in zip(a, b, c, strict=True)]


@property_of(wides, wides)
def test_64_bit_subtraction(a: list[int], b: list[int]) -> None:
    lines = ["IADD3 R8, P0, R2, -R4, RZ", "IADD3.X R9, R3, ~R5, RZ, P0, !PT"]
    warp = execute(lines, {2: low(a), 3: high(a), 4: low(b), 5: high(b)})
    assert pair(warp, 8) == [(x - y) & MASK64 for x, y in zip(a, b, strict=True)]


@property_of(wides)
def test_64_bit_negation_of_zero_carries(a: list[int]) -> None:
    lines = ["IADD3 R8, P0, RZ, -R4, RZ", "IADD3.X R9, RZ, ~R5, RZ, P0, !PT"]
    warp = execute(lines, {4: low(a), 5: high(a)})
    assert pair(warp, 8) == [-x & MASK64 for x in a]


@property_of(lanes, lanes, wides)
def test_imad_wide_signed_and_unsigned(a: list[int], b: list[int], c: list[int]) -> None:
    registers = {1: a, 2: b, 4: low(c), 5: high(c)}
    want = [(signed(x) * signed(y) + z) & MASK64 for x, y, z in zip(a, b, c, strict=True)]
    assert pair(execute("IMAD.WIDE R6, R1, R2, R4", registers), 6) == want
    sums = [x * y + z for x, y, z in zip(a, b, c, strict=True)]
    warp = execute("IMAD.WIDE.U32 R6, P0, R1, R2, R4", registers)
    assert pair(warp, 6) == [s & MASK64 for s in sums]
    assert warp.preds[0].tolist() == [s > MASK64 for s in sums]


@pytest.mark.ci
@property_of(lanes, lanes, wides)
def test_imad_hi_adds_a_pair(a: list[int], b: list[int], c: list[int]) -> None:
    registers = {1: a, 2: b, 4: low(c), 5: high(c)}
    want = [((x * y + z) >> 32) & MASK32 for x, y, z in zip(a, b, c, strict=True)]
    assert execute("IMAD.HI.U32 R6, R1, R2, R4", registers).regs[6].tolist() == want
    want = [((signed(x) * signed(y) + z) >> 32) & MASK32 for x, y, z in zip(a, b, c, strict=True)]
    assert execute("IMAD.HI R6, R1, R2, R4", registers).regs[6].tolist() == want


@property_of(lanes, lanes, lanes, bits)
def test_imad_x_adds_the_carry(a: list[int], b: list[int], c: list[int], p: list[bool]) -> None:
    warp = execute("IMAD.X R6, R1, R2, R3, P0", {1: a, 2: b, 3: c}, {0: p})
    assert warp.regs[6].tolist() == [(x * y + z + q) & MASK32 for x, y, z, q in zip(a, b, c, p, strict=True)]


@property_of(wides, wides, st.integers(0, 31))
def test_lea_pair_is_a_64_bit_address(a: list[int], b: list[int], shift: int) -> None:
    lines = [f"LEA R8, P0, R2, R4, {shift:#x}", f"LEA.HI.X R9, R2, R5, R3, {shift:#x}, P0"]
    warp = execute(lines, {2: low(a), 3: high(a), 4: low(b), 5: high(b)})
    assert pair(warp, 8) == [((x << shift) + y) & MASK64 for x, y in zip(a, b, strict=True)]


@property_of(lanes, wides, st.integers(0, 31))
def test_lea_pair_with_a_sign_extended_index(a: list[int], b: list[int], shift: int) -> None:
    lines = [f"LEA R8, P0, R2, R4, {shift:#x}", f"LEA.HI.X.SX32 R9, R2, R5, {shift:#x}, P0"]
    warp = execute(lines, {2: a, 4: low(b), 5: high(b)})
    assert pair(warp, 8) == [((signed(x) << shift) + y) & MASK64 for x, y in zip(a, b, strict=True)]


RELATIONS = {
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
}


@property_of(wides, wides, st.sampled_from(sorted(RELATIONS)), st.booleans())
def test_isetp_ex_compares_64_bits(a: list[int], b: list[int], relation: str, unsigned: bool) -> None:
    sign = ".U32" if unsigned else ""
    lines = [
        f"ISETP.{relation}.U32.AND P0, PT, R2, R4, PT",
        f"ISETP.{relation}{sign}.AND.EX P1, P2, R3, R5, PT, P0",
    ]
    warp = execute(lines, {2: low(a), 3: high(a), 4: low(b), 5: high(b)})
    read = (lambda v: v) if unsigned else (lambda v: signed(v, 64))
    want = [RELATIONS[relation](read(x), read(y)) for x, y in zip(a, b, strict=True)]
    assert warp.preds[1].tolist() == want
    assert warp.preds[2].tolist() == [not w for w in want]


@property_of(lanes, lanes, bits)
def test_isetp_combines_with_a_predicate(a: list[int], b: list[int], p: list[bool]) -> None:
    warp = execute("ISETP.GT.OR P1, P2, R1, R2, !P0", {1: a, 2: b}, {0: p})
    greater = [signed(x) > signed(y) for x, y in zip(a, b, strict=True)]
    assert warp.preds[1].tolist() == [g or not q for g, q in zip(greater, p, strict=True)]
    assert warp.preds[2].tolist() == [not g or not q for g, q in zip(greater, p, strict=True)]


@property_of(lanes, lanes, lanes, st.integers(0, 255))
def test_lop3_is_its_table(a: list[int], b: list[int], c: list[int], table: int) -> None:
    warp = execute(f"LOP3.LUT P0, R6, R1, R2, R3, {table:#x}, !PT", {1: a, 2: b, 3: c})
    want = []
    for x, y, z in zip(a, b, c, strict=True):
        word = 0
        for n in range(32):
            row = (x >> n & 1) << 2 | (y >> n & 1) << 1 | z >> n & 1
            word |= (table >> row & 1) << n
        want.append(word)
    assert warp.regs[6].tolist() == want
    assert warp.preds[0].tolist() == [w != 0 for w in want]


@property_of(
    lanes,
    lanes,
    st.integers(0, 255),
    st.sampled_from(["R1, R2, RZ", "R1, RZ, R2", "RZ, RZ, R2", "RZ, R1, RZ", "R1, RZ, RZ"]),
)
def test_lop3_with_zeros_is_the_same_table(a: list[int], b: list[int], table: int, sources: str) -> None:
    plain = execute(f"LOP3.LUT R6, {sources}, {table:#x}, !PT", {1: a, 2: b})
    general = execute(f"LOP3.LUT R6, {sources.replace('RZ', 'R3')}, {table:#x}, !PT", {1: a, 2: b})
    assert plain.regs[6].tolist() == general.regs[6].tolist()


@property_of(bits, bits, bits, st.integers(0, 255), st.integers(0, 255))
def test_plop3_is_its_tables(a: list[bool], b: list[bool], c: list[bool], first: int, second: int) -> None:
    warp = execute(f"PLOP3.LUT P3, P4, P0, P1, P2, {first:#x}, {second:#x}", None, {0: a, 1: b, 2: c})
    rows = [x << 2 | y << 1 | z for x, y, z in zip(a, b, c, strict=True)]
    assert warp.preds[3].tolist() == [bool(first >> r & 1) for r in rows]
    assert warp.preds[4].tolist() == [bool(second >> r & 1) for r in rows]


shifts = st.lists(st.integers(0, 80) | st.just(MASK32), min_size=LANES, max_size=LANES)


@property_of(wides, shifts)
def test_shf_clamps_or_wraps(a: list[int], by: list[int]) -> None:
    registers = {2: low(a), 3: high(a), 1: by}

    def run(text: str) -> list[int]:
        return execute(text, registers).regs[6].tolist()

    assert run("SHF.L.U32 R6, R2, R1, RZ") == [(x << min(n, 64)) & MASK32 for x, n in zip(low(a), by, strict=True)]
    assert run("SHF.R.U32.HI R6, RZ, R1, R3") == [x >> min(n, 32) for x, n in zip(high(a), by, strict=True)]
    want = [(signed(x) >> min(n, 31)) & MASK32 for x, n in zip(high(a), by, strict=True)]
    assert run("SHF.R.S32.HI R6, RZ, R1, R3") == want
    assert run("SHF.R.U64 R6, R2, R1, R3") == [(x >> min(n, 64)) & MASK32 for x, n in zip(a, by, strict=True)]
    want = [((x << min(n, 64)) >> 32) & MASK32 for x, n in zip(a, by, strict=True)]
    assert run("SHF.L.U64.HI R6, R2, R1, R3") == want
    want = [(x >> (n & 31)) & MASK32 for x, n in zip(a, by, strict=True)]
    assert run("SHF.R.W.U32 R6, R2, R1, R3") == want
    want = [((x << (n & 31)) >> 32) & MASK32 for x, n in zip(a, by, strict=True)]
    assert run("SHF.L.W.U32.HI R6, R2, R1, R3") == want
    want = [((x << min(n, 32)) >> 32) & MASK32 for x, n in zip(a, by, strict=True)]
    assert run("SHF.L.U32.HI R6, R2, R1, R3") == want


@property_of(wides, st.integers(0, 63))
def test_shf_by_a_constant_is_shf_by_a_register(a: list[int], by: int) -> None:
    registers = {2: low(a), 3: high(a), 1: [by] * LANES}
    for form in ("L.U32", "L.U64.HI", "L.W.U32.HI", "R.U64", "R.S64", "R.U32.HI", "R.S32.HI", "R.W.U32", "R.U32"):
        fixed = execute(f"SHF.{form} R6, R2, {by:#x}, R3", registers).regs[6].tolist()
        assert fixed == execute(f"SHF.{form} R6, R2, R1, R3", registers).regs[6].tolist(), form


@property_of(lanes, lanes, lanes)
def test_prmt_selects_bytes_and_signs(a: list[int], selector: list[int], b: list[int]) -> None:
    warp = execute("PRMT R6, R1, R2, R3", {1: a, 2: selector, 3: b})
    want = []
    for x, s, y in zip(a, selector, b, strict=True):
        data = (x | y << 32).to_bytes(8, "little")
        word = 0
        for n in range(4):
            byte = data[s >> 4 * n & 7]
            word |= ((0xFF if byte & 0x80 else 0) if s >> 4 * n & 8 else byte) << 8 * n
        want.append(word)
    assert warp.regs[6].tolist() == want


@property_of(lanes)
def test_bits_are_counted_and_found(a: list[int]) -> None:
    registers = {1: a}
    assert execute("POPC R6, R1", registers).regs[6].tolist() == [bin(x).count("1") for x in a]
    assert execute("BREV R6, R1", registers).regs[6].tolist() == [int(f"{x:032b}"[::-1], 2) for x in a]
    assert execute("FLO.U32 R6, R1", registers).regs[6].tolist() == [(x.bit_length() - 1) & MASK32 for x in a]
    want = [32 - x.bit_length() if x else MASK32 for x in a]
    assert execute("FLO.U32.SH R6, R1", registers).regs[6].tolist() == want
    want = [((x ^ MASK32 if x >> 31 else x).bit_length() - 1) & MASK32 for x in a]
    assert execute("FLO R6, R1", registers).regs[6].tolist() == want
    assert execute("IABS R6, R1", registers).regs[6].tolist() == [abs(signed(x)) & MASK32 for x in a]


@property_of(lanes, lanes)
def test_minimum_and_maximum(a: list[int], b: list[int]) -> None:
    registers = {1: a, 2: b}
    want = [min(signed(x), signed(y)) & MASK32 for x, y in zip(a, b, strict=True)]
    assert execute("IMNMX R6, R1, R2, PT", registers).regs[6].tolist() == want
    want = [max(x, y) for x, y in zip(a, b, strict=True)]
    assert execute("IMNMX.U32 R6, R1, R2, !PT", registers).regs[6].tolist() == want


@property_of(lanes, lanes, lanes)
def test_dot_product_of_bytes(a: list[int], b: list[int], c: list[int]) -> None:
    warp = execute("IDP.4A.S8.U8 R6, R1, R2, R3", {1: a, 2: b, 3: c})
    want = [
        (z + sum(signed(x >> n & 255, 8) * (y >> n & 255) for n in (0, 8, 16, 24))) & MASK32
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert warp.regs[6].tolist() == want


@property_of(lanes, lanes, lanes)
def test_packed_differences_and_minima(a: list[int], b: list[int], c: list[int]) -> None:
    registers = {1: a, 2: b, 3: c}
    differences = [[abs((x >> n & 255) - (y >> n & 255)) for n in (0, 8, 16, 24)] for x, y in zip(a, b, strict=True)]
    got = execute("VABSDIFF4.U8 R6, R1, R2, RZ", registers).regs[6].tolist()
    assert got == [int.from_bytes(bytes(d), "little") for d in differences]
    got = execute("VABSDIFF4.U8.ACC R6, R1, R2, R3", registers).regs[6].tolist()
    assert got == [(z + sum(d)) & MASK32 for z, d in zip(c, differences, strict=True)]
    got = execute("VIMNMX.S16x2 R6, R1, R2, PT", registers).regs[6].tolist()
    want = [
        sum((min(signed(x >> n & 0xFFFF, 16), signed(y >> n & 0xFFFF, 16)) & 0xFFFF) << n for n in (0, 16))
        for x, y in zip(a, b, strict=True)
    ]
    assert got == want


@property_of(lanes)
def test_a_clamped_value_is_told_from_its_bound(a: list[int]) -> None:
    """As ptxas compiles ``m = max(0, min(x, 16))`` with ``m == 16``."""
    warp = execute("VIMNMX.RELU R6, P0, P0, R1, 0x10, PT", {1: a})
    clamped = [max(0, min(signed(x, 32), 16)) for x in a]
    assert warp.regs[6].tolist() == clamped
    assert warp.preds[0].tolist() == [value == 16 for value in clamped]


def test_a_swap_reads_before_it_writes() -> None:
    warp = execute(["IMAD.WIDE.U32 R2, R3, 0x1, RZ", "IMAD.WIDE R2, R2, R2, R2"], {3: [7] * LANES})
    assert pair(warp, 2) == [56] * LANES


def test_guard_leaves_other_lanes_alone() -> None:
    odd = [bool(n & 1) for n in range(LANES)]
    warp = execute("@!P0 MOV R1, 0x5", {1: [9] * LANES}, {0: odd})
    assert warp.regs[1].tolist() == [9 if o else 5 for o in odd]


# --- conversions ----------------------------------------------------------------------------------
FLOATS = [
    0.0,
    -0.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    -2.5,
    3e9,
    -3e9,
    1e20,
    -1e20,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-40,
]
floats = st.lists(st.sampled_from(FLOATS) | st.floats(width=32), min_size=LANES, max_size=LANES)


def single_bits(values: Sequence[float]) -> list[int]:
    return np.array(values, np.float32).view(np.uint32).tolist()


def clamp(value: float, rounding: str, width: int, is_signed: bool) -> int:
    if np.isnan(value):
        return 0
    if np.isinf(value):
        whole = (1 << 80) if value > 0 else -(1 << 80)
    else:
        chosen = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "RN": np.rint}[rounding]
        whole = int(chosen(np.float64(value)))
    bottom, top = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    return max(bottom, min(top, whole)) & ((1 << width) - 1)


@property_of(floats, st.sampled_from(["TRUNC", "FLOOR", "CEIL"]))
def test_float_to_integer_saturates(values: list[float], rounding: str) -> None:
    registers = {1: single_bits(values)}
    singles = [float(np.float32(v)) for v in values]
    got = execute(f"F2I.{rounding}.NTZ R6, R1", registers).regs[6].tolist()
    assert got == [clamp(v, rounding, 32, True) for v in singles]
    got = execute(f"F2I.U32.{rounding}.NTZ R6, R1", registers).regs[6].tolist()
    assert got == [clamp(v, rounding, 32, False) for v in singles]
    got = pair(execute(f"F2I.S64.{rounding} R6, R1", registers), 6)
    assert got == [1 << 63 if np.isnan(v) else clamp(v, rounding, 64, True) for v in singles]


def test_nan_without_ntz_is_the_smallest_integer() -> None:
    warp = execute("F2I.TRUNC R6, R1", {1: single_bits([float("nan")] * LANES)})
    assert warp.regs[6].tolist() == [0x80000000] * LANES


@property_of(wides)
def test_wide_integer_to_float_rounds_once(a: list[int]) -> None:
    registers = {2: low(a), 3: high(a)}
    got = execute("I2F.U64 R6, R2", registers).regs[6].view(np.float32)
    want = np.array(a, np.uint64).astype(np.float32)
    np.testing.assert_array_equal(got, want)
    up = execute("I2F.U64.RP R6, R2", registers).regs[6].view(np.float32)
    assert all(int(x) >= y for x, y in zip(up.tolist(), a, strict=True) if np.isfinite(x))
    below = np.nextafter(up, np.float32(-np.inf))
    assert all(int(x) < y for x, y in zip(below.tolist(), a, strict=True) if y)


@property_of(lanes)
def test_small_integer_sources(a: list[int]) -> None:
    got = execute("I2F.U8 R6, R1.B2", {1: a}).regs[6].view(np.float32).tolist()
    assert got == [float(x >> 16 & 255) for x in a]
    got = execute("I2F.S16 R6, R1.H1", {1: a}).regs[6].view(np.float32).tolist()
    assert got == [float(signed(x >> 16, 16)) for x in a]


@property_of(floats, floats)
def test_saturation_and_nan(a: list[float], b: list[float]) -> None:
    got = execute("FADD.SAT R6, R1, R2", {1: single_bits(a), 2: single_bits(b)}).regs[6].view(np.float32)
    with np.errstate(all="ignore"):
        total = np.array(a, np.float32) + np.array(b, np.float32)
    want = np.where(np.isnan(total), np.float32(0), np.clip(total, np.float32(0), np.float32(1)))
    np.testing.assert_array_equal(got, want)
    plain = execute("FADD R6, R1, R2", {1: single_bits(a), 2: single_bits(b)}).regs[6]
    assert all(bits == 0x7FFFFFFF for bits, value in zip(plain.tolist(), total, strict=True) if np.isnan(value))


@property_of(floats, floats, st.sampled_from([("D8", 0.125), ("D4", 0.25), ("D2", 0.5), ("M2", 2.0), ("M8", 8.0)]))
def test_a_scaled_product_is_rounded_once(a: list[float], b: list[float], scale: tuple[str, float]) -> None:
    got = execute(f"FMUL.{scale[0]} R6, R1, R2", {1: single_bits(a), 2: single_bits(b)}).regs[6].view(np.float32)
    with np.errstate(all="ignore"):
        wide = np.array(a, np.float32).astype(np.float64) * np.array(b, np.float32).astype(np.float64)
        np.testing.assert_array_equal(got, (wide * scale[1]).astype(np.float32))


@property_of(floats, floats)
def test_float_minimum_prefers_numbers_and_negative_zero(a: list[float], b: list[float]) -> None:
    registers = {1: single_bits(a), 2: single_bits(b)}
    got = execute("FMNMX R6, R1, R2, PT", registers).regs[6].view(np.float32)
    want = np.fmin(np.array(a, np.float32), np.array(b, np.float32))
    np.testing.assert_array_equal(got, want)
    zeros = execute("FMNMX R6, R1, R2, PT", {1: single_bits([0.0] * LANES), 2: single_bits([-0.0] * LANES)})
    assert zeros.regs[6].tolist() == [0x80000000] * LANES


@property_of(st.lists(st.integers(0, 0xFFFF), min_size=LANES, max_size=LANES))
def test_half_to_single_is_exact(values: list[int]) -> None:
    halves = np.array(values, np.uint16).view(np.float16)
    got = execute("HADD2.F32 R6, -RZ, R1.H1_H1", {1: [v << 16 for v in values]}).regs[6].view(np.float32)
    np.testing.assert_array_equal(got, halves.astype(np.float32))


# --- refusals and effects -------------------------------------------------------------------------
def test_an_opcode_without_meaning_is_named() -> None:
    with pytest.raises(UnsupportedInstruction) as error:
        lower(program_of(["NOP", "XYZZY.FOO R1, R2"]))
    assert str(error.value) == (
        "kernel test: cannot execute the instruction at 0x0010 (sm_80): XYZZY.FOO R1, R2: opcode XYZZY has no meaning yet"
    )


def test_a_modifier_without_meaning_is_named() -> None:
    with pytest.raises(UnsupportedInstruction, match=r"modifier \.STRANGE of FADD has no meaning yet"):
        lower(program_of(["FADD.STRANGE R1, R2, R3"]))


def test_register_effects_name_pairs_and_guards() -> None:
    program = program_of(["@P2 IMAD.WIDE R4, R1, UR2, R6"])
    reads, writes = register_effects(lower(program)[0])
    assert reads == {("reg", 1), ("reg", 6), ("reg", 7), ("ureg", 2), ("pred", 2)}
    assert writes == {("reg", 4), ("reg", 5)}


def test_uniform_forms_share_the_vector_meaning() -> None:
    for name in ("IADD3", "IMAD", "LEA", "LOP3", "SHF", "MOV", "SEL", "ISETP", "PLOP3", "FLO", "POPC", "BREV", "PRMT"):
        assert MEANINGS["U" + name] is MEANINGS[name]


def test_lane_masks_are_little_endian() -> None:
    assert lane_mask(0b101, 32).tolist() == [True, False, True] + [False] * 29


def test_rpc_keeps_two_words() -> None:
    low, high = (np.arange(32, dtype=np.uint32) * n for n in (3, 0x01000001))
    kept = ["RPCMOV.32 Rpc.HI, R3", "RPCMOV.32 Rpc.LO, R2", "MOV R2, RZ", "MOV R3, RZ"]
    warp = execute([*kept, "RPCMOV.32 R5, Rpc.HI", "RPCMOV.32 R4, Rpc.LO"], {2: low.tolist(), 3: high.tolist()})
    assert np.array_equal(warp.regs[4], low)
    assert np.array_equal(warp.regs[5], high)


def test_only_some_instructions_depend_on_their_place() -> None:
    """The others are lowered once for all programs (``lower_at``): their meanings do not look at the address."""
    for opcode, meaning in MEANINGS.items():
        code = inspect.getsource(meaning)
        if not depends_on_place(opcode):
            assert "i.address" not in code, opcode
            assert "code_base" not in code, opcode
    assert not depends_on_place("IADD3")
    assert depends_on_place("BRA")


@pytest.mark.ci
@pytest.mark.parametrize("arch", [70, 80, 90])
@pytest.mark.parametrize("name", ["recursion_quicksort", "call_pointers", "fast_math_option", "group_coalesced"])
def test_shared_meanings_are_each_instructions_own(name: str, arch: int) -> None:
    """A whole kernel, instruction by instruction without the memory of earlier ones."""
    found = case(name, "small")
    module = compile_source(found.source, arch, options=found.options).module
    program = program_from_cubin(module, found.kernel)
    exclusive = None
    for i, lowered in zip(program.instructions, lower(program), strict=True):
        exclusive = exclusive_mask(i, exclusive)
        if exclusive is None:
            assert lowered == lower_instruction(i, arch, program.code_base), hex(i.address)
