"""The order of work in streams, graphs and on the host, for racecheck.

Under checks work runs when it is submitted, but a card orders only what the program orders (CUDA programming guide, "Asynchronous Concurrent Execution";
driver API, "API synchronization behavior" and "Stream synchronization behavior"):

* A stream's work runs in order. The default stream waits for all streams except those created with CU_STREAM_NON_BLOCKING, and they wait for it.
* Work that waits for an event begins after the work that preceded the event's last record.
* A node of a graph begins after the nodes that it depends on, and a graph's launch begins after its stream's earlier work.
* Work that the host has waited for (a stream, an event, the device, a copy that returns when it is done, a free) precedes everything that the host submits
  later.
  All threads of the host count as one.

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
    """The race checker for the streams of a device; None if there is none."""
    gpu = device.made_gpu
    return gpu.checker.stream_races if gpu is not None and gpu.checker is not None else None


def watching() -> list[StreamRaces]:
    """The race checkers, by device."""
    return [races for device in state().devices if (races := races_of(device)) is not None]


def begin(stream: Stream) -> Clock:
    """The work that ends before new work of a stream begins."""
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
    """Record a new piece of work of a stream."""
    known = dict(begin(stream))
    number = known.get(stream.queue, 0) + 1
    stream.clock[stream.queue] = number
    return Work(stream.queue, number, known)


def host_waits_for(streams: Iterable[Stream]) -> None:
    """Record that the host has waited for the work of streams."""
    if watching():
        for stream in streams:
            host_waits(begin(stream))


def host_waits(clock: Clock) -> None:
    """Record that the host has waited for some work: what it submits later follows that work."""
    races_of_all = watching()
    if not races_of_all:
        return
    host = state().host_clock
    learn(host, clock)
    for races in races_of_all:
        races.ended(host)
    streams = [stream for device in state().devices for stream in device.streams]
    # Nodes of graphs that have ended are not queried again.
    lasting = {stream.queue for stream in streams}
    for queue in [q for q in host if q not in lasting]:
        del host[queue]
    for stream in streams:
        for queue in [q for q, number in stream.clock.items() if q != stream.queue and number <= clock.get(q, 0)]:
            del stream.clock[queue]
