"""A functional launch with errors: compiled code runs all blocks but those in which an SM's bits flip, which the interpreter runs.

Memory's flipped words are in none of the ranges that accesses are checked against.  An access to one stops the launch exactly there; what the access
does to the word is done, memory becomes again what it was when the run of blocks began, and the run begins again: nothing else has happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import Status
from warpwright.engine.clock_uses import judged
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.constant_bank0 import is_cooperative
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.faults import source_line
from warpwright.engine.interpreted_launch import InterpretedExecution
from warpwright.engine.interpreter import ClusterState, Kernel
from warpwright.engine.interpreter.grid import runs_of
from warpwright.engine.interpreter.warp import WarpState
from warpwright.engine.kernels import compiled_execution, lowered_of
from warpwright.engine.launch import LaunchContext
from warpwright.engine.launch_snapshot import LaunchSnapshot, hindrance
from warpwright.engine.module import LoadedKernel
from warpwright.engine.textures.launch_textures import uses_textures
from warpwright.errors import MemoryFaultError, UnsupportedError
from warpwright.faults.device_faults import WORD_BYTES, DeviceFaults
from warpwright.faults.injection import MEMORY, Injection, InjectionError
from warpwright.faults.sm_faults import HungError, Strike, strike_of
from warpwright.toolchain.demangle import plain_name

Array = npt.NDArray[Any]


def refuse(loaded: LoadedKernel, context: LaunchContext) -> None:
    """Refuse a launch that cannot be watched.

    Raises:
        UnsupportedError: says why.
    """
    reason = hindrance(loaded.program, context.memory)
    if not reason and (context.geometry.cluster_blocks > 1 or is_cooperative(loaded.program)):
        reason = "its blocks wait for each other"
    if not reason and uses_textures(loaded.program):
        reason = "it samples textures"
    if reason:
        name = plain_name(loaded.program.name)
        raise UnsupportedError(
            f"errors cannot be injected into {name}: {reason}; inject into another launch (launch=N)"
        )


class InjectedExecution:
    """One launch with its injections.

    Args:
        limit: times the instructions of the same block without a fault after which a block hangs; None: for ever.
        hang_seconds: host time after which compiled code hangs; None: for ever.
    """

    def __init__(
        self,
        loaded: LoadedKernel,
        context: LaunchContext,
        resident_blocks: int,
        faults: DeviceFaults,
        injections: Sequence[Injection],
        *,
        instruction_limit: int | None = None,
        hang_seconds: float | None = None,
    ) -> None:
        refuse(loaded, context)
        self.loaded, self.context, self.faults = loaded, context, faults
        self.resident_blocks = resident_blocks
        self.instruction_limit, self.hang_seconds = instruction_limit, hang_seconds
        blocks = context.geometry.blocks
        beyond = [one.block for one in injections if one.block >= blocks]
        if beyond:
            raise InjectionError(f"block {beyond[0]}: the launch has blocks 0 to {blocks - 1}")
        self.memory_faults = sorted((one for one in injections if one.structure in MEMORY), key=lambda one: one.block)
        self.sm_faults = [one for one in injections if one.structure not in MEMORY]
        self._done = Counts()

    @property
    def blocks_done(self) -> int:
        """Blocks that have ended so far."""
        return self._done.blocks_done

    def run(self) -> Counts:
        """Run every block.

        Raises:
            UncorrectableEccError: a word with two flipped bits was read.
            ExecutionError: a fault, trap or deadlock, of the kernel or of what a flip has made of it.
        """
        total = self.context.geometry.blocks
        struck = {one.block for one in self.sm_faults}
        moments = {0, total, *struck, *(block + 1 for block in struck), *(one.block for one in self.memory_faults)}
        for first, end in pairwise(sorted(moments)):
            for injection in self.memory_faults:
                if injection.block == first:
                    self.faults.plant(injection)
            if first in struck:
                self._watched(partial(self._interpret, first))
            else:
                self._watched(partial(self._compiled, first, end - first))
        return self._done

    def _watched(self, part: Callable[[], None]) -> None:
        """Run blocks, and once more after each access to a flipped word."""
        whole = self.context.memory.table()
        try:
            while True:
                self.context.show_allocations(self.faults.table(whole))
                before = self._snapshot()
                counts = replace(self._done)
                try:
                    part()
                    return
                except MemoryFaultError as error:
                    if not self._accessed(error):
                        raise
                self._done = counts
                assert before is not None
                with self.faults.quiet():
                    before.restore()
        finally:
            self.context.show_allocations(whole)

    def _snapshot(self) -> LaunchSnapshot | None:
        if not self.faults.upsets:
            return None
        with self.faults.quiet():
            return LaunchSnapshot(self.context.memory)

    def _accessed(self, error: MemoryFaultError) -> bool:
        """Do to flipped words what an access does; False where it touched none.

        Raises:
            UncorrectableEccError: it read one that cannot be corrected.
        """
        words = self.faults.touched(error.address, error.bytes) if error.space == "global" else []
        if not words:
            return False
        word = words[0]
        # Lanes beside each other that store less than a word fill it together.
        whole = error.bytes >= WORD_BYTES or error.bytes * error.lanes.bit_count() >= WORD_BYTES
        if error.access == "write" and whole:
            self.faults.overwrite(word)
        else:
            line = source_line(self.context.program, error.instruction)
            at = f" at {line}" if line else ""
            self.faults.read(word, f"kernel {error.kernel}, block {error.block}, thread {error.thread}{at}")
        return True

    # --- blocks -----------------------------------------------------------------------------------
    def _add(self, counts: Counts) -> None:
        self._done.warp_instructions += counts.warp_instructions
        self._done.thread_instructions += counts.thread_instructions
        self._done.blocks_done += counts.blocks_done

    def _compiled(self, first: int, count: int) -> None:
        execution: CompiledExecution = compiled_execution(self.loaded, self.context, self.resident_blocks, 1)
        with self._time_limit():
            counts = execution.run_range(first, count)
        for space in execution.spaces:
            space.give_back()
        self._add(counts)

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """A flip in memory may be one in the bound of a loop."""
        if self.hang_seconds is None:
            yield
            return
        timer = threading.Timer(self.hang_seconds, self.context.cancel)
        timer.start()
        try:
            yield
        except Cancelled:
            raise HungError(
                f"kernel {plain_name(self.loaded.program.name)} has not ended after {self.hang_seconds:g} s of host time"
            ) from None
        finally:
            timer.cancel()

    def _interpret(self, number: int) -> None:
        """Run one block with its flips."""
        program = self.loaded.program
        if self.loaded.interpreted is None:
            self.loaded.interpreted = Kernel(program, lowered_of(self.loaded))
        kernel = self.loaded.interpreted
        with self.faults.quiet():
            execution = InterpretedExecution(self.context, kernel, 1, judged(kernel.program, kernel.lowered))
        launch = execution.launch
        launch.globals.allocations = self.faults.table(self.context.memory.table()).astype(np.int64)
        strikes = strike_of(
            [one for one in self.sm_faults if one.block == number], self.faults, kernel, self.instruction_limit
        )
        cluster = ClusterState(launch, number)
        for strike in strikes:
            strike.attach(cluster.blocks[0])
        launch.before = _together(strikes)
        run = runs_of(cluster)[0]
        outcome = run.step()
        while outcome is None:
            if self.context.cancelled:
                raise Cancelled
            outcome = run.step()
        if outcome.status is not Status.EXIT:
            raise execution.error_of(outcome)
        late = [one.injection for one in strikes if not one.struck]
        if late:
            raise InjectionError(
                f"{late[0].structure}: instruction {late[0].instruction} of block {number} was never reached: warps {outcome.instructions:,} "
                "instructions in all; name an earlier one"
            )
        self._add(Counts(outcome.instructions, outcome.thread_instructions, 1))


def _together(strikes: Sequence[Strike]) -> Callable[[WarpState, int, Array], None]:
    """One watcher of a launch for all of its flips."""
    if len(strikes) == 1:
        return strikes[0].before
    for strike in strikes:
        strike.is_alone = False

    def before(warp: WarpState, index: int, lanes: Array) -> None:
        for strike in strikes:
            strike.before(warp, index, lanes)

    return before


def profile(loaded: LoadedKernel, context: LaunchContext, faults: DeviceFaults, number: int) -> list[int]:
    """Instructions that each warp of a block executes without faults; memory stays as it is.

    Raises:
        ExecutionError: the block does not end well by itself.
    """
    refuse(loaded, context)
    if loaded.interpreted is None:
        loaded.interpreted = Kernel(loaded.program, lowered_of(loaded))
    kernel = loaded.interpreted
    with faults.quiet():
        execution = InterpretedExecution(context, kernel, 1, judged(kernel.program, kernel.lowered))
    memory = execution.launch.globals
    memory.journal = []
    try:
        run = runs_of(ClusterState(execution.launch, number))[0]
        outcome = run.step()
        while outcome is None:
            outcome = run.step()
    finally:
        memory.take_back()
    if outcome.status is not Status.EXIT:
        raise execution.error_of(outcome)
    return [warp.instructions for warp in run.block.warps]
