"""Spreads points over workers: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from warpwright.sweeps.cluster import AHEAD, connect
from warpwright.sweeps.point_server import Outcome, PointServer, WorkerLost, run_here
from warpwright.sweeps.specification import Point, SweepError

MOST_LOSSES = 4
"""Times that a point is started again after its worker was lost or it was killed from outside."""


class Workers(Protocol):
    """Runs points and yields their outcomes in the order in which they end."""

    @property
    def count(self) -> int:
        """Points that run at once."""

    def outcomes(self, points: Sequence[Point]) -> Iterator[tuple[Point, Outcome]]:
        """The outcome of each point, once."""


class LocalWorkers:
    """Processes of this machine."""

    def __init__(self, count: int, threads: int = 1) -> None:
        self._threads = threads
        self.servers: list[PointServer | None] = [None] * count
        self._ended = threading.Event()

    @property
    def count(self) -> int:
        """Implements :class:`Workers`."""
        return len(self.servers)

    def outcomes(self, points: Sequence[Point]) -> Iterator[tuple[Point, Outcome]]:
        """Implements :class:`Workers`."""
        waiting: queue.SimpleQueue[Point] = queue.SimpleQueue()
        for point in points:
            waiting.put(point)
        done: queue.SimpleQueue[tuple[Point, Outcome] | Exception] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._serve, args=(number, waiting, done), daemon=True)
            for number in range(min(self.count, len(points)))
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in points:
                found = done.get()
                if isinstance(found, Exception):
                    raise found
                yield found
        finally:
            self._ended.set()
            for server in self.servers:
                if server is not None:
                    server.close()

    def _serve(self, number: int, waiting: queue.SimpleQueue[Point], done: queue.SimpleQueue[Any]) -> None:
        """Run points one after the other until none is left."""
        try:
            while not self._ended.is_set():
                try:
                    point = waiting.get_nowait()
                except queue.Empty:
                    return
                done.put((point, self._outcome(number, point)))
        except Exception as error:
            done.put(error)

    def _outcome(self, number: int, point: Point) -> Outcome:
        for _ in range(MOST_LOSSES + 1):
            server = self.servers[number]
            if server is None:
                server = self.servers[number] = PointServer(self._threads)
            try:
                outcome = server.run(point)
            except WorkerLost:
                self.servers[number] = None
                server.close()
                if self._ended.is_set():
                    break
                continue
            if outcome.status != "killed":
                return outcome
        return Outcome(point.key, "killed", f"its process was killed {MOST_LOSSES + 1} times: out of memory?")


class DaskWorkers:
    """A Dask cluster. Its workers need this package and the programs at the same paths."""

    def __init__(self, address: str) -> None:
        """Connect.

        Raises:
            SweepError: Dask is not installed, or nothing answers at the address.
        """
        self._count = 0
        distributed, self._client = connect(address, SweepError)
        self._as_completed, self._lost = distributed.as_completed, (distributed.KilledWorker, WorkerLost)

    @property
    def count(self) -> int:
        """Threads of the cluster when it was last asked."""
        if self._client.status == "running":
            self._count = int(sum(self._client.nthreads().values()))
        return self._count

    def outcomes(self, points: Sequence[Point]) -> Iterator[tuple[Point, Outcome]]:
        """Implements :class:`Workers`."""
        waiting, losses = list(reversed(points)), dict.fromkeys((point.key for point in points), 0)
        flying: dict[Any, Point] = {}
        completed = self._as_completed(loop=self._client.loop)

        def fill() -> None:
            while waiting and len(flying) < AHEAD * max(self.count, 1):
                point = waiting.pop()
                future = self._client.submit(run_here, point.to_json(), pure=False)
                flying[future] = point
                completed.add(future)

        try:
            fill()
            while flying:
                future = next(completed)
                point = flying.pop(future)
                outcome = self._outcome(future, point)
                if outcome.status == "killed" and losses[point.key] < MOST_LOSSES:
                    losses[point.key] += 1
                    waiting.append(point)
                else:
                    yield point, outcome
                future.release()
                fill()
        finally:
            for future in flying:
                with contextlib.suppress(Exception):
                    future.cancel()
            self._client.close()

    def _outcome(self, future: Any, point: Point) -> Outcome:
        """What a worker answered; ``killed`` if the worker was lost."""
        try:
            return Outcome(**json.loads(future.result()))
        except self._lost as error:
            return Outcome(point.key, "killed", f"its worker was lost: {error}")
        except Exception as error:
            return Outcome(point.key, "failed", f"on the worker: {type(error).__name__}: {error}")
