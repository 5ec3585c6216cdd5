"""The debugger for Python programs and tests: ``ww.debug``."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy.typing as npt

from warpwright.errors import KilledError, WarpwrightError
from warpwright.run import Run
from warpwright.tools.debugger.commands import Commands
from warpwright.tools.debugger.debugger import Debugger, debugging
from warpwright.tools.debugger.execution import DebuggedExecution, Stop
from warpwright.tools.debugger.expressions import ExpressionError, Pointer, Value, evaluate
from warpwright.tools.debugger.forms import CommandError
from warpwright.tools.debugger.goals import Command
from warpwright.tools.debugger.places import line_of


class DebugError(WarpwrightError):
    """A command that the debugger cannot carry out."""


class DebugSession:
    """A program whose launches stop where you say.

    The program runs in a thread of its own, up to the first instruction of its first launch.  As a context manager, the session ends
    the program when the block ends.

    Args:
        program: what launches, called with ``arguments``: ``ww.debug(kernel[grid, block], n, a, x, y)``, or a function that
            runs several launches; or a finished run, which is launched again with its arguments as they are now, on copies.

    Raises:
        TypeError: ``program`` cannot be called, or is a run that cannot be repeated.
        LaunchError: the program no longer has an argument of the run, or its memory cannot be put back.
    """

    def __init__(self, program: Callable[..., object] | Run, *arguments: object) -> None:
        if isinstance(program, Run):
            if program.repeat is None:
                raise TypeError(
                    f"this run of {program.kernel} cannot be repeated because it was launched by a program's own driver calls or in another "
                    "process: use warpwright debug PROGRAM"
                )
            program = program.repeat
        if not callable(program):
            raise TypeError(
                f"debug() takes a launcher, a function or a run, not a {type(program).__name__}: ww.debug(kernel[grid, block], *arguments)"
            )
        self._program = program
        self._arguments = arguments
        self.debugger = Debugger(self)
        self._commands = Commands(self.debugger)
        self.stop: Stop | None = None
        """Why the launch has stopped; None once the program has ended."""
        self._stops: queue.Queue[Stop | BaseException | None] = queue.Queue()
        self._next: queue.Queue[Command] = queue.Queue()
        self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, args=(self._program, self._arguments), daemon=True)
        self._thread.start()
        self._wait()

    def _run(self, program: Callable[..., object], arguments: tuple[object, ...]) -> None:
        try:
            with debugging(self.debugger, interruptible=False):
                program(*arguments)
        except KilledError:
            self._stops.put(None)
        except BaseException as error:
            self._stops.put(error)
        else:
            self._stops.put(None)

    def _wait(self) -> Stop | None:
        found = self._stops.get()
        self.stop = found if isinstance(found, Stop) else None
        if isinstance(found, BaseException):
            raise found
        return self.stop

    # --- what the debugger asks, in the program's thread ---------------------------------------------------
    def launched(self, execution: DebuggedExecution) -> None:
        """Nothing is shown."""

    def stopped(self, execution: DebuggedExecution, stop: Stop) -> Command:
        """Hands the stop over, and waits for what comes next."""
        self._stops.put(stop)
        return self._next.get()

    def ended(self, execution: DebuggedExecution) -> None:
        """Nothing is shown."""

    # --- commands ----------------------------------------------------------------------------------------
    def execute(self, command: str) -> str:
        """Carry out a command of ``warpwright debug``; returns what it shows, for a command that resumes the stop.

        Raises:
            DebugError: it cannot be carried out.
            Exception: what the program raises, a fault of its kernel after the stop at it for example.
        """
        if self.stop is None:
            raise DebugError("the program has ended")
        try:
            found = self._commands.carry_out(command)
        except CommandError as error:
            raise DebugError(str(error)) from None
        if not isinstance(found, Command):
            return found
        if found.word in ("run", "start"):
            raise DebugError(f"{found.word} starts a program of warpwright debug; call restart() of the session")
        self._next.put(found)
        stop = self._wait()
        return self._commands.stop_text(stop) if stop is not None else "the program has ended"

    def _resume(self, command: str) -> Stop | None:
        self.execute(command)
        return self.stop

    def break_at(self, place: str, condition: str = "") -> int:
        """Set a breakpoint at ``FILE:LINE``, ``LINE``, a kernel's name or ``*ADDRESS``; returns its number."""
        return int(self.execute(f"break {place}" + (f" if {condition}" if condition else "")).split()[1])

    def watch(self, expression: str) -> int:
        """Stop after a change of a value in memory; returns the watchpoint's number."""
        return int(self.execute(f"watch {expression}").split()[1].rstrip(":"))

    def resume(self) -> Stop | None:
        """Run to the next stop; None when the program has ended."""
        return self._resume("continue")

    def step(self, count: int = 1) -> Stop | None:
        """Run the focus thread to another source line."""
        return self._resume(f"step {count}")

    def step_instruction(self, count: int = 1) -> Stop | None:
        """Run the focus thread for some instructions."""
        return self._resume(f"stepi {count}")

    def finish(self) -> Stop | None:
        """Run to the last instruction of the launch."""
        return self._resume("finish")

    def restart(self) -> Stop | None:
        """End the program and call it again, up to the first instruction of its first launch; breakpoints remain.

        Arrays that its launches have written hold what they wrote.
        """
        self.close()
        self.debugger.state.start_again(stops_at_launch=True)
        self.debugger.stops_at_launches = True
        self._start()
        return self.stop

    def reverse_resume(self) -> Stop | None:
        """Go back to the previous stop."""
        return self._resume("reverse-continue")

    def step_back(self, count: int = 1) -> Stop | None:
        """Go back to where the focus thread came to its source line, or to the one before."""
        return self._resume(f"reverse-step {count}")

    def step_instruction_back(self, count: int = 1) -> Stop | None:
        """Go back by some instructions of the focus thread."""
        return self._resume(f"reverse-stepi {count}")

    def focus(self, place: str) -> None:
        """Change the focus: ``block 1 thread 3``."""
        self.execute(f"cuda {place}")

    def evaluate(self, expression: str) -> Value:
        """The value of an expression for the focus thread: ``$R4``, ``threadIdx.x``, ``x[3]``.

        Raises:
            DebugError: it has none.
        """
        try:
            return evaluate(expression, self._execution.thread())
        except ExpressionError as error:
            raise DebugError(str(error)) from None

    @property
    def registers(self) -> dict[str, int]:
        """The focus thread's registers by name."""
        return self._execution.thread().registers()

    def memory(self, address: int, count: int, type: str = "float", space: str = "generic") -> npt.NDArray[Any]:
        """``count`` values of a C type from an address on; ``space``: ``global``, ``shared``, ``local`` or ``generic``.

        Raises:
            DebugError: they are not in memory that the thread can reach.
        """
        try:
            return self._execution.thread().memory(Pointer(address, type, space), count).copy()
        except ExpressionError as error:
            raise DebugError(str(error)) from None

    @property
    def line(self) -> tuple[str, int] | None:
        """File and line of the focus thread; None without line information, or once it has exited."""
        index = self._execution.thread().index
        line = line_of(self._execution.context.program, index) if index is not None else None
        return (line.file, line.number) if line is not None else None

    @property
    def address(self) -> int | None:
        """Byte address of the focus thread's next instruction in its kernel."""
        index = self._execution.thread().index
        return self._execution.kernel.addresses[index] if index is not None else None

    @property
    def instructions(self) -> int:
        """Warp-instructions that the launch has executed."""
        return self._execution.launch.clock

    @property
    def _execution(self) -> DebuggedExecution:
        if self.stop is None or self.debugger.current is None:
            raise DebugError("the program has ended")
        return self.debugger.current

    # --- end -----------------------------------------------------------------------------------------------
    def close(self) -> None:
        """End the program."""
        if self.stop is not None:
            self._next.put(Command("kill"))
            self._wait()
        self._thread.join()

    def __enter__(self) -> DebugSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def debug(program: Callable[..., object] | Run, *arguments: object) -> DebugSession:
    """Run a program up to the first instruction of its first launch and return the session that steps, shows and goes back.

    Args:
        program: what launches, called with ``arguments``: a configured kernel, or a function; or a finished run, which is launched again.
    """
    return DebugSession(program, *arguments)
