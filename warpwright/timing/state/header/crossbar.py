"""GPCs, their ports, TLBs and coalescers, and requests between SMs and L2."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.common import CALENDAR_SHIFT
from warpwright.timing.state.header.declarations import area, derived, from_chip


class CrossbarWords(Unit):
    """The way from SMs to L2: GPCs' ports, TLBs and coalescers, and the exchange of requests."""

    gpc_of_sm = area("gpc_of_sm", "the GPC of each SM")
    partition_of_sm = area("partition_of_sm", "the L2 partition of each SM")
    gpcs = derived(lambda z: z.gpcs, "GPCs", "of the chip")
    gpc_ports = area("gpc_ports", "calendars of the GPCs' ports from L2")
    gpc_capacity = derived(
        lambda z: (z.chip.crossbar.gpc_read_bytes_per_clk << CALENDAR_SHIFT) // z.chip.l1.sector_bytes,
        "sectors",
        "of a calendar bucket",
    )
    store_port_of_sm = area("store_port_of_sm", "the calendar of each SM's store port, which a group of SMs shares")
    store_port_count = from_chip("crossbar.gpc_store_port_count", "ports", "for stores of a GPC")
    store_port_capacity = derived(
        lambda z: (z.chip.crossbar.store_port_bytes_per_clk << CALENDAR_SHIFT) // z.chip.l1.sector_bytes,
        "sectors",
        "of a calendar bucket",
    )
    to_l2 = derived(lambda z: z.there // 2, "cycle", "from the load/store unit to a slice")
    from_l2 = derived(lambda z: z.there - z.there // 2, "cycle", "from a slice to the SM")
    buckets = area("buckets", "a counting sort of each GPC")
    order = area("order", "the requests of each GPC in the order of their service")
    group_order = area("group_order", "the same by group of slices; scratch of the dispatcher")
    queues = area("queues", "the queues (RequestQueue) of each group of slices, and of all together")
    gpc_fields = area("gpc_fields", "the GPCs (Gpc)")
    gpc_turns = area("gpc_turns", "GPCs in the order in which host threads share them")
    served = word("requests", "of the last window")
    slice_groups = area("slice_groups", "the groups of slices (SliceGroup)")
    serving = word("index", "the context of the kernel whose bulk copy is served")
    tlb = area("tlb", "the GPCs' TLBs (tlb.py)")
    tlb_slots = derived(lambda z: z.tlb_slots, "words", "of a TLB")
    tlb_ways = from_chip("crossbar.gpc_tlb_ways", "ways", "of a TLB's set")
    tlb_sets = derived(
        lambda z: z.chip.crossbar.gpc_tlb_page_count // z.chip.crossbar.gpc_tlb_ways,
        "sets",
        "of a TLB; 0: every page is at hand",
    )
    tlb_ports = area("tlb_ports", "a calendar of each GPC's TLB")
    tlb_hit = from_chip("crossbar.gpc_tlb_hit_cycles", "1/64 cycle", "of the TLB for a page at hand")
    tlb_miss = from_chip("crossbar.gpc_tlb_miss_cycles", "1/64 cycle", "for another page")
    tlb_latency = from_chip("crossbar.gpc_tlb_latency_cycles", "cycle", "until another page is at hand")
    tlb_quiet = from_chip("crossbar.gpc_tlb_quiet_cycles", "cycle", "after a miss until hits wait for nothing")
    page_shift = derived(
        lambda z: (z.chip.crossbar.page_kib * 1024 // z.chip.l1.l1_line_bytes).bit_length() - 1,
        "bits",
        "from a line to its page",
    )
    coalescing = from_chip("crossbar.gpc_coalescing_cycles", "cycle", "for which a request that L2 finds can be joined")
    coalescer_joins = derived(
        lambda z: max(z.chip.crossbar.gpc_coalescer_requests_count - 1, 0), "requests", "that can join another one"
    )
    coalescer_lines = derived(
        lambda z: z.coalescer_lines,
        "lines",
        "of a GPC's coalescer for each group of slices, a power of two; 0: there is none",
    )
    coalescer = area(
        "coalescer",
        "by GPC and group of slices, requests: line << 4 | sectors, until when others join, when it is answered, how many still",
    )
    touched = area("touched", "which SMs have accessed each slice, one bit each")
    touched_words = derived(lambda z: -(-z.chip.sm.sm_count // 64), "words", "of a slice in that area")
    short_until = word("cycle", "windows are short until then: strong accesses without an answer come")
    thread_phase = area("thread_phase", "what host threads share (HostThreads)")
    unordered = word("", "what comes to L2 now comes in no order of time: lines order nothing (l2_hazards.py)")
