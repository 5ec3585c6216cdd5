"""Tables of launches of one program on one chip."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table

from warpwright.library_times import NO_RATIO
from warpwright.quantity_text import amount_text, figures, share_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from warpwright.run import Run
    from warpwright.session import Collective

DRAM_BYTES = ("dram__bytes_read.sum", "dram__bytes_write.sum")
"""Nsight Compute's counters of DRAM traffic."""

LEFT_OUT_FIRST = ("simulated", "regs", "occupancy", "IPC", "DRAM GB/s", "instructions", "block", "grid", "time")
"""Columns that a narrow terminal goes without, in this order."""

LEAST_NAME_WIDTH, LEAST_REASON_WIDTH = 32, 16
"""Characters to which a kernel's name and the bottleneck are folded before a column is left out."""

NARROWEST = 12
"""Characters to which words are folded once no further column can be left out."""

LONG_NAME = 32
"""Characters from which a C++ name is shown without its namespaces."""


def dims(shape: tuple[int, int, int]) -> str:
    """``256`` or ``64x64`` or ``8x8x2``: trailing ones are left out."""
    parts = list(shape)
    while len(parts) > 1 and parts[-1] == 1:
        parts.pop()
    return "x".join(f"{p:,}" if len(parts) == 1 else str(p) for p in parts)


def repeats_summary(runs: Sequence[Run]) -> str:
    """How many launches have the time of an earlier one, and how many of them were not executed; empty if there are none."""
    repeated = sum(r.repeated for r in runs)
    if not repeated:
        return ""
    text = f"{repeated:,} of {len(runs):,} launches repeat an earlier one and reuse its time"
    skipped = sum(r.skipped for r in runs)
    if not skipped:
        return f"{text}; each was executed for its results"
    rest = f"; {repeated - skipped:,} executed for the results" if repeated > skipped else ""
    were = "was" if skipped == 1 else "were"
    return f"{text}: {skipped:,} {were} skipped, because they would leave memory as it is{rest}"


def in_full_summary(runs: Sequence[Run]) -> list[str]:
    """For ``--timing sampled``: the kernels that were timed in full nevertheless, one line per reason."""
    kernels: dict[str, list[str]] = {}
    for run in runs:
        if run.timed_in_full and run.kernel not in kernels.setdefault(run.timed_in_full, []):
            kernels[run.timed_in_full].append(run.kernel)
    return [f"timed in full, not sampled: {', '.join(some)} ({reason})" for reason, some in kernels.items()]


def dram_gb_per_s(run: Run) -> float | None:
    """DRAM traffic of a timed run over its time, or None when it was not counted."""
    if not run.timed or not all(name in run.metrics for name in DRAM_BYTES) or run.seconds <= 0:
        return None
    return sum(run.metrics[name] for name in DRAM_BYTES) / run.seconds / 1e9


def short_reason(run: Run) -> str:
    """The bottleneck without its remarks: what is before the first semicolon or parenthesis."""
    return run.bottleneck.split(";")[0].split(" (")[0]


def short_name(kernel: str) -> str:
    """The name without its namespaces if it is long: ``DeviceScanKernel<int>`` of ``cub::detail::scan::DeviceScanKernel<int>``."""
    if len(kernel) <= LONG_NAME:
        return kernel
    depth, start = 0, 0
    for n, letter in enumerate(kernel):
        depth += (letter in "<([{") - (letter in ">)]}")
        if depth == 0 and kernel.startswith("::", n):
            start = n + 2
    return kernel[start:] or kernel


@dataclass(frozen=True)
class Column:
    """A column of a table of launches."""

    heading: str
    cells: list[str]
    """One for each row."""
    least: int = 0
    """Characters to which words may be folded; 0 for numbers, which are never cut short."""


def grouped_columns(runs: Sequence[Run]) -> list[Column]:
    """One row for the launches of a kernel on one GPU with one grid and block, the longest total time first: for many launches."""
    groups: dict[tuple[str, int, tuple[int, int, int], tuple[int, int, int]], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.kernel, run.gpu_number, run.grid, run.block), []).append(run)

    def weight(some: Sequence[Run]) -> float:
        return sum(r.seconds if r.timed else 0.0 for r in some) or 1e-12 * sum(r.instructions for r in some)

    rows = sorted(groups.values(), key=weight, reverse=True)
    columns = [
        Column("kernel", [short_name(some[0].kernel) for some in rows], LEAST_NAME_WIDTH),
        *_gpu_column([some[0] for some in rows]),
        Column("launches", [f"{len(some):,}" for some in rows]),
        *_shape_columns([some[0] for some in rows]),
        Column("instructions", [f"{sum(r.instructions for r in some):,}" for some in rows]),
    ]
    if any(r.timed for r in runs):
        timed = [[r for r in some if r.timed] for some in rows]
        columns += [
            Column("cycles", [_cycles(some) for some in timed]),
            Column("time", [time_text(sum(r.seconds for r in some)) if some else "" for some in timed]),
            *_library_columns(timed),
        ]
    return columns


def launch_columns(runs: Sequence[Run]) -> list[Column]:
    """One row per launch, in order."""
    columns = [
        Column("kernel", [short_name(r.kernel) for r in runs], LEAST_NAME_WIDTH),
        *_gpu_column(runs),
        *_shape_columns(runs),
    ]
    if any(r.timed for r in runs):
        rates = [dram_gb_per_s(r) for r in runs]
        columns += [
            Column("cycles", [_cycles([r]) if r.timed else "" for r in runs]),
            Column("time", [time_text(r.seconds) if r.timed else "" for r in runs]),
            *_library_columns([[r] for r in runs]),
            Column("IPC", [figures(r.ipc) if r.timed else "" for r in runs]),
            Column("DRAM GB/s", ["" if rate is None else figures(rate) for rate in rates]),
            Column("bottleneck", [short_reason(r) if r.timed else "" for r in runs], LEAST_REASON_WIDTH),
        ]
    return [
        *columns,
        Column("instructions", [f"{r.instructions:,}" for r in runs]),
        Column("simulated", ["skipped" if r.skipped else amount_text(r.simulation_speed, "/s") for r in runs]),
    ]


