"""Launches: collects arguments, checks the configuration and runs the kernel in its stream's order."""

from __future__ import annotations

import ctypes
import os
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from warpwright.driver import activities, cmemory, launch_records, results
from warpwright.driver.access_windows import WINDOW, window_of
from warpwright.driver.calls import code_of, entry
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.driver_state import Context, Stream, picoseconds, state
from warpwright.driver.functions import NON_PORTABLE, PORTABLE_CLUSTER, Function, function
from warpwright.driver.graphs import Node, submit
from warpwright.driver.pending import concurrent, queue
from warpwright.driver.updatable_nodes import UPDATABLE, Updatable, made_updatable
from warpwright.driver.work_order import races_of, submitted
from warpwright.engine.geometry import MAX_GRID, Dim3, check_cooperative
from warpwright.engine.graph_node_updates import DeviceNode
from warpwright.engine.kernels import lets_dependents_begin, may_wait_for_others, polls_memory
from warpwright.engine.launch_snapshot import LaunchSnapshot, hindrance
from warpwright.errors import AssertionFailedError, DeadlockError, ExecutionError, LaunchError, MemoryFaultError
from warpwright.ranges import open_ranges
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.chips import Partition
    from warpwright.engine.access_policy import AccessWindow
    from warpwright.kernel import Launcher
    from warpwright.library_times import LibraryTime
    from warpwright.ranges import Origin

_BUFFER_POINTER, _BUFFER_SIZE = 1, 2
"""CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE of the array ``extra``."""
_ATTRIBUTE_BYTES = 72
_COOPERATIVE, _CLUSTER, _PRIORITY = 2, 4, 8
_DEPENDENT = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""
_LAST_ATTRIBUTE = 16
"""CU_LAUNCH_ATTRIBUTE_* of CUDA 13.0."""
_LARGEST = {3: 3, 5: 2, 10: 3, 14: 100}
"""Values of attributes: synchronisation policy, scheduling policy of clusters, memory domain, share of shared memory."""


@dataclass(eq=False, slots=True)
class Launch(Node):
    """A kernel with its configuration and the bytes of its parameters."""

    function: Function
    grid: Dim3
    block: Dim3
    shared: int
    parameters: bytes
    cooperative: bool = False
    cluster: Dim3 | None = None
    attributes: tuple[bytes, ...] = ()
    dependent: bool = False
    """Whether it may begin before its predecessor in the stream has ended, and waits for that itself."""
    partition: Partition | None = None
    """The SMs that take its blocks; all by default."""
    window: AccessWindow | None = None
    """Access-policy windows: its own, or its stream's."""
    made_in: Origin | None = None
    """The NVTX ranges and the module that were open when it was submitted, if recorded."""
    library: LibraryTime | None = None
    """Of a launch from a drop-in library under ``--library-model``; with a ratio, it shares the chip with no other launch."""

    unchecked: bool = False
    """Whether it runs without the device's checks, under which it waited for work that they had not begun."""

    updatable: Updatable | None = None
    """Set by a launch's attribute, for the node that it becomes while a stream captures."""

    kind = 0

    def run(self, stream: Stream) -> None:
        execute(self, stream)

    def starts_queue(self, stream: Stream) -> bool:
        # A kernel that polls memory may be released by a stream that does not exist yet, on any device.
        if polls_memory(self.function.kernel._loaded):
            return self.can_wait(stream)
        if stream.device.gpu.timing != "full":
            return False
        return (concurrent(stream.device) or self._overlaps()) and self.can_wait(stream) and self.shares()

    def _overlaps(self) -> bool:
        """Whether a later launch may begin before it has ended."""
        return state().dependent_launches or lets_dependents_begin(self.function.kernel._loaded)

    def is_dependent(self) -> bool:
        return self.dependent

    def can_stop(self) -> bool:
        from warpwright.resident_launches import may_stop

        return may_stop(launcher_of(self), checked=not self.unchecked)

    def is_cooperative(self) -> bool:
        return self.cooperative

    def _fits(self) -> bool:
        """Whether a cooperative launch fits the chip; otherwise the call that submits it fails."""
        launcher = launcher_of(self)
        try:
            check_cooperative(launcher.geometry, launcher.resident, launcher.chip, launcher.kernel.name)
        except LaunchError:
            return False
        return True

    def can_wait(self, stream: Stream) -> bool:
        # Under the checks, work waits only for launches that the checks have given up.
        may_wait = stream.device.gpu.checker is None or self.unchecked or bool(queue.items)
        return (not self.cooperative or self._fits()) and may_wait

    def kernel(self) -> Launcher:
        return launcher_of(self)

    def shares(self) -> bool:
        from warpwright.launch_groups import hinders

        if self.library is not None and self.library.ratio is not None:
            return False
        launcher = launcher_of(self)
        return not hinders(launcher, launcher.kernel.gpu.timing != "off")

    def parameter_bytes(self) -> bytes:
        return self.parameters

    def origin(self) -> Origin | None:
        return self.made_in

    def device_updates(self) -> Updatable | None:
        return self.updatable

    def upload(self, updatable: Updatable, enabled: bool) -> None:
        updatable.upload(self, enabled, DeviceNode(bytearray(self.parameters), self.grid, enabled, MAX_GRID))

    def as_on_device(self, updatable: Updatable) -> tuple[Node, bool]:
        node = updatable.on_device()
        if node is None:
            return self, True
        return replace(self, parameters=bytes(node.parameters), grid=node.grid), node.enabled

    def with_attributes_of(self, other: Node) -> Node:
        return replace(self, window=other.window) if isinstance(other, Launch) else self

    def failed(self, error: Exception, context: Context, stream: Stream) -> None:
        if isinstance(error, AssertionFailedError):
            launch_records.note_failure(error)
            context.sticky = results.ASSERT
            os.write(2, f"{error}\n".encode())
            return
        if not isinstance(error, ExecutionError):
            raise error
        say(f"{error}{queue.note(stream)}")
        _report(error, stream)
        launch_records.note_failure(error)
        context.sticky = code_of(error)


