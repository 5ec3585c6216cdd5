"""A block's turn: runs its warps, reads their records, and handles barriers; compiled to machine code (``native``).

``run_block`` continues until something must be done in Python: ordering between warps of several blocks, copies, or findings. Its state is in arrays of words,
so that it resumes where it stopped.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import BARRIER_MODES, NAMED_BARRIERS, TAG_BLOCK, TAG_SYNC, WARP, Status, record_words
from warpwright.native.intrinsics import call_warp, core, lowest_bit, peek, popcount
from warpwright.tools.checks.accesses import full_wave, read_records
from warpwright.tools.checks.intrinsics import array_at, entry
from warpwright.tools.checks.shadow import (
    DONE,
    HALF_LANES,
    LANE_BITS,
    MOST_LANES,
    S_BLOCK,
    S_EPOCH,
    S_POSITION,
    S_USED,
    S_WHOLE,
    S_WORDS,
    Tables,
)
from warpwright.tools.checks.skipped_barriers import ACTS, GOES_ROUND, ON_A_WAY
from warpwright.tools.checks.traffic import Traffic

Warp: TypeAlias = Annotated[Any, WARP]

# --- state of a launch: words of one array; host pointers, except the clock ------------------
L_CLOCK, L_CANCEL, L_STARTS, L_EVENTS, L_ALLOCATIONS, L_FINDINGS, L_COUNTERS, L_SCRATCH = range(8)
L_WAYS, L_WAY_TABLE, L_WAY_BLOCKS = 8, 9, 10
"""Number of ways round barriers (``skipped_barriers.py``), and the tables of these ways."""
L_FUNCTION, L_READS, L_SYNCHECK, L_SEEDED, L_RECORD_WORDS = 11, 12, 13, 14, 15
"""The traced warp function; whether records are read, whether barriers are checked, and whether the order of warps is given; words of a record by its tag."""
L_WALKS, L_LANES = 16, 17
"""Whether records are followed from basic block to basic block; lanes of a warp."""
L_WORDS = 18

# --- state of a resident block ---------------------------------------------------------------
T_PHASE, T_STATUS, T_REASON, T_WARP, T_AT, T_ORDERED, T_MOVED, T_RELEASED, T_FRUITFUL, T_LAST = range(10)
"""The next phase; of the warp that ran last, its status, the reason why reading its records ended, and its number; position in the order, and number of warps
in the order; whether any warp did more than spin in this pass, whether a barrier released any, and whether either happened in
this turn; the basic block in which the warp stopped."""
T_BARRIER, T_TOLD, T_LIVING, T_TELLS, T_IDLE = 10, 11, 12, 13, 14
"""The barrier being examined; whether Python has been told that it completes; number of live threads; whether Python must be told of arrivals, because some
warp knows of other blocks; successive passes in which no warp did more than spin."""
T_WARPS, T_STRUCTURES, T_STRIDE, T_STATES, T_RUN, T_ORDER = 15, 16, 17, 18, 19, 20
"""Number of warps; host pointer of their WARP structures, and bytes between these; host pointers of their rows of shadow.S_*, of their states, and of the order
of a pass."""
T_KNOWN, T_COLUMNS, T_LANES, T_FOREIGN, T_SEEN = 21, 22, 23, 24, 25
"""Host pointer of what each warp knows, and words of a row there; host pointers of what its lanes know, and of pointers to what it knows of other blocks."""
T_ARRIVED, T_COUNTS, T_VOTES, T_PLACES, T_AT_BRANCH, T_ROUND_IT, T_WITH_OTHERS = 26, 27, 28, 29, 30, 31, 32
"""Host pointers. By barrier: clocks that have arrived, number of threads that have, votes, and basic blocks from which they arrived. By warp and way: lanes
that were at its branch, and lanes that went round its barrier. By way: whether threads at the barrier took it too."""
T_APART, T_APART_AT = 33, 34
"""Lanes of the warp that has just arrived that went round the basic block at whose barrier its other lanes are, and that basic block."""
T_TIMES_ROUND, T_CAME, T_EXPECTED = 35, 36, 37
"""Host pointers of the arrays with these names in ``skipped_barriers.Walked``, by warp and way."""
T_MISSING, T_MISSING_AT = 38, 39
"""Lanes that a warp-wide operation in the warp's last records named but that did not come, and the basic block of that operation."""
T_WANTED, T_MISCOUNTS = 40, 41
"""Host pointer to the count that each barrier's first arrival named; whether the warp that has just arrived named an invalid or a different count."""
T_WORDS = 42
NO_WARPS, ANOTHER = 1, 2
"""Values of T_MISCOUNTS: the count is not a multiple of the warp size; it differs from the first."""
MOST_PLACES = 63
"""Most entries in a barrier's row of places, after their number."""

