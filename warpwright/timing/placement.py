"""Placement of a grid's first blocks: the order in which the dispatcher fills an idle chip.

Measured on an H200 (bench.micro ``placement_once``).  An SM's share is the grid's blocks over the SMs, as far as it holds so many.  GPCs
take turns: a turn gives each SM of the GPC one block, as long as its share lasts.  Some SMs of a GPC may be served apart from its others:
before all, after five turns, then after every six.  What the shares leave goes to those apart, then to the others: to the first SMs
of the TPCs and then to the second ones.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

TURNS_BEFORE_SECOND_APART = 5
TURNS_BETWEEN_APART = 6
TPC_SMS = 2


@lru_cache(maxsize=64)
def first_places(gpc_sm_counts: tuple[int, ...], apart: int, blocks: int, resident: int) -> npt.NDArray[np.int64]:
    """The SM of each first block, in the order of the blocks: ``min(blocks, resident * SMs)`` numbers.

    Neighbours of a GPC are a TPC; of the SMs apart, the first half are the first ones of their TPCs.
    ``apart``: so many of the first GPC's SMs are served apart; ``resident``: blocks that an SM holds.
    """
    ends = np.cumsum(gpc_sm_counts).tolist()
    groups = [list(range(end - count, end)) for end, count in zip(ends, gpc_sm_counts, strict=True)]
    alone, groups[0] = groups[0][:apart], groups[0][apart:]
    groups = [group for group in groups if group]
    share = min(blocks // ends[-1], resident)
    order: list[int] = []
    due, left = 0, share if alone else 0
    for turn in range(share * len(groups)):
        if left and turn == due:
            order += alone
            due += TURNS_BETWEEN_APART if turn else TURNS_BEFORE_SECOND_APART
            left -= 1
        order += groups[turn % len(groups)]
    order += alone * left
    rest = min(blocks, resident * ends[-1]) - len(order)
    chosen = set((alone + _first_of_tpcs(groups))[:rest])
    order += [sm for group in (alone, *groups) for sm in group if sm in chosen]
    return np.array(order, np.int64)


def _first_of_tpcs(groups: list[list[int]]) -> list[int]:
    """First SMs of all TPCs, going round the groups, then second SMs."""
    longest = max(map(len, groups), default=0)
    return [
        group[at]
        for place in range(TPC_SMS)
        for at in range(place, longest, TPC_SMS)
        for group in groups
        if at < len(group)
    ]
