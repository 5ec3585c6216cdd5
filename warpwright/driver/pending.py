"""Work that streams have been given and that has not run yet: kernels of several streams, which share their device's chip.

A program that can have kernels side by side (two streams with no order between them) has its work queued.  The queue runs before any call
whose result a program can see: one that waits, asks, copies for the host, frees or ends (:func:`keeps` names those that do not).  What
may run side by side then is timed in one machine (`warpwright.launch_groups`).  Every other program's work runs when it is submitted.

Order is the streams': a stream's work in the order of its calls, the legacy default stream after all blocking streams and before their later work,
a stream after the events that it waits for.  Of work with no order between it, what does not need the chip runs first, by its time.

Kernels that watch memory wait in the queue too, in a program of one stream as well: the word that they poll may be written by the host or by
another stream before the next call that sees the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from warpwright.driver.cuda_error import say
from warpwright.driver.state import Context, Device, Stream, in_context, picoseconds, state
from warpwright.errors import UnsupportedError

if TYPE_CHECKING:
    from warpwright.api import Launcher

MOST_TOGETHER = 60
"""Kernels of one machine (``launch_groups``)."""
MOST_KERNELS = 1024
"""With so many the queue runs, so that memory does not grow with a program that never waits."""
IDLE_SECONDS = 1.0
"""Host time without a call after which the queue runs by itself: the host may be reading memory that a kernel is to write."""


class Work:
    """One piece of work of a stream."""

    __slots__ = ()

    def run(self, stream: Stream) -> None:
        """Do it now."""

    def starts_queue(self, stream: Stream) -> bool:
        """Whether it is queued although nothing else is."""
        return False

    def can_wait(self, stream: Stream) -> bool:
        """Whether it may run later than it was submitted."""
        return True

    def held(self) -> bool:
        """Whether what it waits for in memory is there."""
        return True

    def kernel(self) -> Launcher | None:
        """What a kernel's launch is made with; None for other work."""
        return None

    def shares(self) -> bool:
        """Whether other kernels may run beside it."""
        return False

    def parameter_bytes(self) -> bytes:
        """What a kernel's parameters are."""
        return b""

    def failed(self, error: Exception, context: Context, stream: Stream) -> None:
        """A kernel that shared the chip has failed.

        Raises:
            Exception: it is no fault of the kernel.
        """
        raise error

    def returns_when_done(self) -> bool:
        """Whether the call that submits it waits for its end."""
        return False

    def duration(self, stream: Stream) -> int | None:
        """Picoseconds, for work that does nothing but take time; None for other work."""
        return None


class Item:
    """Work in the queue."""

    __slots__ = ("context", "done", "extra", "floor", "launcher", "needs", "ps", "shares", "stream", "work")

    def __init__(self, stream: Stream, work: Work, context: Context, needs: Iterable[Item], extra: int = 0) -> None:
        self.stream, self.work, self.context = stream, work, context
        self.done = False
        self.ps = 0
        """Its end, when it is done."""
        self.extra = extra
        """Picoseconds that it begins after the last of what it needs; less than none in a graph, where a launch takes less than in a stream."""
        self.floor = max((item.ps for item in needs if item.done), default=0)
        self.needs = [item for item in dict.fromkeys(needs) if not item.done]
        self.launcher = work.kernel()
        self.shares = self.launcher is not None and work.shares()

    @property
    def ready(self) -> bool:
        return all(item.done for item in self.needs)

    @property
    def device(self) -> Device:
        return self.stream.device

    def start(self) -> int:
        """When it may begin, as far as what has run says."""
        ended = (item.ps for item in self.needs if item.done)
        return max(state().begin(self.stream), self.floor, *ended) + self.extra

    def __str__(self) -> str:
        on = f"stream {self.stream.handle:#x}" if self.stream.handle else "the default stream"
        return f"{self.launcher.kernel.name if self.launcher else type(self.work).__name__} in {on}"