BEGIN, RUN, RECORDS, WALK, STOPPED_AT, FULL, NEXT, RELEASE, AFTER = range(9)
"""Phases of a pass, of a warp, and of the release of barriers."""
ENDED, PASSED, DEADLOCKED, CANCELLED, FAILED, OUTSIDE, READING, ARRIVED, COMPLETED, MISSING = range(10)
"""Reasons why run_block returns: the block has ended; warps only spin, or one pass is done; no warp can run; the launch was cancelled; a warp stopped with a
status that ends the launch; lanes reached a WARPSYNC that does not name them; reading records ended with T_REASON; a warp is at a barrier; a barrier completes;
lanes that a warp-wide operation names went round it."""
RUNNING, AT_BARRIER, EXITED, STUCK, AT_CLUSTER = range(5)
"""States of warps."""
SYNC, ARRIVE, POPCOUNT, AND, OR, CLUSTER_ARRIVE, CLUSTER_WAIT = range(len(BARRIER_MODES))
WAY_BYTES = 8 * MOST_LANES
"""Bytes of a warp's counts for one way."""
IDLE_PASSES = 256
"""Passes without a barrier or the end of a warp before other blocks have their turn: all warps may be spinning on values that those have to write."""
EXIT, AT_BLOCK_BARRIER, STRONG, TRACE_FULL = (
    int(Status.EXIT),
    int(Status.BARRIER),
    int(Status.STRONG),
    int(Status.TRACE_FULL),
)
YIELD, CLOCK, DEADLOCK, SLEEP = int(Status.YIELD), int(Status.CLOCK), int(Status.DEADLOCK), int(Status.SLEEP)


@cache
def record_lengths(lanes: int) -> npt.NDArray[np.int64]:
    """Words of a record by its tag, for warps with this many lanes."""
    words = record_words(lanes)
    return np.array([words.get(tag, 1) for tag in range(16)], np.int64)


@core
def warp_at(t: Any, w: int) -> int:
    """Host address of a warp's WARP structure."""
    return t[T_STRUCTURES] + w * t[T_STRIDE]


@core
def state_of(t: Any, w: int) -> int:
    """Host address of a warp's row of shadow.S_*."""
    return t[T_STATES] + w * S_WORDS * 8


@core
def read(t: Any, launch: Any, w: int) -> int:
    """Read the rest of a warp's records."""
    tables = Tables(
        array_at(state_of(t, w)),
        array_at(t[T_KNOWN] + w * t[T_COLUMNS] * 8),
        array_at(t[T_LANES] + w * launch[L_LANES] * launch[L_LANES] * 8),
        array_at(peek(t[T_FOREIGN] + 8 * w)),
        array_at(launch[L_FINDINGS]),
    )
    traffic = Traffic(array_at(launch[L_COUNTERS]), array_at(launch[L_SCRATCH]))
    seen = array_at(peek(t[T_SEEN] + 8 * w))
    starts, events = array_at(launch[L_STARTS]), array_at(launch[L_EVENTS])
    return read_records(tables, seen, starts, events, array_at(launch[L_ALLOCATIONS]), traffic)


