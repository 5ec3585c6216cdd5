"""Tiered execution: interprets small launches of kernels without compiled code until compiling costs less.

Compiling an instruction takes as long as interpreting it for about thirty warps, so compiling a kernel that runs once,
with a few warps, does not pay (``python -m bench.numba_simulator``).  Blocks are therefore interpreted in sequence
until the kernel has taken as much time as its compilation would; then the current block is undone, and compiled code
runs it and all that follow.  Compiled code also repeats whatever ends with an error, so that one engine reports faults
and deadlocks.

Both engines return the same bits, print in the same order and count the same instructions if a kernel's warps run one
after the other to their end or to a barrier.  Warps that wait for others may see a different order, so interpretation
ends if a warp yields, or takes more backward branches than compiled code allows in a waiting loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from warpwright.engine.abi import BACK_EDGES_BEFORE_YIELD, Status
from warpwright.engine.blocks import is_clock
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.constant_bank0 import is_cooperative
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter import ClusterState, Environment, Kernel, Launch, Limits, Outcome, OverLimit
from warpwright.engine.interpreter.gather_scatter import global_memory
from warpwright.engine.interpreter.grid import runs_of
from warpwright.engine.jit.codegen import has_code, setting_of
from warpwright.engine.jit.lockstep import ROWS_IN_AN_ITERATION
from warpwright.engine.jit.shape_inference import CodeForm
from warpwright.engine.kernels import code_key, compiled_execution, copies_in_bulk, lowered_of
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel, computed_once
from warpwright.engine.textures.launch_textures import uses_textures
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.isa.services import SERVICES

INSTRUCTIONS_FOR_CODE = 32
"""Number of warp-instructions interpreted in the time in which one instruction is compiled (numba-cuda's
``test_complex.py``: 54 kernels of 27,500 instructions, 1.6 ms to compile one, 50 µs to interpret one for a warp)."""
INSTRUCTIONS_FOR_WARP = 16
"""Cost of preparing a warp, in warp-instructions."""
LIKELY_EXCESS = 2
"""A launch is compiled once its blocks so far predict more than this many times what the interpreter may take; more than 1, because blocks are not all alike."""
LONG_LOOP_BACK_EDGES = 4096
REVERSIBLE = frozenset(("vprintf", "malloc", "free", "__assertfail"))
"""Services whose effects can be undone."""
assert set(SERVICES) > REVERSIBLE


@computed_once
def is_fit(loaded: LoadedKernel) -> bool:
    """Whether the interpreter may begin a kernel's launches.

    It may not if the kernel reads time, synchronises its grid, has copies or textures that write memory, or may depend
    on the order of warps: with atomics in loops whose warps take turns.
    """
    lowered, program = lowered_of(loaded), loaded.program
    return not (
        is_cooperative(program)
        or uses_textures(program)
        or copies_in_bulk(loaded)
        or not REVERSIBLE.issuperset(program.services)
        or any(is_clock(op) or op.name == "wgmma" for low in lowered for op in low.ops)
        or (_has_atomics(loaded) and _loops_over_rows(program, lowered))
    )


@computed_once
def _has_atomics(loaded: LoadedKernel) -> bool:
    """Whether warps may communicate without a barrier."""
    accesses = (op for low in lowered_of(loaded) for op in low.ops if op.name in ("load", "store", "atomic"))
    return any(op.name == "atomic" or op.attr.strong for op in accesses)


def _loops_over_rows(program: Program, lowered: Sequence[Lowered]) -> bool:
    """Whether a loop may read so many rows that the warps of a block take turns in it (``jit/lockstep.py``)."""
    index_of = {i.address: n for n, i in enumerate(program.instructions)}
    loads = [0]
    for low in lowered:
        loads.append(loads[-1] + sum(op.name == "load" for op in low.ops))
    for n, low in enumerate(lowered):
        for op in low.ops:
            first = index_of.get(op.attr, n + 1) if op.name == "branch" else n + 1
            if first <= n and loads[n + 1] - loads[first] >= ROWS_IN_AN_ITERATION:
                return True
    return False


def budget(loaded: LoadedKernel, geometry: Geometry) -> int:
    """Number of warp-instructions of a launch that the interpreter may execute; 0 if it should not begin."""
    left = INSTRUCTIONS_FOR_CODE * len(loaded.program.instructions) - loaded.interpreted_instructions
    # A launch that certainly takes more is not begun: every warp executes something.
    least = geometry.blocks * geometry.warps_per_block * INSTRUCTIONS_FOR_WARP
    return left if least < left and geometry.cluster_blocks == 1 else 0


def interprets(loaded: LoadedKernel, context: LaunchContext) -> int:
    """The budget with which a launch begins in the interpreter; 0 if it is compiled at once, or code is available."""
    geometry = context.geometry
    key = code_key(geometry, False)
    if key in loaded.compiled:
        return 0
    instructions = budget(loaded, geometry)
    if not instructions or context.memory.has_mapped or not is_fit(loaded):
        return 0
    if key not in loaded.without_code:
        setting = setting_of(loaded.program, geometry.block, CodeForm(grid_fits=key[4], clustered=key[5]))
        if has_code(loaded.program, lowered_of(loaded), setting, False):
            return 0
        loaded.without_code.add(key)
    return instructions


class TieredExecution:
    """One functional launch that begins in the interpreter.

    Args:
        compiled: creates the execution by compiled code when it is needed.
        instructions: warp-instructions that may be interpreted.
    """

    def __init__(
        self,
        loaded: LoadedKernel,
        context: LaunchContext,
        compiled: Callable[[], CompiledExecution],
        instructions: int,
    ) -> None:
        self.loaded = loaded
        self.context = context
        self.compiled = compiled
        self.compile_seconds = 0.0
        """Seconds spent compiling during the launch."""
        self.phase = "interpreting"
        """Until its kernel has been compiled; then ``compiling``, and at last ``running``."""
        self._rest: CompiledExecution | None = None
        self._ended = Counts()
        if loaded.interpreted is None:
            loaded.interpreted = Kernel(loaded.program, lowered_of(loaded))
        self.launch = Launch(
            loaded.interpreted,
            context.geometry,
            global_memory(context.memory),
            context.banks,
            Environment(context["sm_count"], context.sms, context.services),
        )
        # Warps that cannot communicate wait for nothing; a loop of this many iterations is left to compiled code.
        self.launch.turn_back_edges = LONG_LOOP_BACK_EDGES
        self._most = instructions
        self.launch.limits = Limits(instructions, BACK_EDGES_BEFORE_YIELD - 1 if _has_atomics(loaded) else 1 << 62)

    @property
    def blocks_done(self) -> int:
        """Blocks that have ended so far."""
        return self._ended.blocks_done + (self._rest.blocks_done if self._rest is not None else 0)

    def improve_if_long(self) -> None:
        """As for a compiled launch."""
        if self._rest is not None:
            self._rest.improve_if_long()

    def run(self) -> Counts:
        """Run every block, in sequence.

        Raises:
            Cancelled: when the launch structure's ``cancel`` was set.
            ExecutionError: a fault, trap or deadlock.
        """
        ended, blocks = self._ended, self.context.geometry.blocks
        while ended.blocks_done < blocks:
            if self.context.cancelled:
                raise Cancelled
            outcome = self._block(ended.blocks_done)
            if outcome is None:
                break
            ended.warp_instructions += outcome.instructions
            ended.thread_instructions += outcome.thread_instructions
            ended.blocks_done += 1
            if self._spent() * blocks > LIKELY_EXCESS * self._most * ended.blocks_done:
                break  # what is left takes so long that compiled code would be needed in the end
        self.loaded.interpreted_instructions += self._spent()
        return ended if ended.blocks_done == blocks else self._finish()

    def _spent(self) -> int:
        """What interpretation has cost so far, in warp-instructions."""
        warps = self._ended.blocks_done * self.context.geometry.warps_per_block
        return self.launch.clock + INSTRUCTIONS_FOR_WARP * warps

    def _block(self, number: int) -> Outcome | None:
        """Run a block to its end; returns None if it was undone."""
        memory, services = self.launch.globals, self.context.services
        memory.journal = []
        take_back = services.mark() if services is not None else None
        try:
            run = runs_of(ClusterState(self.launch, number))[0]
            outcome = run.step()
            while outcome is None:
                outcome = run.step()
            if outcome.status is Status.EXIT:
                return outcome
        except OverLimit:
            pass
        memory.take_back()
        if take_back is not None:
            take_back()
        return None

    def _finish(self) -> Counts:
        """Run the remaining blocks in compiled code."""
        began = time.perf_counter()
        self.phase = "compiling"
        self._rest = self.compiled()
        self.phase = "running"
        self.compile_seconds = time.perf_counter() - began
        first = self._ended.blocks_done
        counts = self._rest.run(first)
        self._rest = None
        self._ended.warp_instructions += counts.warp_instructions
        self._ended.thread_instructions += counts.thread_instructions
        self._ended.blocks_done += counts.blocks_done
        return self._ended


def functional_execution(
    loaded: LoadedKernel, context: LaunchContext, resident_blocks: int, threads: int
) -> CompiledExecution | TieredExecution:
    """A launch without timing, by whichever engine starts first."""

    def compiled() -> CompiledExecution:
        return compiled_execution(loaded, context, resident_blocks, threads)

    instructions = interprets(loaded, context)
    return TieredExecution(loaded, context, compiled, instructions) if instructions else compiled()
