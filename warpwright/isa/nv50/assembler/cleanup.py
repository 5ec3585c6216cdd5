"""Cleanup after instruction selection: folds tests into comparisons and removes unused results."""

from __future__ import annotations

from warpwright.isa.nv50.assembler.machine import KEPT, Code, Inst
from warpwright.isa.nv50.fields import NOWHERE, condition_register
from warpwright.isa.program import Kind, Operand

FOLDABLE = frozenset(("iset", "fset", "logic"))
"""Instructions of which a test may become the condition register."""
SPACES = frozenset(("bra", "call", "ret", "label", "joinat"))
FARTHEST = 24
"""Instructions between a comparison and its test."""


def clean(code: Code) -> None:
    """Fold and drop until nothing changes."""
    fold_tests(code)
    while drop_unused(code):
        pass
    drop_unread_conditions(code)


def tested_register(i: Inst) -> int | None:
    """The register that an instruction does nothing but test."""
    if i.opcode != "logic" or i.condition_written is None or i.guard is not None or NOWHERE not in i.tokens:
        return None
    first, second = i.sources
    return first.index if first == second and not first.invert and i.tokens[0] == "or" else None


def fold_tests(code: Code) -> None:
    """Where a comparison is tested soon after, it writes the condition register itself."""
    found = code.instructions
    for n, i in enumerate(found):
        number = tested_register(i)
        if number is None:
            continue
        condition = i.condition_written
        assert condition is not None
        for m in range(n - 1, max(-1, n - FARTHEST), -1):
            before = found[m]
            result = before.result
            if result is not None and result.index == number:
                immediate = any(isinstance(t, Operand) and t.kind is Kind.IMMEDIATE for t in before.tokens)
                foldable = before.opcode in FOLDABLE and before.guard is None and before.condition_written is None
                if foldable and not immediate:
                    place = next(
                        k for k, t in enumerate(before.tokens) if isinstance(t, Operand) and t.kind is Kind.REGISTER
                    )
                    before.tokens.insert(place, condition_register(condition))
                    found[n] = Inst("nothing", [])
                break
            if before.opcode in SPACES or before.tail or before.condition_written == condition:
                break
            if condition in before.conditions_read():
                break
    code.instructions = [i for i in found if i.opcode != "nothing"]


def drop_unread_conditions(code: Code) -> None:
    """Drop the condition registers of sums that nobody reads; what selection writes is read within its block."""
    read: set[int] = set()
    for i in reversed(code.instructions):
        condition = i.condition_written
        if condition is not None:
            if condition not in read and NOWHERE not in i.tokens:
                i.tokens.remove(condition_register(condition))
            if i.guard is None:
                read.discard(condition)
        read |= i.conditions_read()


def drop_unused(code: Code) -> bool:
    """Drop instructions whose results nobody reads; those with a used condition register keep that alone."""
    read: set[int] = set()
    conditions: set[int] = set()
    for i in code.instructions:
        read.update(o.index for o in i.sources)
        conditions |= i.conditions_read()
    kept: list[Inst] = []
    changed = False
    for i in code.instructions:
        result = i.result
        if result is None or i.opcode in KEPT or i.tail or result.index in read:
            kept.append(i)
            continue
        changed = True
        condition = i.condition_written
        if condition is not None and condition in conditions and not result.suffix:
            i.tokens[next(n for n, t in enumerate(i.tokens) if t == result)] = NOWHERE
            kept.append(i)
    code.instructions = kept
    return changed
