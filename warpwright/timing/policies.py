"""Policies: functions for decisions of the model, which a user can replace by plain functions.

A warp scheduler gets ``ready`` (bit k: warp slot k of the sub-core can issue now; never 0), ``last`` (the slot that issued last, or -1 when
that warp yielded) and ``ages`` (16 numbers: turn of the warp in each slot, by blocks as they started, in a block by how long they have been
ready, then the last warp first) and returns a slot whose bit is set.

L1's replacement gets ``used`` and ``filled`` (cycle of the last use, and of the last data that came, for each way of a set that is full), the
number of ``ways`` and the ``time``, and returns the way whose line is replaced.

The two defaults are compiled as a part of the model.  It calls any other policy by address, so cached machine code does not depend on it, and replacing one costs only its own compilation: some milliseconds with
``translate.py``, or with Numba if the function uses more of Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warpwright.errors import UnsupportedError
from warpwright.native import direct
from warpwright.native.function_source import TranslationError
from warpwright.native.intrinsics import core
from warpwright.native.translate import ArrayOf
from warpwright.timing.intrinsics import oldest

Scheduler = Callable[[int, int, Any], int]
Replacement = Callable[[Any, Any, int, int], int]


@core
def greedy_then_oldest(ready: int, last: int, ages: int) -> int:
    """Greedy, then oldest block: the same warp while it can issue, then a warp of the block that started first; among its warps the one that has been ready longest,
    and among equals the last.

    On an H200, blocks of an SM end in the order in which they began, including later ones (bench.micro ``race``).  Of chains of arithmetic by 1 to 8 warps of
    a sub-core, all of one block, none falls behind, whatever the pipe (``warp_chains``: MUFU by four 32.0 cycles per step, IMAD by three and five 6.1 and 10.1,
    DADD by eight 16.2).  Of 32 warps of a block the last ones come first (``first_code``), which is the "youngest" of Huerta et al., MICRO'25, section 4.
    """
    if last >= 0 and (ready >> last) & 1:
        return last
    return oldest(ready, ages)


def greedy_then_youngest(ready: int, last: int, ages: Any) -> int:
    """Like the above, with the opposite order among waiting warps."""
    if last >= 0 and (ready >> last) & 1:
        return last
    best = -1
    for slot in range(16):
        if (ready >> slot) & 1 and (best < 0 or ages[slot] > ages[best]):
            best = slot
    return best


def loose_round_robin(ready: int, last: int, ages: Any) -> int:
    """The next ready slot after the last one."""
    for step in range(1, 17):
        slot = (last + step) & 15
        if (ready >> slot) & 1:
            return slot
    return last


SPREAD, SPREAD_SHIFT = 0x9E3779B1, 9
"""The factor and the shift that turn a time into randomly chosen ways."""


@core
def older_of_two(m: Any, used: int, ways: int, time: int, draws: int) -> int:
    """The least recently used of randomly chosen ways: of two, or of as many as the chip's ``l1_drawn_ways``.  ``used``: where the ways' last uses are in ``m``.

    A cyclic walk over more lines than an H200's L1 holds hits some of them, fewer the larger it is (bench.micro ``capacity``: of 1.07, 1.15, 1.26 times
    as many 73, 49, 35 %), and stores that pass through push out lines that are read in every step (``kept_once``: streams).  Two random ways give 80, 64, 50 %
    and the streams' misses within a tenth; three would be closer for the walk, but miss too little in the streams; true LRU hits nothing in the walk and
    everything in the streams.  Jia et al. (2018) find such a policy on V100.
    """
    drawn = (time * SPREAD + m[used]) >> SPREAD_SHIFT
    chosen = drawn % ways
    for _ in range(1, draws):
        drawn = drawn >> SPREAD_SHIFT
        way = drawn % ways
        if m[used + way] < m[used + chosen]:
            chosen = way
    return chosen


def least_recently_used(used: Any, filled: Any, ways: int, time: int) -> int:
    """The least recently used line."""
    oldest = 0
    for way in range(1, ways):
        if used[way] < used[oldest]:
            oldest = way
    return oldest


def first_in_first_out(used: Any, filled: Any, ways: int, time: int) -> int:
    """The line whose data arrived first."""
    oldest = 0
    for way in range(1, ways):
        if filled[way] < filled[oldest]:
            oldest = way
    return oldest


@dataclass(frozen=True)
class Kind:
    """What a policy decides.

    Attributes:
        parameter: of ``GPU``.
        own: the policy that is a part of the model.
        known: those that have a name.
        takes: names of the arguments of a user's function.
        arguments: what they are: None is a number.
    """

    parameter: str
    own: Callable[..., int]
    known: Mapping[str, Callable[..., int]]
    takes: tuple[str, ...]
    arguments: tuple[ArrayOf | None, ...]

    def named(self, policy: str | Callable[..., int]) -> Callable[..., int]:
        """The policy of a name, or the function itself.

        Raises:
            UnsupportedError: no policy of this kind has that name, or the function takes other arguments.
        """
        if policy is self.own:
            return self.own
        if callable(policy):
            self._check_parameters(policy)
            return policy
        if policy not in self.known:
            raise UnsupportedError(
                f"{self.parameter}={policy!r} is not known; use a function or one of {', '.join(self.known)}"
            )
        return self.known[policy]

    def _check_parameters(self, policy: Callable[..., int]) -> None:
        try:
            given = inspect.signature(policy)
        except (TypeError, ValueError):  # a callable that does not show its parameters
            return
        wanted = self.takes
        try:
            given.bind(*wanted)
        except TypeError:
            raise UnsupportedError(
                f"{self.parameter}: {getattr(policy, '__name__', policy)!r} takes ({', '.join(given.parameters)}), "
                f"but it is called with ({', '.join(wanted)})"
            ) from None


def _by_name(*policies: Callable[..., int]) -> dict[str, Callable[..., int]]:
    return {policy.__name__: policy for policy in policies}


SCHEDULER = Kind(
    "scheduler",
    greedy_then_oldest,
    _by_name(greedy_then_oldest, greedy_then_youngest, loose_round_robin),
    ("ready", "last", "ages"),
    (None, None, ArrayOf(16)),
)
L1_REPLACEMENT = Kind(
    "l1_replacement",
    older_of_two,
    _by_name(older_of_two, least_recently_used, first_in_first_out),
    ("used", "filled", "ways", "time"),
    (ArrayOf(argument=2), ArrayOf(argument=2), None, None),
)


@dataclass(frozen=True)
class Policies:
    """The policies of a launch."""

    scheduler: Scheduler = SCHEDULER.own
    l1_replacement: Replacement = L1_REPLACEMENT.own

    @staticmethod
    def named(scheduler: str | Scheduler, l1_replacement: str | Replacement) -> Policies:
        """Policies by name or as functions."""
        return Policies(SCHEDULER.named(scheduler), L1_REPLACEMENT.named(l1_replacement))


_addresses: dict[Callable[..., int], int] = {}
_numba_functions: list[Any] = []  # hold the code


def address_of(kind: Kind, policy: Callable[..., int]) -> int:
    """Address of a policy's machine code; 0 for the one that is part of the model.

    Raises:
        UnsupportedError: neither the model's translation nor Numba can compile it.
    """
    if policy is kind.own:
        return 0
    if policy not in _addresses:
        _addresses[policy] = compile_policy(kind, policy)
    return _addresses[policy]


def compile_policy(kind: Kind, policy: Callable[..., int]) -> int:
    """Compile a policy and return the address of its machine code, which stays until the process ends."""
    try:
        return direct.policy_address(policy, kind.arguments)
    except TranslationError as error:
        reason = error
    # Imported here: it takes half a second, and hardly any policy needs it.
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    from warpwright.native import by_numba

    try:
        compiled = by_numba.policy(policy, kind.arguments)
    except (NumbaError, UnsupportedBytecodeError) as error:
        raise UnsupportedError(
            f"{kind.parameter}: {getattr(policy, '__name__', policy)!r} cannot be compiled, neither as the model is ({reason})"
            f" nor by Numba ({str(error).strip().splitlines()[0]}); use integers, loops and conditions"
        ) from error
    _numba_functions.append(compiled)
    return int(compiled.address)
