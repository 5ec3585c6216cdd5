"""Keeps the rows of a campaign: a line of JSON for each injection, on disk before the next part is counted.

A campaign that is killed at any moment can be continued: a partly written line is ignored, and its injection runs again.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from warpwright.campaigns.specification import CampaignError
from warpwright.sweeps.held_folder import hold


class Store:
    """The folder of a campaign."""

    def __init__(self, folder: Path, specification: str) -> None:
        self.folder, self._specification = folder, specification
        self.rows: dict[int, dict[str, Any]] = {}
        """By the injection's number."""
        self._lock: Any = None
        self._journal: Any = None

    def __enter__(self) -> Store:
        """Take the folder.

        Raises:
            CampaignError: another campaign has it, it is another campaign's, or it cannot be written.
        """
        self._lock = hold(self.folder, "campaign", CampaignError)
        self._know()
        journal = self.folder / "injections.jsonl"
        if journal.exists():
            self._read(journal)
        self._journal = journal.open("a", encoding="utf-8")
        return self

    def _know(self) -> None:
        """Check that the folder belongs to this campaign; the number of injections may grow."""
        place = self.folder / "campaign.json"
        asked = json.loads(self._specification)
        if place.exists():
            before = json.loads(place.read_text(encoding="utf-8"))
            differing = [key for key in asked if key != "injections" and asked[key] != before.get(key)]
            if differing:
                raise CampaignError(
                    f"{self.folder} holds a campaign with another {differing[0]} ({before.get(differing[0])!r}, not {asked[differing[0]]!r}): "
                    "give another --output"
                )
        place.write_text(self._specification + "\n", encoding="utf-8")

    def _read(self, journal: Path) -> None:
        text = journal.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        for line in whole.splitlines():
            row = json.loads(line)
            self.rows[row["number"]] = row
        if len(whole) < len(text):
            journal.write_text(whole, encoding="utf-8")

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Keep finished injections."""
        for row in rows:
            self.rows[row["number"]] = row
            self._journal.write(json.dumps(row) + "\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())

    def __exit__(self, *_: object) -> None:
        self._journal.close()
        if self.rows:
            ordered = [self.rows[number] for number in sorted(self.rows)]
            with (self.folder / "injections.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(ordered[0]))
                writer.writeheader()
                writer.writerows(ordered)
        self._lock.close()
