"""When each instruction of straight-line code issues: machine code that `sequences.cu` gets in place of its own.

``issue_pairs``: two kinds of instruction in turn, by the parity of their destinations, one warp of a sub-core and four.
``issue_steps``: the first n instructions of pieces of compiled kernels (`cut`; in ``bench/data/h200/sequences.json``), with their own control
bits but for the dependence counters, for every n: the cycle of each issue.
``issue_mixes``, ``tensor_gaps``: instructions behind a tensor product, one after the other or so many slots apart.
Registers are moved into those that the slots may use; fixed-latency hazards are left to software, so values do not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from bench.micro.context import Context, Row, row
from bench.micro.patch import bits, field

PIECES = Path(__file__).parents[1] / "data" / "h200" / "sequences.json"
SLOTS = 160
FIRST, COUNT = 8, 60
"""Registers that the slots may use: accumulators of sequences.cu, from a multiple of four on."""
NOP = 0x000FE200000000000000000000007918
OTHER_UNIFORM = 20
REGISTER_FIELDS = (16, 24, 32, 64)
# fmt: off
KINDS: dict[str, tuple[str, int]] = {
    "umov": ("UMOV UR4, 0x400", 0x000FE200000000000000040000047882),
    "wide_imm": ("IMAD.WIDE R10, R7, 0x4, R2", 0x002FCC00078E020200000004070A7825),
    "imad_iadd": ("IMAD.IADD R7, R8, 0x1, R7", 0x000FE200078E02070000000108077824),
    "prmt": ("PRMT R9, R10, 0x7770, RZ", 0x044FE400000000FF000077700A097816),
    "imad_shl": ("IMAD.SHL.U32 R15, R9, 0x8, RZ", 0x001FCA00078E00FF00000008090F7824),
    "lop3_imm": ("LOP3.LUT R2, R6, 0xff, RZ, 0xc0, !PT", 0x000FE200078EC0FF000000FF06027812),
    "isetp_imm": ("ISETP.GT.AND P0, PT, R0, 0xfff, PT", 0x000FD60003F0427000000FFF0000780C),
    "mov_imm": ("MOV R4, 0x400", 0x000FE20000000F000000040000047802),
    "lea": ("LEA R15, R5, R4, 0x18", 0x001FCE00078EC0FF00000004050F7211),
    "imad_imm": ("IMAD R13, R9, 0x1000, R0", 0x008FE200078E020000001000090D7824),
    "plop3": ("PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0", 0x000FC80003F0F070000000000000781C),
    "isetp": ("ISETP.NE.AND P0, PT, R7, R6, PT", 0x008FDA0003F05270000000060700720C),
    "redux": ("REDUX.SUM UR6, R5", 0x000E22000000C00000000000050673C4),
    "vote": ("VOTE.ANY R8, PT, P2", 0x000FE400010E01000000000000087806),
    "r2ur": ("R2UR UR6, R10", 0x000FE400000E0000000000000A0672CA),
    "popc": ("POPC R6, R7", 0x000EE200000000000000000700067309),
    "mov": ("MOV R10, R5", 0x021FE20000000F0000000005000A7202),
    "imad_mov": ("IMAD.MOV.U32 R11, RZ, RZ, R8", 0x000FE200078E0008000000FFFF0B7224),
    "hzero": ("HFMA2.MMA R43, -RZ, RZ, 0, 0", 0x000FE200000001FF00000000FF2B7435),
    "wide": ("IMAD.WIDE.U32 R40, R8, R5, R40", 0x000FE200078E00280000000508287225),
    "uiadd3": ("UIADD3 UR4, UR4, 0x1, URZ", 0x000FC6000FFFE03F0000000104047890),
    "iadd3_p": ("IADD3 R38, P0, R20, R41, RZ", 0x000FE40007F1E0FF0000002914267210),
    "imad_x": ("IMAD.X R39, RZ, RZ, RZ, P0", 0x000FE400000E06FF000000FFFF277224),
    "iadd3_x": ("IADD3.X R13, RZ, RZ, RZ, P0, !PT", 0x000FE200007FE4FF000000FFFF0D7210),
    "viadd": ("VIADD R10, R2, 0xffffffc0", 0x000FCA0000000000FFFFFFC0020A7836),
    "vimnmx": ("VIMNMX R8, R9, R8, !PT", 0x000FE20007FE01000000000809087248),
    "sel": ("SEL R3, R7, R3, P1", 0x000FC600008000000000000307037207),
    "lop3_r2": ("LOP3.LUT R7, R6, R3, RZ, 0xfc, !PT", 0x000FE200078EFCFF0000000306077212),
    "lop3": ("LOP3.LUT R16, R18, R16, R17, 0x96, !PT", 0x001FC400078E96110000001012107212),
    "iadd3_imm": ("IADD3 R18, R10, 0xffe, RZ", 0x040FE20007FFE0FF00000FFE0A127810),
    "imad": ("IMAD R14, R13, R14, R12", 0x000FE200078E020C0000000E0D0E7224),
    "iadd3": ("IADD3 R13, R15, R13, R8", 0x040FE20007FFE0080000000D0F0D7210),
    "iadd3_2": ("IADD3 R5, R8, R5, RZ", 0x002FC80007FFE0FF0000000508057210),
    "iabs": ("IABS R12, R6", 0x080FE2000000000000000006000C7213),
    "mufu": ("MUFU.RCP R10, R10", 0x001E2400000010000000000A000A7308),
    "imad_hi": ("IMAD.HI.U32 R8, R9, R13, R8", 0x000FC800078E00080000000D09087227),
    "i2fp": ("I2FP.F32.S32 R6, R6", 0x000FE400002014000000000600067245),
    "ffma_u": ("FFMA R7, R4, UR5, R7", 0x000FE200080000070000000504077C23),
    "fadd": ("FADD R9, R9, R10", 0x000FE200000000000000000A09097221),
    "fmul_imm": ("FMUL R8, R9, 256", 0x000FE200004000004380000009087820),
    "cs2r": ("CS2R R16, SRZ", 0x000FC4000001FF000000000000107805),
    "fadd_imm": ("FADD R9, R11, 1", 0x000FE200000000003F8000000B097421),
    "ffma": ("FFMA R5, R0, R5, R0", 0x000FE200000000000000000500057223),
    "fmul": ("FMUL R0, R7, R7", 0x040FE200004000000000000707007220),
    "idp": ("IDP.4A.S8.S8 R35, R24, R28, R35", 0x002FC400000006230000001C18237226),
    "ffma_imm": ("FFMA R0, R10, -2, R9", 0x001FC60000000009C00000000A007823),
    "dfma": ("DFMA R14, R14, R14, R14", 0x000FD0000000000E0000000E0E0E722B),
    "dmul": ("DMUL R14, R2, R18", 0x002FD0000000000000000012020E7228),
    "dadd": ("DADD R18, R26, R18", 0x000FE40000000012000000001A127229),
    "fsel": ("FSEL R18, R14, R18, !P0", 0x000FE40004000000000000120E127208),
    "fsetp": ("FSETP.GEU.AND P0, PT, R16, R5, PT", 0x000FC80003F0E000000000051000720B),
    "hfma2_mma": ("HFMA2.MMA R10, R3, R12, R10", 0x00CFD4000000000A0000000C030A7235),
    "hadd2": ("HADD2 R11, R10, R11", 0x000FCA00000000000000000B0A0B7230),
    "shf": ("SHF.L.W.U32.HI R3, R3, 0xd, R3", 0x000FE20000010E030000000D03037819),
    "fmnmx": ("FMNMX R0, R9, R0, !PT", 0x004FCA00078000000000000009007209),
    "hmma": ("HMMA.16816.F32 R48, R32, R28, R48", 0x041FEC00000018300000001C2030723C),
    "f2fp": ("F2FP.BF16.F32.PACK_AB R7, R6, R7", 0x000FE200000010FF000000070607723E),
}
# fmt: on
"""One instruction of each kind, as the compiler made it: text and word."""


def controlled(word: int, stall: int | None = None) -> int:
    """Without dependence counters; with a stall count and without yield where one is given."""
    for low, width, value in ((110, 3, 7), (113, 3, 7), (116, 6, 0)):
        word = field(word, low, width, value)
    if stall is not None:
        word = field(field(word, 105, 4, stall), 109, 1, 1)
        word = field(word, 122, 4, 0)
    return word


def registers(text: str, word: int) -> dict[int, int]:
    """Which fields of a word name registers: those whose number the text has, where a zero may be none."""
    named = [int(n) for n in re.findall(r"\bR(\d+)", text)]
    no_result = "SETP" in text or "PLOP" in text
    fields = [low for low in REGISTER_FIELDS if bits(word, low, 8) in named and (low != 32 or bits(word, 9, 3) == 1)]
    for low in ((16,) if no_result else ()) + (64, 32):
        if low in fields and bits(word, low, 8) == 0 and len(fields) > len(named):
            fields.remove(low)
    return {low: bits(word, low, 8) for low in fields}


def uniform_apart(text: str, word: int) -> int:
    """Uniform destinations are moved away from those that the kernel needs."""
    if re.match(r"(@!?U?P\d )?(U|REDUX|R2UR)", text):
        word = field(word, 16, 8, OTHER_UNIFORM)
    return field(word, 12, 4, 7)  # no guard


def moved(text: str, word: int) -> int:
    """A compiled instruction with its registers among those of the slots, parity and alignment kept."""
    for low, number in registers(text, word).items():
        word = field(word, low, 8, FIRST + number % COUNT)
    return uniform_apart(text, word)


def of_kind(name: str, turn: int, odd: bool, stall: int = 1) -> int:
    """The turn-th instruction of a kind: destinations of one parity, sources even, odd and even."""
    text, word = KINDS[name]
    step = 4 if name == "hmma" else 2
    wide = name in ("wide", "wide_imm", "dadd", "dmul", "dfma", "cs2r", "hmma")
    for low in registers(text, word):
        if low == 16:
            number = FIRST + step * turn % 16 + (odd and not wide)
        elif name == "hmma":
            number = {24: 24, 32: 28, 64: FIRST + step * turn % 16}[low]
        else:
            number = {24: 24, 32: 35 if not wide else 34, 64: 44}[low] + 2 * turn % 8
            if wide and name in ("wide", "wide_imm") and low == 32:
                number += 1
        word = field(word, low, 8, number)
    return controlled(uniform_apart(text, word), stall)


def filled(cubin: bytes, words: Sequence[int]) -> bytes:
    """The cubin with the slots' instructions replaced; the rest of them do nothing."""
    at = slots_at(cubin)
    out = bytearray(cubin)
    for n in range(SLOTS):
        word = words[n] if n < len(words) else controlled(NOP, 1)
        out[at + 16 * n : at + 16 * n + 16] = word.to_bytes(16, "little")
    return bytes(out)


