"""Cleanup after instruction selection: folds tests into comparisons and copies into what they copy, and removes unused results."""

from __future__ import annotations

from warpwright.isa.nv50.assembler.allocate import blocks_of, live_sets, partial, reads
from warpwright.isa.nv50.assembler.virtual_instructions import KEPT, Code, Inst
from warpwright.isa.nv50.fields import NOWHERE, condition_register
from warpwright.isa.program import Kind, Operand

FOLDABLE = frozenset(("iset", "fset", "logic"))
"""Instructions that can write the condition register which a later test of their result needs."""
SPACES = frozenset(("bra", "call", "ret", "label", "joinat"))
FARTHEST = 24
"""Maximum number of instructions between a comparison and its test."""


def clean(code: Code) -> None:
    """Fold and remove until nothing changes."""
    fold_tests(code)
    drop_useless(code)  # Unused copies of old values would keep results apart from their registers.
    fold_copies(code)
    drop_useless(code)
    drop_unread_conditions(code)


def drop_useless(code: Code) -> None:
    """Remove instructions whose results are not read."""
    drop_dead(code)
    drop_unused(code)


def tested_register(i: Inst) -> int | None:
    """The register of an instruction that only tests it."""
    if i.opcode != "logic" or i.condition_written is None or i.guard is not None or NOWHERE not in i.tokens:
        return None
    first, second = i.sources
    return first.index if first == second and not first.invert and i.tokens[0] == "or" else None


def fold_tests(code: Code) -> None:
    """Let a comparison that is tested soon afterwards write the condition register directly."""
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


def copied(i: Inst, code: Code) -> tuple[int, int] | None:
    """Target and source of a copy of a whole register of one word."""
    if i.opcode != "mov" or i.guard is not None or i.tail or len(i.tokens) != 4:
        return None
    target, source = i.tokens[2:]
    if not isinstance(target, Operand) or not isinstance(source, Operand):
        return None
    if any(o.kind is not Kind.REGISTER or o.name or o.suffix or o.index in code.sizes for o in (target, source)):
        return None
    return target.index, source.index


def fold_copies(code: Code) -> None:
    """Write a result directly to the register to which it is copied in the same block.

    The result must have no other writer and no reader in another block, no instruction between it and the copy may name
    the copy's target, and no reader may come after the target's next writer.
    """
    writers: dict[int, int] = {}
    readers: dict[int, int] = {}
    for i in code.instructions:
        if i.result is not None:
            writers[i.result.index] = writers.get(i.result.index, 0) + 1
        for register in {o.index for o in reads(i)}:
            readers[register] = readers.get(register, 0) + 1
    for first, end in blocks_of(code):
        made: dict[int, int] = {}
        for n in range(first, end):
            i = code.instructions[n]
            pair = copied(i, code)
            if pair is not None and writers.get(pair[1]) == 1 and pair[1] in made:
                target, source = pair
                last = joins_until(code, made[source], n, end, target, source, readers[source])
                if last is not None:
                    for j in code.instructions[made[source] : last + 1]:
                        j.renamed({source: target})
                    readers[target] = readers.get(target, 0) + readers[source] - 1
                    code.instructions[n] = Inst("nothing", [], line=i.line)
                    continue
            if i.result is not None and not partial(i, i.result, code) and not i.result.suffix:
                made[i.result.index] = n
    code.instructions = [i for i in code.instructions if i.opcode != "nothing"]


def joins_until(code: Code, made: int, copy: int, end: int, target: int, source: int, readers: int) -> int | None:
    """The last instruction of a block that reads ``source`` if it and ``target`` can share a register from ``made`` on,
    else None."""
    seen, last, rewritten = 0, copy, False
    for n in range(made + 1, end):
        i = code.instructions[n]
        names = {o.index for o in reads(i)}
        if source in names:
            if rewritten:
                return None
            seen, last = seen + 1, max(n, copy)
        if n == copy:
            continue
        writes = i.result is not None and i.result.index == target
        if n < copy and (writes or target in names):
            return None
        rewritten = rewritten or writes
    return last if seen == readers else None


def drop_dead(code: Code) -> None:
    """Remove instructions whose results are overwritten before they are read."""
    dead: set[int] = set()
    for first, end, _, live in live_sets(code):
        for n in range(end - 1, first - 1, -1):
            i = code.instructions[n]
            result = i.result
            if result is not None:
                removable = i.opcode not in KEPT and not i.tail and i.condition_written is None
                if removable and result.index not in live:
                    dead.add(n)
                    continue
                if not partial(i, result, code):
                    live.discard(result.index)
            live |= {o.index for o in reads(i)}
    code.instructions = [i for n, i in enumerate(code.instructions) if n not in dead]


def drop_unread_conditions(code: Code) -> None:
    """Remove condition registers of sums that are not read; conditions that selection writes are read in the same
    block."""
    read: set[int] = set()
    for i in reversed(code.instructions):
        condition = i.condition_written
        if condition is not None:
            if condition not in read and NOWHERE not in i.tokens:
                i.tokens.remove(condition_register(condition))
            if i.guard is None:
                read.discard(condition)
        read |= i.conditions_read()


def needed(code: Code) -> tuple[set[int], set[int]]:
    """Registers and condition registers that contribute to an effect; a counter that only feeds itself does not."""
    registers: set[int] = set()
    conditions: set[int] = set()
    waiting = code.instructions[::-1]
    before = -1
    while before != len(waiting):
        before = len(waiting)
        rest: list[Inst] = []
        for i in waiting:
            result = i.result
            effect = result is None or i.opcode in KEPT or i.tail or result.index in registers
            if effect or i.condition_written in conditions:
                registers.update(o.index for o in i.sources)
                conditions |= i.conditions_read()
            else:
                rest.append(i)
        waiting = rest
    return registers, conditions


def drop_unused(code: Code) -> None:
    """Remove instructions whose results are not needed; if only the condition register is, keep that alone."""
    registers, conditions = needed(code)
    kept: list[Inst] = []
    for i in code.instructions:
        result = i.result
        if result is None or i.opcode in KEPT or i.tail or result.index in registers:
            kept.append(i)
            continue
        condition = i.condition_written
        if condition is not None and condition in conditions and not result.suffix:
            i.tokens[next(n for n, t in enumerate(i.tokens) if t == result)] = NOWHERE
            kept.append(i)
    code.instructions = kept
