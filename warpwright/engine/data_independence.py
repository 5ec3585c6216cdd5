"""Kernels whose control flow and addresses do not depend on data in memory (memory-oblivious: Goldreich and Ostrovsky, JACM'96).

A value is *data* if it may come from memory: the results of loads, atomics and textures, values from other lanes,
clocks, and whatever is computed from such values.  A kernel in which no branch, guard, barrier or address is data makes
the same accesses in the same order in every launch with the same geometry and constant banks.  The checks
(``known_launches.py``) and the timing model (``timing_cache.py``) use this.

Registers are followed through the graph of basic blocks.  An unguarded instruction replaces the old status of its
results; a guarded one keeps the old value where the predicate does not hold, which instructions under the same
predicate do not read.  Uniform registers, uniform predicates and convergence barriers, which lanes on other paths
share, keep their old status.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpwright.engine.blocks import CLOCKS, BasicBlock
from warpwright.isa.effects import Effect, effect_of
from warpwright.isa.ops import OPS, Lowered, Op
from warpwright.isa.program import Program

Effects = frozenset[Effect]
DATA: Effect = ("data", 0)
"""The sources of a value that may be data; registers that are data are in the same sets."""
BRINGS_DATA = frozenset(("load", "atomic", "texture", "service", "barrier_red", "shuffle", "mma", "wgmma"))
"""For shuffles and matrix operations: other lanes' registers, which may be elsewhere in the code."""
SPECIAL_DATA = CLOCKS | {"barrier_result", "gridid"}
PASSED_ON = {"store": 1, "atomic": 1, "barrier_red": 2}
"""The argument that is written to memory or voted on; it may be data."""
SHARED_FILES = frozenset(("ureg", "upred", "barrier"))
NOT_SEEN = frozenset(("load_const", "wgmma"))
"""Memory operations whose addresses no check examines."""


Guard = tuple[str, int, bool] | None
"""File and number of a predicate, and whether it is inverted; None for all lanes."""
Facts = dict[Effect, Guard]
"""Registers that are data, and the lanes in which they are: those in which a predicate currently holds."""


class Step(NamedTuple):
    """The effect of an instruction on the set of data."""

    guard: Guard
    """The guard, unless it is a uniform predicate, under which the result also depends on the old value."""
    decides: Effects
    """Dependences of its accesses, branches and barriers."""
    writes: tuple[tuple[Effect, Effects], ...]
    """Registers written, and the dependences of their new values."""


def is_oblivious(
    program: Program, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], constants: bool = False
) -> bool:
    """Whether a kernel's behaviour follows from its code, geometry and constant banks; computed once.

    Args:
        constants: also depends on which constants it reads.
    """
    name = "oblivious of constants" if constants else "oblivious"
    if name not in program.facts:
        steps = [_step(low, NOT_SEEN - {"load_const"} if constants else NOT_SEEN) for low in lowered]
        program.facts[name] = _follows(blocks, steps)
    return program.facts[name]


def _follows(blocks: Sequence[BasicBlock], steps: Sequence[Step]) -> bool:
    """Whether no decision depends on data."""
    begin: Facts = {DATA: None}
    known: list[Facts | None] = [begin, *[None] * (len(blocks) - 1)]
    work = [0]
    while work:
        block = blocks[work.pop()]
        now = dict(known[block.number] or {})
        for step in steps[block.first : block.first + block.count]:
            if _is_data(now, step.decides, step.guard):
                return False
            _write(now, step)
        for successor in block.successors:
            before = known[successor]
            joined = now if before is None else _join(before, now)
            if joined != before:
                known[successor] = dict(joined)
                work.append(successor)
    return True


def _is_data(now: Facts, registers: Effects, guard: Guard) -> bool:
    """Whether one of some registers is data in the lanes under a guard."""
    return any(r in now and (guard is None or now[r] != _opposite(guard)) for r in registers)


def _write(now: Facts, step: Step) -> None:
    """Update the state after an instruction."""
    new = [(register, _is_data(now, sources, step.guard)) for register, sources in step.writes]
    for register, data in new:
        held = now.get(register, step.guard)
        if data:
            now[register] = held if held == step.guard else None
        elif register not in now or register[0] in SHARED_FILES:
            continue
        elif step.guard is None or held == step.guard:
            del now[register]
        elif held is None:
            now[register] = _opposite(step.guard)
    written = {register for register, _ in new}
    for register, where in now.items():
        if where is not None and where[:2] in written:
            now[register] = None


def _opposite(guard: tuple[str, int, bool]) -> Guard:
    return guard[0], guard[1], not guard[2]


def _join(one: Facts, other: Facts) -> Facts:
    """The registers that may be data on one of two paths."""
    return {**other, **{r: where if other.get(r, where) == where else None for r, where in one.items()}}


def _step(lowered: Lowered, unseen: frozenset[str] = NOT_SEEN) -> Step:
    guard: Effects = frozenset() if lowered.guard is None else frozenset((lowered.guard[:2],))
    uniform = lowered.guard is not None and lowered.guard[0] == "upred"
    sources: list[Effects] = []
    decides: set[Effect] = set()
    writes: list[tuple[Effect, Effects]] = []
    for op in lowered.ops:
        read, written = set[Effect](), set[Effect]()
        effect_of(op, read, written)
        arguments = [sources[value] for value in op.args]
        brings = op.name in BRINGS_DATA or (op.name in ("special", "special64") and op.attr in SPECIAL_DATA)
        value = guard.union(read, *arguments, (DATA,) if brings else ())
        sources.append(value)
        writes += [(register, value | {register} if uniform else value) for register in written]
        if _acts(op, unseen):
            passed = PASSED_ON.get(op.name)
            decides |= guard.union(read, *(a for n, a in enumerate(arguments) if n != passed))
    return Step(None if uniform else lowered.guard, frozenset(decides), tuple(writes))


def _acts(op: Op, unseen: frozenset[str]) -> bool:
    """Whether an operation leaves a record, branches, waits, or names lanes to wait for."""
    if op.name == "touch" and op.attr.space in ("constant", "value"):
        return False
    effect = OPS[op.name].effect
    return effect == "control" or op.name == "named" or (effect == "memory" and op.name not in unseen)