def slots_at(cubin: bytes) -> int:
    """File offset of the first slot: 160 FFMAs by a uniform register in a row, the last ones of the kernel."""
    run, found = 0, -1
    for offset in range(0, len(cubin) - 15, 16):
        run = run + 1 if int.from_bytes(cubin[offset : offset + 2], "little") & 0xFFF == 0xC23 else 0
        if run >= SLOTS:
            found = offset - 16 * (SLOTS - 1)
    if found < 0:
        raise ValueError("sequences.cu should hold 160 FFMAs in a row")
    return found


def cycles(ctx: Context, words: Sequence[int], warps: int) -> int:
    """Cycles from the first warp's start to the last one's end, the least of two launches, loop warm."""
    module = ctx.device.load(filled((ctx.cubins / f"sequences.sm_{ctx.arch}.cubin").read_bytes(), words))
    try:
        found = []
        for _ in range(1 if ctx.model else 2):
            module.launch("slots", 1, 32 * warps, [ctx.words, np.float32(1), np.float32(1)])
            marks = ctx.words.read(np.uint32, 2 * warps).reshape(warps, 2).astype(np.int64)
            found.append(int(marks[:, 1].max() - marks[:, 0].min()))
        return min(found)
    finally:
        if not ctx.model:
            module.unload()


