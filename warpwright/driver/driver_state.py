"""The simulated devices as the driver sees them: contexts, streams' clocks and handles.

Addressing is unified: a device address is a host address, so that managed and registered host memory need no translation, and each
device has its own part of the addresses.  Work runs when it is submitted, or from the queue (``pending.py``); streams
keep times on one simulated clock, in picoseconds, so that events measure how long a card would have taken.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from warpwright.driver import printf_buffer, results
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.host_clock import of_process
from warpwright.engine.managed_pages import FIRST_GPU, ON_HOST, HostFaults, ManagedMemory
from warpwright.engine.work_clocks import Clock, new_queue
from warpwright.session import HostTime, chips_named, session

if TYPE_CHECKING:
    from warpwright.api import GPU
    from warpwright.chips import Chip, Partition
    from warpwright.driver.graphs import Graph
    from warpwright.driver.visible_devices import MigDevice
    from warpwright.engine.allocation import Allocation
    from warpwright.system import Machine, Route

Item = TypeVar("Item")
DRIVER_VERSION = 13000
"""The version that cuDriverGetVersion returns; drivers of CUDA 13 also run programs of CUDA 12."""
_FIRST_HANDLE = 0x6000_0000_0000
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2


class PerThread(Generic[Item]):
    """A value per thread of the process, keyed by the system's thread.

    Python's thread-local values are unsuitable: a thread that Python did not start gets a new Python state, without
    them, in each call.
    """

    def __init__(self, make: Callable[[], Item]) -> None:
        self._make = make
        # Module-level names are cleared before the last destructors make calls.
        self._thread = threading.get_ident
        self._values: dict[int, Item] = {}

    def __len__(self) -> int:
        return len(self._values)

    def mine(self) -> Item:
        """The calling thread's value, created on first use."""
        number = self._thread()
        if number not in self._values:
            self._values[number] = self._make()
        return self._values[number]


class Handles:
    """Objects for the opaque pointers that programs hold."""

    def __init__(self) -> None:
        self._next = itertools.count(_FIRST_HANDLE, 64)
        self._items: dict[int, Any] = {}

    def add(self, item: Any) -> int:
        handle = next(self._next)
        self._items[handle] = item
        return handle

    def get(self, kind: type[Item], handle: int) -> Item:
        """The object; raises CUDA_ERROR_INVALID_HANDLE if there is none of that kind, or for a null handle the kind's own error (``of_null``)."""
        item = self._items.get(handle)
        if not isinstance(item, kind):
            raise CudaError(results.INVALID_HANDLE if handle else getattr(kind, "of_null", results.INVALID_VALUE))
        return item

    def find(self, handle: int) -> Any:
        return self._items.get(handle)

    def all(self, kind: type[Item]) -> list[Item]:
        """All objects of a kind."""
        return [item for item in list(self._items.values()) if isinstance(item, kind)]

    def drop(self, handle: int) -> None:
        self._items.pop(handle, None)


@dataclass(eq=False)
class Stream:
    """Work in order on one device, and the simulated time at which it will have ended."""

    device: Device
    flags: int = 0
    priority: int = 0
    handle: int = 0
    ps: int = 0
    """Simulated time at which its work so far will have ended, in picoseconds of the process's clock."""
    kernel_ps: int = -1
    """The same for its last kernel, -1 without one; equal to ``ps`` until other work takes time."""
    capture: Graph | None = None
    capture_tail: list[Any] = field(default_factory=list)
    """Nodes on which the next captured node depends."""
    capture_id: int = 0
    capture_mode: int = 0
    capture_origin: bool = False
    capture_thread: int = 0
    """The thread that began the capture."""
    capture_broken: bool = False
    attributes: dict[int, bytes] = field(default_factory=dict)
    context: Context | None = None
    """The green context in which it was created."""
    graph_in: Stream | None = None
    """Of a branch of a graph: the stream in which the graph was launched."""
    queue: int = field(default_factory=new_queue)
    clock: Clock = field(default_factory=dict)
    """Work of this and other streams that ends before its next work begins (``work_order.py``)."""

    @property
    def blocking(self) -> bool:
        """Whether the stream and the default stream wait for each other."""
        return not self.flags & 1

    @property
    def lead_ps(self) -> int:
        """How long before the end of a kernel the launch overhead of the stream's next kernel begins, in picoseconds."""
        return picoseconds(self.device.gpu.chip.launch.stream_launch_lead_us * 1e-6)

    def ended_kernel(self, ps: int) -> None:
        """Record that the stream's last work so far is a kernel that ends at ``ps`` (picoseconds)."""
        self.ps = self.kernel_ps = ps


