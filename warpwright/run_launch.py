"""One launch from start to end: packs the arguments, runs the kernel, checked and timed as its GPU asks, and copies results back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpwright.engine.arguments import pack
from warpwright.engine.child_launches import Child
from warpwright.engine.launch_snapshot import LaunchSnapshot, hindrance
from warpwright.engine.services import heap_of
from warpwright.errors import UnsupportedError, only_checked
from warpwright.launch_context import assembled
from warpwright.launch_job import Job
from warpwright.library_times import LibraryTime
from warpwright.messages import report
from warpwright.ranges import Origin
from warpwright.repeatable_launch import Repeat
from warpwright.run import Run
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.kernel import Launcher


def launch(launcher: Launcher, arguments: Sequence[Any]) -> Run:
    """Run a configured kernel with its arguments.

    Raises:
        ArgumentError: the arguments do not fit the kernel's parameters.
        LaunchError: a cooperative grid does not fit the chip.
        ExecutionError: a fault, a trap or a deadlock.
        KeyboardInterrupt: Ctrl-C; host arrays keep their values and the GPU stays usable.
    """
    kernel, memory = launcher.kernel, launcher.kernel.gpu.memory
    bound, words = launcher.bound(arguments)
    packed = pack(kernel.parameters, kernel.name, words, memory)
    try:
        run = _run(bound, packed.parameters)
        packed.copy_back()
    finally:
        packed.release()
    run.repeat = Repeat(launch, launcher, arguments)
    clock = session.host_clock
    if clock is not None and clock.simulated and run.timed:
        costs = launcher.chip.launch
        took_us = costs.launch_call_us + costs.launch_latency_us + run.seconds_with_children * 1e6
        clock.ps += round(took_us * 1e6)
    return run


def launch_packed(
    launcher: Launcher,
    parameters: bytes | bytearray,
    *,
    cooperative: bool | None = None,
    origin: Origin | None = None,
    library: LibraryTime | None = None,
    checked: bool = True,
) -> Run:
    """Run a configured kernel with packed parameter bytes, and record it like any other launch.

    Args:
        cooperative: True refuses a grid that does not fit the chip at once, even when the kernel never synchronises it; False gives
            ``grid.sync()`` no workspace, so that it traps; None, a cooperative launch where the kernel synchronises its grid.
        origin: where the program made it.
        library: what its time is scaled by.
        checked: False runs it without the checks of its GPU.
    """
    run = _run(launcher, parameters, cooperative, checked)
    run.origin, run.library = origin, library
    if session.on_launch is not None:
        session.on_launch(run)
    return run


def _run(
    launcher: Launcher, parameters: bytes | bytearray, cooperative: bool | None = None, checked: bool = True
) -> Run:
    """Run a launch: checked if the GPU has checks and ``checked`` is true, timed, or first checked and then timed from the same state."""
    gpu = launcher.kernel.gpu
    if session.debugger is not None:
        return _run_once(launcher, parameters, cooperative, checked=False, timed=False)
    if gpu.injected is not None and gpu.injected.active:
        return _run_with_errors(launcher, parameters, cooperative)
    if gpu.injected is not None:
        gpu.injected.launches += 1
    if gpu.checker is None or not checked:
        return _run_once(launcher, parameters, cooperative, checked=False, timed=gpu.timing != "off")
    if not (gpu.timing != "off" or session.times_checked):
        return _run_once(launcher, parameters, cooperative, checked=True, timed=False)
    if "malloc" in launcher.kernel._loaded.program.services:
        # Its heap is part of the state.
        heap_of(gpu.memory)
    peers = gpu.memory.peers()
    reason = hindrance(launcher.kernel._loaded.program, gpu.memory, peers)
    if reason:
        report(f"a launch of {launcher.kernel.name} is checked but not timed: {reason}")
        run = _run_once(launcher, parameters, cooperative, checked=True, timed=False)
        run.why_untimed = only_checked(reason)
        return run
    before = [LaunchSnapshot(memory) for memory in (gpu.memory, *peers)]
    _run_once(launcher, parameters, cooperative, checked=True, timed=False)
    for snapshot in before:
        snapshot.restore()
    return _run_once(launcher, parameters, cooperative, checked=False, timed=True, says=False)


def _run_with_errors(launcher: Launcher, parameters: bytes | bytearray, cooperative: bool | None) -> Run:
    """Run a launch on a device with errors: without timing, and then from the same state with timing if no result changed."""
    gpu = launcher.kernel.gpu
    faults = gpu.faults
    timed = gpu.timing != "off"
    changes = not faults.ecc and any(one.launch == faults.launches for one in faults.waiting)
    if timed and (changes or (faults.exposures and not faults.ecc)):
        raise UnsupportedError(
            f"{launcher.kernel.name}: flips that no code corrects can only be injected without timing: add timing='off' (--timing off)"
        )
    if not timed:
        return _run_once(launcher, parameters, cooperative, checked=False, timed=False)
    refuse_snapshot(launcher)
    with faults.quiet():
        before = LaunchSnapshot(gpu.memory)
    _run_once(launcher, parameters, cooperative, checked=False, timed=False)
    with faults.quiet():
        before.restore()
    return _run_once(launcher, parameters, cooperative, checked=False, timed=True, says=False)


def refuse_snapshot(launcher: Launcher) -> None:
    """Refuse a launch that cannot run twice from the same state.

    Raises:
        UnsupportedError: says why.
    """
    reason = hindrance(launcher.kernel._loaded.program, launcher.kernel.gpu.memory)
    if reason:
        raise UnsupportedError(
            f"{launcher.kernel.name}: errors cannot be injected and timed: {reason}; add timing='off'"
        )


def _run_once(
    launcher: Launcher,
    parameters: bytes | bytearray,
    cooperative: bool | None,
    *,
    checked: bool,
    timed: bool,
    says: bool = True,
) -> Run:
    """Run it.

    Args:
        says: pass on the kernel's output.
    """
    gpu = launcher.kernel.gpu
    with assembled(launcher, parameters, cooperative, says=says) as (context, launches):
        job = Job(launcher, context, checked, timed)
        if checked and gpu.checker is not None:
            gpu.checker.launching()
        job.run()
    run = job.result()
    if launches is not None:
        run.children = [_run_child(launcher, child) for child in launches.children]
    return run


def _run_child(parent: Launcher, child: Child) -> Run:
    """Run a launch made by a kernel, and record it like any launch."""
    kernel = type(parent.kernel)(parent.kernel.module, child.symbol)
    launcher = type(parent)(kernel, child.grid, child.block, child.shared, partition=parent.partition)
    return launch_packed(launcher, child.parameters)
