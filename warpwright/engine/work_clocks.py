"""Order between launches and copies: one logical clock per queue.

A queue runs its work in order: a stream, or one node of a launch of a graph.  Each piece of work has a queue and a
number in it.  A clock gives, for each queue, the number up to which its work is known to have ended.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

Clock = dict[int, int]
"""By queue: the number up to which its work has ended."""
_queues = itertools.count(1)


def new_queue() -> int:
    """A new, unique queue number."""
    return next(_queues)


def learn(clock: Clock, other: Clock) -> None:
    """Merge another clock's knowledge into a clock."""
    for queue, number in other.items():
        if number > clock.get(queue, 0):
            clock[queue] = number


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """One piece of work, and what had ended before it could begin."""

    queue: int
    number: int
    known: Clock

    def follows(self, other: Work) -> bool:
        """Whether the other piece ends before this one begins."""
        return other is self or self.known.get(other.queue, 0) >= other.number
