"""Instruction mix: issues of warps by the kind of instruction, with the opcodes of each kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape

from warpwright.isa.machine_code import work_of
from warpwright.isa.program import Program
from warpwright.quantity_text import share_text
from warpwright.tools.report.attribution import Attribution
from warpwright.tools.report.markup import bar, datum, panel, rows_table

KINDS: dict[str, tuple[str, ...]] = {
    "integer and logic": ("alu",),
    "FP32": ("fma",),
    "integer multiply": ("fma_heavy",),
    "half precision": ("half",),
    "FP64": ("fp64",),
    "special functions and conversions": ("xu", "interpolation"),
    "matrix products": ("tensor", "group_product", "products_done"),
    "uniform datapath": ("uniform", "uniform_move", "to_uniform"),
    "loads, stores and atomics": ("memory", "invalidate", "cache_hint"),
    "textures and surfaces": ("texture",),
    "constants and special registers": ("constant", "uniform_constant", "special"),
    "exchange among lanes": ("shuffle", "reduction", "match"),
    "branches and convergence": ("branch", "indirect_branch", "convergence", "join", "warp_sync", "yield", "exit"),
    "barriers, fences and waits": (
        *("block_barrier", "barrier_result", "cluster_barrier", "mbarrier", "copies_done"),
        *("counter_wait", "fence", "sleep", "grid_wait", "launch_dependents"),
    ),
    "no operation": ("none",),
}
"""Kinds of instructions by the unit of their work (``isa/schedule.py``)."""
KIND_OF = {unit: kind for kind, units in KINDS.items() for unit in units}
MOST_OPCODES = 4
"""Opcodes that are named with each kind."""


@dataclass(frozen=True, slots=True)
class MixRow:
    """The instructions of one kind."""

    kind: str
    issues: int
    """Times that a warp issued one."""
    share: float
    """Of all issues, 0 to 1."""
    opcodes: tuple[tuple[str, int], ...]
    """Opcodes with their issues, the most frequent first."""


def instruction_mix(a: Attribution, program: Program) -> tuple[MixRow, ...]:
    """Issues by kind, the most frequent kind first; kinds that were never issued are left out."""
    by_kind: dict[str, Counter[str]] = {}
    work = work_of(program)
    for cost in a.instructions:
        if cost.issues:
            instruction = program.instructions[cost.index]
            by_kind.setdefault(KIND_OF[work(instruction).unit], Counter())[instruction.opcode] += cost.issues
    total = max(sum(opcodes.total() for opcodes in by_kind.values()), 1)
    rows = (MixRow(kind, ops.total(), ops.total() / total, tuple(ops.most_common())) for kind, ops in by_kind.items())
    return tuple(sorted(rows, key=lambda row: -row.issues))


def mix_panel(a: Attribution, program: Program, anchor: str) -> str:
    """The mix as a table with bars."""
    rows = []
    for row in instruction_mix(a, program):
        names = ", ".join(f"{name} {count:,}" for name, count in row.opcodes[:MOST_OPCODES])
        more = len(row.opcodes) - MOST_OPCODES
        names += f" and {more} more" if more > 0 else ""
        rows.append(
            f"<tr><td>{escape(row.kind)}<small>{escape(names)}</small></td><td>{bar(row.share)}</td>"
            f'{datum(f"mix: {row.kind}", row.issues, f"{row.issues:,}")}<td class="num">{share_text(row.share)}</td></tr>'
        )
    table = rows_table(
        "Issues of warps by kind of instruction, with the most frequent opcodes.",
        ("kind", "", "issues", "share"),
        rows,
        "bars",
    )
    return panel("Instruction mix", table, anchor)
