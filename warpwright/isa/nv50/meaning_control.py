"""Branches, the warp's stack, barriers.

``joinat`` pushes the reconvergence point and the active lanes, a divergent branch pushes the lanes that wait, and an
instruction with ``join`` sends its lanes to the topmost ``joinat``: when all have arrived, they continue after it.
``breakaddr`` and ``break`` do the same for loops, ``call`` and ``ret`` for functions (envytools' documentation,
"Control instructions").  These are the operations ``push``, ``pop`` and ``call``, which the stack of later chips also
uses.
"""

from __future__ import annotations

from warpwright.isa.nv50.emitter import Nv50Emitter, unsupported
from warpwright.isa.nv50.meaning import meaning
from warpwright.isa.program import Instruction, Kind


def target_of(i: Instruction) -> int:
    return next(o.value for o in i.operands if o.kind is Kind.LABEL)


@meaning("bra")
def bra(i: Instruction, b: Nv50Emitter) -> None:
    b.op("branch", "void", attr=target_of(i))


@meaning("call")
def call(i: Instruction, b: Nv50Emitter) -> None:
    if "lim" in i.modifiers:
        raise unsupported("a call with a limit has no meaning here")
    b.op("call", "void", attr=target_of(i))


@meaning("ret")
def ret(i: Instruction, b: Nv50Emitter) -> None:
    b.op("pop", "void", attr="ret")


@meaning("prebrk")
def prebrk(i: Instruction, b: Nv50Emitter) -> None:
    b.op("push", "void", attr=("brk", target_of(i)))


@meaning("brk")
def brk(i: Instruction, b: Nv50Emitter) -> None:
    b.op("pop", "void", attr="brk")


@meaning("joinat")
def joinat(i: Instruction, b: Nv50Emitter) -> None:
    """Lanes continue after the join at the target, or at the target itself if it is an exit, after which no lane is
    left to join."""
    at = target_of(i)
    if at not in b.targets and b.interface is None:
        raise unsupported(f"the target {at:#x} is not an instruction with join")
    b.op("push", "void", attr=("ssy", b.targets.get(at, at)))


@meaning("bar")
def bar(i: Instruction, b: Nv50Emitter) -> None:
    """Wait for all warps of the block; the other forms belong to later chips."""
    if not {"inc", "wait", "all"} <= set(i.modifiers):
        raise unsupported("a barrier for some warps of a block has no meaning here")
    b.op("barrier", "void", b.const(i.operands[0].value), b.const(0), attr="sync")


@meaning("trap")
def trap(i: Instruction, b: Nv50Emitter) -> None:
    b.op("trap", "void", attr="TRAP")


@meaning("nop", "brkpt", "pmevent")
def nop(i: Instruction, b: Nv50Emitter) -> None:
    """No effect that a program can observe."""
