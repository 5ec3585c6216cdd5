"""Assigns slots of the save area: variables that are never live at the same time share one.

The warps of a block run in turn between barriers, each with its own save area.  If it is small, the save areas of all
warps fit the first-level cache.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.live_ranges import Webs

LINE_BYTES = 64
"""Vectors begin at cache lines: a store across two lines takes twice as long."""


def share_slots(
    blocks: Sequence[BasicBlock],
    webs: Webs,
    elsewhere: Sequence[Collection[int]],
    sizes: Mapping[int, int],
) -> tuple[dict[int, int], int]:
    """Byte offset of each variable, and the end of the last.

    Args:
        elsewhere: for each block, variables that lanes waiting in other blocks may still need.
        sizes: bytes of each variable that needs a slot.
    """
    block_of = [b.number for b in blocks for _ in range(b.count)]
    here: list[set[int]] = [set(webs.live_in[b.number]) | set(elsewhere[b.number]) for b in blocks]
    for block in blocks:
        for s in block.successors:
            here[block.number] |= webs.live_in[s]
    for (index, _), reference in webs.references.items():
        here[block_of[index]].update((reference.low, reference.high))
    beside: dict[int, int] = dict.fromkeys(sizes, 0)
    for found in here:
        present = [n for n in found if n in sizes]
        together = sum(1 << n for n in present)
        for n in present:
            beside[n] |= together
    places: dict[int, dict[int, int]] = {}
    for n in sorted(sizes):
        same = places.setdefault(sizes[n], {})
        taken = {place for other, place in same.items() if beside[n] >> other & 1}
        same[n] = next(place for place in range(len(taken) + 1) if place not in taken)
    offsets: dict[int, int] = {}
    end = 0
    for size in sorted(places):
        if size >= LINE_BYTES:
            end = (end + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES
        for n, place in places[size].items():
            offsets[n] = end + size * place
        end += size * (max(places[size].values()) + 1)
    return offsets, end
