"""DRAM: channels, banks and their timing rules."""

from __future__ import annotations

from warpwright.native.units import Unit
from warpwright.timing.dram_rules import BY_NAME
from warpwright.timing.state.header.declarations import area, copied, derived, from_chip, rule


class DramWords(Unit):
    """The channels of DRAM: banks, rows, refresh and batches of writes."""

    channels_per_slice = derived(lambda z: z.channels_per_slice, "channels", "of DRAM for a slice")
    dram_ports = area("dram_ports", "calendars of the channels' data buses")
    dram_openings = area("dram_openings", "calendars of the rows that the channels open")
    dram_state = area("dram_state", "the channels (Channel)")
    dram_queues = area("dram_queues", "the channels' queued writes (QueuedWrite)")
    dram_banks = area("dram_banks", "open row and ready time of each bank")
    dram_bank_count = from_chip("dram.dram_bank_count", "banks", "of a channel")
    dram_latency = derived(
        lambda z: z.chip.dram.dram_latency_cycles - z.chip.l2.l2_hit_latency_cycles - z.row_miss,
        "cycle",
        "beyond an L2 hit, row open",
    )
    dram_row_miss = derived(lambda z: z.row_miss, BY_NAME["tRCD"].unit, str(BY_NAME["tRCD"]))
    dram_row_cycle = rule("tRC")
    dram_row_blocks = derived(lambda z: z.row_blocks, "blocks of a bank", "of a row, over all channels")
    bank_block_shift = derived(
        lambda z: (z.chip.dram.dram_bank_block_bytes // z.chip.l1.l1_line_bytes).bit_length() - 1,
        "bits",
        "of a line's number within a block that is in one bank of every channel",
    )
    dram_sector = derived(
        lambda z: round(256 * z.chip.l1.sector_bytes * z.channels / z.dram_bytes_per_clk),
        "1/256 cycle",
        "of a channel's bus for a sector",
    )
    dram_read_to_write = rule("tRTW")
    dram_write_to_read = rule("tWTR")
    dram_activate_interval = rule("tRRD_S")
    dram_group_activate = rule("tRRD_L")
    dram_group_column = derived(
        lambda z: round(
            copied(z.chip, "dram.dram_group_column_ns", "1/256 cycle")
            * z.chip.l1.sector_bytes
            / z.chip.dram.dram_burst_bytes
        ),
        "1/256 cycle",
        f"{BY_NAME['tCCD_L']}, for a sector",
    )
    dram_groups = from_chip("dram.dram_bank_group_count", "bank groups", "of a channel")
    dram_group_openings = area("dram_group_openings", "calendars of the rows that bank groups open")
    dram_group_columns = area("dram_group_columns", "calendars of the bank groups' bursts")
    dram_refresh_interval = from_chip("dram.dram_refresh_interval_ns", "cycle", "between refreshes of a channel")
    dram_refresh = rule("tRFC")
    postponed_refreshes = from_chip(
        "dram.dram_postponed_refreshes_count", "", "of single banks while first requests wait"
    )
    dram_batch = derived(
        lambda z: z.chip.dram.dram_write_batch_requests_count or z.chip.dram.dram_write_batch_bursts,
        "bursts or requests",
        "of writes that a channel gathers",
    )
    dram_batch_requests = from_chip(
        "dram.dram_write_batch_requests_count", "requests", "of writes that a channel gathers; 0: bursts count"
    )
    dram_batch_rows = from_chip(
        "dram.dram_write_batch_rows_count", "rows", "that a batch of writes opens at most; 0: a whole queue leaves"
    )
    bank_refresh_interval = from_chip("dram.dram_bank_refresh_interval_ns", "cycle", "between refreshes of one bank")
    bank_refresh = rule("tRFCsb")
    dram_activate_read = rule("tFAW of reads")
    dram_activate_write = rule("tFAW of writes")
