"""The flow graph of a kernel: facts that do not depend on which branches diverge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpwright.engine.blocks import BasicBlock

Bits = int
"""A set of blocks as the bits of an integer."""


def members(bits: Bits) -> list[int]:
    """Block numbers in a set, ascending."""
    # Uses text, because arithmetic on large sets copies the whole set for each member.
    digits = f"{bits:b}"[::-1]
    found = []
    at = digits.find("1")
    while at >= 0:
        found.append(at)
        at = digits.find("1", at + 1)
    return found


def set_of(flags: bytearray) -> Bits:
    """The set of the positions whose byte is 1; the inverse of :func:`members`."""
    return int(flags[::-1].translate(_DIGITS), 2)


def add_loop(body: bytearray, header: int, end: int, predecessors: Sequence[Sequence[int]]) -> None:
    """Set the bytes of the blocks of a loop: its header, and all from which the branch at ``end`` is reached without the header."""
    body[header] = 1
    work = [end]
    while work:
        n = work.pop()
        if not body[n]:
            body[n] = 1
            work.extend(predecessors[n])


def cycles(successors: Sequence[Sequence[int]]) -> list[int]:
    """A number for each block; two blocks have the same if each can be reached from the other (Tarjan's strongly connected components)."""
    count = len(successors)
    order, lowest, component = [-1] * count, [0] * count, [-1] * count
    path: list[int] = []
    clock = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        order[root] = lowest[root] = clock
        clock += 1
        path.append(root)
        work = [(root, iter(successors[root]))]
        while work:
            n, rest = work[-1]
            s = next(rest, -1)
            if s < 0:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[n])
                if lowest[n] == order[n]:
                    while component[n] < 0:
                        component[path.pop()] = n
            elif order[s] < 0:
                order[s] = lowest[s] = clock
                clock += 1
                path.append(s)
                work.append((s, iter(successors[s])))
            elif component[s] < 0:
                lowest[n] = min(lowest[n], order[s])
    return component


_DIGITS = bytes((ord("0"), ord("1"), *(0 for _ in range(254))))
"""Translation table for the bytes 0 and 1."""


@dataclass(slots=True)
class Flow:
    """Facts about the graph that do not depend on which branches diverge; ``flow.make_flow`` makes it."""

    blocks: Sequence[BasicBlock]
    ends: list[str]
    """Name of each block's last operation when it is a control operation, else ""."""
    starts: list[str]
    """'bsync' or 'warpsync' when the block begins with one, else ""."""
    inner: list[tuple[int, ...]]
    """Successors within the same function: a call leads to its return site, a return has none."""
    region: list[tuple[int, ...]]
    """``inner`` and the entries of called functions."""
    post_dominator: list[int]
    """Immediate post-dominator within the function, -1 for none."""
    fair: list[bool]
    """Blocks of loops that wait for other lanes, warps or blocks (spin loops)."""
    gives_way: Bits = 0
    """Blocks after which another group may continue: they end in YIELD or NANOSLEEP."""
    replays: Bits = 0
    """Blocks of one instruction that is executed once for each target or mask: indirect branches, WARPSYNC.EXCLUSIVE;
    and barriers with a guard, whose waiting lanes come after the others."""
    collective: Bits = 0
    """Blocks of a WARPSYNC.COLLECTIVE, which can release lanes that wait at another one."""
    inside: dict[int, Bits] = field(default_factory=dict)
    """For each BSYNC block, the blocks from its BSSY to it; absent if unknown, because the register is moved."""
    saved: Bits = 0
    """BSYNC blocks whose register is saved and restored: lanes may wait there for different groups."""
    stacked: bool = False
    """Chips before Volta: lanes reconverge by a stack (``stack_flow``)."""
    pushes: dict[int, Bits] = field(default_factory=dict)
    """For each target of a push: the blocks that push it."""
    falls: list[bool] = field(default_factory=list)
    """Whether lanes may continue with the next block after a block's last instruction."""
    anywhere: bool = False
    """Whether there are calls through registers: lanes of a diverged warp may then be anywhere."""
    joined_by: dict[int, Bits] = field(default_factory=dict)
    """For each BSYNC block that no lane passes early or avoids: the blocks whose divergence certainly ends there.

    Lanes pass early if other lanes yielded or wait at a WARPSYNC between BSSY and BSYNC.
    """

    reached: dict[tuple[int, int, bool], Bits] = field(default_factory=dict)
    """Cache of :meth:`reach`."""

    def reach(self, start: int, stop: int, everywhere: bool = False) -> Bits:
        """Blocks reachable from ``start`` (included) without entering ``stop``."""
        if start == stop:
            return 0
        known = self.reached.get((start, stop, everywhere))
        if known is None:
            known = self.reached[start, stop, everywhere] = self._walk(start, stop, everywhere)
        return known

    def _walk(self, start: int, stop: int, everywhere: bool) -> Bits:
        # In bytes, because each new member of a large integer set would copy all of it.
        seen = bytearray(len(self.blocks) + 1)
        seen[start] = 1
        if stop >= 0:
            seen[stop] = 1
        work = [start]
        while work:
            n = work.pop()
            for s in self.blocks[n].successors if everywhere else self.region[n]:
                if not seen[s]:
                    seen[s] = 1
                    work.append(s)
        if stop >= 0:
            seen[stop] = 0
        return set_of(seen)