class Queue:
    """The process's work that has not run."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._last: dict[Stream, Item] = {}
        self._kernels = 0
        self._lock = threading.RLock()
        self._running = False
        self._called = 0.0
        self._watching = False

    def add(self, stream: Stream, work: Work, after: Sequence[Item] = (), extra: int = 0) -> Item:
        """Queue work, after what its stream's order has before it and after other items."""
        with self._lock:
            default = stream.device.default_stream
            before = [self._last.get(stream), *after]
            if stream is default:
                before += [self._last.get(one) for one in stream.device.streams if one.blocking]
            elif stream.blocking:
                before.append(self._last.get(default))
            item = Item(stream, work, state().current(), [one for one in before if one is not None], extra)
            self.items.append(item)
            self._last[stream] = item
            self._kernels += item.launcher is not None
            self._called = time.monotonic()
            if not self._watching and state().host_memory:
                self._watching = True
                threading.Thread(target=self._watch, name="warpwright queue", daemon=True).start()
        if self._kernels >= MOST_KERNELS:
            self.drain()
        return item

    def drain(self) -> None:
        """Run all of it.

        Raises:
            UnsupportedError: a stream waits for a word that nothing writes.
            Exception: what the first piece that failed raises; faults of kernels mark their context instead, as ever.
        """
        with self._lock:
            if self._running:
                return
            self._running = True
            failures: list[Exception] = []
            try:
                while self.items:
                    self._step(failures)
            except BaseException:
                self.items.clear()
                raise
            finally:
                self._running = False
                if not self.items:
                    self._last.clear()
                    self._kernels = 0
        if failures:
            raise failures[0]

    def note(self, stream: Stream) -> str:
        """Which stream a kernel of the queue was launched in, for the report of its fault; empty where it ran when it was launched."""
        if not self._running:
            return ""
        on = f"stream {stream.handle:#x}" if stream.handle else "the default stream"
        return f"\n  launched in {on}; reported by the first later call that sees the stream's work"

    def drop(self) -> None:
        """Forget all of it."""
        with self._lock:
            self.items.clear()
            self._last.clear()
            self._kernels = 0

    def _watch(self) -> None:
        """Run the queue when the host has made no call for a while."""
        while True:
            time.sleep(IDLE_SECONDS / 4)
            if self.items and time.monotonic() - self._called > IDLE_SECONDS:
                try:
                    self.drain()
                except BaseException as error:
                    say(str(error))

    # --- what runs next ---------------------------------------------------------------------------
    def _step(self, failures: list[Exception]) -> None:
        """Run what is next: other work than kernels, by its time; a kernel; or kernels that share the chip."""
        ready = [item for item in self.items if item.ready]
        others = [item for item in ready if item.launcher is None and item.work.held()]
        kernels = [item for item in ready if item.launcher is not None]
        if others:
            self._alone(min(others, key=Item.start), failures)
        elif kernels:
            self._kernels_of(kernels, failures)
        else:
            waiting = [str(item) for item in ready]
            self.items.clear()
            raise UnsupportedError(
                f"{' and '.join(waiting)}: a stream waits for a word that nothing submitted so far writes; submit the writer before "
                "a call that waits for the stream"
            )

    def _alone(self, item: Item, failures: list[Exception]) -> None:
        """Run one piece of work; after a fault in its context it does not run."""
        try:
            if not item.context.sticky:
                with in_context(item.context):
                    item.stream.ps = item.start()
                    item.work.run(item.stream)
        except Exception as error:
            failures.append(error)
        finally:
            self._end([item])

    def _end(self, items: Sequence[Item]) -> None:
        for item in items:
            item.ps, item.done, item.needs = item.stream.ps, True, []
        self.items = [item for item in self.items if not item.done]

    def _kernels_of(self, ready: Sequence[Item], failures: list[Exception]) -> None:
        """Run the first kernel that is ready, with those of its device that may overlap with it."""
        timed = ready[0].device.gpu.timing == "full"
        # Without time a kernel that watches memory comes last: what it waits for may be another one's.
        first = next((item for item in ready if timed or not watches(item.launcher)), ready[0])
        here = [item for item in ready if item.device is first.device and item.shares]
        together = first.shares and len(here) > 1 and (timed or watches(first.launcher))
        if not together or first.context.sticky:
            self._alone(first, failures)
            return
        group = _Group(here[:MOST_TOGETHER])
        group.extend(self.items)
        ended: Sequence[Item] = group.items
        try:
            with in_context(here[0].context):
                ended = group.run(timed)
        except Exception as error:
            failures.append(error)
        finally:
            self._end(ended)


def watches(launcher: Launcher | None) -> bool:
    """Whether a kernel polls memory, or might."""
    from warpwright.engine.kernels import watches_memory

    return launcher is not None and watches_memory(launcher.kernel._loaded)