@core
def went_round(t: Any, times_round: Any, lanes: int, at: int, expected: int) -> None:
    """Record that lanes took a way round a basic block's barrier; ``expected`` are the lanes without which others carried it out."""
    left = lanes
    while left:
        times_round[lowest_bit(left)] += 1
        left &= left - 1
    if lanes & expected and t[T_MISSING] == 0:
        t[T_MISSING], t[T_MISSING_AT] = lanes & expected, at


@core
def more_often(times_round: Any, absent: int, lanes: int) -> int:
    """The absent lanes that took a way more often than each of the present ones."""
    most = 0
    left = lanes
    while left:
        most = max(most, times_round[lowest_bit(left)])
        left &= left - 1
    found = 0
    left = absent
    while left:
        lane = lowest_bit(left)
        if times_round[lane] > most:
            found |= 1 << lane
        left &= left - 1
    return found


class Ways(NamedTuple):
    """A warp's state by way round a barrier: lanes at its branch, lanes that went round, host pointer to how often each lane took it (``MOST_LANES`` words per
    way), lanes whose last warp-wide operation it goes round, and lanes without which others carried that out."""

    at_branch: Any
    round_it: Any
    times_round: int
    came: Any
    expects: Any


@core
def carried_out(t: Any, launch: Any, ways: Ways, block: int, lanes: int, absent: int) -> None:
    """Lanes carry out a warp-wide operation whose mask names others: determine whether these went round it."""
    table = array_at(launch[L_WAY_TABLE])
    for d in range(launch[L_WAYS]):
        if ways.came[d] & lanes and t[T_MISSING] == 0:
            t[T_MISSING] = more_often(array_at(ways.times_round + d * WAY_BYTES), absent, ways.came[d] & lanes)
            t[T_MISSING_AT] = table[3 * d + 2]
        if table[3 * d + 2] == block:
            ways.expects[d] |= absent & ways.at_branch[d]


@core
def enter_block(t: Any, launch: Any, of_warp: Ways, last: int, lanes: int) -> None:
    """Process the entry of lanes into a basic block that is on some way."""
    at_branch, round_it, times_round, came, expects = of_warp
    table, matters = array_at(launch[L_WAY_TABLE]), array_at(launch[L_WAY_BLOCKS])
    for d in range(launch[L_WAYS]):
        if table[3 * d + 1] == last:
            round_it[d] |= at_branch[d] & lanes
            if at_branch[d] & lanes:
                times = array_at(times_round + d * WAY_BYTES)
                went_round(t, times, at_branch[d] & lanes, table[3 * d + 2], expects[d])
            at_branch[d] &= ~lanes
            came[d] &= ~lanes
            expects[d] &= ~lanes
        if table[3 * d + 2] == last:
            at_branch[d] &= ~lanes
            expects[d] &= ~lanes
            came[d] |= lanes
        elif matters[last] & GOES_ROUND:
            came[d] &= ~lanes
        if table[3 * d] == last:
            at_branch[d] |= lanes
            came[d] &= ~lanes


@core
def walk(t: Any, launch: Any, trace: Any, used: int, of_warp: Ways) -> int:
    """Follow a warp's records to find the lanes at the branch of each way round a barrier and the lanes that went round; returns the last basic block, or
    -1."""
    position = 0
    last = -1
    group = 0
    head = 1 if launch[L_LANES] <= HALF_LANES else 2
    matters = array_at(launch[L_WAY_BLOCKS])
    while position < used:
        word = trace[position]
        tag = (word >> 60) & 15
        lanes = word & LANE_BITS if head == 1 else trace[position + 1]
        if tag == TAG_BLOCK:
            last = (word >> 32) & 0xFFFFFFF
            group = lanes
            if matters[last] & ON_A_WAY:
                enter_block(t, launch, of_warp, last, lanes)
        elif tag == TAG_SYNC and lanes != 0 and trace[position + head] != 0:
            block = (word >> 32) & 0xFFFFFFF
            absent = trace[position + head]
            if block == last and absent & group and matters[block] & ACTS and t[T_MISSING] == 0:
                t[T_MISSING], t[T_MISSING_AT] = absent & group, block
            carried_out(t, launch, of_warp, block, lanes, absent)
        position += peek(launch[L_RECORD_WORDS] + 8 * tag)
    return last


