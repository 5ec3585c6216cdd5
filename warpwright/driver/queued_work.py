"""One piece of work of a stream, and its place in the queue (``pending.py``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from warpwright.driver import activities
from warpwright.driver.driver_state import Context, Device, Stream, state
from warpwright.engine.work_clocks import Clock, learn

if TYPE_CHECKING:
    from warpwright.kernel import Launcher
    from warpwright.ranges import Origin


class Work:
    """One piece of work of a stream."""

    __slots__ = ()

    def run(self, stream: Stream) -> None:
        """Execute it now."""

    def take_time(self, stream: Stream) -> bool:
        """Let it take its time in the stream, without its effect; returns False for work that has its effect when it
        begins."""
        return False

    def act(self, stream: Stream) -> None:
        """Apply the effect of work that has taken its time."""

    def starts_queue(self, stream: Stream) -> bool:
        """Whether it is queued although nothing else is."""
        return False

    def can_wait(self, stream: Stream) -> bool:
        """Whether it may run later than it was submitted."""
        return True

    def held(self) -> bool:
        """Whether the words in memory that it waits for have their values."""
        return True

    def kernel(self) -> Launcher | None:
        """The launcher of a kernel; None for other work."""
        return None

    def shares(self) -> bool:
        """Whether other kernels may run concurrently."""
        return False

    def is_dependent(self) -> bool:
        """Whether it may begin before the kernel before it has ended (programmatic dependent launch)."""
        return False

    def can_stop(self) -> bool:
        """Whether a kernel that shares the chip with no other can run in a machine that can be paused."""
        return False

    def is_cooperative(self) -> bool:
        """Whether a kernel's blocks may synchronise with each other."""
        return False

    def parameter_bytes(self) -> bytes:
        """A kernel's parameters."""
        return b""

    def origin(self) -> Origin | None:
        """The place in the program that made a kernel's launch, if recorded."""
        return None

    def failed(self, error: Exception, context: Context, stream: Stream) -> None:
        """A kernel that shared the chip has failed.

        Raises:
            Exception: if the error is not the kernel's fault.
        """
        raise error

    def returns_when_done(self) -> bool:
        """Whether the call that submits it waits for its end."""
        return False

    def duration(self, stream: Stream) -> int | None:
        """Picoseconds, for work that only takes time; None for other work."""
        return None


class Item:
    """Work in the queue."""

    __slots__ = (
        "begun",
        "call",
        "clock",
        "context",
        "done",
        "early",
        "extra",
        "floor",
        "launcher",
        "needs",
        "ps",
        "shares",
        "stream",
        "submitted_ps",
        "work",
    )

    def __init__(
        self,
        stream: Stream,
        work: Work,
        context: Context,
        needs: Iterable[Item],
        extra: int = 0,
        early: Iterable[Item] = (),
    ) -> None:
        self.stream, self.work, self.context = stream, work, context
        self.begun = self.done = False
        self.submitted_ps = state().host_ps
        self.call = activities.submitted()
        """The call that submitted it, for a profiler."""
        self.ps = 0
        """Its end, if it is done or known."""
        self.extra = extra
        """Picoseconds from the end of its last dependency to its start; negative in a graph, where a launch takes less
        time than in a stream."""
        self.launcher = work.kernel()
        self.shares = self.launcher is not None and work.shares()
        self.early = {item for item in early if not item.done and item.shares and self.shares}
        """Kernels for which it only waits until their blocks trigger their dependents."""
        self.floor = max((item.ps - self.lead_ps(item) for item in needs if item.done), default=0)
        self.needs = [item for item in dict.fromkeys(needs) if not item.done]
        # A dependent kernel may end before the one for which it did not wait.
        behind = [one for item in self.needs if item not in self.early for one in item.early if not one.done]
        self.needs = list(dict.fromkeys([*self.needs, *behind]))
        self.clock: Clock = {}
        """Work that ends before it begins; once it is done, also itself (``work_order.py``)."""
        for item in needs:
            if item.done:
                learn(self.clock, item.clock)

    def follow(self) -> None:
        """Order it after the work that it waits for, for the checks."""
        for item in self.needs:
            if item not in self.early:
                learn(self.clock, item.clock)
        learn(self.stream.clock, self.clock)

    @property
    def ready(self) -> bool:
        return all(item.done for item in self.needs)

    @property
    def device(self) -> Device:
        return self.stream.device

    def start(self) -> int:
        """When it may begin, according to work that has finished."""
        ended = (item.ps - self.lead_ps(item) for item in self.needs if item.done)
        kernel = self.launcher is not None
        latency = self.device.gpu.chip.launch.launch_latency_us if kernel else 0.0
        return max(state().begin(self.stream, latency, self.submitted_ps, kernel), self.floor, *ended) + self.extra

    def lead_ps(self, before: Item) -> int:
        """How long before the end of ``before``, for which it waits, its launch overhead begins, in picoseconds; 0 unless both are kernels of one stream."""
        kernels = self.launcher is not None and before.launcher is not None
        return self.stream.lead_ps if kernels and before.stream is self.stream and before not in self.early else 0

    def __str__(self) -> str:
        on = f"stream {self.stream.handle:#x}" if self.stream.handle else "the default stream"
        return f"{self.launcher.kernel.name if self.launcher else type(self.work).__name__} in {on}"
