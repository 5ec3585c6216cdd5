"""Calls inside one code section: detects recursion and calls through pointers.

The compiler states the stack that a kernel and its callees need (EIATTR_MIN_STACK_SIZE), but silently ignores recursion. Functions that are not inlined share
their kernel's section; their direct calls are read from the machine code:
``CALL.REL`` with an immediate is opcode 0x944, its distance from the next instruction in units of four bytes at bit 34
(with eight low bits at bit 16 from sm_90 on), as nvdisasm prints it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

_CALL_RELATIVE = 0x944
_CALLS_BY_REGISTER = (0x343, 0x344)
"""CALL.ABS and CALL.REL with a register: function pointers and virtual functions."""
_INSTRUCTION_BYTES = 16
_NARROW_CALL, _NARROW_PUSH_RETURN = 0xE26, 0xE27
"""CAL and PRET of the 64-bit encodings."""


def direct_calls(code: bytes, arch: int) -> list[tuple[int, int]]:
    """Pairs (offset of a CALL.REL, offset of its target), in code order."""
    if arch < 70:
        return _narrow_calls(code)
    found = []
    for at in range(0, len(code) - _INSTRUCTION_BYTES + 1, _INSTRUCTION_BYTES):
        if int.from_bytes(code[at : at + 2], "little") & 0xFFF != _CALL_RELATIVE:
            continue
        word = int.from_bytes(code[at : at + _INSTRUCTION_BYTES], "little")
        distance = word >> 34 & (1 << 48) - 1
        if distance >> 47:
            distance -= 1 << 48
        if arch >= 90:
            distance = distance << 8 | word >> 16 & 0xFF
        found.append((at, at + _INSTRUCTION_BYTES + 4 * distance))
    return found


def _narrow_calls(code: bytes) -> list[tuple[int, int]]:
    """As :func:`direct_calls` for 64-bit words: CAL has 0xe26 above bit 52, its distance in bytes in 24 bits at bit 20."""
    found = []
    for at in range(0, len(code) - 7, 8):
        word = int.from_bytes(code[at : at + 8], "little")
        if at % 32 and word >> 52 == _NARROW_CALL:
            distance = word >> 20 & 0xFFFFFF
            distance -= (distance >> 23) << 24
            target = at + 8 + distance
            found.append((at, target))
    return found


def calls_through_registers(code: bytes, arch: int = 70) -> bool:
    """Whether the code calls a function whose address is in a register (by PRET and BRX before sm_70)."""
    if arch < 70:
        return any(
            int.from_bytes(code[at : at + 8], "little") >> 52 == _NARROW_PUSH_RETURN
            for at in range(0, len(code) - 7, 8)
            if at % 32
        )
    return any(
        int.from_bytes(code[at : at + 2], "little") & 0xFFF in _CALLS_BY_REGISTER
        for at in range(0, len(code) - _INSTRUCTION_BYTES + 1, _INSTRUCTION_BYTES)
    )


def calls_itself(entry: int, starts: Sequence[int], calls: Sequence[tuple[int, int]]) -> bool:
    """Whether a function that ``entry`` reaches can reach itself by direct calls.

    ``starts`` are the functions' offsets in ascending order; ``calls`` are pairs (offset of a call, offset of its target).
    """
    callees: dict[int, set[int]] = {start: set() for start in starts}
    for at, target in calls:
        owner = bisect_right(starts, at) - 1
        if owner >= 0 and target in callees:
            callees[starts[owner]].add(target)
    finished: set[int] = set()
    on_path: set[int] = set()
    # The stack is explicit, so that a damaged file cannot exhaust Python's.
    work: list[tuple[int, bool]] = [(entry, False)]
    while work:
        function, done = work.pop()
        if done:
            on_path.discard(function)
            finished.add(function)
        elif function in on_path:
            return True
        elif function not in finished:
            on_path.add(function)
            work.append((function, True))
            work += [(c, False) for c in callees.get(function, ())]
    return False
