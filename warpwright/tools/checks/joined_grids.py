"""Launches on several devices under the checks: their grids run in turn, and what orders their accesses is followed across them.

The grids have the same machine code, grid and block. Their blocks are numbered through, so that clocks and cells of global memory (which has the same addresses on every device)
distinguish the blocks of all grids, and a race between two devices is found like one between two blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.device_memory import Allocation
from warpwright.engine.execute import Counts
from warpwright.engine.kernels import traced
from warpwright.engine.standstill import Among
from warpwright.errors import ExecutionError
from warpwright.tools.checks.checked_execution import CheckedExecution, run_grids
from warpwright.tools.checks.global_shadow import Shadows
from warpwright.tools.checks.mbarriers import unrecorded
from warpwright.tools.checks.uninitialized_use import Verdict
from warpwright.tools.checks.warp_syncs import constant_masks
from warpwright.tools.checks.watch import Watch

if TYPE_CHECKING:
    from warpwright.tools.checks.checked_launch import CheckedLaunch

NOT_TRIED = "whether the results depend on it was not tested: the launch is on several devices"


@dataclass(slots=True)
class Joined:
    """What the watches of grids that run at once share."""

    grids: int
    blocks: int
    """Of each grid."""
    written: dict[int, npt.NDArray[np.uint8]]
    """Maps of written bytes of all devices (``checker.py``)."""
    origins: dict[int, str]
    shadows: Shadows = field(default_factory=Shadows)
    locations: dict[int, Any] = field(default_factory=dict)
    """Releases at words of global memory."""
    watches: list[Watch] = field(default_factory=list)

    def gave(self, allocation: Allocation) -> None:
        """An allocation has new cells."""
        for watch in self.watches:
            watch.use_cells(allocation)


class CheckedGrids:
    """Such launches as one :class:`warpwright.engine.kernels.Execution`.

    Args:
        launches: one for each device, in the order of the launches.
        among: describes a launch among the others, by its number and the numbers of those that have ended.
    """

    def __init__(self, launches: Sequence[CheckedLaunch], among: Callable[[int, Sequence[int]], Among]) -> None:
        self.launches, self._among = launches, among
        self._executions: list[CheckedExecution] = []

    @property
    def blocks_done(self) -> int:
        return sum(one.blocks_done for one in self._executions)

    def run(self) -> list[Counts]:
        """Run every block of all grids; findings go to the checkers.

        Raises:
            Cancelled, ExecutionError: as for any launch; a fault is also a finding.
        """
        checkers = [launch.checker for launch in self.launches]
        for checker in checkers:
            checker.forget_written()
        joined = Joined(
            len(self.launches),
            self.launches[0].context.geometry.blocks,
            {address: written for checker in checkers for address, written in checker.written.items()},
            {address: origin for checker in checkers for address, origin in checker.origins.items()},
        )
        joined.shadows.begin([])
        for launch in self.launches:
            program = launch.loaded.program
            masks = constant_masks(program, launch.ptx) if "synccheck" in launch.checker.checks else None
            kernel = traced(launch.loaded, launch.context, masks, policies=False, mbarriers=unrecorded(program))
            checks = set(launch.checker.checks) - {"schedcheck"}
            watch = Watch(launch, kernel, checks, joined)
            joined.watches.append(watch)
            self._executions.append(CheckedExecution(launch.context, kernel, launch.resident_blocks, watch))
        try:
            return run_grids(self._executions, self._among)
        except ExecutionError as error:
            self.launches[_number_of(error, self._executions)].report(error)
            raise
        finally:
            verdict = Verdict(None, NOT_TRIED)
            for launch, watch in zip(self.launches, joined.watches, strict=True):
                launch.checker.add(replace(finding) for finding in watch.findings(verdict))


def _number_of(error: ExecutionError, executions: Sequence[CheckedExecution]) -> int:
    """Number of the grid in which an error occurred."""
    return next((number for number, one in enumerate(executions) if one.failed is error), 0)