def gather(target: Function, pointers: int, extra: int) -> bytes:
    """Parameter bytes from an array of pointers, or from the buffer that ``extra`` names."""
    if pointers and extra:
        raise CudaError(results.INVALID_VALUE)
    if pointers:
        raw = bytearray(target.parameter_bytes)
        for (offset, size), value in zip(
            target.parameters, cmemory.words64(pointers, len(target.parameters)), strict=True
        ):
            raw[offset : offset + size] = ctypes.string_at(value, size)
        return bytes(raw)
    if extra:
        given: dict[int, int] = {}
        at = extra
        while (key := cmemory.get64(at)) in (_BUFFER_POINTER, _BUFFER_SIZE):
            given[key] = cmemory.get64(at + 8)
            at += 16
        if _BUFFER_POINTER in given and _BUFFER_SIZE in given:
            return ctypes.string_at(given[_BUFFER_POINTER], cmemory.get64(given[_BUFFER_SIZE]))
        raise CudaError(results.INVALID_VALUE)
    if target.parameters:
        raise CudaError(results.INVALID_VALUE)
    return b""


def check(launch: Launch) -> None:
    """Refuse an invalid configuration."""
    chip = launch.function.image.context.device.gpu.chip
    if 0 in launch.grid or 0 in launch.block or prod(launch.block) > chip.sm.max_threads_per_block:
        raise CudaError(results.INVALID_VALUE)
    if launch.shared > launch.function.dynamic_shared_limit:
        raise CudaError(
            results.INVALID_VALUE,
            f"{launch.function.symbol}: {launch.shared:,} bytes of dynamic shared memory, but at most "
            f"{launch.function.dynamic_shared_limit:,} are allowed; raise it with cuFuncSetAttribute",
        )
    check_cluster_size(launch)


def check_cluster_size(launch: Launch) -> None:
    """Check the size of a cluster: more than eight blocks require that the kernel allows non-portable sizes, and
    clusters must fill the grid."""
    cluster = launch.cluster or launch.function.cluster
    if cluster is not None and any(
        not size or blocks % size for size, blocks in zip(cluster, launch.grid, strict=True)
    ):
        raise CudaError(results.INVALID_CLUSTER_SIZE)
    if cluster is not None and prod(cluster) > PORTABLE_CLUSTER and not launch.function.attribute(NON_PORTABLE):
        raise CudaError(
            results.INVALID_CLUSTER_SIZE,
            f"{launch.function.symbol}: clusters of {prod(cluster)} blocks, but more than {PORTABLE_CLUSTER} need the "
            "attribute for cluster sizes that are not portable (cuFuncSetAttribute)",
        )


