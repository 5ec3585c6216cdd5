"""A launch in the debugger: the interpreter, stopped before any instruction, and taken back to any earlier one.

The interpreter is deterministic.  To go back, the launch runs again from the last checkpoint before (``checkpoints.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.execute import Counts
from warpwright.engine.geometry import Dim3
from warpwright.engine.interpreted_launch import InterpretedExecution
from warpwright.engine.interpreter import BlockState, Kernel, WarpState
from warpwright.engine.interpreter.warp import Paused
from warpwright.engine.launch import LaunchContext
from warpwright.errors import ExecutionError, KilledError
from warpwright.isa.program import Kind
from warpwright.tools.debugger.breakpoints import Breakpoint, Breakpoints, Watchpoint
from warpwright.tools.debugger.checkpoints import Checkpoints
from warpwright.tools.debugger.expressions import (
    SCALARS,
    ExpressionError,
    Pointer,
    Value,
    bytes_of,
    evaluate,
    number_of,
)
from warpwright.tools.debugger.goals import Command, Reached, goal
from warpwright.tools.debugger.places import function_of, line_of
from warpwright.tools.debugger.threads import Focus, Thread, parameters_of, watched_place


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a launch has stopped."""

    reason: str
    """``launch``, ``breakpoint``, ``watchpoint``, ``step``, ``pause``, ``exception``, ``end`` or ``start`` (nothing is before)."""
    text: str = ""
    """What to show beside the place."""
    numbers: tuple[int, ...] = ()
    """Of the breakpoints or watchpoints."""


class Controller(Protocol):
    """Whoever decides where launches stop and what comes next."""

    breakpoints: Breakpoints
    pausing: bool
    """Set from outside to stop the launch before its next instruction."""

    def launched(self, execution: DebuggedExecution) -> bool:
        """A launch begins; whether it stops before its first instruction."""

    def stopped(self, execution: DebuggedExecution, stop: Stop) -> Command:
        """The launch has stopped; what comes next."""

    def ended(self, execution: DebuggedExecution) -> None:
        """The launch is over, however it ended."""


@dataclass(slots=True)
class _Seen:
    """An event on the way, by the clock of the instruction before which it shows."""

    clock: int
    focus: Focus
    stop: Stop
    index: int = -1
    """The instruction."""


