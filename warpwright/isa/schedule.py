"""The interface between instruction sets and an SM's issue stage: what issue needs to know of an instruction.

A front end gives one :class:`Issue` for each instruction.  Its :class:`Work` names the unit that executes it; registers, stall cycles
and dependence counters say when it may issue.  Machine code that carries control bits gives them itself (``isa/sass/schedule.py``);
for code without them a scoreboard does (``isa/scoreboard.py``).  The cycle model reads nothing else of an instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from warpwright.errors import UnsupportedError
from warpwright.isa.effects import Effect

UNITS: dict[str, tuple[str, ...]] = {
    # unit: the traits that its work may have
    "alu": ("half_rate",),  # half_rate: holds the lanes twice as long
    "fma": ("product",),  # product: nothing is added
    "fma_heavy": ("wide", "half_rate"),  # integer products; wide: of 64 bits, or its upper half
    "half": ("tensor_path",),
    "fp64": (),
    "xu": ("wide_source",),
    # amount: multiply-adds of the warp
    "tensor": ("fp64", "sparse", "short", "bits1", "bits4", "bits8", "bits16", "bits32"),
    "group_product": ("sparse", "first_in_registers"),  # of a warpgroup; amount: columns
    "products_done": (),  # waits until the tensor pipe has nothing left to do
    "uniform": (),
    "uniform_move": (),
    "to_uniform": (),  # a vector register's value to a uniform one
    "branch": (),
    "indirect_branch": (),
    "join": (),  # diverged lanes meet
    "yield": (),
    "none": (),  # takes an issue slot and no pipe
    "shuffle": (),
    "reduction": (),
    "match": ("any", "wide"),
    "special": ("uniform",),  # special registers
    "constant": (),  # through the memory queue
    "uniform_constant": (),  # read before it issues, as operands are
    "interpolation": (),
    "texture": ("fetch",),  # fetch: without filtering
    "mbarrier": ("try_wait", "no_result", "device_scope"),
    "memory": (
        "async_copy",
        "no_result",
        "device_scope",
        "l2_only",
        "counts_lanes",
        "one_pass",
        "matrix_rows",
        "global_share",  # of the whole chip
        "second_word",  # with the access before it
    ),
    "invalidate": (),
    "cache_hint": (),
    "exit": (),
    "block_barrier": ("deferred",),
    "barrier_result": (),
    "cluster_barrier": (),
    "copies_done": (),  # asynchronous copies so far count on a dependence counter from here on
    "counter_wait": (),  # amount: operations of a counter that may be left
    "fence": ("block", "system"),
    "sleep": (),
    "launch_dependents": (),  # grids that wait for this one may begin, as far as its block is concerned
    "grid_wait": (),  # until the grids that this one waits for have ended
}
"""Every unit that work may name; ``timing/pipes.py`` has a row for each."""


COUNTERS = 6
"""Dependence counters of a warp; numbers from there on are entries of its scoreboard."""


SCOREBOARD_NOTE = "PTX, timed by a scoreboard: these are not the cycles of its machine code"
"""What every account of such a launch says."""


class UnknownTiming(UnsupportedError):
    """An instruction that decodes and has no timing row."""


class Work(NamedTuple):
    """The unit that executes an instruction, and what the time there depends on."""

    unit: str
    """A key of ``UNITS``."""
    traits: frozenset[str] = frozenset()
    amount: int = 0
    instructions: int = 1
    """The machine instructions that it represents, each dependent on the previous one."""


SHORT_DEPTH_BITS = 128
"""Of a row of A that a tensor core reads in one pass of two."""


def warp_product(rows: int, columns: int, depth: int, bits: int, sparse: bool) -> Work:
    """A warp's product on tensor cores: A [rows, depth] by B [depth, columns], elements ``bits`` wide, 64 for doubles.

    A sparse A has half of its depth's elements.
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
    """A constant operand: its bank and byte offset; ``indexed``: a register is added."""

    bank: int
    offset_bytes: int
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Issue:
    """One instruction as the issue stage sees it."""

    work: Work
    address: int
    reads: frozenset[Effect] = frozenset()
    """Registers and predicates, its guard included."""
    writes: frozenset[Effect] = frozenset()
    sources: tuple[Source, ...] = ()
    factors: frozenset[int] = frozenset()
    """Registers that a wide integer product multiplies."""
    constant: Constant | None = None
    stall_cycles: int = 1
    """Until the same warp may issue again, at the least."""
    yields: bool = False
    """Another warp issues next, if one can."""
    waits: tuple[int, ...] = ()
    """Dependence counters that must be zero before it issues, and entries of the scoreboard that must have been written."""
    write_counter: int = -1
    """Counter or entry that counts it until its result is written; -1: none."""
    read_counter: int = -1
    """Counter that counts it until its operands are read; -1: none."""
    awaited_counter: int = -1
    """Of work ``counter_wait``: the counter of which ``work.amount`` operations may be left."""
    bundle: int = -1
    """Instructions of the same number, one after the other, may issue in one cycle; -1: alone."""