@dataclass(eq=False)
class Fault:
    """The error that a failed kernel leaves in its context."""

    code: int = 0


@dataclass(eq=False)
class Context:
    """A context of a device."""

    device: Device
    flags: int = 0
    handle: int = 0
    primary: bool = False
    users: int = 0
    fault: Fault = field(default_factory=Fault)
    limits: dict[int, int] = field(default_factory=dict)
    cache_config: int = 0
    modules: list[Any] = field(default_factory=list)
    allocations: dict[int, Allocation] = field(default_factory=dict)
    peers: set[Device] = field(default_factory=set)
    """Devices whose memory has been made accessible to this context."""
    storage: dict[int, Any] = field(default_factory=dict)
    partition: Partition | None = None
    """The SMs of a green context."""
    destroyed: bool = False

    @property
    def sticky(self) -> int:
        """The result that every call returns after a kernel has failed."""
        return self.fault.code

    @sticky.setter
    def sticky(self, code: int) -> None:
        self.fault.code = code


_making = threading.RLock()


class Device:
    """One simulated device: its GPU, created on demand, its primary context and its streams."""

    def __init__(self, ordinal: int, chip: str | None, mig: MigDevice | None = None) -> None:
        self.ordinal = ordinal
        """CUDA's number of it, among the devices that the process sees."""
        self.index = ordinal
        """Its number among all cards, as NVML and the machine count them."""
        self.mig = mig
        """The MIG device that it represents; None for a whole card."""
        self.primary = Context(self, primary=True)
        self.default_stream = Stream(self)
        self.streams: list[Stream] = [self.default_stream]
        self.engines_free: dict[str, int] = {}
        """When the copy engine of each direction will have finished its current work."""
        self._chip = chip
        self._gpu: GPU | None = None

    @property
    def made_gpu(self) -> GPU | None:
        """Its GPU, if it has been created."""
        return self._gpu

    @property
    def gpu(self) -> GPU:
        if self._gpu is None:
            # Threads of a program may initialise different devices at the same time.
            with _making:
                self._gpu = self._gpu or self._make()
        return self._gpu

    def _make(self) -> GPU:
        from warpwright.api import GPU

        check = os.environ.get("WARPWRIGHT_CHECK", "")
        level = os.environ.get("WARPWRIGHT_CHECK_LEVEL") or None
        timing = os.environ.get("WARPWRIGHT_TIMING") or None
        caches = os.environ.get("WARPWRIGHT_CACHES") or None
        # Test suites launch kernels once, with few warps, for which compiling does not pay.
        made = GPU(
            self._part() or self._chip,
            timing=timing,
            engine="tiered",
            check=check,
            check_level=level,
            device=self.index,
            caches=caches,
            memory_faults=os.environ.get("WARPWRIGHT_MEMORY_FAULTS") or "allocation",
        )
        made.on_output = printf_buffer.keep
        made.report_overrun.report = say
        machine = state().machine
        if machine is not None:
            from warpwright.system import connect

            connect(machine, made.memory, self.index, state().managed)
        return made

    def _part(self) -> Chip | None:
        """The part of its card that the process uses; None for all of it."""
        from warpwright.driver import visible_devices

        if self.mig is None and not os.environ.get(visible_devices.PERCENTAGE):
            return None
        from warpwright.chips import load_chip
        from warpwright.gpu_options import DEFAULT_CHIP

        whole = self.mig.chip if self.mig is not None else load_chip(self._chip or DEFAULT_CHIP)
        return visible_devices.provisioned(whole)


def _wrong_setting() -> str:
    """What is wrong with the variables that set up the devices; empty if nothing is."""
    from warpwright.driver import settings

    try:
        settings.refuse_invalid()
    except ValueError as error:
        return str(error)
    return ""


def _managed(machine: Machine | None) -> ManagedMemory | None:
    """The machine's managed memory, if time passes there."""
    if machine is None or os.environ.get("WARPWRIGHT_TIMING") == "off":
        return None
    from warpwright.system import managed_memory_of

    return managed_memory_of(machine)


