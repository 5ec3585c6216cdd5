"""Launches as data: JSON, CSV and Parquet with one row per launch."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpwright.run import Run

FORMATS = ("json", "csv", "parquet")


class ExportError(Exception):
    """A format that cannot be written here."""


def check_format(kind: str) -> None:
    """Check that a format can be written, before hours of simulation.

    Raises:
        ExportError: Parquet without pyarrow.
    """
    if kind == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ExportError("--parquet needs pyarrow: pip install 'warpwright[data]'")


def launch_record(run: Run) -> dict[str, Any]:
    """The launch by column: what was launched, its time, then every counter by Nsight Compute's name.

    Values are strings, integers, floats, booleans or None. What only timing knows (``cycles``, ``seconds``, ``ipc``,
    ``bottleneck``) is None for a launch without timing. Counters are floats, so that a column has the same type in every
    file, and None where they are not a number.
    """
    timing, sampling = run.timing, run.sampling
    row: dict[str, Any] = {"kernel": run.kernel, "chip": run.chip, "gpu_number": run.gpu_number}
    for name, shape in (("grid", run.grid), ("block", run.block)):
        row |= {f"{name}_{axis}": size for axis, size in zip("xyz", shape, strict=True)}
    row |= {
        "registers_per_thread": run.registers,
        "shared_bytes_per_block": run.shared_bytes,
        "dynamic_shared_bytes_per_block": run.dynamic_shared_bytes,
        "blocks_per_sm": run.resident.blocks_per_sm,
        "occupancy": run.occupancy,
        "warp_instructions": run.instructions,
        "thread_instructions": run.thread_instructions,
        "timing": "off" if timing is None else "full" if sampling is None else "sampled",
        "schedule": run.schedule,
        "cycles": None if timing is None else run.cycles,
        "seconds": None if timing is None else run.seconds,
        "sm_clock_mhz": run.sm_clock_mhz,
        "ipc": None if timing is None else run.ipc,
        "bottleneck": None if timing is None else run.bottleneck,
        "expected_error": None if sampling is None else sampling.expected_error,
        **_library(run),
        "repeated": run.repeated,
        "skipped": run.skipped,
        "timed_in_full": run.timed_in_full or None,
        **_origin(run),
        "child_launches": len(run.children),
        "wall_seconds": run.wall_seconds,
        "compile_seconds": run.compile_seconds,
    }
    return row | {name: _finite(float(value)) for name, value in run.metrics.items()}


def _origin(run: Run) -> dict[str, Any]:
    """Columns of where the program made the launch, where that is noted."""
    origin = run.origin
    if origin is None:
        return {}
    return {
        "ranges": " > ".join(origin.ranges) or None,
        "module": origin.module.path if origin.module is not None else None,
        "module_type": origin.module.type if origin.module is not None else None,
        "operator": origin.operator or None,
        "backward": origin.backward,
        "allocated_bytes": origin.allocated_bytes,
    }


def _library(run: Run) -> dict[str, Any]:
    """Columns of how the time was scaled, under ``--library-model``."""
    if run.library is None:
        return {}
    return {
        "library": run.library.library,
        "library_time_ratio": run.library.ratio,
        "library_measured": run.library.measured or None,
    }


def _finite(value: float) -> float | None:
    """None for what JSON has no word for."""
    return value if math.isfinite(value) else None


def launch_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The rows of ``runs``, numbered from 0 in the column ``launch``, each with the columns of all of them."""
    rows = [{"launch": number, **launch_record(run)} for number, run in enumerate(runs)]
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in columns} for row in rows]


def write_launches(path: Path, kind: str, runs: Sequence[Run]) -> None:
    """Write one row per launch.

    Args:
        kind: ``json`` (an array of objects), ``csv`` (None is an empty cell) or ``parquet``.

    Raises:
        OSError: the file cannot be written.
    """
    rows = launch_rows(runs)
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else ["launch"])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
