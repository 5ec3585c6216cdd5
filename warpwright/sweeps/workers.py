"""Spreads points over workers: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from warpwright.sweeps.dask_cluster import MOST_LOSSES, Cluster
from warpwright.sweeps.point_server import Outcome, PointServer, WorkerLost, run_here
from warpwright.sweeps.specification import Point, SweepError


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
        self._cluster = Cluster(address, SweepError)

    @property
    def count(self) -> int:
        """Threads of the cluster when it was last asked."""
        return self._cluster.count

    def outcomes(self, points: Sequence[Point]) -> Iterator[tuple[Point, Outcome]]:
        """Implements :class:`Workers`."""

        def read(number: int, answer: Any) -> tuple[Outcome, bool]:
            outcome = self._outcome(answer, points[number])
            return outcome, outcome.status == "killed"

        texts = [point.to_json() for point in points]
        for number, outcome in self._cluster.answers(run_here, texts, read):
            yield points[number], outcome

    def _outcome(self, answer: Any, point: Point) -> Outcome:
        """A worker's answer; ``killed`` if the worker was lost."""
        if isinstance(answer, self._cluster.lost | WorkerLost):
            return Outcome(point.key, "killed", f"its worker was lost: {answer}")
        if isinstance(answer, Exception):
            return Outcome(point.key, "failed", f"on the worker: {type(answer).__name__}: {answer}")
        try:
            return Outcome(**json.loads(answer))
        except Exception as error:
            return Outcome(point.key, "failed", f"on the worker: {type(error).__name__}: {error}")
