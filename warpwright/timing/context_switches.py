"""Contexts that take turns on one chip: what a switch costs, and what the next context finds.

At the end of its time slice a context stops issuing; the registers and the shared memory of its blocks are saved to DRAM, and those of the next one restored from there.
Each context has its own machine (``stopping.py``), whose clock stands still while others run.  L2 belongs to the chip: the next context finds
it as the last one left it.  L1 keeps nothing.  Requests that are under way at a switch are answered in the machine that asked, when its turn comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpwright.chips.chip import Chip
from warpwright.timing import state as s
from warpwright.timing.simulate import Prepared

REGISTER_BYTES = 4
_VALID = 15
"""Bits of a line's tag word in L1 that say which sectors it holds (``l1.invalidate``)."""


class Resident(NamedTuple):
    """State of the blocks that are on the chip."""

    size_bytes: int
    """Registers and shared memory."""
    most_warps: int
    """Of the SM that has the most."""


def resident_state(machine: Prepared) -> Resident:
    """What a context switch saves, or has saved, of a context."""
    m, first, size = (
        machine.state.words,
        int(machine.state.words[s.chip.sm_first]),
        int(machine.state.words[s.chip.sm_slots]),
    )
    total = most = 0
    for number in range(int(m[s.chip.sms])):
        sm, warps = s.SM(first + number * size), 0
        for slot in range(s.MAX_BLOCKS if m[sm.resident] else 0):
            b = sm.blocks[slot]
            if m[b.active]:
                k = s.Kernel(int(m[b.kernel]))
                total += REGISTER_BYTES * int(m[k.registers]) + int(m[k.shared_need])
                warps += int(m[k.warps_per_block])
        most = max(most, warps)
    return Resident(total, most)


def switch_seconds(chip: Chip, states: Sequence[Resident]) -> float:
    """Time of a context switch that saves and restores these states.

    Warps save their registers themselves (`bench.machine.time_slices` on an H200: 64 warps on each SM take 76 us more than one warp on the chip, the same with
    200 KiB of shared memory on each 94).
    """
    launch, bandwidth = chip.launch, chip.dram.dram_gb_per_s * 1e9
    moved = sum(state.most_warps * launch.context_warp_us * 1e-6 + state.size_bytes / bandwidth for state in states)
    return launch.context_switch_us * 1e-6 + moved


def take_over(machine: Prepared, before: Prepared | None, device_cycle: int) -> None:
    """Let a machine run at a time of the device's clock, after another.

    Args:
        before: the machine that ran last, whose L2 this one finds; None if L2 is this machine's own.
    """
    m = machine.state.words
    m[s.chip.epoch] = device_cycle - int(m[s.chip.now])
    if before is None or before is machine:
        return
    ours, theirs = (range(one.state.areas["l2"], one.state.areas["gpc_of_sm"]) for one in (machine, before))
    m[ours.start : ours.stop] = before.state.words[theirs.start : theirs.stop]
    for group in range(s.SLICE_GROUPS):
        # Its words are not zero again once the lines that it has brought itself are dropped.
        m[machine.state.areas["slice_groups"] + group * s.SliceGroup.size + s.SliceGroup.installed] = s.L2_INSTALLS + 1
    _forget_l1(machine)


def _forget_l1(machine: Prepared) -> None:
    m = machine.state.words
    first, size, ways = int(m[s.chip.sm_first]), int(m[s.chip.sm_slots]), int(m[s.chip.l1_ways])
    for number in range(int(m[s.chip.sms])):
        sm = s.SM(first + number * size)
        start, sets = sm + int(m[s.chip.l1_at]), int(m[sm.l1_sets])
        lines = m[start : start + sets * ways * s.C_SLOTS].reshape(sets, s.C_SLOTS, ways)
        lines[:, 0, :] &= ~_VALID
        lines[:, s.C_WORDS, :] = 0