class DebuggedExecution(InterpretedExecution):
    """One launch in the interpreter that stops and goes back as a controller says.

    Args:
        number: of the launch, from 0 on.
        ptx: of the kernel's module, for the types of parameters.
    """

    def __init__(
        self,
        context: LaunchContext,
        kernel: Kernel,
        resident_blocks: int,
        controller: Controller,
        number: int,
        ptx: str | None,
    ) -> None:
        super().__init__(context, kernel, resident_blocks, False)
        self.controller = controller
        self.number = number
        self._ptx = ptx
        self.focus = Focus(0, 0, 0)
        self.checkpoints = Checkpoints(self)
        self.launch.before = self._before
        self.used_uniform = frozenset(
            o.index
            for i in context.program.instructions
            for o in i.operands
            if o.kind is Kind.UNIFORM_REGISTER and o.index != 63
        )
        self._reached: Reached = lambda *_: False
        self._stop: Stop | None = None
        self._arrived = self.focus
        """The warp that was about to go on where the launch was taken back to."""
        self._skipped = -1
        """The instruction, by its clock, at which the launch stands: nothing stops before it again."""
        self._target: int | None = None
        """Run again to this clock, past everything."""
        self._note: Callable[[_Seen], None] | None = None
        """Takes every event while the launch runs again to find the last one."""
        self._previous: tuple[int, Focus, int] | None = None
        """Clock, first lane and instruction of what was executed last."""
        self._values: dict[int, Any] = {}
        self._generation = -1
        self._at: dict[int, list[Breakpoint]] = {}
        self._failure: ExecutionError | None = None
        self._finishing = False
        self._why = ""
        self._failed_condition = ""

    # --- views -----------------------------------------------------------------------------------------
    def block(self, linear: int) -> BlockState | None:
        """A resident block; None for one that has ended or not begun."""
        return next((r.block for r in self.resident if r.block.linear_index == linear), None)

    def block_index(self, linear: int) -> Dim3:
        """blockIdx of a block."""
        x, y, _ = self.context.geometry.grid
        return linear % x, linear // x % y, linear // (x * y)

    def thread(self, focus: Focus | None = None) -> Thread:
        """The view of a thread, without an argument of the one in focus.

        Raises:
            ExpressionError: its block is not resident.
        """
        return Thread(self, focus or self.focus)

    def parameters(self) -> dict[str, Value]:
        """The kernel's parameters."""
        return parameters_of(self, self._ptx)

    def global_bytes(self, address: int, size: int) -> bytes:
        """Bytes of global memory.

        Raises:
            ExpressionError: not all of them are in an allocation.
        """
        space = self.launch.globals
        if size < 0 or space.outside(np.array([address], np.int64), size)[0]:
            near = self.context.memory.nearest(address)
            beside = f"; nearest is {near.name}, {near.address:#x} to {near.end:#x}" if near is not None else ""
            raise ExpressionError(f"no memory is allocated at {address:#x} to {address + size:#x}{beside}")
        first = address - space.base
        return space.data[first : first + size].tobytes()

    def write_global(self, address: int, values: npt.NDArray[np.uint8]) -> None:
        """Change bytes of global memory.

        Raises:
            ExpressionError: not all of them are in an allocation.
        """
        self.global_bytes(address, len(values))
        space = self.launch.globals
        space.data[address - space.base : address - space.base + len(values)] = values

    # --- what the person at the debugger changes ---------------------------------------------------------
    def set_memory(self, thread: Thread, place: Pointer, value: int | float) -> None:
        """Set a value in memory.

        Raises:
            ExpressionError: it is not in memory that the thread can reach.
        """
        thread.write(place, bytes_of(place, value))
        self._changed_by_hand()

    def set_register(self, thread: Thread, name: str, value: int | float) -> None:
        """Set a register of a thread.

        Raises:
            ExpressionError: there is no such register.
        """
        bits = value if isinstance(value, int) else int(np.float32(value).view(np.uint32))
        thread.write_register(name, bits)
        self._changed_by_hand()

    def _changed_by_hand(self) -> None:
        """What came before leads to another state than this one: the launch goes back to here at most."""
        self._values = {}
        if not self.checkpoints.hindrance:
            self.checkpoints.begin_here()

    # --- running ---------------------------------------------------------------------------------------
    def run(self) -> Counts:
        """Run every block, as the controller says.

        Raises:
            ExecutionError: a fault, trap or deadlock.
            KilledError: the person at the debugger ended the program.
        """
        stops = self.controller.launched(self)
        self._reached = lambda *_: stops
        why = "launch"
        try:
            while True:
                stop = self._go(why)
                if stop is None:
                    return self.counts
                command = self.controller.stopped(self, stop)
                while command.reverse:
                    command = self.controller.stopped(self, self._back(command))
                if command.word == "kill":
                    raise KilledError
                stop, why = None, "step"
                self._begin(command)
        finally:
            self.launch.before = None
            self.controller.ended(self)

    def _begin(self, command: Command) -> None:
        self._finishing = command.word == "finish"
        index = self._index_of(command.focus)
        line = line_of(self.context.program, index) if index is not None else None
        self._reached = self._nth(goal(command, self.context.program, index, line), command.count)
        self._skipped = self.launch.clock

    def _index_of(self, focus: Focus | None) -> int | None:
        try:
            return self.thread(focus).index if focus is not None else None
        except ExpressionError:
            return None

    @staticmethod
    def _nth(reached: Reached, count: int) -> Reached:
        left = count

        def nth(*at: Any) -> bool:
            nonlocal left
            left -= reached(*at)
            return left <= 0

        return nth if count > 1 else reached

    def _go(self, why: str) -> Stop | None:
        """Run to the next stop; None when the launch has ended.

        Raises:
            ExecutionError: the launch fails, and has stopped for that before.
        """
        self._why = why
        try:
            stop = self._advance_to_stop()
        except ExecutionError as error:
            if self._failure is not None or self._previous is None:
                raise
            self._failure = error
            if not self.checkpoints.hindrance:
                self._rerun(self._previous[0])
            return Stop("exception", str(error))
        if stop is None and self._finishing and self._previous is not None and not self.checkpoints.hindrance:
            self._finishing = False
            self._rerun(self._previous[0])
            return Stop("end", "the last instruction of the launch")
        return stop

    def _advance_to_stop(self) -> Stop | None:
        if not self.checkpoints.clocks():
            self.checkpoints.take()
        while True:
            try:
                if not self.advance():
                    return None
            except Paused:
                stop, self._stop = self._stop, None
                if stop is not None:
                    return stop
                if self._target is not None and self.launch.clock >= self._target:
                    return Stop("step")
                self.checkpoints.take()
                self._skipped = self.launch.clock if self._target is None else self._skipped

    # --- before each instruction ------------------------------------------------------------------------
    def _before(self, warp: WarpState, index: int, lanes: npt.NDArray[Any]) -> None:
        clock = self.launch.clock
        focus = Focus(warp.block.linear_index, warp.warp_in_block, int(lanes.argmax()))
        if self._target is not None and clock >= self._target:
            self._arrived = focus
            raise Paused(index, lanes)
        if clock != self._skipped:
            seen = self._event(focus, warp, index, lanes)
            if self._note is not None:
                if seen is not None:
                    self._note(seen)
            elif self._target is None:
                if seen is not None:
                    self.focus, self._stop = seen.focus, seen.stop
                    raise Paused(index, lanes)
                if self.checkpoints.due():
                    raise Paused(index, lanes)
        self._previous = clock, focus, index

    def _event(self, focus: Focus, warp: WarpState, index: int, lanes: npt.NDArray[Any]) -> _Seen | None:
        """What stops the launch before this instruction."""
        table = self.controller.breakpoints
        if table.generation != self._generation:
            self._generation = table.generation
            self._at = table.by_instruction(self.kernel)
            self._values = {}
            self._place_watchpoints(focus)
        clock = self.launch.clock
        changed = self._changes() if table.watchpoints else None
        if changed is not None:
            return changed
        if self.controller.pausing and self._note is None and self._target is None:
            self.controller.pausing = False
            return _Seen(clock, focus, Stop("pause"))
        hit = self._hit(focus, index, lanes) if index in self._at else None
        if hit is not None:
            return hit
        if self._reached(focus, warp, index, lanes):
            own = self.focus
            if self._why == "launch" or (own.block, own.warp) != (focus.block, focus.warp) or not lanes[own.lane]:
                own = focus
            return _Seen(clock, own, Stop(self._why), index)
        return None

    def _hit(self, focus: Focus, index: int, lanes: npt.NDArray[Any]) -> _Seen | None:
        """The breakpoints of an instruction whose conditions hold for one of the lanes."""
        numbers, stopping = [], focus
        for one in self._at[index]:
            lane = self._first_lane(one, focus, lanes)
            if lane is None:
                continue
            if self._note is None:
                one.hits += 1
                if one.hits <= one.ignore or one.hits < one.from_hit:
                    continue
            numbers.append(one.number)
            stopping = Focus(focus.block, focus.warp, lane)
            if one.temporary and self._note is None:
                self.controller.breakpoints.delete(one.number)
        if not numbers:
            return None
        return _Seen(self.launch.clock, stopping, Stop("breakpoint", numbers=tuple(numbers)))

    def _first_lane(self, one: Breakpoint, focus: Focus, lanes: npt.NDArray[Any]) -> int | None:
        own = self.focus
        if not one.condition:
            return own.lane if (own.block, own.warp) == (focus.block, focus.warp) and lanes[own.lane] else focus.lane
        for lane in np.flatnonzero(lanes):
            try:
                if number_of(evaluate(one.condition, self.thread(Focus(focus.block, focus.warp, int(lane))))):
                    return int(lane)
            except ExpressionError as error:
                self._condition_failed(one, error)
                return int(lane)
        return None

    def _condition_failed(self, one: Breakpoint, error: ExpressionError) -> None:
        """A condition that cannot be evaluated stops once, and is no condition from then on."""
        one.condition = ""
        self._failed_condition = f"the condition of breakpoint {one.number} fails: {error}; it is removed"

    def condition_failure(self) -> str:
        """Why a breakpoint has lost its condition, once."""
        text, self._failed_condition = self._failed_condition, ""
        return text

    # --- watchpoints ------------------------------------------------------------------------------------
    def watched(self, one: Watchpoint) -> Any:
        """The value of a watchpoint now; None where its memory is not there."""
        try:
            if not one.placed:
                return None
            if one.block < 0:
                return self._typed(one, self.global_bytes(one.pointer.address, one.pointer.size_bytes))
            return self.thread(Focus(one.block, 0, 0)).load(one.pointer)
        except ExpressionError:
            return None

    @staticmethod
    def _typed(one: Watchpoint, data: bytes) -> Any:
        return np.frombuffer(data, "u8" if one.pointer.type.endswith("*") else SCALARS[one.pointer.type])[0].item()

    def _place_watchpoints(self, focus: Focus) -> None:
        """Those that were set before the program started again watch what their text names in this launch."""
        for one in self.controller.breakpoints.watchpoints:
            if not one.placed and one.kernel == self.context.program.name:
                try:
                    one.pointer, one.placed = watched_place(one.text, self.thread(focus)), True
                except ExpressionError:
                    one.placed = False

    def _changes(self) -> _Seen | None:
        found: _Seen | None = None
        for one in self.controller.breakpoints.watchpoints:
            now = self.watched(one)
            before = self._values.get(one.number, now)
            self._values[one.number] = now
            if not one.enabled or now is None or before is None or now == before or (now != now and before != before):
                continue
            by = self._previous
            if self._note is None:
                one.hits += 1
            text = f"{one.text}: {before} -> {now}"
            if by is not None:
                line = line_of(self.context.program, by[2])
                text += f", written at {line or hex(self.context.program.instructions[by[2]].address)}"
            focus = by[1] if by is not None else self.focus
            # Going back ends before the write.
            clock = by[0] if by is not None and self._note is not None else self.launch.clock
            found = _Seen(clock, focus, Stop("watchpoint", text, (one.number,)))
        return found

    # --- back -------------------------------------------------------------------------------------------
    def _rerun(self, clock: int) -> None:
        """Take the launch to an earlier instruction."""
        self.checkpoints.restore(clock)
        self._values, self._previous, self._target = {}, None, clock
        try:
            self._advance_to_stop()
        finally:
            self._target = None
        self._skipped = clock
        if self.block(self.focus.block) is None:
            self.focus = self._arrived

    def _back(self, command: Command) -> Stop:
        """Go back as a command says; to the launch's first instruction where nothing stops before."""
        if self.checkpoints.hindrance:
            return Stop("step", f"cannot go back: {self.checkpoints.hindrance}")
        self._failure = None
        now = self.launch.clock
        last = self._last_before(command, now) if command.word != "finish" else None
        self._rerun(last.clock if last is not None else self.checkpoints.clocks()[0])
        if last is None:
            self.focus = self._arrived
            first = "a value was set here; the launch cannot go back past that"
            return Stop(
                "start",
                first if self.checkpoints.begun_late else "the first instruction of the launch; nothing is before it",
            )
        self.focus = last.focus
        return last.stop

    def _last_before(self, command: Command, now: int) -> _Seen | None:
        """The last event before now: a breakpoint, a change, or where the command's step began."""
        left, until = command.count, now
        while left:
            found = self._last_event(command, until)
            if found is None:
                return None
            left, until = left - 1, found.clock
        return found

    def _last_event(self, command: Command, now: int) -> _Seen | None:
        clocks = [c for c in self.checkpoints.clocks() if c < now]
        index = self._index_of(command.focus)
        function = function_of(self.context.program, index) if index is not None else 0
        end = now
        walked: list[_Seen] = []
        for start in reversed(clocks):
            own, events = self._events(command, start, end)
            if command.word in ("step", "next"):
                inside = (
                    e for e in own if command.word == "step" or function_of(self.context.program, e.index) == function
                )
                walked = [*inside, *walked]
                own = self._beginnings(walked, start == clocks[0])
            best = max((*own, *events), key=lambda e: e.clock, default=None)
            if best is not None:
                return best
            end = start
        return None

    def _beginnings(self, walked: list[_Seen], from_the_start: bool) -> list[_Seen]:
        """Those of a thread's instructions with which it came to another source line."""
        found, before = [], None
        for n, seen in enumerate(walked):
            line = line_of(self.context.program, seen.index)
            if line is not None and line != before and (n or from_the_start):
                found.append(seen)
            before = line or before
        return found

    def _events(self, command: Command, start: int, end: int) -> tuple[list[_Seen], list[_Seen]]:
        """Instructions of the stepping thread, and other events, from a checkpoint on to before ``end``."""
        own: list[_Seen] = []
        events: list[_Seen] = []

        def note(seen: _Seen) -> None:
            if seen.clock < end:
                (own if seen.stop.reason == "step" else events).append(seen)

        self.checkpoints.restore(start)
        self._values, self._previous, self._skipped = {}, None, -1
        focus = command.focus
        stepping = focus is not None and command.word != "continue"
        self._why = "step"
        self._reached = (
            goal(Command("stepi", focus=focus), self.context.program, None, None) if stepping else lambda *_: False
        )
        self._target, self._note = end, note
        try:
            self._advance_to_stop()
            self._event_at_end(note)
        finally:
            self._target = self._note = None
        self._skipped = self.launch.clock
        return own, events

    def _event_at_end(self, note: Callable[[_Seen], None]) -> None:
        changed = self._changes() if self.controller.breakpoints.watchpoints else None
        if changed is not None:
            note(changed)