def fitting_table(columns: Sequence[Column], title: str, console: Console) -> tuple[Table, list[str]]:
    """A table with as many columns as the console has room for, and the headings of the columns left out.

    Numbers are never cut short; columns are left out in the order of ``LEFT_OUT_FIRST`` until the rest fits.
    """
    without: list[str] = []
    left = [heading for heading in LEFT_OUT_FIRST if any(c.heading == heading for c in columns)]
    while (shown := _widths(columns, without, console.width)) is None and left:
        without.append(left.pop(0))
    if shown is None:
        narrow = [replace(c, least=min(c.least, NARROWEST)) for c in columns]
        shown = _widths(narrow, without, console.width)
    table = Table(title=title, title_justify="left", header_style="bold")
    kept = [c for c in columns if c.heading not in without]
    for column, width in zip(kept, shown or [None] * len(kept), strict=True):
        table.add_column(
            column.heading,
            justify="left" if column.least else "right",
            overflow="fold",
            no_wrap=not column.least,
            width=width,
        )
    for cells in zip(*(c.cells for c in kept), strict=True):
        table.add_row(*cells)
    return table, without


def _widths(columns: Sequence[Column], without: Collection[str], room: int) -> list[int | None] | None:
    """The width of each column that is not left out, or None if there is too little room for them."""
    kept = [c for c in columns if c.heading not in without]
    full = [max(cell_len(text) for text in (c.heading, *c.cells)) for c in kept]
    least = [min(width, c.least or width) for c, width in zip(kept, full, strict=True)]
    spare = room - 3 * len(kept) - 1 - sum(least)
    if spare < 0:
        return None
    widths: list[int | None] = []
    for wanted, at_least in zip(full, least, strict=True):
        more = min(spare, wanted - at_least)
        widths.append(at_least + more)
        spare -= more
    return widths


def collective_columns(collectives: Sequence[Collective]) -> list[Column]:
    """One row for equal collectives of one GPU, the longest total time first."""
    groups: dict[tuple[str, int, int, int], list[Collective]] = {}
    for one in collectives:
        groups.setdefault((one.name, one.gpu_number, one.ranks, one.size_bytes), []).append(one)
    rows = sorted(groups.values(), key=lambda some: -sum(one.seconds for one in some))
    columns = [
        Column("collective", [some[0].name for some in rows], LEAST_NAME_WIDTH),
        Column("GPU", [str(some[0].gpu_number) for some in rows]),
        Column("ranks", [str(some[0].ranks) for some in rows]),
        Column("bytes", [f"{some[0].size_bytes:,}" for some in rows]),
        Column("calls", [f"{len(some):,}" for some in rows]),
    ]
    if any(one.seconds for one in collectives):
        columns.append(Column("time", [time_text(sum(one.seconds for one in some)) for some in rows]))
    return columns


def _gpu_column(runs: Sequence[Run]) -> list[Column]:
    """The number of the GPU, if there are several."""
    return [Column("GPU", [str(run.gpu_number) for run in runs])] if on_several_gpus(runs) else []


def on_several_gpus(runs: Sequence[Run]) -> bool:
    """Whether a table of launches has to name their GPUs: if a machine with several is simulated, or any launch ran on another GPU than the first."""
    from warpwright.session import session

    return any(run.gpu_number for run in runs) or session.system is not None


def _shape_columns(runs: Sequence[Run]) -> list[Column]:
    """What a launch occupies."""
    return [
        Column("grid", [dims(r.grid) for r in runs]),
        Column("block", [dims(r.block) for r in runs]),
        Column("regs", [str(r.registers) for r in runs]),
        Column("occupancy", [share_text(r.occupancy) for r in runs]),
    ]


def library_summary(runs: Sequence[Run]) -> str:
    """One sentence about the scaled launches of a program; empty without any launch from a library."""
    found = [run.library for run in runs if run.library is not None and run.timed]
    if not found:
        return ""
    scaled = sum(one.ratio is not None for one in found)
    text = f"{scaled:,} of {len(found):,} launches from libraries have NVIDIA's times by measured ratios (--library-model nvidia)"
    others = sorted({one.library for one in found if one.ratio is None})
    return f"{text}; {len(found) - scaled:,} ({', '.join(others)}) keep their own: {NO_RATIO}" if others else text


def _library_columns(rows: Sequence[Sequence[Run]]) -> list[Column]:
    """How the times of launches from libraries were scaled, where ``--library-model`` asks for it."""
    if not any(r.library is not None for some in rows for r in some):
        return []
    cells = []
    for some in rows:
        known = [r.library for r in some if r.library is not None]
        ratios = [f"× {one.ratio:.2f}" for one in known if one.ratio is not None]
        cells.append(NO_RATIO if known and not ratios else ", ".join(dict.fromkeys(ratios)))
    return [Column("library", cells, LEAST_REASON_WIDTH)]


def _cycles(runs: Sequence[Run]) -> str:
    """Cycles of all launches together, marked when some of them are estimates."""
    return f"{'≈ ' if any(r.sampling for r in runs) else ''}{sum(r.cycles for r in runs):,}" if runs else ""