@core
def passes(t: Any, launch: Any, w: int, lanes: int) -> None:
    """Lanes of a warp are at a barrier: reset the ways on which they went round it."""
    ways = launch[L_WAYS]
    table = array_at(launch[L_WAY_TABLE])
    at_branch, round_it = array_at(t[T_AT_BRANCH] + w * ways * 8), array_at(t[T_ROUND_IT] + w * ways * 8)
    for d in range(ways):
        if at_branch[d] & lanes and round_it[d] & lanes:
            t[T_APART] = round_it[d] & lanes
            t[T_APART_AT] = table[3 * d + 2]
        if table[3 * d + 2] == t[T_LAST] and round_it[d] & lanes:
            array_at(t[T_WITH_OTHERS])[d] = 1
        at_branch[d] &= ~lanes
        round_it[d] &= ~lanes


@core
def arrive_at_cluster(t: Any, launch: Any, w: int) -> None:
    """A warp arrives at its cluster's barrier, or waits there; in a wait whose arrival has been consumed it is already past the barrier."""
    warp: Warp = warp_at(t, w)
    lanes = warp["barrier_lanes"] & warp["lanes"]
    array_at(state_of(t, w))[S_EPOCH] += 1
    t[T_APART] = 0
    t[T_MISCOUNTS] = 0
    if launch[L_SYNCHECK]:
        passes(t, launch, w, lanes)
    if warp["barrier_mode"] == CLUSTER_ARRIVE:
        warp["cluster_arrived"] |= lanes
    elif lanes & warp["cluster_arrived"]:
        array_at(t[T_RUN])[w] = AT_CLUSTER


@core
def arrive(t: Any, launch: Any, w: int) -> bool:
    """A warp has reached a block barrier or its cluster's; returns whether Python must process that."""
    warp: Warp = warp_at(t, w)
    if warp["barrier_mode"] >= CLUSTER_ARRIVE:
        arrive_at_cluster(t, launch, w)
        return True
    s = array_at(state_of(t, w))
    number, lanes = warp["barrier_id"] & 15, warp["barrier_lanes"] & warp["lanes"]
    living = warp["lanes"] & ~warp["exited"]
    s[S_EPOCH] += 1
    columns = t[T_COLUMNS]
    arrived, known = array_at(t[T_ARRIVED] + number * columns * 8), array_at(t[T_KNOWN] + w * columns * 8)
    for column in range(columns):
        arrived[column] = max(arrived[column], known[column])
    arrived[w] = max(arrived[w], s[S_EPOCH])
    t[T_APART] = 0
    if launch[L_SYNCHECK]:
        places = array_at(t[T_PLACES] + number * (MOST_PLACES + 1) * 8)
        n = places[0]
        new = n < MOST_PLACES
        for i in range(n):
            if places[1 + i] == t[T_LAST]:
                new = False
        if new:
            places[1 + n] = t[T_LAST]
            places[0] = n + 1
        if warp["barrier_threads"] == 0:
            passes(t, launch, w, lanes)
    wanted = array_at(t[T_WANTED])
    named = warp["barrier_threads"] if warp["barrier_threads"] != 0 else launch[L_LANES] * t[T_WARPS]
    t[T_MISCOUNTS] = (
        NO_WARPS
        if named & (launch[L_LANES] - 1)
        else (ANOTHER if wanted[number] != 0 and wanted[number] != named else 0)
    )
    wanted[number] = named
    counts, votes = array_at(t[T_COUNTS]), array_at(t[T_VOTES])
    whole = warp["barrier_threads"] != 0 and lanes == living
    counts[number] += launch[L_LANES] if whole else popcount(lanes)
    mode = warp["barrier_mode"]
    if mode >= POPCOUNT:
        vote = warp["barrier_vote"] & lanes
        votes[number] += popcount(vote ^ lanes if mode == AND else vote)
    if mode != ARRIVE:
        array_at(t[T_RUN])[w] = AT_BARRIER
    if warp["barrier_threads"] != 0 and counts[number] >= warp["barrier_threads"]:
        t[T_BARRIER] = number
        t[T_PHASE] = FULL
    if launch[L_SYNCHECK] and t[T_MISCOUNTS]:
        return True
    return bool(t[T_TELLS] or (launch[L_SYNCHECK] and mode != ARRIVE and (t[T_APART] or lanes != living)))


