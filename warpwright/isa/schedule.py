"""The interface between instruction sets and an SM's issue stage: everything that issue needs to know about an
instruction.

A front end returns one :class:`Issue` per instruction.  Its :class:`Work` names the unit that executes it; registers,
stall cycles and dependence counters determine when it may issue.  For machine code with control bits they come from
these bits (``isa/sass/schedule.py``), for other code from a scoreboard (``isa/scoreboard.py``).  The cycle model uses
nothing else of an instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from warpwright.errors import UnsupportedError
from warpwright.isa.effects import Effect

UNITS: dict[str, tuple[str, ...]] = {
    # unit: the properties that its work may have
    "alu": ("half_rate",),  # half_rate: occupies the lanes for twice as long
    "fma": ("product",),  # product: without an addend
    "fma_heavy": ("wide", "half_rate"),  # integer products; wide: 64-bit, or its upper half
    "half": ("tensor_path", "bf16"),
    "fp64": (),
    "xu": ("wide_source",),
    # amount: number of the warp's multiply-adds
    "tensor": ("fp64", "sparse", "short", "bits1", "bits4", "bits8", "bits16", "bits32"),
    "group_product": ("sparse", "first_in_registers", "ends_group"),  # of a warpgroup; amount: number of columns
    "products_done": (),  # waits for a warpgroup's products; amount: the groups that may be incomplete
    "uniform": (),
    "uniform_move": (),
    "to_uniform": (),  # moves a vector register's value to a uniform register
    "branch": (),
    "indirect_branch": (),
    # amount: 1 + the convergence register's number, 0 for none; begins: sets it to the active lanes; restores: sets it to a saved value
    "convergence": ("begins", "restores"),
    "join": (),  # diverged lanes reconverge; amount: as for convergence
    "warp_sync": (),  # the lanes of a mask in a register meet
    "yield": (),
    "none": (),  # takes an issue slot but no pipe
    "shuffle": (),
    "reduction": (),
    "match": ("any", "wide"),
    "special": ("uniform",),  # special registers
    "constant": (),  # through the MIO queue
    "uniform_constant": (),  # read before issue, like operands
    "interpolation": (),
    "texture": ("fetch",),  # fetch: without filtering
    "mbarrier": ("try_wait", "no_result", "device_scope", "counts_lanes"),
    "memory": (
        "async_copy",
        "no_result",
        "device_scope",
        "l2_only",
        "counts_lanes",
        "one_pass",
        "matrix_rows",
        "global_share",  # for the whole chip
        "filtered",  # an address for each lane, never joined
        "second_word",  # ordered with the access before it
    ),
    "invalidate": (),
    "cache_hint": (),
    "exit": (),
    "block_barrier": ("deferred",),
    "barrier_result": (),
    "cluster_barrier": (),
    "copies_done": (),  # a dependence counter counts the asynchronous copies issued so far
    "counter_wait": (),  # amount: number of a counter's operations that may still be outstanding
    "fence": ("block", "system"),
    "sleep": (),
    "launch_dependents": (),  # dependent grids may start, as far as this block is concerned
    "grid_wait": (),  # waits until the grids that this one depends on have ended
}
"""Every unit that work may name; ``timing/pipes.py`` has a row for each."""


COUNTERS = 6
"""Number of a warp's dependence counters; higher numbers are scoreboard entries."""


SCOREBOARD_NOTE = "PTX, timed by a scoreboard: these are not the cycles of its machine code"
"""The sentence that every message about such a launch contains."""


class UnknownTiming(UnsupportedError):
    """An instruction that decodes but has no timing row."""


class Work(NamedTuple):
    """The unit that executes an instruction, and the properties that its timing depends on."""

    unit: str
    """A key of ``UNITS``."""
    traits: frozenset[str] = frozenset()
    amount: int = 0
    instructions: int = 1
    """Number of machine instructions that it represents, each dependent on the previous one."""


SHORT_DEPTH_BITS = 128
"""Depth in bits of a row of A for which a tensor core needs only one of its two passes."""


def warp_product(rows: int, columns: int, depth: int, bits: int, sparse: bool) -> Work:
    """A warp's product on tensor cores: A [rows, depth] by B [depth, columns], elements ``bits`` wide, 64 for doubles.

    A sparse A stores half of the elements along its depth.
    """
    kept = depth // 2 if sparse else depth
    if bits == 64:
        return Work("tensor", frozenset(("fp64",)), rows * columns * kept)
    traits = [f"bits{bits}", *(("sparse",) if sparse else ()), *(("short",) if kept * bits <= SHORT_DEPTH_BITS else ())]
    return Work("tensor", frozenset(traits), rows * columns * kept)


class Source(NamedTuple):
    """A register operand, in the order of the operand slots."""

    register: int
    reuse: bool = False
    """Kept in the register-file cache of its slot."""


class Constant(NamedTuple):
    """A constant operand: its bank and byte offset; ``indexed`` if a register is added."""

    bank: int
    offset_bytes: int
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Issue:
    """One instruction as the issue stage sees it."""

    work: Work
    address: int
    reads: frozenset[Effect] = frozenset()
    """Registers and predicates, including the guard."""
    writes: frozenset[Effect] = frozenset()
    sources: tuple[Source, ...] = ()
    factors: frozenset[int] = frozenset()
    """Registers that a wide integer product multiplies."""
    constant: Constant | None = None
    stall_cycles: int = 1
    """Minimum cycles until the same warp may issue again."""
    yields: bool = False
    """Whether another warp should issue next."""
    waits: tuple[int, ...] = ()
    """Dependence counters that must be zero before issue, and scoreboard entries that must have been written."""
    write_counter: int = -1
    """Counter or entry held until the result is written; -1 for none."""
    read_counter: int = -1
    """Counter held until the operands are read; -1 for none."""
    awaited_counter: int = -1
    """For the unit ``counter_wait``: the counter that may have ``work.amount`` operations outstanding."""
    bundle: int = -1
    """Consecutive instructions with the same number may issue in one cycle; -1 for none."""
