"""Work on a Dask cluster, whose workers need this package and the programs at the same paths."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Answer = TypeVar("Answer")

AHEAD = 4
"""Pieces of work in a cluster's queue for each of its threads."""
MOST_LOSSES = 4
"""Times that a piece of work is started again after its worker was lost."""


class Cluster:
    """A client of the scheduler at an address; it serves one :meth:`answers`."""

    def __init__(self, address: str, error: type[Exception]) -> None:
        """Connect.

        Args:
            error: raised where Dask is not installed, or nothing answers.
        """
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise error("--scheduler needs Dask: pip install 'warpwright[dask]'") from None
        try:
            self._client = distributed.Client(address, timeout=20)
        except (OSError, ValueError, TimeoutError) as refusal:
            raise error(f"no Dask scheduler answers at {address}: {refusal}") from None
        self._count = 0
        self._as_completed = distributed.as_completed
        self.lost: type[Exception] = distributed.KilledWorker
        """What a piece of work raises whose workers were lost."""

    @property
    def count(self) -> int:
        """Threads of the cluster when it was last asked."""
        if self._client.status == "running":
            self._count = int(sum(self._client.nthreads().values()))
        return self._count

    def answers(
        self, task: Callable[[Any], Any], arguments: Sequence[Any], read: Callable[[int, Any], tuple[Answer, bool]]
    ) -> Iterator[tuple[int, Answer]]:
        """Run ``task`` on each argument; the argument's number with its answer, in the order in which they end.

        Args:
            read: makes the answer of a number's result, or of the exception that was raised, and says whether its worker was lost;
                the work is then started again, ``MOST_LOSSES`` times at most.
        """
        waiting, losses = list(range(len(arguments)))[::-1], [0] * len(arguments)
        flying: dict[Any, int] = {}
        completed = self._as_completed(loop=self._client.loop)

        def fill() -> None:
            while waiting and len(flying) < AHEAD * max(self.count, 1):
                number = waiting.pop()
                future = self._client.submit(task, arguments[number], pure=False)
                flying[future] = number
                completed.add(future)

        try:
            fill()
            while flying:
                future = next(completed)
                number = flying.pop(future)
                try:
                    result = future.result()
                except Exception as error:
                    result = error
                answer, is_lost = read(number, result)
                if is_lost and losses[number] < MOST_LOSSES:
                    losses[number] += 1
                    waiting.append(number)
                else:
                    yield number, answer
                future.release()
                fill()
        finally:
            for future in flying:
                with contextlib.suppress(Exception):
                    future.cancel()
            with contextlib.suppress(Exception):
                self._client.close()