@core
def waits_at(t: Any, w: int, number: int) -> bool:
    """Whether a warp is waiting at a block barrier."""
    warp: Warp = warp_at(t, w)
    return bool(array_at(t[T_RUN])[w] == AT_BARRIER and warp["barrier_id"] & 15 == number)


@core
def expected(t: Any, number: int) -> int:
    """Number of threads that a barrier waits for; -1 if no thread waits there."""
    most = -1
    for w in range(t[T_WARPS]):
        if waits_at(t, w, number):
            warp: Warp = warp_at(t, w)
            most = max(most, warp["barrier_threads"])
    return t[T_LIVING] if most == 0 else most


@core
def is_of_interest(t: Any, launch: Any, number: int) -> bool:
    """Whether Python must process a barrier that completes."""
    if t[T_TELLS]:
        return True
    if launch[L_SYNCHECK] == 0:
        return False
    for w in range(t[T_WARPS]):
        warp: Warp = warp_at(t, w)
        if waits_at(t, w, number) and warp["barrier_threads"] != 0:
            return False
    places = array_at(t[T_PLACES] + number * (MOST_PLACES + 1) * 8)
    if places[0] > 1:
        return True
    ways = launch[L_WAYS]
    for d in range(ways):
        if peek(launch[L_WAY_TABLE] + (3 * d + 2) * 8) == places[1] and peek(t[T_WITH_OTHERS] + 8 * d) == 0:
            for w in range(t[T_WARPS]):
                ended: Warp = warp_at(t, w)
                if peek(t[T_ROUND_IT] + (w * ways + d) * 8) & ended["exited"]:
                    return True
    return False


@core
def complete(t: Any, launch: Any, number: int) -> None:
    """Complete a block barrier: release its warps, which then know what all arriving warps knew."""
    columns = t[T_COLUMNS]
    arrived = array_at(t[T_ARRIVED] + number * columns * 8)
    counts, votes, run = array_at(t[T_COUNTS]), array_at(t[T_VOTES]), array_at(t[T_RUN])
    whole = True
    for w in range(t[T_WARPS]):
        if not waits_at(t, w, number):
            continue
        warp: Warp = warp_at(t, w)
        s = array_at(state_of(t, w))
        known = array_at(t[T_KNOWN] + w * columns * 8)
        for column in range(columns):
            known[column] = max(known[column], arrived[column])
        lanes = warp["barrier_lanes"] & warp["lanes"]
        width = launch[L_LANES]
        if lanes == full_wave(width):
            s[S_WHOLE] = s[S_EPOCH]
        else:
            rows = array_at(t[T_LANES] + w * width * width * 8)
            for lane in range(width):
                if (lanes >> lane) & 1:
                    for other in range(width):
                        if (lanes >> other) & 1:
                            rows[lane * width + other] = s[S_EPOCH]
        run[w] = RUNNING
        mode = warp["barrier_mode"]
        if mode >= POPCOUNT:
            some = 1 if votes[number] != 0 else 0
            warp["barrier_result"] = votes[number] if mode == POPCOUNT else (1 - some if mode == AND else some)
        if warp["barrier_threads"] != 0:
            whole = False
    for column in range(columns):
        arrived[column] = 0
    counts[number] = 0
    votes[number] = 0
    array_at(t[T_WANTED])[number] = 0
    array_at(t[T_PLACES] + number * (MOST_PLACES + 1) * 8)[0] = 0
    if launch[L_SYNCHECK] and whole:
        for d in range(launch[L_WAYS]):
            array_at(t[T_WITH_OTHERS])[d] = 0
    t[T_RELEASED] = 1


