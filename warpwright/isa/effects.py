"""Registers that an instruction reads and writes, from its common operations."""

from __future__ import annotations

from warpwright.isa.ops import Lowered, Op

Effect = tuple[str, int]
"""A register file ('reg', 'ureg', 'pred', 'upred', 'barrier') and a number."""
FILES = ("reg", "ureg", "pred", "upred", "barrier")


def register_effects(lowered: Lowered) -> tuple[frozenset[Effect], frozenset[Effect]]:
    """(reads, writes) of one instruction, guard included."""
    reads: set[Effect] = set()
    writes: set[Effect] = set()
    if lowered.guard is not None:
        reads.add((lowered.guard[0], lowered.guard[1]))
    for op in lowered.ops:
        effect_of(op, reads, writes)
    return frozenset(reads), frozenset(writes)


def effect_of(op: Op, reads: set[Effect], writes: set[Effect]) -> None:
    """Add what one operation reads and writes."""
    verb, _, rest = op.name.partition("_")
    if verb not in ("get", "set"):
        if op.name in ("bssy",):
            writes.add(("barrier", op.attr[0]))
        elif op.name in ("bsync", "break"):
            reads.add(("barrier", op.attr))
        return
    file, wide = (rest[:-2], True) if rest.endswith("64") else (rest, False)
    if file not in FILES:
        return
    into = reads if verb == "get" else writes
    into.add((file, op.attr))
    if wide:
        into.add((file, op.attr + 1))
