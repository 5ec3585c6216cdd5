"""Contexts that take turns on one chip: what a switch costs, and what the next context finds.

At the end of its time slice a context stops issuing; the registers and the shared memory of its blocks are saved to DRAM, and those of the next one restored from there.
Each context has its own machine (``stopping.py``), whose clock stands still while others run.  L2 belongs to the chip: the next context finds
it as the last one left it.  L1 keeps nothing.  Requests that are under way at a switch are answered in the machine that asked, when its turn comes again.
"""

from __future__ import annotations

from warpwright.chips.chip import Chip
from warpwright.timing import state as s
from warpwright.timing.simulate import Prepared

REGISTER_BYTES = 4
_VALID = 15
"""Bits of a line's tag word in L1 that say which sectors it holds (``l1.invalidate``)."""


def resident_bytes(machine: Prepared) -> int:
    """Registers and shared memory of the blocks that are on the chip."""
    m, first, size = (
        machine.state.words,
        int(machine.state.words[s.chip.sm_first]),
        int(machine.state.words[s.chip.sm_slots]),
    )
    total = 0
    for number in range(int(m[s.chip.sms])):
        sm = s.SM(first + number * size)
        for slot in range(s.MAX_BLOCKS if m[sm.resident] else 0):
            b = sm.blocks[slot]
            if m[b.active]:
                k = s.Kernel(int(m[b.kernel]))
                total += REGISTER_BYTES * int(m[k.registers]) + int(m[k.shared_need])
    return total


def transfer_cycles(chip: Chip, size_bytes: int) -> int:
    """Time of a save or of a restore, at DRAM's bandwidth."""
    return round(size_bytes / (chip.dram.dram_gb_per_s * 1e9) * chip.clocks.sm_clock_mhz * 1e6)


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
