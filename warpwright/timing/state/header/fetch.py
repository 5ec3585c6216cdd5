"""Instruction caches."""

from __future__ import annotations

from warpwright.native.units import Unit
from warpwright.timing.state.header.declarations import area, derived, from_chip


class FetchWords(Unit):
    """The instruction caches from L0 to L2."""

    l0_lines = derived(lambda z: z.l0_lines, "lines", "capacity of the L0 instruction cache")
    l0_stride = derived(
        lambda z: z.l0_size if z.l0_count > 1 else 0,
        "words",
        "between sub-cores' L0 instruction caches, 0: they share one",
    )
    l1i_lines = derived(lambda z: z.l1i_lines, "lines", "capacity of the L1 instruction cache")
    l1i_ways = from_chip("instruction_cache.l1_icache_ways", "ways", "of each set of the L1 instruction cache")
    l1i_latency = from_chip("instruction_cache.l1_icache_latency_cycles", "cycle", "from an L0 miss to a line of L1")
    l2i_latency = from_chip("l2.l2_hit_latency_cycles", "cycle", "from a miss of the first levels to a line of L2")
    l2i_interval = from_chip(
        "instruction_cache.l2_icache_line_interval_cycles", "cycle", "between two lines that L2 gives to an SM"
    )
    prefetch = from_chip("instruction_cache.icache_prefetch_lines", "lines", "that L1.5 asks L2 for ahead")
    chunk_lines = from_chip("instruction_cache.icache_chunk_lines", "lines", "that the first level asks for at once")
    chunk_interval = derived(
        lambda z: round(
            z.chip.instruction_cache.icache_chunk_lines * z.chip.instruction_cache.l1_icache_line_interval_cycles
        ),
        "cycle",
        "between two such requests of an SM",
    )
    code_lines = derived(lambda z: z.code_lines, "lines", "of the program's code")
    gpc_fetch_ports = area("gpc_fetch_ports", "calendars of the GPCs' instruction lines")
    gpc_fetch_interval = from_chip(
        "instruction_cache.gpc_icache_line_interval_cycles", "1/256 cycle", "between two instruction lines of a GPC"
    )
    l2i_cold_latency = derived(
        lambda z: z.cold_code_latency, "cycle", "to a line of code that no SM of the GPC has asked for: DRAM's"
    )
    l2i_cold_interval = derived(
        lambda z: (
            z.chip.instruction_cache.l2_icache_line_interval_cycles
            * z.cold_code_latency
            // z.chip.l2.l2_hit_latency_cycles
        ),
        "cycle",
        "between two such lines for an SM",
    )
    code_arrived = area("code_arrived", "by GPC, when each line of code is in L2")
