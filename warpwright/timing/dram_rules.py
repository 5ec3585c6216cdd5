"""DRAM's timing rules: how long after one command another may follow in the same bank, bank group or channel.

Each rule is a row of ``RULES``; its latency is a number of the chip file, so that a generation of memory is a set of numbers.  A controller
reorders its queue, hence a rule holds in one of two ways:

* in a bank, exactly: the following command waits until the latency has passed;
* in a bank group or a channel, as a rate: each command takes the latency of the group's or the channel's time (a calendar, ``ports.py``), whatever the order
  in which requests arrive.  A rule over several commands, such as four activations in tFAW, takes its share for each.

A latency of 0 is no limit.  ``state/header/dram.py`` has the word of each row, and ``dram.py`` applies it.
"""

from __future__ import annotations

from typing import NamedTuple

BANK, GROUP, CHANNEL = "bank", "bank group", "channel"
ACTIVATE, COLUMN, READ, WRITE, REFRESH = "activate", "column", "read", "write", "refresh"


class Rule(NamedTuple):
    """At ``level``, ``following`` comes ``field`` after ``preceding`` at the earliest."""

    name: str
    """JEDEC's."""
    level: str
    preceding: str
    following: str
    field: str
    """The latency: a field of the chip file's section ``dram``."""
    commands: int = 1
    """Number of preceding commands from whose first on the latency counts."""

    @property
    def unit(self) -> str:
        """Unit of the row's word in the model."""
        return "cycle" if self.level == BANK else "1/256 cycle"

    def __str__(self) -> str:
        several = f"{self.commands} commands " if self.commands > 1 else ""
        return f"{self.name}: in a {self.level}, from {several}{self.preceding} to {self.following}"


RULES = (
    Rule("tRC", BANK, ACTIVATE, ACTIVATE, "dram_row_cycle_ns"),
    Rule("tRCD", BANK, ACTIVATE, COLUMN, "dram_row_miss_ns"),
    Rule("tRFCsb", BANK, REFRESH, ACTIVATE, "dram_bank_refresh_ns"),
    Rule("tRRD_L", GROUP, ACTIVATE, ACTIVATE, "dram_group_activate_ns"),
    Rule("tCCD_L", GROUP, COLUMN, COLUMN, "dram_group_column_ns"),
    Rule("tRRD_S", CHANNEL, ACTIVATE, ACTIVATE, "dram_activate_interval_ns"),
    Rule("tFAW of reads", CHANNEL, ACTIVATE, READ, "dram_four_activates_read_ns", commands=4),
    Rule("tFAW of writes", CHANNEL, ACTIVATE, WRITE, "dram_four_activates_write_ns", commands=4),
    Rule("tCCD_S", CHANNEL, COLUMN, COLUMN, "dram_gb_per_s"),
    Rule("tRTW", CHANNEL, READ, WRITE, "dram_read_to_write_ns"),
    Rule("tWTR", CHANNEL, WRITE, READ, "dram_write_to_read_ns"),
    Rule("tRFC", CHANNEL, REFRESH, COLUMN, "dram_refresh_ns"),
)
"""tCCD_S is the time of a burst at the channel's share of the bandwidth."""
BY_NAME = {rule.name: rule for rule in RULES}
