"""The order of work in streams, graphs and on the host, for racecheck.

Under checks work runs when it is submitted, but a card orders only what the program orders (CUDA programming guide, "Asynchronous Concurrent Execution";
driver API, "API synchronization behavior" and "Stream synchronization behavior"):

* A stream's work is in order.  The default stream waits for all streams but those made with CU_STREAM_NON_BLOCKING, and they for it.
* A stream that waits for an event begins after what was before the event's last record.
* A node of a graph begins after the nodes that it needs, a graph's launch after its stream's work.
* What the host waited for (a stream, an event, the device, a copy that returns when it is done, a free) is ordered before all that it
  submits later.  All threads of the host count as one.

Waits for words in memory (cuStreamWaitValue32) and calls of the host in a stream's order
count as waits of the host for the stream, which orders more than a card does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from warpwright.driver.driver_state import Device, Stream, state
from warpwright.engine.work_clocks import Clock, Work, learn

if TYPE_CHECKING:
    from warpwright.tools.checks.stream_races import StreamRaces


def races_of(device: Device) -> StreamRaces | None:
    """The checker of races between the work of a device's streams; None if there is none."""
    gpu = device.made_gpu
    return gpu.checker.stream_races if gpu is not None and gpu.checker is not None else None


def watching() -> list[StreamRaces]:
    """The checkers of such races, by device."""
    return [races for device in state().devices if (races := races_of(device)) is not None]


def begin(stream: Stream) -> Clock:
    """Work that has ended before new work of a stream begins."""
    default = stream.device.default_stream
    learn(stream.clock, state().host_clock)
    if stream is default:
        for other in stream.device.streams:
            if other.blocking:
                learn(stream.clock, other.clock)
    elif stream.blocking:
        learn(stream.clock, default.clock)
    return stream.clock


def submitted(stream: Stream) -> Work:
    """A new piece of work of a stream."""
    known = dict(begin(stream))
    number = known.get(stream.queue, 0) + 1
    stream.clock[stream.queue] = number
    return Work(stream.queue, number, known)


def host_waits_for(streams: Iterable[Stream]) -> None:
    """The host knows that the work of streams has ended."""
    if watching():
        for stream in streams:
            host_waits(begin(stream))


def host_waits(clock: Clock) -> None:
    """The host knows that work has ended: its later work follows it."""
    races_of_all = watching()
    if not races_of_all:
        return
    host = state().host_clock
    learn(host, clock)
    for races in races_of_all:
        races.ended(host)
    streams = [stream for device in state().devices for stream in device.streams]
    # Nodes of graphs that have ended are asked about no more.
    lasting = {stream.queue for stream in streams}
    for queue in [q for q in host if q not in lasting]:
        del host[queue]
    for stream in streams:
        for queue in [q for q, number in stream.clock.items() if q != stream.queue and number <= clock.get(q, 0)]:
            del stream.clock[queue]
