"""L2: slices, partitions, atomics."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.common import CALENDAR_SHIFT, DRAM_SHIFT, READ_PIECE_SHIFT
from warpwright.timing.state.header.declarations import area, derived, from_chip


class L2Words(Unit):
    """L2's slices: their ports, sets, atomics and write-back, and what is noted of its lines."""

    slices = from_chip("l2.l2_slice_count", "slices", "of L2")
    partitions = from_chip("l2.l2_partition_count", "partitions", "of L2")
    policy_block_shift = derived(
        lambda z: max(z.chip.l2.l2_policy_hash_block_bytes // z.chip.l1.l1_line_bytes, 1).bit_length() - 1,
        "bits",
        "of a line's number within a block that gets one policy",
    )
    least_written = derived(
        lambda z: round(z.chip.l2.l2_written_least_percent / 100 * 65536),
        "1/65536",
        "share of writes among a line's accesses from which on it counts as written",
    )
    partition_bits = from_chip(
        "l2.l2_partition_hash_bits", "bits", "of the number of a 4 KiB block whose parity is its partition"
    )
    slice_ports = area("slice_ports", "calendars of the slices' reads")
    slice_write_ports = area("slice_write_ports", "calendars of the slices' fills, writes and atomics")
    slice_capacity = derived(
        lambda z: z.chip.l2.l2_slice_bytes_per_clk << CALENDAR_SHIFT, "bytes", "of a calendar bucket"
    )
    l2_keeps = from_chip("l2.l2_keeps_data", "", "loads find what earlier accesses brought")
    l2_sets = derived(lambda z: z.l2_sets, "sets", "of a slice")
    l2_ways = from_chip("l2.l2_ways", "ways", "of a set of L2")
    l2_tags = area("l2", "L2, set after set: the tags of its ways, their stamps, their fills")
    l2_stamps = area("l2", "the stamps of the first set", lambda z: z.chip.l2.l2_ways)
    l2_fills = area("l2", "the fills of the first set", lambda z: 2 * z.chip.l2.l2_ways)
    l2_slice_words = derived(lambda z: z.l2_sets * z.l2_set_words, "words", "of a slice's sets")
    l2_fetch = derived(lambda z: z.chip.l2.l2_fetch_bytes // z.chip.l1.sector_bytes, "sectors", "of a fetch from DRAM")
    l2_access = from_chip("l2.l2_slice_access_bytes", "bytes", "of the read port that an access takes at least")
    l2_fill = from_chip(
        "l2.l2_fill_sector_cycles",
        "slice bytes",
        "of the write port for a sector that comes from DRAM or the other partition",
    )
    l2_write_request = from_chip("l2.l2_write_request_cycles", "slice bytes", "of the write port for a write")
    l2_write_whole = from_chip("l2.l2_write_sector_cycles", "slice bytes", "for each of its whole sectors")
    l2_write_part = from_chip("l2.l2_write_partial_cycles", "slice bytes", "for each of its partial sectors")
    far_latency = from_chip("l2.l2_far_latency_cycles", "cycle", "more for a line of the other partition")
    far_ports = area("far_ports", "calendars of the link between the partitions, by slice and direction")
    far_capacity = derived(
        lambda z: (z.chip.l2.l2_far_bytes_per_clk << DRAM_SHIFT) // z.half, "bytes", "of a calendar bucket of the link"
    )
    far_masked = from_chip("l2.l2_far_masked_bytes", "bytes", "of the link for a masked write's mask")
    far_atomic = from_chip("l2.l2_far_atomic_bytes", "bytes", "of the link for an atomic")
    atomic_latency = from_chip("l2.l2_atomic_latency_cycles", "cycle", "of an atomic beyond a load")
    atomic_whole = from_chip("l2.l2_atomic_sector_cycles", "slice bytes", "of a pass over a whole sector")
    atomic_part = from_chip("l2.l2_atomic_word_cycles", "slice bytes", "of a pass over part of one")
    atomic_sum = from_chip("l2.l2_atomic_float_cycles", "slice bytes", "between floating-point sums on one word")
    atomic_fp32 = from_chip("l2.l2_atomic_fp32_sector_cycles", "slice bytes", "of float sums on every word of a sector")
    atomic_fp16 = from_chip("l2.l2_atomic_fp16_sector_cycles", "slice bytes", "of sums of two halves on every word")
    atomic_combined = from_chip(
        "l2.l2_atomic_combined_lanes_count", "lanes", "on one word that an atomic's pass serves at once"
    )
    atomic_turn = from_chip(
        "l2.l2_atomic_turn_cycles", "slice bytes", "from an atomic without an answer to one with an answer, or back"
    )
    atomic_last = area("atomic_last", "what each slice's atomic unit was asked last")
    write_back_lag = from_chip("l2.l2_write_back_lag_cycles", "cycle", "that DRAM's write queue may be late")
    policies = word("", "some access may ask L2 to keep its line longer or shorter (access_policy.py)")
    compressible = word("host address", "ranges of compressible lines, CR_WORDS words each (compression.py)")
    compressible_count = word("ranges", "of those lines")
    persisting_ways = word("ways", "of a set of L2 that are set aside for persisting lines")
    half = derived(lambda z: z.half, "slices", "of a partition")
    l2_partial_ways = from_chip("l2.l2_partial_ways", "ways", "of a set that may hold partly written lines")
    write_back_sector = from_chip("l2.l2_write_back_sector_cycles", "slice bytes", "for a sector that is written back")
    crowded_write_back = from_chip(
        "l2.l2_crowded_write_back_cycles",
        "slice bytes",
        "for a line written back where sets are crowded",
    )
    crowded = word("", "1: more than half of a set's ways are set aside, so dirty lines may take half of the rest")
    atomic_change = from_chip(
        "l2.l2_atomic_change_cycles", "slice bytes", "for an atomic on a line that is none of the slice's last ones"
    )
    atomic_new_line = from_chip(
        "l2.l2_atomic_new_line_cycles", "slice bytes", "at least for an atomic on such a line and each of its sectors"
    )
    atomic_change_answer = from_chip(
        "l2.l2_atomic_answer_change_cycles", "slice bytes", "the same for one with an answer"
    )
    atomic_lines = area("atomic_lines", "by slice, the lines of its last atomics")
    atomic_line_count = from_chip("l2.l2_atomic_lines", "lines", "that a slice's atomics have at hand")
    atomic_wide_passes = from_chip(
        "l2.l2_atomic_wide_passes_count", "passes", "over a sector by compare-and-swap or doubles"
    )
    write_history_shift = derived(
        lambda z: z.chip.l2.l2_write_history_count.bit_length() - 1,
        "",
        "of the accesses that a line's share of writes looks back on",
    )
    queued_history_shift = derived(
        lambda z: z.chip.l2.l2_queued_history_count.bit_length() - 1,
        "",
        "log2 of the accesses over which a line's share of atomics is taken while a queue waits for it",
    )
    queued_history_from = from_chip("l2.l2_queued_history_cycles", "cycle", "that such a queue takes at least")
    slice_queues = area("slice_queues", "the slices' queues (SliceQueue)")
    read_after_write = from_chip(
        "l2.l2_read_after_write_cycles", "cycle", "of a slice between a write to a line and a read of it"
    )
    read_among_writes = from_chip(
        "l2.l2_read_among_writes_cycles", "1/256 cycle", "of a slice for each read of a line that is being written"
    )
    other_side = from_chip(
        "l2.l2_other_side_cycles", "cycle", "the same between what comes from its own SMs and what comes over the link"
    )
    read_after_atomic = from_chip(
        "l2.l2_read_after_atomic_cycles",
        "slice bytes",
        "of the write port, beyond an access's own, for a read that comes directly after an atomic on its line",
    )
    read_after_atomics_most = from_chip(
        "l2.l2_read_after_atomics_most_cycles",
        "slice bytes",
        "of the write port, beyond an access's own, the most for a read among atomics on its line",
    )
    atomic_line_read = from_chip(
        "l2.l2_atomic_line_read_cycles",
        "slice bytes",
        "of the write port, at least, for a read of a line that atomics change",
    )
    hidden_share = derived(
        lambda z: round(z.chip.l2.l2_hidden_atomics_percent * 65536 / 100),
        "",
        "of atomics among a line's accesses that reads hide, of 256, with a fraction",
    )
    single_looks = from_chip(
        "l2.l2_single_look_cycles",
        "cycle",
        "after an atomic in which strong loads of the device's scope on its line are answered one by one",
    )
    l2_installs = area("l2_installs", "by group of slices, places of the first lines that L2 took in")
    brought = word(
        "host address", "ranges of lines that copies and fills have used since the launch before, BR_WORDS words each"
    )
    brought_count = word("ranges", "of those lines")
    read_pieces = word(
        "host address", "a word for each piece of memory that loads have read, and one for all others; 0: nobody asks"
    )
    read_first = word("piece", "of memory that has the first of those words")
    read_count = word("pieces", "of memory that have words of their own")
    read_shift = derived(
        lambda z: READ_PIECE_SHIFT - (z.chip.l1.l1_line_bytes.bit_length() - 1),
        "bits",
        "of a line's number within its piece",
    )
    l2_dirty_ways = from_chip("l2.l2_dirty_ways", "ways", "of a set that may hold dirty lines")
    l2_streaming_near = from_chip(
        "l2.l2_streaming_near_percent", "percent", "of written streaming lines leave first, changed by the home's side"
    )
    l2_streaming_far = from_chip(
        "l2.l2_streaming_far_percent", "percent", "of written streaming lines leave first, changed by the other side"
    )