class State:
    """All state of one process, created by the first cuInit."""

    def __init__(self) -> None:
        self.handles = Handles()
        self._number = os.getpid
        self.process = os.getpid()
        wrong = _wrong_setting()
        self.machine = _machine(None if wrong else os.environ.get("WARPWRIGHT_SYSTEM"))
        """The links between the devices; None: peer accesses use the numbers in the chip's file."""
        named = None if wrong else os.environ.get("WARPWRIGHT_GPU")
        chips = chips_named(named) if self.machine is None else self.machine.gpus
        self.cards = [Device(i, chip) for i, chip in enumerate(chips)]
        """The devices that NVML lists: whole cards."""
        self.devices, self.no_device = self.cards, ""
        self.no_device_code = results.NO_DEVICE
        """What calls return if the process sees no device."""
        if wrong:
            self.no_device = wrong
        else:
            self._choose(chips)
        self.managed = _managed(self.machine)
        """Where pages of managed memory are, if they move between the devices."""
        self.links_free: dict[tuple[str, str], int] = {}
        """When each direction of a link between devices will have finished the copies given to it."""
        for device in self.devices:
            device.primary.handle = self.handles.add(device.primary)
        self._stacks: PerThread[list[Context]] = PerThread(list)
        self.initialized = False
        self.host_time: HostTime = session.host_clock or of_process()
        """Simulated time of the host: the end of the latest work that it has waited for. Its own work takes no time."""
        self.submitted_ps: int | None = None
        """When the host submitted the current work, if that was before now."""
        self.host_memory = self.machine is not None and self.machine.translation is not None
        """Whether memory accessible to kernels and the host at the same time has been allocated."""
        self.dependent_launches = False
        """Whether a launch has been made that need not wait for the end of its predecessor in its stream."""
        self.host_clock: Clock = {}
        """Work known to the host to have ended (``work_order.py``)."""
        self.began = time.perf_counter()

    def _choose(self, chips: Sequence[str | None]) -> None:
        """Make the cards that the process names visible, or one MIG device instead of them, if there is one."""
        from warpwright.chips.mig import MigError
        from warpwright.driver.visible_devices import NamedTwiceError, mig_device, share_percent, visible_cards

        try:
            share_percent()
            places = visible_cards(chips)
            found = mig_device(chips, places) if self.machine is None else None
        except (MigError, ValueError) as error:
            self.no_device = str(error)
            self.no_device_code = results.INVALID_DEVICE if isinstance(error, NamedTwiceError) else results.NO_DEVICE
            return
        if found is not None:
            self.devices = [Device(0, chips[found.ordinal], found)]
            return
        self.devices = [self.cards[place] for place in places]
        for ordinal, device in enumerate(self.devices):
            device.ordinal = ordinal

    @property
    def device(self) -> Device:
        """The calling thread's device: that of its context, or the first device."""
        stack = self.stack
        return stack[-1].device if stack else self.devices[0]

    @property
    def gpu(self) -> GPU:
        """The calling thread's GPU."""
        return self.device.gpu

    def can_access(self, device: Device, peer: Device) -> bool:
        """Whether the driver offers a device access to another one's memory."""
        return device is not peer and (self.machine is None or self.route(device, peer) is not None)

    def route(self, device: Device, peer: Device) -> Route | None:
        """The machine's route between two devices; None if there is no route or no machine."""
        from warpwright.system import route

        return route(self.machine, device.index, peer.index) if self.machine is not None else None

    def reaches(self, device: Device, peer: Device) -> bool:
        """Whether some context of a device has been given access to a peer."""
        return any(peer in context.peers for context in self.handles.all(Context) if context.device is device)

    def others(self, device: Device) -> list[Device]:
        """The process's other devices."""
        return [one for one in self.devices if one is not device]

    def device_of(self, ordinal: int) -> Device:
        """A device by its number.

        Raises:
            CudaError: if there is none, or cuInit was not called.
        """
        self.check_process()
        if not 0 <= ordinal < len(self.devices):
            raise CudaError(results.INVALID_DEVICE)
        return self.devices[ordinal]

    # --- contexts ---------------------------------------------------------------------------------
    @property
    def stack(self) -> list[Context]:
        """The calling thread's contexts, the current one last."""
        return self._stacks.mine()

    @property
    def calling_threads(self) -> int:
        """Threads of the host that have made calls."""
        return len(self._stacks)

    def current(self) -> Context:
        """The calling thread's context.

        Raises:
            CudaError: if there is none, or a kernel has failed in it.
        """
        self.check_process()
        stack = self.stack
        if not stack:
            raise CudaError(results.INVALID_CONTEXT)
        if stack[-1].sticky:
            raise CudaError(stack[-1].sticky)
        return stack[-1]

    def context_of(self, device: Device | None) -> Context:
        """The current context, or a device's primary one if the current context belongs to another device."""
        context = self.current()
        return context if device is None or device is context.device else device.primary

    def check_process(self) -> None:
        """CUDA_ERROR_NOT_INITIALIZED before cuInit and, as on a card, in the child of a fork."""
        if self.initialized and self.process != self._number():
            say("a forked child cannot use the CUDA of its parent; start children with the spawn method")
            raise CudaError(results.NOT_INITIALIZED)
        if not self.initialized:
            raise CudaError(results.NOT_INITIALIZED)

    # --- streams ----------------------------------------------------------------------------------
    def stream(self, handle: int) -> Stream:
        """The stream of a handle; 0, 1 and 2 are the default streams of the calling thread's device."""
        if handle <= PER_THREAD_STREAM:
            return self.device.default_stream
        found = self.handles.get(Stream, handle)
        if found.context is not None and found.context.destroyed:
            raise CudaError(results.CONTEXT_IS_DESTROYED)
        return found

    def partition_of(self, stream: Stream) -> Partition | None:
        """The SMs that take a stream's kernels; None for all. A default stream is the current context's."""
        context = stream.context or (self.stack[-1] if stream is stream.device.default_stream else None)
        return context.partition if context is not None else None

    @property
    def host_ps(self) -> int:
        """The host's simulated time, in picoseconds."""
        return self.host_time.ps

    @contextmanager
    def submitted_at(self, ps: int) -> Iterator[None]:
        """Within the block, work counts as submitted at this time of the host."""
        self.submitted_ps = ps
        try:
            yield
        finally:
            self.submitted_ps = None

    def host_calls(self, us: float) -> None:
        """Account for the time of a host call, if the host's clock is simulated."""
        if self.host_time.simulated:
            self.host_time.ps += picoseconds(us * 1e-6)

    def begin(
        self, stream: Stream, latency_us: float = 0.0, submitted_ps: int | None = None, kernel: bool = False
    ) -> int:
        """Simulated time at which new work of a stream can start, in picoseconds.

        A device's default stream waits for its others, and they for it; nothing starts before the host submits it.

        Args:
            latency_us: from the host's call to the device, where the host's clock is simulated.
            submitted_ps: when the host submitted it; now by default.
            kernel: whether it is a kernel, whose launch overhead begins before the previous kernel of its stream has ended.
        """
        if submitted_ps is None:
            submitted_ps = self.host_ps if self.submitted_ps is None else self.submitted_ps
        if self.host_time.simulated:
            submitted_ps += picoseconds(latency_us * 1e-6)
        default = stream.device.default_stream
        if stream is default:
            stream.ps = max(s.ps for s in stream.device.streams if s.blocking)
        elif stream.blocking:
            stream.ps = max(stream.ps, default.ps)
        earliest = stream.ps - (stream.lead_ps if kernel and stream.ps == stream.kernel_ps else 0)
        stream.ps = max(stream.ps, submitted_ps)
        return max(earliest, submitted_ps)

    def host_waits(self, ps: int) -> None:
        """The host waits for the end of some work: its later work starts no earlier."""
        gpu = self.device.made_gpu
        if gpu is not None:
            self.host_calls(gpu.chip.launch.synchronize_call_us)
        self.host_time.wait_until(ps)

    def host_touches(self) -> None:
        """Advance the host's clock by its faults of managed memory since it was last asked: its later work starts no earlier."""
        managed = self.managed
        if managed is None or not managed.tables:
            return
        managed.note_touches()
        taken, managed.host = managed.host, HostFaults()
        costs = managed.costs
        seconds = (taken.faults * costs.host_fault_us + taken.pages * costs.host_page_us) * 1e-6
        evicted_us = taken.evicted_regions * costs.evict_region_us + taken.new_pages * costs.evict_new_page_us
        seconds += evicted_us * 1e-6
        for processor, size in taken.evicted_bytes.items():
            migration = self.cards[processor - FIRST_GPU].gpu.memory.migration
            assert migration is not None
            seconds += size / (migration.copy_gb_per_s[ON_HOST] * 1e9)
        if seconds:
            self.host_time.wait_until(self.host_time.ps + picoseconds(seconds))

    @property
    def timed(self) -> bool:
        return self.gpu.timing != "off"

    def now(self) -> float:
        """Host time since the start, for events of a device without simulated time."""
        return time.perf_counter() - self.began


def _machine(name: str | None) -> Machine | None:
    """The machine of ``warpwright run --system``."""
    if not name:
        return None
    from warpwright.system import load_machine

    return load_machine(name)


def picoseconds(seconds: float) -> int:
    """A time on the process's simulated clock."""
    return round(seconds * 1e12)


_state: State | None = None


def state() -> State:
    """This process's state."""
    global _state
    if _state is None:
        _state = State()
    return _state


def has_begun() -> bool:
    """Whether the state exists."""
    return _state is not None


@contextmanager
def in_context(context: Context) -> Iterator[None]:
    """Make a context current within the block."""
    stack = state().stack
    stack.append(context)
    try:
        yield
    finally:
        stack.remove(context)
