"""Constant caches."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.header.declarations import area, derived, from_chip


class ConstantWords(Unit):
    """The caches of constants: of LDCs, of operands, of ULDCs with an index, and L1.5."""

    const_lines = derived(lambda z: z.l1_constants, "lines", "capacity of a first level of constants")
    const_line_bytes = from_chip("constant_cache.constant_line_bytes", "bytes", "of a line of constants")
    const_block_lines = derived(lambda z: z.block_lines, "lines", "that L1.5 asks for at once")
    const_miss = derived(
        lambda z: z.constants.l15_constant_latency_cycles - z.constants.ldc_latency_cycles,
        "cycle",
        "that an LDC from L1.5 takes beyond a hit",
    )
    immediate_miss = from_chip("constant_cache.immediate_miss_cycles", "cycle", "for an operand from L1.5")
    indexed_lines = derived(
        lambda z: z.indexed_constants, "lines", "of a sub-core that ULDCs with an index find without a miss"
    )
    indexed_size = derived(lambda z: z.indexed_size, "words", "of a cache for ULDCs with an index")
    immediate_size = derived(lambda z: z.immediate_size, "words", "of a cache for operands")
    indexed_miss = from_chip("constant_cache.indexed_miss_cycles", "cycle", "for a ULDC with an index from L1.5")
    const_l2 = derived(
        lambda z: z.constants.l2_constant_latency_cycles - z.constants.l15_constant_latency_cycles,
        "cycle",
        "that a constant from L2 takes beyond one of L1.5",
    )
    const_interval = from_chip("constant_cache.l15_constant_interval_cycles", "cycle", "between two lines of L1.5")
    const_busy = from_chip(
        "constant_cache.gpc_constant_busy_percent", "percent", "of a window in which a GPC's port was busy"
    )
    const_gpc_interval = from_chip(
        "constant_cache.gpc_constant_interval_cycles", "1/256 cycle", "between two lines for a GPC's SMs"
    )
    const_first_gpc_interval = from_chip(
        "constant_cache.gpc_first_constant_interval_cycles", "1/256 cycle", "the same when a launch begins"
    )
    const_flights = from_chip(
        "constant_cache.ldc_in_flight_count", "instructions", "LDCs of a sub-core that wait for words"
    )
    const_asked = word("", "some SM has asked L1.5 in this window")
    const_word = from_chip("constant_cache.ldc_word_cycles", "cycle", "of the SM for a different word")
    const_replay = from_chip("constant_cache.ldc_replay_cycles", "cycle", "more for an LDC with several words")
    const_arrived = area("const_arrived", "when the first SM got each block of constants")
