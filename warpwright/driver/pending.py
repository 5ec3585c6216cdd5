"""Work that has been submitted to streams and has not run yet: kernels of several streams, which share their device's
chip.

If a program can have concurrent kernels (two streams with no order between them), its work is queued.  The queue runs
before any call whose result a program can observe: one that waits, queries, copies for the host, frees or ends
(``observing_calls.py`` names those that do not). Concurrent kernels are then timed in one machine (`warpwright.launch_groups`).
The work of all other programs runs when it is submitted.

Streams define the order: a stream's work runs in the order of its calls, the legacy default stream after all blocking
streams and before their later work, a stream after the events that it waits for.  Among unordered work, work that does
not need the chip runs first, by time.

Kernels that poll memory are queued too, even in a program with one stream: the word that they poll may be written by
the host or by another stream before the next call that observes the result.  If other work may release them, or the
host after a call that waits for other work, they run in a machine that can be paused (`ResidentGroup`): work is then
done in the order of simulated time, a copy or a host function when the machines' clocks have reached it, and a call
returns when the work that it waits for has ended, whatever still runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from warpwright.driver import activities
from warpwright.driver.cuda_error import say
from warpwright.driver.driver_state import Device, Stream, in_context, state
from warpwright.driver.kernel_groups import MOST_TOGETHER, Group, ResidentGroup, watches
from warpwright.driver.queued_work import Item, Work
from warpwright.driver.work_order import begin as clock_of
from warpwright.engine.work_clocks import learn
from warpwright.errors import UnsupportedError

MOST_KERNELS = 1024
"""Length at which the queue runs, so that memory does not grow with a program that never waits."""
QUANTUM_PS = 1_000_000
"""Simulated time that a machine runs between two checks of what other work, or the host, has written."""
ASKED_PS = 10_000_000
"""Simulated time by which a query of work's end advances the machines."""
ANSWER_SECONDS = 10.0
"""Host time without a call in which a host thread may still release kernels that repeat themselves."""
SLEEP_SECONDS = 0.02
"""Host time between two checks of memory for kernels that only repeat themselves, while the host makes no call."""
IDLE_SECONDS = 1.0
"""Host time without a call after which the queue runs by itself: the host may be reading memory that a kernel is to write."""


