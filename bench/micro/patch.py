"""Variants of bank.cu's machine code that no compiler emits: register banks, reuse flags, stall counts.

A 128-bit instruction of sm_70 to sm_90 holds destination and operands in bits 16-23, 24-31, 32-39 and 64-71, the stall
count in 105-108, the yield bit in 109 (yields when 0) and the reuse flags in 122-124 (encodings as CuAssembler documents
them). Results of the patched loops are meaningless: fixed-latency hazards are left to software, so only cycles count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

FFMA = 0x223  # register, register, register form
Operands = tuple[int, int, int, int, int]  # destination, a, b, c, reuse flags (bit 0: a, 1: b, 2: c)


def field(word: int, low: int, width: int, value: int) -> int:
    """`word` with `width` bits from `low` replaced by `value`."""
    mask = (1 << width) - 1
    return word & ~(mask << low) | (value & mask) << low


def bits(word: int, low: int, width: int) -> int:
    """`width` bits of `word` from `low`."""
    return word >> low & (1 << width) - 1


def loop_instructions(cubin: bytes) -> list[int]:
    """File offsets of the loop's FFMAs: those that read the operand pair (a, b) that most FFMAs read."""
    found: dict[tuple[int, int], list[int]] = {}
    for offset in range(0, len(cubin) - 15, 16):
        word = int.from_bytes(cubin[offset : offset + 16], "little")
        if bits(word, 0, 12) == FFMA and bits(word, 16, 8) == bits(word, 32, 8):
            found.setdefault((bits(word, 24, 8), bits(word, 64, 8)), []).append(offset)
    most = max(found.values(), key=len)
    if len(most) != 128:
        raise ValueError(f"bank.cu's loop should hold 128 FFMAs of one operand pair, found {len(most)}")
    return most


def patched(
    cubin: bytes, make: Callable[[int, list[int], list[int]], Operands], stall: int = 1, yielding: bool = False
) -> bytes:
    """`cubin` with its loop rewritten: `make(i, even, odd)` gives instruction i's registers from those it may use."""
    offsets = loop_instructions(cubin)
    accumulators = {bits(int.from_bytes(cubin[o : o + 16], "little"), 16, 8) for o in offsets}
    even = sorted(r for r in accumulators if r % 2 == 0)
    odd = sorted(r for r in accumulators if r % 2)
    out = bytearray(cubin)
    for i, offset in enumerate(offsets):
        word = int.from_bytes(cubin[offset : offset + 16], "little")
        d, a, b, c, reuse = make(i, even, odd)
        for low, value in ((16, d), (24, a), (32, b), (64, c)):
            word = field(word, low, 8, value)
        word = field(word, 105, 4, stall)
        word = field(word, 109, 1, 0 if yielding else 1)
        word = field(word, 122, 3, reuse)
        out[offset : offset + 16] = word.to_bytes(16, "little")
    return bytes(out)


def pick(registers: list[int], index: int) -> int:
    """A register of the list, cycling."""
    return registers[index % len(registers)]


def pattern(banks: str, reuse: int = 0, dest: str = "e") -> Callable[[int, list[int], list[int]], Operands]:
    """Operand banks of each instruction: 'eeo' even, even, odd; several separated by '-' take turns."""
    turns = banks.split("-")

    def make(i: int, even: list[int], odd: list[int]) -> Operands:
        sets = {"e": even, "o": odd}
        letters = turns[i % len(turns)]
        a, b, c = (pick(sets[letter], i + 2 * slot) for slot, letter in enumerate(letters))
        return pick(sets[dest], i + 1), a, b, c, reuse

    return make


def fixed(slots: dict[int, str], banks: str, reuse: int) -> Callable[[int, list[int], list[int]], Operands]:
    """As `pattern`, but the operand slots in `slots` always hold the same register (first of their bank)."""

    def make(i: int, even: list[int], odd: list[int]) -> Operands:
        sets = {"e": even[1:], "o": odd[1:]}
        first = {"e": even[0], "o": odd[0]}
        regs = [first[slots[s]] if s in slots else pick(sets[banks[s]], i + 2 * s) for s in range(3)]
        return pick(even[1:], i + 1), regs[0], regs[1], regs[2], reuse

    return make


def same(banks: str) -> Callable[[int, list[int], list[int]], Operands]:
    """Operand slots with the same letter hold the same register; capital letters come from the odd bank."""

    def make(i: int, even: list[int], odd: list[int]) -> Operands:
        regs = {
            letter: pick(odd if letter.isupper() else even, i + 3 * n) for n, letter in enumerate(sorted(set(banks)))
        }
        a, b, c = (regs[letter] for letter in banks)
        return pick(even, i + 1), a, b, c, 0

    return make


def variants(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Every variant's name and cubin."""
    yield "original", cubin
    for banks in ("eee", "eeo", "eoe", "oee", "ooo", "eee-ooo", "eeo-ooe", "eeo-eeo-ooe-ooe",
                  "-".join(["eee"] * 2 + ["ooo"] * 2), "-".join(["eee"] * 4 + ["ooo"] * 4),
                  "-".join(["eee"] * 8 + ["ooo"] * 8)):  # fmt: skip
        turns = banks.split("-")
        name = banks if len(turns) <= 2 else f"{turns[0]}x{turns.count(turns[0])}-{turns[-1]}x{turns.count(turns[-1])}"
        yield f"ports_{name}", patched(cubin, pattern(banks))
    yield "ports_eeo_dest_odd", patched(cubin, pattern("eeo", dest="o"))
    yield "ports_eee_dest_odd", patched(cubin, pattern("eee", dest="o"))
    for letters in ("aaa", "aab", "aba", "baa", "aaB", "abB", "aBB"):
        yield f"same_{letters}", patched(cubin, same(letters))
    yield "reuse_none_b_fixed", patched(cubin, fixed({1: "e"}, "eee", 0))
    yield "reuse_b_of_eee", patched(cubin, fixed({1: "e"}, "eee", 0b010))
    yield "reuse_bc_of_eee", patched(cubin, fixed({1: "e", 2: "e"}, "eee", 0b110))
    yield "reuse_ac_of_eee", patched(cubin, fixed({0: "e", 2: "e"}, "eee", 0b101))
    yield "reuse_a_of_eee", patched(cubin, fixed({0: "e"}, "eee", 0b001))
    yield "reuse_flag_but_changing", patched(cubin, pattern("eee", reuse=0b111))
    common = fixed({0: "e", 2: "o"}, "eeo", 0b101)
    for stall in (0, 1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 13, 15):
        for yielding in (False, True):
            yield f"stall{stall:02d}_{'yield' if yielding else 'stay'}", patched(cubin, common, stall, yielding)


def write_variants(cubin: Path, folder: Path) -> int:
    """Write every variant of bank.sm_XX.cubin into `folder`; returns how many."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = cubin.name.split(".", 1)[1]
    count = 0
    for name, data in variants(cubin.read_bytes()):
        (folder / f"{name}.{suffix}").write_bytes(data)
        count += 1
    return count
