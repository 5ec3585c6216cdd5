"""Delays canonical NaNs: finds sums that are only used in further arithmetic.

Arithmetic returns CUDA's canonical NaN, but a NaN's payload is invisible until something other than arithmetic reads
it. A web that is only written with such results (or numbers) may therefore hold any NaN; other reads make it canonical.
This removes the check from the dependence chain of a multiply-add loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpwright.engine.jit.live_ranges import Webs
from warpwright.isa.ops import Lowered, Op

ARITHMETIC = frozenset(("fadd", "fmul", "fma"))


@dataclass(slots=True)
class LateNans:
    """Changes to the generated code."""

    skip: set[tuple[int, int]] = field(default_factory=set)
    """canonical_nan operations to omit."""
    finish: set[tuple[int, int]] = field(default_factory=set)
    """Register reads that must make the value canonical."""


def _users(ops: Sequence[Op]) -> list[list[int]]:
    users: list[list[int]] = [[] for _ in ops]
    for position, op in enumerate(ops):
        for value in op.args:
            users[value].append(position)
    return users


def _is_number(op: Op) -> bool:
    """Whether the words of a constant are numbers or canonical NaNs."""
    words = (int(op.attr) & 0xFFFFFFFF, int(op.attr) >> 32 & 0xFFFFFFFF)
    return all(bits & 0x7FFFFFFF <= 0x7F800000 or bits == 0x7FFFFFFF for bits in words)


def _only_arithmetic(ops: Sequence[Op], users: list[list[int]], position: int) -> bool:
    """Whether a float value is only used where its NaN payload does not matter."""
    for user in users[position]:
        op = ops[user]
        if op.name == "fneg":
            if not _only_arithmetic(ops, users, user):
                return False
        elif op.name in ARITHMETIC:
            if any(ops[u].name != "canonical_nan" for u in users[user]):
                return False
        elif op.name != "fcmp":
            return False
    return True


def late_nans(lowered: Sequence[Lowered], webs: Webs) -> LateNans:
    """Find the webs of single-precision results whose NaNs need not be canonical at once."""
    sources: dict[int, list[tuple[int, int]]] = {}
    excluded: set[int] = set()
    reads: list[tuple[int, int, int, bool]] = []
    for index, low in enumerate(lowered):
        ops = low.ops
        users: list[list[int]] | None = None
        for position, op in enumerate(ops):
            if op.name[:4] not in ("get_", "set_"):
                continue
            reference = webs.references[index, position]
            if op.name == "set_reg64" and ops[op.args[0]].name == "const" and reference.low != reference.high:
                # Two registers at once, each one word of the constant.
                if not _is_number(ops[op.args[0]]):
                    excluded.update((reference.low, reference.high))
                continue
            if op.name not in ("get_reg", "set_reg") or webs.webs[reference.low].type != "i32":
                excluded.update((reference.low, reference.high))
                continue
            if users is None:
                users = _users(ops)
            if op.name == "get_reg":
                fine = all(
                    ops[u].name == "bitcast" and ops[u].type == "f32" and _only_arithmetic(ops, users, u)
                    for u in users[position]
                )
                reads.append((index, position, reference.low, fine))
                continue
            made = ops[op.args[0]]
            if made.name == "const" and _is_number(made):
                continue
            inner = made.args[0] if made.name == "bitcast" else -1
            if inner >= 0 and ops[inner].name == "canonical_nan" and ops[inner].type == "f32":
                if users[inner] == [op.args[0]] and users[op.args[0]] == [position]:
                    sources.setdefault(reference.low, []).append((index, inner))
                continue
            excluded.add(reference.low)
    useful = {web for _, _, web, fine in reads if fine}
    late = {web for web in sources if web not in excluded and web in useful}
    result = LateNans()
    for web in late:
        result.skip.update(sources[web])
    result.finish.update((index, position) for index, position, web, fine in reads if web in late and not fine)
    return result
