"""Warp-wide operations (``*_sync``) and the lanes that their masks name.

From sm_70 on, machine code gathers the lanes of a mask with WARPSYNC, which waits for the live ones; if BRA.DIV or BRA.CONV finds them together, WARPSYNC is
skipped, so this branch marks the operation. Chips before sm_70 execute SHFL and VOTE with the lanes present and have no mask; the module's PTX has it (ISA
9.7.9: "all threads in membermask must execute the same
shfl.sync instruction in convergence").  On them, ``__syncwarp()`` generates no instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.code_sites import place_of
from warpwright.isa.program import Instruction, Kind, Program

FIRST_WITH_WARPSYNC = 70
_ENDS = ("BAR", "BRA", "BRX", "BSYNC", "CALL", "EXIT", "RET")
_OPERATION = re.compile(r"\b(?:shfl|vote)\.sync\.[\w.]+\s[^;]*,\s*(-?\w+|%\w+)\s*;")
_CONSTANT = re.compile(r"\bmov\.[bus]32\s+(%\w+),\s*(-?\w+)\s*;")
FULL_MASK = 0xFFFFFFFF
WARP_WIDE = ("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "WARPSYNC")
MOST_BEHIND = 16
"""Number of instructions after a BRA.DIV within which its operation is found."""


def masks_of_lines(ptx: str | None) -> dict[int, int]:
    """Source lines of shuffles and votes in a module's PTX, and their masks; lines whose mask is not constant, or not unique, are left out."""
    found: dict[int, set[int | None]] = {}
    constants: dict[str, int] = {}
    calls: dict[tuple[str, str], tuple[str, str]] = {}
    """For the code of an inlined function, the (file, line) of the call."""
    at = ("", "0")
    for text in (ptx or "").splitlines():
        words = text.split()
        if len(words) >= 3 and words[0] == ".loc":
            at = words[1], words[2]
            if "inlined_at" in words:
                n = words.index("inlined_at")
                calls[at] = words[n + 1], words[n + 2]
        elif words[:1] == ["{"] or ".entry" in words or ".func" in words:
            constants.clear()
        elif constant := _CONSTANT.search(text):
            if not constant[2].startswith("%"):
                constants[constant[1]] = int(constant[2], 0) & FULL_MASK
        elif operation := _OPERATION.search(text):
            mask = operation[1]
            value = constants.get(mask) if mask.startswith("%") else int(mask, 0) & FULL_MASK
            passed = set[tuple[str, str]]()
            place: tuple[str, str] | None = at
            while place is not None and place not in passed:
                passed.add(place)
                found.setdefault(int(place[1]), set()).add(value)
                place = calls.get(place)
    return {line: mask for line, masks in found.items() if len(masks) == 1 for mask in masks if mask is not None}


def constant_masks(program: Program, ptx: str | None) -> dict[int, int]:
    """Masks of a kernel's shuffles and votes by instruction index, for chips whose machine code has no masks."""
    if program.arch >= FIRST_WITH_WARPSYNC:
        return {}
    masks = masks_of_lines(ptx)
    return {
        index: masks[x.line[1]]
        for index, x in enumerate(program.instructions)
        if x.opcode in ("SHFL", "VOTE") and x.line is not None and x.line[1] in masks
    }


def asks_who_is_here(instruction: Instruction) -> bool:
    """Whether it is a branch that tests whether a warp's lanes are together."""
    return instruction.opcode == "BRA" and bool({"DIV", "CONV"} & set(instruction.modifiers))


def places(program: Program, blocks: Sequence[BasicBlock], masks: dict[int, int]) -> dict[int, int]:
    """Basic blocks in which a warp-wide operation begins, with the index of the instruction that gives its line.

    Args:
        masks: as returned by :func:`constant_masks`.
    """
    found = {}
    for block in blocks:
        for index in range(block.first, block.first + block.count):
            instruction = program.instructions[index]
            gathers = instruction.opcode == "WARPSYNC" and not _gathers_for_barrier(program, index)
            if gathers or asks_who_is_here(instruction) or index in masks:
                found[block.number] = _operation_behind(program, index)
                break
    return found


def _gathers_for_barrier(program: Program, index: int) -> bool:
    """Whether a WARPSYNC belongs to the line of a block barrier, which synccheck checks separately."""
    ahead = program.instructions[index + 1 : index + MOST_BEHIND]
    barrier = next((x for x in ahead if x.opcode in (*WARP_WIDE, "BAR", "BRA", "EXIT")), None)
    return barrier is not None and barrier.opcode == "BAR" and barrier.line == program.instructions[index].line


def barrier_site(program: Program, index: int) -> int | None:
    """The instruction whose line a block barrier belongs to; None if several lines share it."""
    places = place_of(program, _divergent_entry(program.instructions, index))
    return places[0] if len(places) == 1 else None


def _divergent_entry(instructions: Sequence[Instruction], index: int) -> int:
    """The index of the BRA.DIV that branches to a barrier, if the barrier is the copy for warps that have diverged; otherwise the barrier's own index.

    For sm_90, compilers place these copies (WARPSYNC.COLLECTIVE, BAR) after the kernel's last instruction, and some get the line of its end. A BRA.DIV may branch to copies of several
    barriers in sequence: for the second and later ones, the index is that of the barrier which follows as many others after the branch.
    """
    for n in range(index - 1, -1, -1):
        if instructions[n].opcode == "WARPSYNC" and "COLLECTIVE" in instructions[n].modifiers:
            break
        if instructions[n].opcode in _ENDS:
            return index
    else:
        return index
    entries = [
        (operand.value, n)
        for n, x in enumerate(instructions)
        if x.opcode == "BRA" and "DIV" in x.modifiers
        for operand in x.operands
        if operand.kind is Kind.LABEL and operand.value <= instructions[index].address
    ]
    if not entries:
        return index
    begin, entry = max(entries)
    earlier = sum(x.opcode == "BAR" for x in instructions[:index] if x.address >= begin)
    if earlier == 0:
        return entry
    originals = (n for n in range(entry + 1, index) if instructions[n].opcode == "BAR")
    return next(islice(originals, earlier, None), index)


def _operation_behind(program: Program, index: int) -> int:
    """The operation that a BRA.DIV belongs to, whose line may differ; for other instructions, the instruction itself."""
    if "DIV" not in program.instructions[index].modifiers:
        return index
    ahead = range(index + 1, min(index + MOST_BEHIND, len(program.instructions)))
    return next((n for n in ahead if program.instructions[n].opcode in WARP_WIDE), index)
