"""Whether a kernel's clocks can end its loops, or only delay them.

A launch that never ends is recognised by a state that recurs (``standstill.py``). That proves nothing if the warps read a clock, which goes on. But many loops
read one only to wait longer the longer they have waited: that of a ``cuda::barrier`` (libcu++, ``__cccl_thread_poll_with_backoff``) passes a duration to
``__nanosleep`` that follows from ``%globaltimer``. Such a clock changes when the loop looks again, and nothing else.

A value is *timed* if it follows from a clock read in a loop: computed from it, or written where a branch or guard that depends on it leads. The kernel is
judged as if it read no clock if, within loops, no timed value reaches memory, an address, a barrier or an exit, and the paths of each branch that depends on one meet again before that
branch is reached once more, with nothing but arithmetic, reads of memory and sleep on the way: then the branch neither ends a loop nor repeats one.
Clocks read outside of loops are part of the state that recurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpwright.engine.blocks import BasicBlock, basic_blocks, is_clock
from warpwright.engine.jit.flow import post_dominators, within_functions
from warpwright.engine.jit.flow_graph import cycles
from warpwright.isa.effects import Effect, register_effects
from warpwright.isa.ops import OPS, Lowered, Op
from warpwright.isa.program import Program

DELAYS = frozenset(("branch", "nanosleep", "yield", "bssy", "bsync", "break", "warpsync", "call", "push", "pop"))
"""Control operations that do nothing but choose a path or take time."""
RETURNS = ("RET",)
READS = frozenset(("load", "load_const", "touch", "texture"))
"""Memory operations that change nothing."""


class _Step(NamedTuple):
    """What an instruction does with timed values."""

    reads: frozenset[Effect]
    writes: frozenset[Effect]
    is_clock: bool
    acts: bool
    """Whether it changes memory, waits at a barrier or ends threads."""
    at_memory: bool
    """Whether it accesses memory."""
    guarded: bool
    branches: bool


def judged(program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock] | None = None) -> bool:
    """Whether a launch of the kernel that returns to an earlier state never ends: its behaviour follows from its own state and memory, and from clocks at most in
    time.

    Calls of driver functions do not change that: their result follows from their arguments (printf) or differs at each call (malloc), and kernels that
    the kernel launches run after its end.

    Args:
        blocks: the kernel's basic blocks, if they are known.
    """
    return _timed(program, lowered, blocks) is not None


def timed_writes(program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock]) -> frozenset[int]:
    """Instructions in loops whose results are timed, by index, in a kernel that is judged; a state that recurs may differ in them."""
    return _timed(program, lowered, blocks) or frozenset()


def _timed(program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock] | None) -> frozenset[int] | None:
    """Instructions in loops whose results are timed; None if clocks do more than delay loops.  Computed once per program."""
    if "timed" not in program.facts:
        timed: frozenset[int] | None = frozenset()
        if any(is_clock(op) for one in lowered for op in one.ops):
            clocks = _Clocks(program, lowered, blocks or basic_blocks(program, lowered))
            timed = frozenset(clocks.writes) if clocks.only_delay() else None
        program.facts["timed"] = timed
    found: frozenset[int] | None = program.facts["timed"]
    return found


class _Clocks:
    """Follows timed values through a kernel that reads clocks."""

    def __init__(self, program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock]) -> None:
        self.program, self.lowered, self.blocks = program, lowered, blocks
        self.inner = within_functions(program, blocks, lowered)
        self.calls = self._calls()
        self.in_loops = self._in_loops()
        self.steps = [_step(low) for low in lowered]
        self.ways = self._ways()
        self.writes: set[int] = set()
        """Instructions in loops that write timed values."""
        self.chosen: set[int] = set()
        """Blocks that a branch on a timed value leads to or around."""

    def only_delay(self) -> bool:
        """Whether clocks change nothing in loops but their duration."""
        dominators: list[int] | None = None
        while True:
            branches = self._timed_branches()
            if branches is None:
                return False
            if not branches:
                return True
            dominators = dominators or self._post_dominators()
            before = len(self.chosen)
            for branch in branches:
                between = self._between(branch, dominators[branch])
                if between is None:
                    return False
                self.chosen |= between
            if len(self.chosen) == before:
                return True

    def _timed_branches(self) -> list[int] | None:
        """The blocks in loops that end in a branch on a timed value; None if such a value has a lasting effect."""
        timed: list[set[Effect] | None] = [set(), *[None] * (len(self.blocks) - 1)]
        work, found = [0], set[int]()
        while work:
            block = self.blocks[work.pop()]
            looping, chosen = block.number in self.in_loops, block.number in self.chosen
            now = set(timed[block.number] or ())
            for index in range(block.first, block.first + block.count):
                step = self.steps[index]
                depends = not now.isdisjoint(step.reads)
                if looping and ((step.acts and (depends or chosen)) or (step.at_memory and depends)):
                    return None
                if looping and step.branches and depends:
                    found.add(block.number)
                if depends or chosen or (looping and step.is_clock):
                    now |= step.writes
                    if looping:
                        self.writes.add(index)
                elif not step.guarded:
                    now -= step.writes
            for successor, called, back in self.ways[block.number]:
                leaves = now & called if back else now - called
                before = timed[successor]
                if before is None or not leaves <= before:
                    timed[successor] = leaves | (before or set())
                    work.append(successor)
        return sorted(found)

    def _between(self, branch: int, meeting: int) -> set[int] | None:
        """The blocks between a branch and the block where its paths meet; None if they do not, or if the branch is among them."""
        if not 0 <= meeting < len(self.blocks):
            return None
        found, work = set[int](), [s for s in self.blocks[branch].successors if s != meeting]
        while work:
            number = work.pop()
            if number == branch or (not self.inner[number] and not self._returns(number)):
                return None
            if number in found:
                continue
            found.add(number)
            ways = {*self.inner[number], *(self.blocks[number].successors if not self._returns(number) else ())}
            work += ways - {meeting}
        return found

    def _in_loops(self) -> set[int]:
        """Blocks that a warp can execute between two visits to the same block: those of loops, and of functions that loops call.

        A block between two loops is not one of them, even if both loops call the same function: a call returns to its call site.
        """
        ways = [(*self.inner[b.number], *self.calls[b.number]) for b in self.blocks]
        cycle = cycles(ways)
        found = {n for n, following in enumerate(ways) if any(cycle[s] == cycle[n] for s in following)}
        return found | self._reached(entry for number in found for entry in self.calls[number])

    def _post_dominators(self) -> list[int]:
        """Each block's immediate post-dominator within its function, -1 for none. A guarded exit also leaves a loop, so it has an additional successor outside."""
        out = len(self.blocks)
        ends = [self.lowered[self._last(b.number)] for b in self.blocks]
        ways = [
            (*inner, out) if end.guard is not None and any(op.name == "exit" for op in end.ops) else inner
            for inner, end in zip(self.inner, ends, strict=True)
        ]
        return post_dominators([*ways, ()])

    def _calls(self) -> list[set[int]]:
        """For each block, the entry blocks of the functions that it calls."""
        return [
            set() if self._returns(b.number) else set(b.successors) - set(self.inner[b.number]) for b in self.blocks
        ]

    def _reached(self, entries: Iterable[int]) -> set[int]:
        """The blocks of the functions with these entry blocks, and of the functions that they call."""
        found, work = set[int](), list(entries)
        while work:
            number = work.pop()
            if number not in found:
                found.add(number)
                work += (*self.inner[number], *self.calls[number])
        return found

    def _ways(self) -> list[list[tuple[int, frozenset[Effect], bool]]]:
        """The blocks that may follow each block: the block, the values that a called function writes, and whether the edge returns from that function.

        Values that a function writes reach the return site from the end of the function, all others from the call. A function that is called in several places
        therefore does not mix the values of its callers.
        """
        nothing: frozenset[Effect] = frozenset()
        ways = [[(successor, nothing, False) for successor in self.calls[b.number]] for b in self.blocks]
        for call, entries in enumerate(self.calls):
            body = self._reached(entries)
            places = [i for n in body for i in range(self.blocks[n].first, self.blocks[n].first + self.blocks[n].count)]
            written = nothing.union(*(self.steps[i].writes for i in places))
            for site in self.inner[call]:
                ends = [n for n in body if self._returns(n) and site in self.blocks[n].successors]
                always = bool(ends) and self.lowered[self._last(call)].guard is None
                ways[call].append((site, written if always else nothing, False))
                for end in ends:
                    ways[end].append((site, written, True))
        return ways

    def _last(self, number: int) -> int:
        """The index of a block's last instruction."""
        return self.blocks[number].first + self.blocks[number].count - 1

    def _returns(self, number: int) -> bool:
        return self.program.instructions[self._last(number)].opcode in RETURNS


def _effect(op: Op) -> str:
    """An operation's kind of effect; those that the compiler adds (``jit/repeated_code.py``) have none."""
    signature = OPS.get(op.name)
    return "pure" if signature is None else signature.effect


def _step(low: Lowered) -> _Step:
    reads, writes = register_effects(low)
    return _Step(
        reads,
        writes,
        any(is_clock(op) for op in low.ops),
        any(_acts(op) for op in low.ops),
        any(_effect(op) == "memory" and op.name != "fence" for op in low.ops),
        low.guard is not None,
        any(op.name in ("branch", "branch_indirect", "break", "pop") for op in low.ops),
    )


def _acts(op: Op) -> bool:
    effect = _effect(op)
    return (effect == "memory" and op.name not in READS) or (effect == "control" and op.name not in DELAYS)