@core
def after_stop(t: Any, launch: Any, w: int) -> int:
    """Continue after the stop of a warp whose records have been read; returns a reason to return, or -1."""
    status = t[T_STATUS]
    t[T_PHASE] = NEXT
    if status == STRONG or status == CLOCK or status == TRACE_FULL:
        if peek(launch[L_CANCEL]):
            return CANCELLED
        # A warp gives way at each strong access, so that one that polls sees a value before others that have seen it go on and change it.
        if status == STRONG and launch[L_SEEDED]:
            t[T_MOVED] = 1
        return -1
    if status == EXIT or status == DEADLOCK:
        array_at(t[T_RUN])[w] = EXITED if status == EXIT else STUCK
        t[T_MOVED] = 1
    elif status == AT_BLOCK_BARRIER:
        t[T_MOVED] = 1
        if arrive(t, launch, w):
            return ARRIVED
    elif status != YIELD and status != SLEEP:
        return FAILED
    return -1


@core
def after_pass(t: Any) -> bool:
    """Every warp of a pass has had its turn; returns whether the block has ended."""
    ended = True
    living = 0
    for w in range(t[T_WARPS]):
        warp: Warp = warp_at(t, w)
        living += popcount(warp["lanes"] & ~warp["exited"])
        if array_at(t[T_RUN])[w] != EXITED:
            ended = False
    t[T_LIVING] = living
    t[T_FRUITFUL] |= t[T_MOVED]
    t[T_BARRIER] = 0
    t[T_TOLD] = 0
    t[T_RELEASED] = 0
    return ended


@core
def begin_pass(t: Any, launch: Any) -> None:
    """Set the order of the running warps: by number, or as given by Python."""
    if launch[L_SEEDED] == 0:
        n = 0
        order, run = array_at(t[T_ORDER]), array_at(t[T_RUN])
        for w in range(t[T_WARPS]):
            if run[w] == RUNNING:
                order[n] = w
                n += 1
        t[T_ORDERED] = n
    t[T_AT] = 0
    t[T_MOVED] = 0


@core
def run_warp(t: Any, launch: Any, w: int) -> bool:
    """Run a warp's function up to its next stop; returns True if lanes reached a WARPSYNC that does not name them."""
    warp: Warp = warp_at(t, w)
    launch[L_CLOCK] += 1
    warp["trace_used"] = 0
    warp["clock"] = launch[L_CLOCK]
    warp["globaltimer_ns"] = launch[L_CLOCK]
    t[T_STATUS] = call_warp(launch[L_FUNCTION], warp_at(t, w))
    t[T_PHASE] = RECORDS
    s = array_at(state_of(t, w))
    s[S_POSITION] = 0
    s[S_USED] = warp["trace_used"]
    return launch[L_SYNCHECK] != 0 and warp["outside_lanes"] != 0


@core
def follow(t: Any, launch: Any, w: int) -> bool:
    """Follow a warp's records from basic block to basic block; returns True if a warp-wide operation named lanes that are elsewhere."""
    state = array_at(state_of(t, w))
    if launch[L_WALKS] == 0 and launch[L_READS]:
        t[T_LAST] = state[S_BLOCK]
        return False
    warp: Warp = warp_at(t, w)
    ways = launch[L_WAYS]
    t[T_MISSING] = 0
    of_warp = Ways(
        array_at(t[T_AT_BRANCH] + w * ways * 8),
        array_at(t[T_ROUND_IT] + w * ways * 8),
        t[T_TIMES_ROUND] + w * ways * WAY_BYTES,
        array_at(t[T_CAME] + w * ways * 8),
        array_at(t[T_EXPECTED] + w * ways * 8),
    )
    last = walk(t, launch, array_at(warp["trace_base"]), warp["trace_used"], of_warp)
    if last >= 0:
        state[S_BLOCK] = last
    t[T_LAST] = state[S_BLOCK]
    return t[T_MISSING] != 0


