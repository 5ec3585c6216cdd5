"""Published figures: one row a figure, with its source, card, program and value, and what the model gives for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data" / "published"
FILES = ("qv100_apps", "qv100_kernels", "gpu_benches", "kernel_tuner")
DURATIONS = ("cycles", "ms")
"""Units of which less is faster; of the others (GB/s), more."""
SEED = "published 17"


@dataclass(frozen=True)
class Row:
    """One published figure."""

    id: str
    """The measured quantity; unique per card."""
    card: str
    """File in ``bench/data/published/cards``."""
    program: str
    unit: str
    value: float
    source: str
    details: Mapping[str, Any]
    """Other information in the source: arguments, kernel, counters, other simulators' figures."""

    @property
    def key(self) -> str:
        return f"{self.card}/{self.id}"

    @property
    def family(self) -> str:
        """Chip whose file the card's begins with: ``v100`` or ``a100``."""
        return "a100" if self.card.startswith("a100") else "v100"

    def error(self, ours: float) -> float:
        """By how much the model takes longer (positive) or less long, as a share of the card's time."""
        return (ours / self.value if self.unit in DURATIONS else self.value / ours) - 1


def card_file(card: str) -> Path:
    return DATA / "cards" / f"{card}.toml"


@cache
def load() -> tuple[Row, ...]:
    """Every published row."""
    rows = []
    for name in FILES:
        file = json.loads((DATA / f"{name}.json").read_text())
        for given in file["rows"]:
            row = dict(given)
            fields = {k: row.pop(k, file.get(k)) for k in ("id", "card", "program", "unit", "value")}
            rows.append(Row(source=file["source"], details=row, **fields))
    return tuple(rows)


@cache
def checking() -> frozenset[str]:
    """Keys of the half that is only compared: of each chip's rows every second one, in the order of a seeded hash."""
    keys: dict[str, list[str]] = {}
    for row in load():
        keys.setdefault(row.family, []).append(row.key)
    return frozenset(key for some in keys.values() for key in sorted(some, key=_rank)[::2])


def _rank(key: str) -> str:
    return hashlib.sha256(f"{SEED} {key}".encode()).hexdigest()


def stored() -> dict[str, float]:
    """The model's figures as they were last stored, by key."""
    file = DATA / "model.json"
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def store(figures: Mapping[str, float]) -> None:
    (DATA / "model.json").write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n")