def launcher_of(launch: Launch) -> Launcher:
    """The launcher of a launch.

    Raises:
        CudaError: if it cannot be launched.
    """
    from warpwright.kernel import Launcher

    target = launch.function
    shape = (launch.grid, launch.block, launch.shared, launch.cluster or target.cluster, launch.partition)
    key = (*shape, launch.window)
    launcher = target.launchers.get(key)
    if launcher is None:
        if len(target.launchers) >= 64:
            target.launchers.clear()
        try:
            launcher = target.launchers[key] = Launcher(target.kernel, *shape).with_window(launch.window)
        except LaunchError as error:
            code = results.LAUNCH_OUT_OF_RESOURCES if "registers" in str(error) else results.INVALID_VALUE
            code = results.INVALID_CLUSTER_SIZE if "cluster" in str(error) else code
            raise CudaError(code, str(error)) from None
    return launcher


def execute(launch: Launch, stream: Stream) -> None:
    """Run a kernel now.  A fault in it marks the context, as on a card; an invalid launch raises an error."""
    from warpwright.run_launch import launch_packed

    s = state()
    context = s.current()
    launcher = launcher_of(launch)
    began = s.begin(stream, stream.device.gpu.chip.launch.launch_latency_us, kernel=True)
    races = races_of(stream.device)
    if races is not None:
        races.work = submitted(stream)
    before = _before_waiting(launch, stream)
    try:
        run = launch_packed(
            launcher,
            launch.parameters,
            cooperative=launch.cooperative,
            origin=launch.made_in,
            library=launch.library,
            checked=not launch.unchecked,
        )
    except AssertionFailedError as error:
        launch_records.note_failure(error)
        context.sticky = results.ASSERT
        os.write(2, f"{error}\n".encode())
        return
    except ExecutionError as error:
        if before and isinstance(error, DeadlockError) and error.repeats:
            _wait_unchecked(launch, stream, before)
            return
        say(f"{error}{queue.note(stream)}{_advice(error, launch, stream)}")
        if launch.unchecked:
            _report(error, stream)
        # As compute-sanitizer's --destroy-on-device-error kernel does: one run finds the errors of every launch.
        if not (isinstance(error, MemoryFaultError) and s.gpu.checks("memcheck")):
            launch_records.note_failure(error)
            context.sticky = code_of(error)
        return
    except LaunchError as error:
        raise CudaError(results.COOPERATIVE_LAUNCH_TOO_LARGE, str(error)) from None
    if run.timed:
        stream.ended_kernel(began + picoseconds(run.seconds_with_children))
    activities.done(launch, stream, began, stream.ps if run.timed else began)


def _before_waiting(launch: Launch, stream: Stream) -> list[LaunchSnapshot]:
    """The contents, before a checked launch, of all memories that it can write; empty unless it may wait for other work, as the checks run no other work beside it."""
    gpu = stream.device.gpu
    if gpu.checker is None:
        return []
    loaded = launch.function.kernel._loaded
    waits = may_wait_for_others(loaded) and not launch.unchecked and not launch.cooperative and queue.can_retry(launch)
    peers = gpu.memory.peers() if waits else []
    kept = waits and not hindrance(loaded.program, gpu.memory, peers)
    gpu.checker.repeats_without = kept
    return [LaunchSnapshot(memory) for memory in (gpu.memory, *peers)] if kept else []


def _wait_unchecked(launch: Launch, stream: Stream, before: Sequence[LaunchSnapshot]) -> None:
    """Queue a launch that only repeated itself under the checks, to run it from its start without them, beside other work."""
    for snapshot in before:
        snapshot.restore()
    checker = stream.device.gpu.checker
    assert checker is not None
    checker.not_checked(launch.function.kernel._loaded.kernel.plain_name)
    queue.retry(stream, launch, replace(launch, unchecked=True))


def _advice(error: ExecutionError, launch: Launch, stream: Stream) -> str:
    """Advice to add to the message of a checked launch that ended with a deadlock, if work that did not run beside it could have released it."""
    waits = isinstance(error, DeadlockError) and error.repeats and may_wait_for_others(launch.function.kernel._loaded)
    if not waits or launch.unchecked or stream.device.gpu.checker is None:
        return ""
    from warpwright.tools.checks.checker import BEGINS_LATER

    return f"\n  {BEGINS_LATER}"


def _report(error: ExecutionError, stream: Stream) -> None:
    """Add the deadlock of a launch without checks to the findings of its device."""
    checker = stream.device.gpu.checker
    if checker is not None and isinstance(error, DeadlockError):
        checker.deadlock(error, checker.launches, checker.host)


