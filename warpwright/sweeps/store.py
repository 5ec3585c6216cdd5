"""Keeps the results of a sweep: a journal of the newest points, and Parquet files of the others.

A finished point is on disk, in the journal, before the next one is counted. Journal K becomes ``results/part-K.parquet`` now and
then; the part appears under its name when it is whole, and the journal goes after it. A sweep that is killed at any moment has
each finished point once.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpwright.sweeps.held_folder import hold
from warpwright.sweeps.point_server import Outcome
from warpwright.sweeps.specification import Point, SweepError

MOST_ROWS = 4096
"""Rows of one part."""
LEAST_SECONDS = 10.0
"""Between two parts."""
SHARE_OF_TIME = 0.02
"""A long sweep writes its parts less often: after this share of the time since its start."""
TEXTS = frozenset(
    {"point", "program", "sweep_chip", "status", "message", "kernel", "chip", "timing", "schedule", "bottleneck"}
)


class Store:
    """The folder of a sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.parts = folder, folder / "results"
        self._begun = self._written = time.monotonic()
        self._number = 0
        self._rows: list[dict[str, Any]] = []
        self._journal: Any = None
        self._lock: Any = None

    def __enter__(self) -> Store:
        """Take the folder.

        Raises:
            SweepError: another sweep has it, or it cannot be written.
        """
        self._lock = hold(self.folder, "sweep", SweepError, self.parts)
        self._recover()
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        if self._journal is not None:
            self._journal.close()
        self._lock.close()

    def _recover(self) -> None:
        """Turn the journals of a sweep that was killed into parts."""
        for path in self.parts.glob("*.new"):
            path.unlink()
        for journal in sorted(self.folder.glob("journal-*.jsonl")):
            self._number = int(journal.stem.rpartition("-")[2])
            if not self._part(self._number).exists():
                self._rows = list(_journal_rows(journal))
                self._write_part()
            journal.unlink()
        numbers = [int(path.stem.rpartition("-")[2]) for path in self.parts.glob("part-*.parquet")]
        self._number = max(numbers, default=-1) + 1

    def _part(self, number: int) -> Path:
        return self.parts / f"part-{number:06}.parquet"

    def add(self, point: Point, outcome: Outcome) -> None:
        """Keep a finished point."""
        rows = rows_of(point, outcome)
        if self._journal is None:
            self._journal = (self.folder / f"journal-{self._number:06}.jsonl").open("a", encoding="utf-8")
        self._journal.write(json.dumps(rows) + "\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self._rows += rows
        now = time.monotonic()
        wait = max(LEAST_SECONDS, SHARE_OF_TIME * (now - self._begun))
        if len(self._rows) >= MOST_ROWS or now - self._written > wait:
            self.flush()

    def flush(self) -> None:
        """Write the journal's rows as a part."""
        if self._journal is None:
            return
        self._write_part()
        self._journal.close()
        (self.folder / f"journal-{self._number:06}.jsonl").unlink()
        self._journal, self._number, self._written = None, self._number + 1, time.monotonic()

    def _write_part(self) -> None:
        import pyarrow.parquet

        if self._rows:
            target = self._part(self._number)
            fresh = target.with_suffix(".new")
            pyarrow.parquet.write_table(table_of(self._rows), fresh)
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(fresh, target)
        self._rows = []

    def finished(self) -> dict[str, str]:
        """The status of every point in the parts, by its key; the newest counts."""
        import pyarrow.parquet

        found: dict[str, str] = {}
        for path in sorted(self.parts.glob("part-*.parquet")):
            table = pyarrow.parquet.read_table(path, columns=["point", "status"])
            found.update(zip(table["point"].to_pylist(), table["status"].to_pylist(), strict=True))
        return found

    def remove(self, keys: set[str]) -> None:
        """Take points out of the parts, to run them again."""
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet

        for path in sorted(self.parts.glob("part-*.parquet")):
            table = pyarrow.parquet.read_table(path)
            among = pyarrow.compute.is_in(table["point"], value_set=pyarrow.array(sorted(keys), pyarrow.string()))
            if pyarrow.compute.any(among).as_py():
                fresh = path.with_suffix(".new")
                pyarrow.parquet.write_table(table.filter(pyarrow.compute.invert(among)), fresh)
                os.replace(fresh, path)


def _journal_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a journal; a line that was being written when the sweep was killed does not count."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(json.JSONDecodeError):
                yield from json.loads(line) if line.endswith("\n") else ()


def rows_of(point: Point, outcome: Outcome) -> list[dict[str, Any]]:
    """One row per launch with the point's columns; one without a launch for a point that has none."""
    own = {
        **point.columns(),
        "status": outcome.status,
        "message": outcome.message,
        "point_host_seconds": outcome.host_seconds,
        "point_cpu_seconds": outcome.cpu_seconds,
        "point_peak_mib": outcome.peak_mib,
    }
    return [{**own, **row} for row in outcome.rows or [{}]]


def table_of(rows: list[dict[str, Any]]) -> Any:
    """The rows as an Arrow table whose columns have the same types in every part."""
    import pyarrow

    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        known = [value for value in values if value is not None]
        if name in TEXTS or any(isinstance(value, str) for value in known):
            columns[name] = pyarrow.array([None if v is None else str(v) for v in values], pyarrow.string())
        elif known and all(isinstance(value, bool) for value in known):
            columns[name] = pyarrow.array(values, pyarrow.bool_())
        elif name == "launch" or (known and all(isinstance(value, int) for value in known) and "." not in name):
            columns[name] = pyarrow.array(values, pyarrow.int64())
        else:
            columns[name] = pyarrow.array([None if v is None else float(v) for v in values], pyarrow.float64())
    return pyarrow.table(columns)
