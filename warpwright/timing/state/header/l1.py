"""L1 and shared memory."""

from __future__ import annotations

from typing import Any

from warpwright.chips.sections import COALESCING
from warpwright.native.units import Unit, word
from warpwright.timing.state.common import CALENDAR_SHIFT, PART_WORD_BITS, PASS_WORD_BITS
from warpwright.timing.state.header.declarations import derived, from_chip

BLOCK_BYTES = 128
"""Units that the address hash never splits (``address_hash.py``)."""


def _tag_bank_bits(z: Any, bit: int) -> int:
    """The bits of a line's number that decide a bit of its tag bank's number; none if the chip has fewer banks."""
    hashed = z.chip.l1.l1_tag_bank_hash_bits
    return int(hashed[bit]) if bit < len(hashed) else 0


class L1Words(Unit):
    """L1, shared memory and the store buffer."""

    lsu_capacity = derived(
        lambda z: int(z.chip.mio.lsu_wavefronts_per_clk * (1 << CALENDAR_SHIFT)), "wavefronts", "of a calendar bucket"
    )
    shared_latency = derived(
        lambda z: z.chip.shared.shared_load_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of a shared load after the queue",
    )
    shared_store_latency = derived(
        lambda z: z.chip.shared.shared_store_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of a shared store after the queue",
    )
    shared_atomic = derived(
        lambda z: z.chip.shared.shared_atomic_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of a shared atomic after the queue",
    )
    tag_bank_bit0 = derived(
        lambda z: _tag_bank_bits(z, 0), "bits", "of a line's number whose parity is bit 0 of its tag bank"
    )
    tag_bank_bit1 = derived(
        lambda z: _tag_bank_bits(z, 1), "bits", "of a line's number whose parity is bit 1 of its tag bank"
    )
    line_shift = derived(lambda z: z.chip.l1.l1_line_bytes.bit_length() - 1, "bits", "of an address within its line")
    line_bytes = from_chip("l1.l1_line_bytes", "bytes", "of a line of L1 and of L2")
    sector_shift = derived(lambda z: z.chip.l1.sector_bytes.bit_length() - 1, "bits", "of an address within its sector")
    sector_bytes = from_chip("l1.sector_bytes", "bytes", "of a sector")
    unit_line_shift = derived(
        lambda z: (BLOCK_BYTES // z.chip.l1.l1_line_bytes).bit_length() - 1,
        "bits",
        "of a line's number within a block of the address hash",
    )
    line_sectors = derived(lambda z: z.line_sectors, "sectors", "of a line")
    whole_line = derived(lambda z: (1 << z.line_sectors) - 1, "bits", "mask of all sectors of a line")
    pass_bits = derived(
        lambda z: PASS_WORD_BITS // z.line_sectors, "bits", "of each sector in what ``coalescer.count_passes`` gives"
    )
    part_bits = derived(
        lambda z: PART_WORD_BITS // z.line_sectors, "bits", "of each sector in what L2 knows of lines written in part"
    )
    l1_sets = derived(lambda z: z.sets, "sets", "of L1")
    l1_ways = derived(lambda z: z.ways, "ways", "of a set of L1")
    l1_latency = derived(
        lambda z: z.chip.l1.l1_hit_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of an L1 hit after the queue",
    )
    l1_data_sectors = derived(
        lambda z: max(
            int(z.chip.l1.l1_data_bytes_per_clk / min(z.chip.mio.lsu_wavefronts_per_clk, 1)) // z.chip.l1.sector_bytes,
            1,
        ),
        "sectors",
        "that L1 hands over in a pass, of which there may be less than one per cycle",
    )
    coalescing_rule = derived(
        lambda z: COALESCING.index(z.chip.l1.coalescing), "", "rule by which lanes' accesses are joined (coalescing.py)"
    )
    keeps_runs = derived(
        lambda z: int(z.chip.l1.coalescing == "half_warp_in_order" and z.chip.crossbar.gpc_tlb_page_count == 0),
        "",
        "loads make runs of equal requests (runs.py)",
    )
    texture_addresses = from_chip("l1.texture_addresses_per_clk", "addresses", "that texture units look up in a cycle")
    l1_tag_banks = from_chip(
        "l1.l1_tag_lines_per_clk", "lines", "of different banks that the tag stage takes per cycle"
    )
    l1_drawn_ways = from_chip("l1.l1_drawn_ways", "ways", "of which the least recently used is replaced; 0: of all")
    store_lines = from_chip("l1.store_buffer_lines_per_clk", "lines", "of a store that come into the store buffer")
    store_queue = from_chip("l1.store_queue_entries", "accesses", "that wait for the store buffer")
    buffer_lines = from_chip("l1.store_buffer_lines", "lines", "that the store buffer holds")
    output_lines = from_chip("l1.store_output_lines", "lines", "that wait for the store buffer's output")
    store_join = from_chip("l1.store_join_cycles", "cycle", "for which a line of the store buffer can be joined")
    store_join_alone = from_chip("l1.store_join_alone_cycles", "cycle", "the same while no other store has come")
    store_join_line = from_chip("l1.store_join_line_cycles", "cycle", "longer for each line beyond the free ones")
    store_join_free = from_chip("l1.store_join_free_lines", "lines", "of a store that stay no longer than one")
    store_share = derived(
        lambda z: round(64 * z.chip.l1.l1_store_array_cycles),
        "1/64 cycle",
        "of L1's array for each cycle of a store's output, where its lines fill the tag banks evenly",
    )
    narrow_pass = from_chip(
        "l1.l1_narrow_store_pass_cycles",
        "1/64 cycle",
        "of L1's array for a pass over tags of a store of parts of words to one bank",
    )
    store_sent = from_chip("l1.store_sent_cycles", "cycle", "after a line's output until it is found sent")
    store_lag = from_chip("l1.store_lag_cycles", "cycle", "that acknowledgements may be late")
    atomics_in_flight = from_chip("l1.atomics_in_flight_count", "atomics", "of an SM that L2 has not accepted")
    l1_sees_writes = from_chip("l1.l1_sees_writes", "", "stores change what L1 holds")
    l1_keeps_writes = from_chip("l1.l1_keeps_writes", "", "stores leave their words in L1")
    l1_write_bytes = from_chip("l1.l1_write_bytes_per_clk", "bytes", "that the store buffer's output sends per cycle")
    l1_join = from_chip("l1.l1_join_cycles", "cycle", "within which misses of a line leave as one request")
    fill_capacity = derived(
        lambda z: (z.chip.l1.l1_fill_bytes_per_clk << CALENDAR_SHIFT) // z.chip.l1.sector_bytes,
        "sectors",
        "of a calendar bucket",
    )
    local_physical = derived(lambda z: 1 << 50, "address", "where local memory begins in the addresses of caches")
    l1_replacement = word("host address", "the launch's replacement of L1; 0: the model's own")
    bad_replacement = word("", "it chose a way that no set has")