class Queue:
    """The process's work that has not run, or has not ended."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.residents: list[ResidentGroup] = []
        """Kernels on the chips, which continue when the queue runs."""
        self._last: dict[Stream, Item] = {}
        self._lock = threading.RLock()
        self._asking: set[int] = set()
        """Threads that wait for the lock."""
        self._owner: int | None = None
        """The thread that runs a piece of work."""
        self._alone_now: Item | None = None
        """The item that is being run without others."""
        self._leaves: frozenset[Item] | None = None
        """What the call waits for, and everything before that, if it may leave kernels that poll memory; None: it waits
        for everything."""
        self._limits: dict[ResidentGroup, int] = {}
        """When machines are to be paused for the host's next call, in picoseconds."""
        self._called = 0.0
        self._watching = False

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the queue for a while; waiting threads get it between two pieces of work."""
        me = threading.get_ident()
        self._asking.add(me)
        try:
            self._lock.acquire()
        finally:
            self._asking.discard(me)
        try:
            yield
        finally:
            self._lock.release()

    def add(
        self, stream: Stream, work: Work, after: Sequence[Item] = (), extra: int = 0, early: Sequence[Item] = ()
    ) -> Item:
        """Queue work after its stream's previous work and after other items; ``early``: items that may trigger it
        before they end."""
        with self._turn():
            if work.is_dependent() and stream in self._last:
                early = [*early, self._last[stream]]
            item = Item(stream, work, state().current(), [*self.before(stream), *after], extra, early)
            self.items.append(item)
            self._last[stream] = item
            self._called = time.monotonic()
            if not self._watching and state().host_memory:
                self._watching = True
                threading.Thread(target=self._watch, name="warpwright queue", daemon=True).start()
            many = len(self.items) >= MOST_KERNELS
            kernels = [one for one in self.items if one.launcher is not None and not one.begun] if many else []
        if len(kernels) >= MOST_KERNELS:
            self.drain(kernels[:1])
        return item

    def before(self, stream: Stream) -> list[Item]:
        """The items that must end before a stream's next work."""
        default = stream.device.default_stream
        before = [self._last.get(stream)]
        if stream is default:
            before += [self._last.get(one) for one in stream.device.streams if one.blocking]
        elif stream.blocking:
            before.append(self._last.get(default))
        return [one for one in before if one is not None]

    def of(self, stream: Stream) -> list[Item]:
        """The items that a stream's work given so far ends with."""
        if stream is stream.device.default_stream:
            return self.before(stream)
        return [self._last[stream]] if stream in self._last else []

    def drain(self, awaited: Sequence[Item] | None = None, *, asks: bool = False) -> None:
        """Run work until the awaited items have ended, or all work if there are none.

        Kernels that poll memory, and work after them, may be left when the others have ended, because the host's next
        call may release them.

        Args:
            asks: whether the call does not wait for these at all.

        Raises:
            UnsupportedError: if a stream waits for a word that is never written.
            Exception: what the first piece that failed raises; faults of kernels mark their context instead, as ever.
        """
        if self._owner == threading.get_ident():
            return
        failures: list[Exception] = []
        self._called = time.monotonic()
        limits: dict[ResidentGroup, int] = {}
        left = 0
        while True:
            with self._turn():
                if not self.items:
                    break
                if awaited is not None and self._polls_alone() and (asks or all(item.done for item in awaited)):
                    if len(self.items) != left:
                        left, limits = len(self.items), {one: one.now_ps + ASKED_PS for one in self.residents}
                    if all(one.now_ps >= limits.setdefault(one, one.now_ps + ASKED_PS) for one in self.residents):
                        break
                    self._limits = limits
                self._leaves = None if awaited is None else frozenset() if asks else _with_needs(awaited)
                self._run_step(failures)
                self._limits = {}
            while self._asking:
                time.sleep(0.0005)
        if failures:
            raise failures[0]

    def _polls_alone(self) -> bool:
        """Whether only running kernels that poll memory, waits for words in memory, and work after them are left."""
        held: set[Item] = set()
        for item in self.items:
            polls = item.begun and watches(item.launcher)
            if polls or any(need in held for need in item.needs) or (item.ready and not item.work.held()):
                held.add(item)
        return len(held) == len(self.items)

    def _run_step(self, failures: list[Exception], answered: bool = True) -> None:
        self._owner = threading.get_ident()
        try:
            self._step(failures, answered)
        except BaseException:
            self.drop()
            raise
        finally:
            self._owner = None

    @property
    def running(self) -> bool:
        """Whether queued work is being run."""
        return self._owner is not None

    def can_retry(self, work: Work) -> bool:
        """Whether :meth:`retry` can replace work that is being run: the queue runs it as an item, or runs nothing."""
        return not self.running or (self._alone_now is not None and self._alone_now.work is work)

    def retry(self, stream: Stream, work: Work, again: Work) -> None:
        """Queue ``again`` in the place of work that is being run, for which :meth:`can_retry` is true; what waits for that work waits for ``again``."""
        if self._alone_now is not None and self._alone_now.work is work:
            self._alone_now.work = again
        else:
            self.add(stream, again)

    def note(self, stream: Stream) -> str:
        """The device of a kernel, if there are several, and the stream of a queued one, for the report of its fault."""
        device = f"device {stream.device.ordinal}" if len(state().devices) > 1 else ""
        if self._owner is None:
            return f"\n  launched on {device}" if device else ""
        origin = stream.graph_in or stream
        on = f"stream {origin.handle:#x}" if origin.handle else "the default stream"
        on += f" of {device}" if device else ""
        by = "by a graph " if stream.graph_in is not None else ""
        return f"\n  launched {by}in {on}; reported by the first later call that sees the stream's work"

    def drop(self) -> None:
        """Discard the queue."""
        with self._turn():
            for resident in self.residents:
                resident.close()
            self.residents.clear()
            self.items.clear()
            self._last.clear()

    def _watch(self) -> None:
        """Run the queue when the host has made no call for a while, because it may be reading memory, and answer."""
        while True:
            time.sleep(IDLE_SECONDS / 4)
            failures: list[Exception] = []
            try:
                while self.items and time.monotonic() - self._called > IDLE_SECONDS:
                    with self._turn():
                        if self.items:
                            self._leaves = frozenset()
                            self._run_step(failures, answered=False)
                    while self._asking:
                        time.sleep(0.0005)
            except Exception as error:
                failures.append(error)
            except BaseException as stop:
                say(str(stop))
            for failure in failures:
                say(str(failure))

    # --- what runs next ---------------------------------------------------------------------------
    def _step(self, failures: list[Exception], answered: bool) -> None:
        """Run the next work: work other than kernels, by time; a kernel; or kernels that share the chip.

        Args:
            answered: whether kernels that only repeat themselves are a deadlock; otherwise the host may still release
            them.
        """
        ready = [item for item in self.items if item.ready and not item.begun]
        others = [item for item in ready if item.launcher is None and item.work.held()]
        kernels = [item for item in ready if item.launcher is not None]
        # Copies that began beside kernels, which have ended before them.
        due = [item for item in self.items if item.begun and item.launcher is None]
        if self.residents:
            self._beside_residents(others, kernels, failures, answered)
        elif due:
            self._due(min(due, key=lambda item: item.ps), failures)
        elif others:
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
        """Run one piece of work, unless a kernel has failed in its context; the item ends, unless :meth:`retry` has replaced the work."""
        self._alone_now, work = item, item.work
        try:
            if not item.context.sticky:
                with in_context(item.context), state().submitted_at(item.submitted_ps), activities.within(item.call):
                    item.stream.ps = item.start()
                    item.follow()
                    work.run(item.stream)
        except Exception as error:
            failures.append(error)
        finally:
            self._alone_now = None
            if item.work is work:
                self._end([item])

    def _end(self, items: Sequence[Item]) -> None:
        for item in items:
            item.follow()
            learn(item.clock, clock_of(item.stream))
            item.ps, item.done, item.needs = item.stream.ps, True, []
            if self._last.get(item.stream) is item:
                del self._last[item.stream]
        self.items = [item for item in self.items if not item.done]

    def _kernels_of(self, ready: Sequence[Item], failures: list[Exception]) -> None:
        """Run the first ready kernel, with those of its device that may run concurrently."""
        timed = _is_timed(ready[0])
        # Without timing, a kernel that polls memory comes last, because it may wait for another kernel.
        first = next((item for item in ready if timed or not watches(item.launcher)), ready[0])
        here = [item for item in ready if item.device is first.device and item.shares]
        if not first.context.sticky and not first.shares and watches(first.launcher) and first.work.can_stop():
            single = Group([first])
            if self.residents or self._may_answer(single):
                self._begin(single, failures)
                return
        if first.context.sticky or not first.shares or not (timed or watches(first.launcher)):
            self._alone(first, failures)
            return
        group = Group(here[:MOST_TOGETHER])
        group.extend(self.items)
        if self.residents or self._may_answer(group):
            self._begin(group, failures)
            return
        if len(group.items) == 1 or (len(here) == 1 and not any(item.early for item in group.items)):
            self._alone(first, failures)
            return
        ended: Sequence[Item] = group.items
        try:
            with in_context(here[0].context):
                ended = group.run(timed)
        except Exception as error:
            failures.append(error)
        finally:
            self._end(ended)

    # --- kernels that are released while they run ---------------------------------------------------
    def _may_answer(self, group: Group) -> bool:
        """Whether kernels of a group poll memory that work outside the group may write: other streams, another host
        thread, or the host's next call."""
        polling = [item for item in group.items if watches(item.launcher)]
        if not polling:
            return False
        if state().calling_threads > 1 or (self._leaves is not None and not self._leaves.issuperset(polling)):
            return True
        inside = set(group.items)
        after: dict[Item, set[Item]] = {item: {item} for item in polling}
        for item in self.items:
            if item not in after:
                after[item] = set().union(*(after.get(need, ()) for need in item.needs))
            # Work that comes after all of them cannot release any.
            comes_after_all = len(after[item] & set(polling)) == len(polling)
            if item not in inside and not comes_after_all and item.work.duration(item.stream) is None:
                return True
        return False

    def _begin(self, group: Group, failures: list[Exception]) -> None:
        """Start kernels in a machine that can be paused."""
        if group.items[0].shares:
            group.hold(self.items)
        try:
            with in_context(group.items[0].context):
                self.residents.append(ResidentGroup(group, _is_timed(group.items[0])))
        except Exception as error:
            failures.append(error)
            self._end(group.items)

    def _beside_residents(
        self, others: Sequence[Item], kernels: Sequence[Item], failures: list[Exception], answered: bool
    ) -> None:
        """Do what is next in simulated time: apply the effect of work that is due, start a kernel, or advance a
        machine."""
        for resident in self.residents:
            resident.release([item for item in kernels if item in resident.group.held])
        kernels = [item for item in kernels if not item.begun]
        clock = min(resident.now_ps for resident in self.residents)
        timed = self.residents[0].timed
        coming = [(item.start(), 0, item) for item in others] + [(item.start(), 1, item) for item in kernels]
        coming += [(item.ps, 0, item) for item in self.items if item.begun and item.launcher is None]
        at, _, item = min(coming, key=lambda one: one[:2], default=(0, 0, None))
        if item is not None and (not timed or at <= clock or item.work.duration(item.stream) is not None):
            for resident in self.residents:
                resident.standing = 0
            if item.launcher is not None:
                self._kernels_of(kernels, failures)
            else:
                self._due(item, failures)
            return
        waits = any(one.ready and not one.begun and not one.work.held() for one in self.items)
        self._run_resident(at if item is not None else None, waits, failures)
        if item is None and self.residents:
            self._judge(answered, failures)

    def _due(self, item: Item, failures: list[Exception]) -> None:
        """Start a piece of work other than a kernel, or apply its effect."""
        try:
            if item.context.sticky:
                self._end([item])
                return
            with in_context(item.context), state().submitted_at(item.submitted_ps), activities.within(item.call):
                if item.begun:
                    item.work.act(item.stream)
                    item.stream.ps = item.ps
                else:
                    item.stream.ps = item.start()
                    item.follow()
                    if item.work.take_time(item.stream):
                        item.begun, item.ps = True, item.stream.ps
                        return
                    item.work.run(item.stream)
        except Exception as error:
            failures.append(error)
        self._end([item])

    def _run_resident(self, until_ps: int | None, waits: bool, failures: list[Exception]) -> None:
        """Advance the machine with the earliest clock until other work is due."""
        going = [one for one in self.residents if one not in self._limits or one.now_ps < self._limits[one]]
        resident = min(going or self.residents, key=lambda one: one.now_ps)
        until_ps = self._limits.get(resident, until_ps)
        if waits or len(self.residents) > 1 or not resident.timed:
            quantum = resident.now_ps + QUANTUM_PS
            until_ps = quantum if until_ps is None or not resident.timed else min(until_ps, quantum)
        try:
            with in_context(resident.group.items[0].context):
                ended = resident.run(until_ps)
        except Exception as error:
            failures.append(error)
            ended = resident.group.items
            resident.failed = True
        if ended:
            for one in self.residents:
                one.standing = 0
        self._end(ended)
        if resident.failed or resident.done:
            resident.close()
            self.residents.remove(resident)

    def _judge(self, answered: bool, failures: list[Exception]) -> None:
        """Test whether all machines only repeat themselves, and no host thread may release them."""
        for resident in self.residents:
            resident.look()
        others = state().calling_threads > 1 or state().host_memory
        if any(one.standing < 2 for one in self.residents):
            return
        if not answered:
            time.sleep(SLEEP_SECONDS)  # the host's memory is checked now and then
            return
        if others and time.monotonic() - self._called < ANSWER_SECONDS:
            return
        resident = self.residents.pop(0)
        try:
            with in_context(resident.group.items[0].context):
                resident.give_up()
        except Exception as error:
            failures.append(error)
        resident.close()
        self._end(resident.group.items)


