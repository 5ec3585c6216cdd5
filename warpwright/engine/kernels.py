"""From a loaded kernel to something that runs: lowered once, compiled once for a block shape, ready for launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from warpwright.engine.execute import Counts
from warpwright.engine.interpreted import InterpretedExecution
from warpwright.engine.interpreter import Kernel
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel
from warpwright.isa.ops import Lowered
from warpwright.isa.sass.lower import lower


class Runnable(Protocol):
    """A functional launch, whoever executes it."""

    counts: Counts

    def run(self) -> Counts: ...


@dataclass(slots=True)
class CompiledLaunch:
    """A kernel compiled for one launch's block shape."""

    loaded: LoadedKernel
    context: LaunchContext
    lowered: list[Lowered]

    def execution(self, resident_blocks: int) -> Runnable:
        """The launch without time."""
        kernel = self.loaded.interpreted
        if kernel is None:
            kernel = self.loaded.interpreted = Kernel(self.loaded.program, self.lowered)
        return InterpretedExecution(self.context, kernel, resident_blocks)


def compile_launch(loaded: LoadedKernel, context: LaunchContext, trace: bool) -> CompiledLaunch:
    """Everything that a launch needs, from what earlier launches of the kernel left."""
    if loaded.lowered is None:
        loaded.lowered = lower(loaded.program)
    return CompiledLaunch(loaded, context, loaded.lowered)
