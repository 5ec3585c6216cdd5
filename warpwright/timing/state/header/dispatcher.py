"""The launch: the chip's SMs, windows of time, kernels and their blocks."""

from __future__ import annotations

from warpwright.chips.chip import Chip
from warpwright.native.units import Unit, word
from warpwright.timing.state.common import MAX_SUB_CORES, MAX_WARPS
from warpwright.timing.state.header.declarations import area, derived, from_chip


def scheduler_groups(chip: Chip) -> int:
    """Groups of ``MAX_WARPS`` slots that the warps of one scheduler need."""
    return -(-chip.sm.max_warps_per_sm // (chip.sm.sub_core_count * MAX_WARPS))


class DispatcherWords(Unit):
    """The machine as a whole, and the launches that the dispatcher hands to its SMs."""

    sms = from_chip("sm.sm_count", "SMs", "of the chip")
    sub_cores = derived(
        lambda z: z.chip.sm.sub_core_count * scheduler_groups(z.chip),
        "groups of slots",
        "of an SM: its sub-cores, or parts of them",
    )
    scheduler_groups = derived(lambda z: scheduler_groups(z.chip), "groups of slots", "that have one scheduler")
    shared_schedulers = derived(
        lambda z: z.chip.sm.sub_core_count if scheduler_groups(z.chip) > 1 else 0,
        "schedulers",
        "of which the n-th has the groups n, n + count, n + 2 count and so on; 0: each group has its own",
    )
    scheduler_mask = derived(
        lambda z: z.chip.sm.sub_core_count - 1 if scheduler_groups(z.chip) > 1 else MAX_SUB_CORES - 1,
        "bits",
        "of a group's number that are its scheduler's",
    )
    greedy = from_chip(
        "issue.scheduler_is_greedy",
        "",
        "a scheduler with several groups goes on with its last warp while that can issue",
    )
    sm_first = area("sms", "the first SM's region")
    sm_slots = derived(lambda z: z.sm_slots, "words", "size of an SM's region")
    window = derived(
        lambda z: z.there - 2, "cycle", "length of a window: below the shortest way from an SM to L2 and back"
    )
    now = word("cycle", "start of the window")
    error = word("", "an SM or the serial phase met something that Python must handle")
    clock_khz = derived(lambda z: z.chip.clocks.sm_clock_mhz * 1000, "kHz", "the SMs' clock")
    clock_ahead = word(
        "cycles",
        "by which the clocks that kernels read are ahead of this machine's, which stands still while graphs run that a kernel waits for",
    )
    kernels = area("kernels", "the launches that it runs (Kernel)")
    kernel_count = derived(lambda z: z.kernels, "kernels", "that it runs")
    arrivals = word("kernels", "that have come to the dispatcher")
    on_chip = word("blocks", "of several kernels that are on the chip, or whose end has not come to the dispatcher")
    next_arrival = word("cycle", "when the next one comes; INF: none, or it is not known when")
    dependents = word("kernels", "whose launch is under way since kernels before them let them begin")
    pauses = word("", "the main loop returns where a launch has ended, and at a time")
    pause_at = word("cycle", "that time")
    ended_kernels = word("kernels", "of several that have ended")
    known_ended = word("kernels", "of those that Python knows of")
    blocks = word("blocks", "of all grids")
    lanes = word("lanes", "of a wave, the same of all launches: one chip has one instruction set")
    full_wave = word("bits", "mask of a wave that has all its lanes")
    head_words = word(
        "words", "of a trace record before what it is about: with more than 32 lanes these have one of their own"
    )
    done_blocks = word("blocks", "that have ended")
    local_base = word("host address", "local memory of the first warp slot")
    scoreboards = word("host address", "entries of the warps' scoreboards")
    scoreboard_entries = word("entries", "of a warp's scoreboard; 0: code whose control bits say what it waits for")
    local_stride = word("bytes", "from one warp's local memory to the next")
    trace_base = word("host address", "records of the first warp slot")
    trace_stride = word("bytes", "from one warp's records to the next")
    trace_limit = word("words", "of records that a warp has room for")
    cluster_blocks = word("blocks", "of the largest cluster")
    sm_order = area("sm_order", "the SMs in the order in which an idle chip is filled")
    max_blocks = from_chip("sm.max_blocks_per_sm", "blocks", "that an SM holds, whatever they need")
    max_warps = from_chip("sm.max_warps_per_sm", "warps", "that an SM holds")
    registers = from_chip("sm.registers_per_sm", "registers", "of an SM")
    named_barriers = from_chip("sm.named_barriers_per_sm_count", "barriers", "of an SM")
    age = word("", "turn of the next block")
    dispatch_free = word(
        "1/256 cycle", "when the dispatcher has sent the first blocks so far, or taken note of those that ended"
    )
    first_interval = from_chip(
        "launch.block_first_interval_cycles", "1/256 cycle", "between the first blocks that the dispatcher sends"
    )
    cluster_interval = from_chip("launch.cluster_first_interval_cycles", "1/256 cycle", "between the first clusters")
    dispatch_interval = from_chip(
        "launch.block_dispatch_interval_cycles", "1/256 cycle", "between two blocks that end and are replaced"
    )
    block_sm_interval = from_chip("launch.block_sm_interval_cycles", "cycle", "between two blocks that start on an SM")
    block_warp_interval = from_chip(
        "launch.block_warp_interval_cycles", "cycle", "between the starts of a block's warps"
    )
    block_latency = from_chip(
        "launch.block_launch_latency_cycles", "cycle", "from a block's end to the next one's start"
    )
    block_start = from_chip(
        "launch.block_start_latency_cycles", "cycle", "from a first block's start to its first instruction"
    )
    overhead = from_chip(
        "launch.launch_overhead_cycles", "cycle", "of a launch, before its first block and after its last"
    )
    end_overlap = from_chip(
        "launch.launch_end_overlap_cycles",
        "cycle",
        "after a launch's last block in which its last writes complete at no cost",
    )
    dependent_start = from_chip(
        "launch.dependent_start_cycles", "cycle", "from a launch that lets its dependents begin to the start of theirs"
    )
    dependent_release = from_chip(
        "launch.dependent_release_cycles", "cycle", "from a launch's end to that of its dependents' wait"
    )
    instructions = derived(lambda z: z.instructions, "instructions", "of the program")
    stalls = area("stalls", 'of each GPC, cycles by instruction and reason; issues in the place of "selected"')
    epoch = word("cycle", "of the device's own clock before this launch: L2 keeps times by that clock")
