"""Common parts of all functional executions of a launch: counts, cancellation by the host, the order of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpwright.engine.geometry import Dim3


class Cancelled(Exception):
    """The launch was cancelled by the host.

    Args:
        where: source lines at which the warps were; empty if unknown.
    """

    def __init__(self, where: str = "") -> None:
        super().__init__(where)
        self.where = where


@dataclass(slots=True)
class Counts:
    """Counts of a functional launch."""

    warp_instructions: int = 0
    thread_instructions: int = 0
    blocks_done: int = 0

    @classmethod
    def of_metrics(cls, metrics: Mapping[str, float], blocks: int) -> Counts:
        """Counts of a timed launch, from its metrics."""
        executed, lanes = (int(metrics[f"smsp__{name}.sum"]) for name in ("inst_executed", "thread_inst_executed"))
        return cls(executed, lanes, blocks)


def block_index(linear: int, grid: Dim3) -> Dim3:
    """blockIdx of the linear-th block."""
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])
