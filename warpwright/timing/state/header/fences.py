"""Memory fences."""

from __future__ import annotations

from warpwright.native.units import Unit
from warpwright.timing.state.header.declarations import derived, from_chip


class FenceWords(Unit):
    """How long fences take, and which of an SM's leave together."""

    fence_places = from_chip("pipes.membar_places_count", "fences", "of an SM's round at once; 0: any number")
    fence_place_time = from_chip("pipes.membar_place_cycles", "cycle", "before the place of one fence is another's")
    fence_turn = from_chip(
        "pipes.membar_group_interval_cycles", "cycle", "between two groups of an SM's fences that leave for L2"
    )
    fence_latency = from_chip("pipes.membar_gpu_latency_cycles", "cycle", "of a fence for the device")
    fence_system = from_chip("links.system_fence_ns", "cycle", "more for one for the system")
    fence_host = from_chip("links.host_fence_ns", "cycle", "more after writes to the host")
    fence_peer = from_chip("links.peer_fence_ns", "cycle", "more after writes to another device")
    fence_skipped = from_chip(
        "pipes.membar_skipped_latency_cycles", "cycle", "of a fence beyond the block that no lane executes"
    )
    fence_skipped_written = from_chip(
        "pipes.membar_skipped_written_latency_cycles", "cycle", "of such a fence after the warp has stored"
    )
    block_fence_longer = derived(
        lambda z: z.chip.pipes.membar_block_written_latency_cycles - z.chip.pipes.membar_block_latency_cycles,
        "cycle",
        "by which a fence for the block takes longer after the warp has stored",
    )
    block_fence_written = from_chip(
        "pipes.membar_block_written_wavefronts_count",
        "wavefronts",
        "of a fence for the block after the warp has stored",
    )
    fence_written = from_chip(
        "pipes.membar_written_latency_cycles", "cycle", "of a fence for the device after the SM has written"
    )
    fence_mapped = from_chip("links.mapped_fence_ns", "cycle", "longer, where memory elsewhere is mapped")
    fence_system_gap = from_chip(
        "links.system_fence_gap_ns",
        "cycle",
        "between groups of fences for the system, beyond what they take longer",
    )
    fence_system_joins = from_chip(
        "links.system_fence_joins_ns", "cycle", "for which a fence for the system waits for others that leave with it"
    )
    fence_system_first = from_chip(
        "links.system_fence_first_count",
        "fences",
        "for the system that leave an SM together if none are on their way; 0: any number",
    )
    fence_system_group = from_chip(
        "links.system_fence_group_count",
        "fences",
        "for the system that leave together after others have returned; 0: any number",
    )
    fence_together = from_chip(
        "pipes.membar_group_cycles", "cycle", "after the first of an SM's group of fences in which others join it"
    )
    fence_interval = from_chip(
        "pipes.membar_round_interval_cycles", "cycle", "between two rounds of an SM's fences after stores"
    )
    fence_joins = from_chip(
        "pipes.membar_round_joins_cycles",
        "cycle",
        "after a round's first fence, by which the stores of other warps must be in L1 for their fences to join it",
    )
    fences_at_slices = from_chip(
        "pipes.membar_round_count", "fences", "of an SM that wait at the slices at once; 0: any number"
    )
    fence_rounds_apart = from_chip(
        "pipes.membar_rounds_apart", "", "a round of an SM's fences begins only when the one before is over"
    )
