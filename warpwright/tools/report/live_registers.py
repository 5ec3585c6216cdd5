"""Live registers: which general registers hold a value that is still read, instruction by instruction.

Liveness is that of the engine's compiler (``engine/jit/live_ranges.py``), over the basic blocks of the machine code.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.engine.blocks import basic_blocks
from warpwright.engine.jit.live_ranges import FILE_BASE, events_of, live_keys, scan
from warpwright.isa.machine_code import FIRST_FERMI, lower
from warpwright.isa.program import RZ, Program

FIRST, LAST = FILE_BASE["reg"], FILE_BASE["reg"] + RZ
"""Cells of general registers: from the first to before the last, which is the zero register."""


@dataclass(frozen=True, slots=True)
class LiveRegisters:
    """Registers at one instruction."""

    live: frozenset[int]
    """Hold, before it, a value that it or a later instruction may read."""
    reads: frozenset[int]
    writes: frozenset[int]

    @property
    def held(self) -> int:
        """Registers that the instruction needs: live before it, or written by it."""
        return len(self.live | self.writes)

    def mark(self, register: int) -> str:
        """``^`` writes, ``v`` reads, ``x`` does both, ``:`` is live, a space otherwise (as nvdisasm's -plr)."""
        reads, writes = register in self.reads, register in self.writes
        if reads and writes:
            return "x"
        if reads or writes:
            return "v" if reads else "^"
        return ":" if register in self.live else " "


def live_registers(program: Program) -> tuple[LiveRegisters, ...] | None:
    """One entry per instruction of a program of machine code.

    Code that nothing reaches has its reads and writes, and what is live after them.  None for PTX run as it is, whose registers are not
    those of any chip.
    """
    if program.arch >= FIRST_FERMI and not program.control_bits:
        return None
    lowered = lower(program)
    blocks = basic_blocks(program, lowered)
    events = [events_of(lowered, block.first, block.count) for block in blocks]
    at_start = live_keys(blocks, events)
    found: list[LiveRegisters] = [LiveRegisters(frozenset(), frozenset(), frozenset())] * len(lowered)
    for block, block_events in zip(blocks, events, strict=True):
        after: set[int] = set().union(*(at_start[n] for n in block.successors))
        before: dict[int, set[int]] = {}
        scan(block_events, after, before)
        reads: dict[int, set[int]] = {}
        writes: dict[int, set[int]] = {}
        for index, _, cell, write, _ in block_events:
            (writes if write else reads).setdefault(index, set()).add(cell)
        live = after
        for index in range(block.first + block.count - 1, block.first - 1, -1):
            live = before.get(index, live)
            found[index] = LiveRegisters(
                _general(live), _general(reads.get(index, ())), _general(writes.get(index, ()))
            )
    return tuple(found)


def _general(cells: set[int] | tuple[()]) -> frozenset[int]:
    return frozenset(cell - FIRST for cell in cells if FIRST <= cell < LAST)
