"""Data that a launch passes to a compute program: the first constant buffer and two registers.

The layout is that of LLVM's back end: the extents of the grid in blocks, of the grid in threads and of a block, three
words each, followed by the kernel's parameters.  Register T0 holds the thread's position in its block, T1 the block's
in the grid.
"""

from __future__ import annotations

from warpwright.isa.bank0 import PARAMETER_BASE
from warpwright.isa.ops import Builder, Value

GRID_AT, GLOBAL_AT, BLOCK_AT = 0, 12, 24
PARAMETERS_AT = 36
ENGINE_PARAMETERS_AT = PARAMETER_BASE[0]
"""Offset at which the engines keep the parameters."""
AXES = "xyz"
FIRST_REGISTERS = tuple(f"{name}.{axis}" for name in ("tid", "ctaid") for axis in AXES)


def launch_word(b: Builder, at: int) -> Value:
    """The word of the first constant buffer at a byte offset."""
    axis = AXES[at // 4 % 3]
    if at < GLOBAL_AT:
        return b.op("special", "i32", attr=f"nctaid.{axis}")
    if at < BLOCK_AT:
        return b.mul(b.op("special", "i32", attr=f"nctaid.{axis}"), b.op("special", "i32", attr=f"ntid.{axis}"))
    if at < PARAMETERS_AT:
        return b.op("special", "i32", attr=f"ntid.{axis}")
    return b.op("load_const", "i32", b.const(ENGINE_PARAMETERS_AT + at - PARAMETERS_AT), attr=(0, 4))


def launch_word_at(b: Builder, at: Value) -> Value:
    """The word at a byte offset held in a register: the back end combines a choice between two words into one load."""
    parameters = b.icmp("uge", at, b.const(PARAMETERS_AT))
    place = b.add(b.select(parameters, at, b.const(PARAMETERS_AT)), b.const(ENGINE_PARAMETERS_AT - PARAMETERS_AT))
    found = b.op("load_const", "i32", place, attr=(0, 4))
    for offset in range(0, PARAMETERS_AT, 4):
        found = b.select(b.icmp("eq", at, b.const(offset)), launch_word(b, offset), found)
    return found
