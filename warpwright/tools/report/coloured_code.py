"""Machine code with colours: the opcode by kind, registers, predicates and constants."""

from __future__ import annotations

import re
from html import escape

from warpwright.isa.machine_code import work_of
from warpwright.isa.program import Instruction, Program

MEMORY = {"memory", "texture", "constant", "mbarrier", "invalidate", "cache_hint"}
FLOW = {
    *(
        "branch",
        "indirect_branch",
        "convergence",
        "join",
        "warp_sync",
        "yield",
        "exit",
        "block_barrier",
        "barrier_result",
    ),
    *("cluster_barrier", "fence", "sleep", "copies_done", "counter_wait", "products_done"),
}
TOKEN = re.compile(
    r"(?P<r>\bU?R(?:\d+|Z)\b|\$r\d+\b|%\w+)|(?P<p>\bU?P(?:\d|T)\b|\$[pc]\d\b)|(?P<c>\bc\[[^\]]*\]\[[^\]]*\])"
)
"""Registers, predicates and constants of an instruction's text."""


def kind_of(instruction: Instruction, program: Program) -> str:
    """Class of an opcode: ``m`` memory, ``f`` flow of control and synchronisation, ``o`` everything else."""
    unit = work_of(program)(instruction).unit
    return "m" if unit in MEMORY else "f" if unit in FLOW else "o"


def coloured(text: str, instruction: Instruction, program: Program) -> str:
    """The text of an instruction as markup, escaped; without its tags it is the text itself."""
    start = len(text) - len(text.lstrip())
    if text.startswith("@"):
        start = text.find(" ") + 1
    end = text.find(" ", start)
    end = len(text) if end < 0 else end
    opcode = f'<i class="{kind_of(instruction, program)}">{escape(text[start:end])}</i>'
    return _operands(text[:start]) + opcode + _operands(text[end:])


def _operands(text: str) -> str:
    parts, done = [], 0
    for match in TOKEN.finditer(text):
        parts.append(escape(text[done : match.start()]))
        parts.append(f'<i class="{match.lastgroup}">{escape(match[0])}</i>')
        done = match.end()
    return "".join([*parts, escape(text[done:])])
