"""What every microbenchmark is given: the device, its cubins, and how clock readings become cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Buffer, Card, CardModule, Model, ModelModule

Row = dict[str, Any]


@dataclass
class Context:
    """One run: `device` with the cubins of `cubins`; big arrays go to `out` as `.npz` when that is a folder."""

    device: Card | Model
    cubins: Path
    arch: str
    out: Path | None = None
    modules: dict[str, CardModule | ModelModule] = field(default_factory=dict)
    scratch: Buffer | None = None
    beside: Buffer | None = None
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def model(self) -> bool:
        return self.device.kind == "model"

    def module(self, name: str) -> CardModule | ModelModule:
        """The cubin of `name`.cu, loaded once."""
        if name not in self.modules:
            self.modules[name] = self.device.load((self.cubins / f"{name}.sm_{self.arch}.cubin").read_bytes())
        return self.modules[name]

    @property
    def words(self) -> Buffer:
        """The result buffer that kernels get as `out`: 4 MiB of words."""
        if self.scratch is None:
            self.scratch = self.device.upload(np.zeros(1 << 20, np.uint32))
        return self.scratch

    @property
    def words_beside(self) -> Buffer:
        """Another 1 MiB that kernels read or write beside their results."""
        if self.beside is None:
            self.beside = self.device.upload(np.zeros(1 << 18, np.uint32))
        return self.beside

    def cycles(
        self, module: str, kernel: str, warps: int, args: Sequence[Any], shared_bytes: int = 0, blocks: int = 1,
        threads: int | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Launch and return the (start, end) clock of each warp of each block, shape (blocks, warps, 2)."""
        block = threads if threads is not None else warps * 32
        self.module(module).launch(kernel, blocks, block, [self.words, *args], shared_bytes)
        return self.words.read(np.uint32, blocks * warps * 2).reshape(blocks, warps, 2)

    def span(self, *args: Any, **kwargs: Any) -> int:
        """Cycles from the first warp's start to the last warp's end, the longest over blocks."""
        marks = self.cycles(*args, **kwargs)
        # Differences are taken modulo 2^32 before anything is compared: the 32-bit clock wraps every two seconds.
        origin = marks[:, :1, 0]
        starts = (marks[:, :, 0] - origin).astype(np.int32)
        ends = (marks[:, :, 1] - origin).astype(np.int32)
        return int((ends.max(axis=1) - starts.min(axis=1)).max())

    def slope(
        self, module: str, kernel: str, warps: int, args: Sequence[Any], low: int, high: int, shared_bytes: int = 0,
        after: Sequence[Any] = (),
    ) -> float:  # fmt: skip
        """Cycles of one loop iteration: the difference between `high` and `low` iterations, least of three.

        The iteration count goes between `args` and `after`.
        """
        tries = 1 if self.model else 3
        least = [
            min(self.span(module, kernel, warps, [*args, np.int32(n), *after], shared_bytes) for _ in range(tries))
            for n in (low, high)
        ]
        return (least[1] - least[0]) / (high - low)


def row(name: str, metric: str, value: float, unit: str, **where: Any) -> Row:
    """One measured number; `where` says the configuration."""
    return {"name": name, "metric": metric, "value": round(float(value), 4), "unit": unit, **where}
