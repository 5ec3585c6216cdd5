"""Static analysis of the reconvergence stack: where SYNC, BRK, CONT and RET can take a thread.

Chips before Volta keep a stack of (kind, target, lanes) for every warp (``isa/maxwell/meaning_control.py``).  Compilers
nest pushes and pops, so the stack at an instruction nearly always holds one sequence of targets within a function; it
is found here by following the code from every entry.  If sequences differ or grow, every target of the kind is
included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpwright.isa.ops import Lowered

Stack = tuple[tuple[str, int], ...]
MOST_STACKS = 8
"""Maximum number of different stacks at one instruction before the analysis gives up on it."""
MOST_ENTRIES = 64


def uses_stack(lowered: Sequence[Lowered]) -> bool:
    """Whether a program reconverges by the stack."""
    return any(op.name in ("push", "pop", "call") for one in lowered for op in one.ops)


def stack_targets(
    lowered: Sequence[Lowered], index_of: Mapping[int, int], indirect: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """For each instruction that ends in ``pop``: indices of the possible targets of its lanes."""
    pops = [n for n, one in enumerate(lowered) if one.ops and one.ops[-1].name == "pop"]
    if not pops:
        return {}
    every: dict[str, set[int]] = {}
    for n, one in enumerate(lowered):
        for op in one.ops:
            if op.name == "push":
                every.setdefault(op.attr[0], set()).add(index_of[op.attr[1]])
            elif op.name == "call" and n + 1 < len(lowered):
                every.setdefault("ret", set()).add(n + 1)
    known = _follow(lowered, index_of, indirect)
    result = {}
    for n in pops:
        kind = lowered[n].ops[-1].attr
        stacks = known.get(n)
        found: set[int] = set()
        exact = stacks is not None
        for stack in stacks or ():
            target = next((t for k, t in reversed(stack) if k == kind), None)
            if target is None:
                exact = False
            else:
                found.add(target)
        result[n] = tuple(sorted(found if exact and found else every.get(kind, set())))
    return result


def _follow(
    lowered: Sequence[Lowered], index_of: Mapping[int, int], indirect: Mapping[int, tuple[int, ...]]
) -> dict[int, set[Stack] | None]:
    """Stacks at each instruction, from the top of its function's frame; None if there are too many."""
    known: dict[int, set[Stack] | None] = {}
    work: list[tuple[int, Stack]] = [(0, ())]
    for one in lowered:
        for op in one.ops:
            if op.name == "call":
                work.append((index_of[op.attr], ()))
    total = len(lowered)
    while work:
        n, stack = work.pop()
        while n < total:
            stacks = known.setdefault(n, set())
            if stacks is None or stack in stacks:
                break
            if len(stacks) >= MOST_STACKS or len(stack) >= MOST_ENTRIES:
                known[n] = None
                break
            stacks.add(stack)
            one = lowered[n]
            last = one.ops[-1] if one.ops else None
            falls = True
            if last is not None and last.name == "push":
                kind, target = last.attr
                stack = (*stack, (kind, index_of[target]))
                if kind == "ret":
                    # The RET that ends the callee removes this entry; afterwards the frame is unchanged.
                    work.append((index_of[target], stack[:-1]))
            elif last is not None and last.name == "branch":
                work.append((index_of[last.attr], stack))
                falls = bool(last.args) or one.guard is not None
            elif last is not None and last.name == "call":
                pass  # the function leaves the stack unchanged
            elif last is not None and last.name == "pop":
                depth = next((d for d in reversed(range(len(stack))) if stack[d][0] == last.attr), None)
                if depth is not None:
                    work.append((stack[depth][1], stack[:depth]))
                falls = bool(last.args) or one.guard is not None
            elif last is not None and last.name in ("exit", "trap"):
                falls = bool(last.args) or one.guard is not None
            elif last is not None and last.name == "branch_indirect":
                work += [(target, stack) for target in indirect.get(n, ())]
                falls = one.guard is not None
            if not falls:
                break
            n += 1
    return known
