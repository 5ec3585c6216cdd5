"""Placement of a grid's first blocks: the order in which the dispatcher fills an idle chip.

Measured on an H200 (bench.micro ``placement_once``).  An SM's share is the number of blocks divided by the number of SMs, at most as many as it holds.  GPCs
take turns: a turn gives each SM of the GPC one block, until its share is used up.  Some SMs of a GPC may be served separately from the others:
before all, after five turns, then after every six.  Remaining blocks go to these SMs, then to the others: to the first SMs
of the TPCs and then to the second ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip


class Dispatch(NamedTuple):
    """The properties of a chip that determine where first blocks go."""

    gpc_sm_counts: tuple[int, ...]
    apart: int = 0
    """SMs of the first GPC that are served separately."""
    first_turns: int = 1
    """Turns before their second blocks."""
    turns: int = 1
    """Turns between their later ones."""
    tpc_sms: int = 2


def dispatch_of(chip: Chip) -> Dispatch:
    """From the chip file."""
    sm = chip.sm
    return Dispatch(
        tuple(sm.gpc_sm_counts),
        sm.dispatch_apart_sm_count,
        sm.dispatch_apart_first_turns_count,
        sm.dispatch_apart_turns_count,
        sm.tpc_sm_count,
    )


@lru_cache(maxsize=64)
def first_places(dispatch: Dispatch, blocks: int, resident: int) -> npt.NDArray[np.int64]:
    """The SM of each first block, in the order of the blocks: ``min(blocks, resident * SMs)`` numbers.

    Adjacent SMs of a GPC form a TPC; of the separately served SMs, the first half are the first ones of their TPCs.
    ``resident``: blocks that an SM holds.
    """
    gpc_sm_counts = dispatch.gpc_sm_counts
    ends = np.cumsum(gpc_sm_counts).tolist()
    groups = [list(range(end - count, end)) for end, count in zip(ends, gpc_sm_counts, strict=True)]
    alone, groups[0] = groups[0][: dispatch.apart], groups[0][dispatch.apart :]
    groups = [group for group in groups if group]
    share = min(blocks // ends[-1], resident)
    order: list[int] = []
    due, left = 0, share if alone else 0
    for turn in range(share * len(groups)):
        if left and turn == due:
            order += alone
            due += dispatch.turns if turn else dispatch.first_turns
            left -= 1
        order += groups[turn % len(groups)]
    order += alone * left
    rest = min(blocks, resident * ends[-1]) - len(order)
    chosen = set((alone + _first_of_tpcs(groups, dispatch.tpc_sms))[:rest])
    order += [sm for group in (alone, *groups) for sm in group if sm in chosen]
    return np.array(order, np.int64)


def _first_of_tpcs(groups: list[list[int]], tpc_sms: int) -> list[int]:
    """First SMs of all TPCs, going round the groups, then second SMs."""
    longest = max(map(len, groups), default=0)
    return [
        group[at]
        for place in range(tpc_sms)
        for at in range(place, longest, tpc_sms)
        for group in groups
        if at < len(group)
    ]