class _Group:
    """Kernels that share a chip, and when each may begin."""

    def __init__(self, ready: Sequence[Item]) -> None:
        self.items: list[Item] = list(ready)
        self.device = ready[0].device
        self.floors = {item: item.start() for item in ready}
        """When each may begin, as far as what has run says."""
        self.delays: dict[Item, dict[Item, int]] = {item: {} for item in ready}
        """Of each kernel: picoseconds from the end of another one of the group to its beginning."""
        self._before: dict[Item, set[Item]] = {item: {item} for item in ready}
        """Kernels of the group that have ended before the end of an item; itself."""

    def extend(self, items: Sequence[Item]) -> None:
        """Add kernels that only kernels of the group, events and waits come before; one that waits for all of the group can as well run after it."""
        floors, ends = dict(self.floors), {item: {item: 0} for item in self.items}
        for item in items:
            if item in ends:
                continue
            if any(need not in ends for need in item.needs if not need.done):
                continue
            waited = [need for need in item.needs if not need.done]
            floor = max([item.start(), *(floors[need] for need in waited if need.launcher is None)])
            after: dict[Item, int] = {}
            for need in waited:
                for kernel, delay in ends[need].items():
                    after[kernel] = max(delay + item.extra, after.get(kernel, delay + item.extra))
            before = set().union(*(self._before[need] for need in waited))
            if item.launcher is None:
                duration = item.work.duration(item.stream)
                if duration is None:
                    continue
                floors[item] = floor + duration
                ends[item] = {kernel: delay + duration for kernel, delay in after.items()}
                self._before[item] = before
            elif (
                item.shares
                and item.device is self.device
                and len(self.items) < MOST_TOGETHER
                and len(before) < len(self.items)
            ):
                self.floors[item], self.delays[item] = floor, after
                ends[item] = {item: 0}
                self._before[item] = before | {item}
                self.items.append(item)

    def run(self, timed: bool) -> list[Item]:
        """Time the kernels together until the chip is idle; those that have ended, or are given up.

        Raises:
            Exception: what their launch raises that is no fault of a kernel.
        """
        from warpwright.launch_groups import GroupError, Member, launch_until_idle

        base = min(self.floors.values())
        place = {item: number for number, item in enumerate(self.items)}
        members = [
            Member(
                item.launcher,
                item.work.parameter_bytes(),
                priority=item.stream.priority,
                after=tuple(place[one] for one in self.delays[item]),
                delays_seconds=tuple(delay * 1e-12 for delay in self.delays[item].values()),
                earliest_seconds=(self.floors[item] - base) * 1e-12,
            )
            for item in self.items
            if item.launcher is not None
        ]
        try:
            times = launch_until_idle(members, timed=timed)
        except GroupError as failure:
            item = self.items[failure.place]
            item.work.failed(failure.error, item.context, item.stream)
            return self.items
        ended = []
        for item, one in zip(self.items, times, strict=True):
            if one is not None:
                ended.append(item)
                # Of two kernels of one stream the later one is the later item.
                item.stream.ps = base + picoseconds(one.end_seconds) if timed else item.stream.ps
        return ended


queue = Queue()


def give(stream: Stream, work: Work) -> bool:
    """Queue work, where there is any reason to; False: it is to run now, and nothing is left before it."""
    if not queue.items and not work.starts_queue(stream):
        return False
    if work.can_wait(stream):
        queue.add(stream, work)
        return True
    queue.drain()
    return False


def concurrent(device: Device) -> bool:
    """Whether a device has two streams with no order between them."""
    streams = device.streams
    return len(streams) > 2 or (len(streams) == 2 and not streams[1].blocking)


# --- calls that leave the queue as it is -------------------------------------------------------------
_KEEPING = """
    LaunchKernel LaunchKernelEx LaunchKernelExC GraphLaunch PushCallConfiguration PopCallConfiguration LaunchHostFunc
    MemcpyAsync MemcpyHtoDAsync MemcpyDtoHAsync MemcpyDtoDAsync Memcpy2DAsync Memcpy3DAsync MemcpyPeerAsync
    MemsetAsync Memset2DAsync MemsetD8Async MemsetD16Async MemsetD32Async
    EventCreate EventCreateWithFlags EventRecord EventRecordWithFlags StreamWaitEvent
    StreamCreate StreamCreateWithFlags StreamCreateWithPriority StreamIsCapturing
    StreamWriteValue32 StreamWriteValue64 StreamWaitValue32 StreamWaitValue64 StreamBatchMemOp
    CtxSetCurrent CtxPushCurrent CtxPopCurrent SetDevice Init
    Malloc MallocHost HostAlloc MallocManaged MemAlloc MemAllocHost MemHostAlloc MemAllocManaged MemAllocAsync MallocAsync
    MemPrefetchAsync MemPrefetchBatchAsync MemDiscardBatchAsync MemDiscardAndPrefetchBatchAsync MemAdvise StreamAttachMemAsync
    MemFreeAsync FreeAsync PeekAtLastError FuncSetAttribute FuncSetCacheConfig KernelSetAttribute KernelSetCacheConfig
    DriverGetVersion RuntimeGetVersion PointerGetAttribute PointerGetAttributes MemHostGetDevicePointer HostGetDevicePointer
"""
_KEEPING_BEGINNINGS = (
    "CtxGet DeviceGet DeviceCan DevicePrimaryCtxGet GetDevice GetError GetLastError GetProcAddress GetDriverEntryPoint GetExportTable FuncGet "
    "FuncIs KernelGet LibraryGet ModuleGet Occupancy StreamGet GetSymbol GetFuncBySymbol GetKernel Choose"
)
_KEEP, _KEEP_PREFIXES = frozenset(_KEEPING.split()), tuple(_KEEPING_BEGINNINGS.split())


def keeps(name: str) -> bool:
    """Whether a call can neither see what work in the queue does nor change what it uses."""
    if name.startswith("nvml"):
        return True
    stem = name.partition("@")[0].removeprefix("__").removeprefix("cuda").removeprefix("cu")
    for suffix in ("_v2", "_v3", "_v4"):
        stem = stem.removesuffix(suffix)
    return stem in _KEEP or stem.startswith(_KEEP_PREFIXES)


def drained(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A call's function that runs the queue first, unless the call :func:`keeps` it."""
    if keeps(name):
        return function

    def call(*arguments: Any) -> Any:
        if queue.items:
            queue.drain()
        return function(*arguments)

    return call