@core
def release_next(t: Any, launch: Any) -> bool:
    """Examine the next barrier and release it if it is complete; returns True if Python must be told first."""
    number = t[T_BARRIER]
    if number == NAMED_BARRIERS:
        t[T_PHASE] = AFTER
        return False
    wanted = expected(t, number)
    if wanted < 0 or peek(t[T_COUNTS] + 8 * number) < wanted:
        t[T_BARRIER] = number + 1
        return False
    if complete_or_tell(t, launch, number):
        return True
    t[T_BARRIER] = number + 1
    return False


@core
def complete_or_tell(t: Any, launch: Any, number: int) -> bool:
    """Complete a barrier. If Python must be told first, return True instead; the next call completes it."""
    if t[T_TOLD] == 0 and is_of_interest(t, launch, number):
        t[T_TOLD] = 1
        return True
    complete(t, launch, number)
    t[T_TOLD] = 0
    return False


@core
def end_pass(t: Any, launch: Any) -> int:
    """End a pass after its barriers; returns the reason to leave machine code, or -1."""
    t[T_PHASE] = BEGIN
    t[T_FRUITFUL] |= t[T_RELEASED]
    if peek(launch[L_CANCEL]):
        return CANCELLED
    runs = False
    for other in range(t[T_WARPS]):
        doing = peek(t[T_RUN] + 8 * other)
        if doing == RUNNING or doing == AT_CLUSTER:
            runs = True
    if not runs:
        return DEADLOCKED
    t[T_IDLE] = 0 if t[T_MOVED] or t[T_RELEASED] else t[T_IDLE] + 1
    if launch[L_SEEDED] or t[T_IDLE] == IDLE_PASSES:
        t[T_IDLE] = 0
        return PASSED
    return -1


@partial(entry, what="the analysis of memory accesses")
def run_block(t: Any, launch: Any) -> int:
    """Run a block's warps as far as possible; returns the reason for stopping.

    Args:
        t: int64[T_WORDS].
        launch: int64[L_WORDS].
    """
    while True:
        phase = t[T_PHASE]
        w = t[T_WARP]
        if phase == BEGIN:
            begin_pass(t, launch)
            t[T_PHASE] = RUN
        elif phase == RUN:
            if t[T_AT] >= t[T_ORDERED]:
                if after_pass(t):
                    return ENDED
                t[T_PHASE] = RELEASE
                continue
            t[T_WARP] = peek(t[T_ORDER] + 8 * t[T_AT])
            if run_warp(t, launch, t[T_WARP]):
                return OUTSIDE
        elif phase == RECORDS:
            if launch[L_READS]:
                t[T_REASON] = read(t, launch, w)
                if t[T_REASON] != DONE:
                    return READING
            t[T_PHASE] = WALK
        elif phase == WALK:
            t[T_PHASE] = STOPPED_AT
            if launch[L_SYNCHECK] and follow(t, launch, w):
                return MISSING
        elif phase == STOPPED_AT:
            reason = after_stop(t, launch, w)
            if reason >= 0:
                return reason
        elif phase == FULL:
            if complete_or_tell(t, launch, t[T_BARRIER]):
                return COMPLETED
            t[T_PHASE] = NEXT
        elif phase == NEXT:
            t[T_AT] += 1
            t[T_PHASE] = RUN
        elif phase == RELEASE:
            if release_next(t, launch):
                return COMPLETED
        else:
            reason = end_pass(t, launch)
            if reason >= 0:
                return reason
