"""One format for every number: three or four figures and the unit that the counter's name implies."""

from __future__ import annotations

from warpwright.quantity_text import amount_text, figures, number_text, share_text, size_text, time_text

WORDS = {
    "grid_x": "blocks in x", "grid_y": "blocks in y", "grid_z": "blocks in z",
    "block_x": "threads in x", "block_y": "threads in y", "block_z": "threads in z",
    "registers_per_thread": "registers per thread",
    "shared_bytes_per_block": "shared memory per block",
    "dynamic_shared_bytes_per_block": "of it dynamic",
    "blocks_per_sm": "blocks that an SM holds",
    "occupancy": "occupancy, theoretical",
    "warp_instructions": "warp-instructions",
    "thread_instructions": "thread-instructions",
    "child_launches": "launches by the kernel",
    "cycles": "cycles", "seconds": "time", "ipc": "IPC of the chip",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy reached",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput, of peak",
    "l1tex__t_sector_hit_rate.pct": "L1 hit rate",
    "lts__t_sector_hit_rate.pct": "L2 hit rate",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2 throughput, of peak",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput, of peak",
    "dram__bytes.sum": "DRAM traffic",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "bank conflicts",
}  # fmt: skip
"""Columns of a launch's row in words: those that are no counters, and the counters that are shown first."""


def title_of(name: str) -> str:
    """A column's name in words; most counters keep theirs."""
    return WORDS.get(name, name)


def is_percent(name: str) -> bool:
    """Whether a column holds percents (0 to 100)."""
    return ".pct" in name or name == "launch__occupancy_per_block_size"


def quantity(name: str, value: float) -> str:
    """A value of a column with its unit."""
    if name == "seconds":
        return time_text(value)
    if name == "occupancy":
        return share_text(value)
    if is_percent(name):
        return share_text(value / 100)
    if name == "gpu__time_duration.sum":
        return time_text(value * 1e-9)
    if name.endswith("bytes.sum.per_second"):
        return amount_text(value, "B/s")
    if "bytes" in name:
        return size_text(value)
    if name.endswith(".ratio") or ".per_cycle" in name or name == "ipc":
        return figures(value)
    if "cycles" in name and name != "cycles":
        return f"{value:,.0f} cycles"
    return number_text(value)


def change_of(name: str, before: float, now: float) -> str:
    """A difference: in percent of ``before``, in points for percents, and a word where there was nothing before."""
    if before == now:
        return "same"
    if is_percent(name) or name == "occupancy":
        points = (now - before) * (100 if name == "occupancy" else 1)
        return f"{points:+.1f} points" if abs(points) >= 0.05 else "<0.1 points"
    if not before:
        return "new"
    ratio = now / before
    return f"{figures(ratio)} ×" if ratio >= 10 else f"{ratio - 1:+.1%}"