def _with_needs(items: Iterable[Item]) -> frozenset[Item]:
    """Items and all their predecessors."""
    found, ahead = set[Item](), list(items)
    while ahead:
        item = ahead.pop()
        if item not in found:
            found.add(item)
            ahead += item.needs
    return frozenset(found)


def _is_timed(item: Item) -> bool:
    return item.device.gpu.timing != "off"


queue = Queue()


def give(stream: Stream, work: Work) -> bool:
    """Queue work, if there is a reason to; returns False if it must run now, in which case the queue is empty."""
    if not queue.items and not work.starts_queue(stream):
        return False
    if work.can_wait(stream):
        queue.add(stream, work)
        return True
    queue.drain(queue.before(stream))
    if not queue.items:
        return False
    # Kernels that poll memory continue at the same time.
    queue.drain([queue.add(stream, work)])
    if work.returns_when_done():
        state().host_waits(stream.ps)
    return True


def finish(stream: Stream) -> None:
    """Wait for a stream's work, for a call that returns when it is done."""
    if queue.items:
        queue.drain(queue.of(stream))


def runs(stream: Stream) -> bool:
    """Whether work of a stream has not ended."""
    return bool(queue.items) and not all(item.done for item in queue.of(stream))


def concurrent(device: Device) -> bool:
    """Whether a device has two streams with no order between them."""
    streams = device.streams
    return len(streams) > 2 or (len(streams) == 2 and not streams[1].blocking)