LaunchKernel = namedtuple(
    "LaunchKernel", "handle grid_x grid_y grid_z block_x block_y block_z shared stream pointers extra"
)
"""Arguments of cuLaunchKernel."""


def _launch(call: LaunchKernel, cooperative: bool = False) -> None:
    s = state()
    s.current()
    target = function(call.handle)
    grid, block = (call.grid_x, call.grid_y, call.grid_z), (call.block_x, call.block_y, call.block_z)
    made = Launch(target, grid, block, call.shared, gather(target, call.pointers, call.extra), cooperative)
    submit_launch(made, call.stream)


@entry("cuLaunchKernel", record=LaunchKernel)
def launch_kernel(call: LaunchKernel) -> None:
    _launch(call)


LaunchCooperative = namedtuple(
    "LaunchCooperative", "handle grid_x grid_y grid_z block_x block_y block_z shared stream pointers"
)
"""Arguments of cuLaunchCooperativeKernel."""


@entry("cuLaunchCooperativeKernel", record=LaunchCooperative)
def launch_cooperative(call: LaunchCooperative) -> None:
    _launch(LaunchKernel(*call, extra=0), True)


def submit_launch(launch: Launch, handle: int) -> None:
    """Run a launch in a stream's order, on the SMs that the stream has.  An invalid launch ends the stream's capture.

    Raises:
        CudaError: if it is invalid, or kernel, stream and current context belong to different devices.
    """
    try:
        check(launch)
    except CudaError:
        queue = state().stream(handle)
        queue.capture_broken = queue.capture is not None
        raise
    s = state()
    stream = s.stream(handle)
    if stream.device is not s.device or launch.function.image.context.device is not s.device:
        raise CudaError(
            results.INVALID_HANDLE,
            f"{launch.function.symbol}: the kernel, its stream and the current context are of different devices",
        )
    if session.notes_origins:
        launch.made_in = open_ranges.origin()
    if launch.updatable is not None and stream.capture is None:
        raise CudaError(
            results.INVALID_VALUE, f"{launch.function.symbol}: only nodes of graphs are updatable by kernels"
        )
    launch.partition = s.partition_of(stream)
    if launch.window is None:
        launch.window = window_of(stream.attributes.get(WINDOW))
    if stream.capture is None:
        s.host_touches()
        s.host_calls(stream.device.gpu.chip.launch.launch_call_us)
    submit(stream, launch)


def with_attributes(launch: Launch, pointer: int, count: int) -> Launch:
    """A launch with an array of CUlaunchAttribute applied; those that only guide caches and scheduling have no effect.

    Raises:
        CudaError: for an unknown attribute, or an invalid value.
    """
    cmemory.given(pointer)
    kept = tuple(ctypes.string_at(pointer + _ATTRIBUTE_BYTES * i, _ATTRIBUTE_BYTES) for i in range(count))
    changes: dict[str, Any] = {"attributes": kept}
    for i in range(count):
        at = pointer + _ATTRIBUTE_BYTES * i
        number = cmemory.get32(at)
        if number > _LAST_ATTRIBUTE or cmemory.get32(at + 8) > _LARGEST.get(number, 0xFFFF_FFFF):
            raise CudaError(results.INVALID_VALUE)
        if number == _COOPERATIVE:
            changes["cooperative"] = bool(cmemory.get32(at + 8))
        elif number == WINDOW:
            changes["window"] = window_of(ctypes.string_at(at + 8, 64))
        elif number == UPDATABLE:
            changes["updatable"], raw = made_updatable(None, ctypes.string_at(at + 8, 64))
            ctypes.memmove(at + 8, raw, len(raw))
        elif number == _CLUSTER:
            changes["cluster"] = cmemory.read("3I", at + 8)
        elif number == _DEPENDENT:
            changes["dependent"] = bool(cmemory.get32(at + 8))
            state().dependent_launches |= changes["dependent"]
    return replace(launch, **changes)


@entry("cuLaunchKernelEx")
def launch_kernel_ex(configuration: int, handle: int, pointers: int, extra: int) -> None:
    s = state()
    s.current()
    gx, gy, gz, bx, by, bz, shared, stream, attributes, count = cmemory.read("7IQQI", configuration)
    target = function(handle)
    made = Launch(target, (gx, gy, gz), (bx, by, bz), shared, gather(target, pointers, extra))
    if count:
        made = with_attributes(made, attributes, count)
    submit_launch(made, stream)
