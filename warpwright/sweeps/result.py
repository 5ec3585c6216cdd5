"""The result of a sweep: its points, their statuses and the table of their launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpwright.sweeps.specification import Point


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep that has run."""

    folder: Path
    points: tuple[Point, ...]
    ran_count: int
    """Points that this call ran; the others were finished before."""
    statuses: Mapping[str, str]
    """By point's key: ``done``, ``failed``, ``timed out``, ``out of memory`` or ``killed``."""
    wall_seconds: float
    efficiency: float | None
    """Host time of this call's points over that of all workers; None if it ran none."""
    cpu_efficiency: float | None = None
    """Processor time of this call's points over that of the workers, which other programs of the machine do not change.

    Points whose worker was lost count as neither.  None if the call ran no point.
    """

    @property
    def failed_count(self) -> int:
        """Points without a result."""
        return sum(self.statuses[point.key] != "done" for point in self.points)

    def table(self) -> Any:
        """The rows of this sweep's points as an Arrow table: one per launch (``.to_pandas()``, ``polars.from_arrow``)."""
        import duckdb
        import pyarrow

        keys = pyarrow.table({"point": [point.key for point in self.points]})
        with duckdb.connect() as database:
            database.register("keys", keys)
            found = database.sql(f"SELECT * FROM {parts(self.folder)} WHERE point IN (SELECT point FROM keys)")
            return found.to_arrow_table()


def parts(folder: Path) -> str:
    """The results of a sweep as DuckDB reads them."""
    place = str(folder / "results" / "*.parquet").replace("'", "''")
    return f"read_parquet('{place}', union_by_name = true)"