def issue_pairs(ctx: Context, names: Iterable[str] = (), warps: Sequence[int] = (1, 16)) -> list[Row]:
    """Cycles that a pair of instructions takes, 64 pairs in a row, all with stall counts of 1."""
    rows: list[Row] = []
    kinds = list(names) or list(KINDS)
    for count in warps:
        nothing = cycles(ctx, [], count)
        for i, x in enumerate(kinds):
            for y in kinds[i:]:
                for odd in ((False, False), (False, True), (True, True)):
                    words = [of_kind(k, n, o) for n in range(64) for k, o in zip((x, y), odd, strict=True)]
                    took = (cycles(ctx, words, count) - nothing + 128 * max(count // 4, 1)) / 64 / max(count // 4, 1)
                    rows.append(
                        row(
                            f"{x} {y}",
                            "cycles_per_pair",
                            took,
                            "cycles",
                            warps=count,
                            odd="".join("eo"[o] for o in odd),
                        )
                    )
    return rows


WARP_WIDE = ("redux", "vote", "r2ur", "uiadd3", "umov", "mufu", "popc", "lop3", "imad", "fadd")


def warp_pairs(ctx: Context) -> list[Row]:
    """As ``issue_pairs``: instructions over a warp's lanes, and those whose units they may share."""
    return issue_pairs(ctx, WARP_WIDE)


def issue_steps(ctx: Context) -> list[Row]:
    """The cycle at which each instruction of each piece issues, one warp."""
    rows: list[Row] = []
    pieces = json.loads(PIECES.read_text())["steps"]
    nothing = cycles(ctx, [], 1)
    for name, piece in pieces.items():
        words = [int(word, 16) for _, word, *_ in piece]
        for n in range(1, len(words) + 1):
            rows.append(
                row(
                    name,
                    "cycle_of_issue",
                    cycles(ctx, words[:n], 1) - nothing + n,
                    "cycles",
                    instruction=n,
                    text=piece[n - 1][0],
                )
            )
    return rows


MIXED = ("lop3", "imad", "ffma", "iadd3_2", "fadd", "imad_mov", "hzero", "dadd", "mufu", "mov")


def issue_mixes(ctx: Context) -> list[Row]:
    """Cycles of a tensor product with one to six other instructions behind it, stall counts of 1."""
    rows: list[Row] = []
    for warps in (1, 16):
        nothing = cycles(ctx, [], warps)
        each = max(warps // 4, 1)
        for kind in MIXED:
            for others in range(1, 7):
                groups = 128 // (1 + others)
                words = []
                for n in range(groups):
                    words += [of_kind("hmma", n, False), *(of_kind(kind, n * others + k, False) for k in range(others))]
                took = (cycles(ctx, words, warps) - nothing + len(words) * each) / groups / each
                rows.append(row(f"hmma {kind}", "cycles_per_group", took, "cycles", warps=warps, others=others))
    return rows


def tensor_gaps(ctx: Context) -> list[Row]:
    """Cycles of 16 or 20 slots with a tensor product, and one or two instructions of a kind so many slots behind it: what they hold up, one warp."""
    rows: list[Row] = []
    nothing = cycles(ctx, [], 1)
    empty = controlled(NOP, 1)
    for kind, others, slots in product((*MIXED, "hmma"), (1, 2), (16, 20)):
        for gap in range(1, slots + 1 - others):
            words: list[int] = []
            groups = SLOTS // slots
            for n in range(groups):
                group = [of_kind("hmma", n, False)] + [empty] * (slots - 1)
                for k in range(others):
                    group[gap + k] = of_kind(kind, n * others + k, False)
                words += group
            took = (cycles(ctx, words, 1) - nothing + len(words)) / groups
            where = {"slots": slots, "others": others, "gap": gap}
            rows.append(row(f"hmma {kind}", "cycles_per_group", took, "cycles", **where))
    return rows


KEPT = ("MOV", "IADD", "LOP", "SHF", "LEA", "PRMT", "SEL", "SETP", "IMAD", "FFMA", "FADD", "FMUL", "FMNMX", "FSEL", "DADD", "DMUL", "DFMA", "HFMA2", "HADD2", "HMUL2", "I2FP", "F2FP", "VIADD", "VIMNMX", "IABS", "CS2R", "MUFU", "IDP", "HMMA", "IMMA", "PLOP3", "POPC", "F2I", "I2F", "UMOV", "UIADD", "ULOP", "USHF", "ULEA", "UIMAD")  # fmt: skip


def cut(listing: str, kernel: str, first: int, count: int) -> list[tuple[str, str]]:
    """A piece of a kernel from ``nvdisasm -c -hex``: instruction number ``first`` on; what is no arithmetic does nothing."""
    lines = listing[listing.index(f".text.{kernel}:") :].splitlines()
    found: list[tuple[str, str]] = []
    for n, line in enumerate(lines):
        match = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?) ;\s+/\* (0x[0-9a-f]+) \*/", line)
        if not match:
            continue
        high = re.search(r"/\* (0x[0-9a-f]+) \*/", lines[n + 1])
        assert high
        text, word = match[1].strip(), int(match[2], 16) | int(high[1], 16) << 64
        op = re.sub(r"^@!?U?P\w+ +", "", text).split()[0]
        keep = any(k in op.split(".")[0] for k in KEPT) and "c[" not in text and "cx[" not in text and "SR_" not in text
        word = controlled(moved(text, word)) if keep else controlled(field(NOP, 105, 21, bits(word, 105, 21)))
        found.append((text if keep else f"NOP for {text}", hex(word)))
        if text.startswith("EXIT") and len(found) > first + 4:
            break
    return found[first : first + count]
