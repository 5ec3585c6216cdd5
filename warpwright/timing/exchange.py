"""Order and division of the serial phase: GPCs and groups of slices, which threads serve in parallel.

A GPC sorts the requests of its SMs by (time, SM's turn, number) and passes them through the units that its SMs share; a group of slices merges the
lists of all GPCs by (time, SM) and serves them in that order; the GPC takes the answers back in the order of its list.  Every shared unit therefore
sees its requests in one order that does not depend on host threads, and GPCs can run in parallel, as can groups.
Requests that involve several groups (strong accesses, which are executed, and bulk copies) are served by one thread together with the rest of their window,
as are all of a launch whose managed memory has pages that move, or whose processor shares page tables and caches.
"""

from __future__ import annotations

from typing import Any

from warpwright.chips.sections import MAX_GPCS
from warpwright.native.intrinsics import core, host_address, prefetch
from warpwright.timing import state as s
from warpwright.timing.address_hash import slice_of
from warpwright.timing.crossbar import (
    announce,
    back_to_gpc,
    note_far_write,
    note_turn,
    pass_gpc,
    serve_at_slice,
    serve_in_order,
)
from warpwright.timing.intrinsics import oldest_way
from warpwright.timing.l2 import group_of
from warpwright.timing.numbered_units import gpc_at, sm_at
from warpwright.timing.runs import length_of, number_of, run_back_to_gpc, serve_run
from warpwright.timing.warp_slots import mark

AHEAD = 8
"""Requests between prefetching the state of one on the host and serving it."""
FEW = 24
"""Up to this many requests are sorted by insertion."""
# A word of a list: the cycle of the window in which a request arrives, its SM's number, of a run the first request and how many more, its place.
# Requests are served in ascending order of words.
_LATE, _SM, _FIRST, _MORE = 48, 36, 32, s.PLACE_BITS
_PLACE = (1 << _MORE) - 1
_RUN = s.MAX_RUN - 1
_NEXT = (1 << _LATE) + (1 << _FIRST)
"""From a request of a run to the next one."""


@core
def place_of(word: int) -> s.Request:
    """The request of a list's word."""
    return s.Request(word & _PLACE)


@core
def first_of(word: int) -> int:
    """The first request of a list's piece of a run."""
    return (word >> _FIRST) & _RUN


@core
def count_of(word: int) -> int:
    """How many requests a list's word stands for."""
    return ((word >> _MORE) & _RUN) + 1


@core
def sm_of(m: Any, word: int) -> s.SM:
    """The SM of a list's word."""
    return sm_at(m, index_of(word))


@core
def index_of(word: int) -> int:
    """The number of its SM."""
    return (word >> _SM) & 0xFFF


@core
def in_run(m: Any, word: int) -> bool:
    """Whether a list's word names requests of a run."""
    if m[s.chip.keeps_runs] == 0:
        return False
    sm = sm_of(m, word)
    return length_of(m, sm, number_of(m, sm, place_of(word))) > 1


@core
def window_draw(begin: int) -> int:
    """A random word for a window, derived from its beginning."""
    return ((begin * s.GOLDEN) >> 40) & 0xFFFF


@core
def turns(count: int) -> int:
    """The number of turns in which a number of SMs is traversed: the next power of two."""
    width = 1
    while width < count:
        width *= 2
    return width


@core
def sm_in_turn(draw: int, k: int, width: int) -> int:
    """Which of ``width`` SMs has the k-th turn in a window whose random word is ``draw``.

    Requests that reach a GPC in the same cycle have no fixed order (bench.micro ``crowd_once``: 8 SMs that read two sectors of a line in the same cycle make 6.45
    requests, as in random order; in the order of the SMs they would make 3).
    """
    return (k * ((0xDB53 >> ((draw & 3) * 4)) & 15) + (draw >> 2)) & (width - 1)


@core
def sort_few(m: Any, g: s.Gpc, begin: int, order: int) -> None:
    """Sort a GPC's few requests by insertion."""
    requests = m[s.chip.requests_at]
    count = 0
    first, sms = m[g.first], m[g.end] - m[g.first]
    width = turns(sms)
    draw = window_draw(begin)
    for k in range(width):
        turn = sm_in_turn(draw, k, width)
        if turn >= sms:
            continue
        index = first + turn
        sm = sm_at(m, index)
        for j in range(m[sm.requests]):
            r = s.Request(sm + requests + j * s.Request.size)
            for k in range(length_of(m, sm, j)):
                late = min(m[r.time] + k - begin, s.BUCKETS - 1)
                place = order + count
                while place > order and m[place - 1] >> _LATE > late:
                    m[place] = m[place - 1]
                    place -= 1
                m[place] = late << _LATE | index << _SM | k << _FIRST | r
                count += 1


@core
def sort_many(m: Any, gpc: int, g: s.Gpc, begin: int, order: int) -> None:
    """Sort a GPC's requests by counting how many arrive in each cycle."""
    requests = m[s.chip.requests_at]
    buckets = m[s.chip.buckets] + gpc * s.BUCKET_SLOTS
    used = min(m[g.latest] - begin, s.BUCKETS - 1) + 1
    for i in range(used + 1):
        m[buckets + i] = 0
    first, last = m[g.first], m[g.end]
    for index in range(first, last):
        sm = sm_at(m, index)
        for j in range(m[sm.requests]):
            late = m[s.Request(sm + requests + j * s.Request.size).time] - begin
            for k in range(length_of(m, sm, j)):
                m[buckets + min(late + k, s.BUCKETS - 1) + 1] += 1
    for i in range(used):
        m[buckets + i + 1] += m[buckets + i]
    width = turns(last - first)
    draw = window_draw(begin)
    for k in range(width):
        turn = sm_in_turn(draw, k, width)
        if turn >= last - first:
            continue
        index = first + turn
        sm = sm_at(m, index)
        for j in range(m[sm.requests]):
            r = s.Request(sm + requests + j * s.Request.size)
            for k in range(length_of(m, sm, j)):
                late = min(m[r.time] + k - begin, s.BUCKETS - 1)
                place = m[buckets + late]
                m[buckets + late] = place + 1
                m[order + place] = late << _LATE | index << _SM | k << _FIRST | r


@core
def join_runs(m: Any, order: int, total: int) -> int:
    """Leave one word in a GPC's list for the requests of a run that no other comes between; returns the number of words."""
    words = 0
    i = 0
    while i < total:
        word = m[order + i]
        count = 1
        while i + count < total and m[order + i + count] == word + count * _NEXT:
            count += 1
        m[order + words] = word + ((count - 1) << _MORE)
        words += 1
        i += count
    return words


@core
def next_word(m: Any, sm: s.SM, begin: int) -> int:
    """An SM's first request that is not in its GPC's list, as a word without the SM's number, with the rest of its run; ``s.INF`` if there is none."""
    number = m[sm.listed]
    if number >= m[sm.requests]:
        return s.INF
    place = sm + m[s.chip.requests_at] + number * s.Request.size
    first = m[sm.listed_of_run]
    late = m[s.Request(place).time] + first - begin
    return late << _LATE | first << _FIRST | (length_of(m, sm, number) - first - 1) << _MORE | place


@core
def merge_runs(m: Any, g: s.Gpc, begin: int, order: int) -> int:
    """List a GPC's requests, of which each SM makes its own in the order of time, in pieces of runs between which no other comes; returns the number of words."""
    first, sms = m[g.first], m[g.end] - m[g.first]
    width = turns(sms)
    draw = window_draw(begin)
    for index in range(first, first + sms):
        sm = sm_at(m, index)
        m[sm.listed] = 0
        m[sm.listed_of_run] = 0
    words = 0
    while True:
        word = s.INF
        limit = s.INF  # requests of the piece come before this cycle
        taken = -1
        for k in range(width):
            turn = sm_in_turn(draw, k, width)
            if turn >= sms:
                continue
            sm = sm_at(m, first + turn)
            found = next_word(m, sm, begin)
            if found >> _LATE < word >> _LATE:
                limit = word >> _LATE
                word = found
                taken = first + turn
            else:
                limit = min(limit, (found >> _LATE) + 1)
        if taken < 0:
            return words
        more = min(count_of(word), limit - (word >> _LATE)) - 1
        m[order + words] = (word & ~(_RUN << _MORE)) | more << _MORE | taken << _SM
        words += 1
        sm = sm_at(m, taken)
        if more + 1 == count_of(word):
            m[sm.listed] += 1
            m[sm.listed_of_run] = 0
        else:
            m[sm.listed_of_run] += more + 1


@core
def gpc_order(m: Any, g: s.Gpc) -> int:
    """A GPC's list."""
    return m[s.chip.order] + m[g.first] * s.MAX_REQUESTS


@core
def group_list(m: Any, g: s.Gpc, group: int) -> int:
    """The part of a GPC's list that goes to a group of slices."""
    sms = m[g.end] - m[g.first]
    whole = m[s.chip.group_order] + m[g.first] * s.MAX_REQUESTS * s.SLICE_GROUPS
    return whole + group * sms * s.MAX_REQUESTS


@core
def count_requests(m: Any, g: s.Gpc) -> None:
    """Note how many requests a GPC's SMs made in the window that began at ``chip.now``, and what decides how they are ordered and served."""
    total = 0
    together = 0
    bulk = 0
    ordered = m[s.chip.keeps_runs]
    latest = m[s.chip.now]
    requests = m[s.chip.requests_at]
    for index in range(m[g.first], m[g.end]):
        sm = sm_at(m, index)
        total += m[sm.requests] + m[sm.repeated]
        last = 0
        for j in range(m[sm.requests]):
            r = s.Request(sm + requests + j * s.Request.size)
            if m[r.time] < last:
                ordered = 0
            last = m[r.time] + length_of(m, sm, j) - 1
            latest = max(latest, last)
            kind = m[r.kind]
            if kind >= s.RQ_STRONG:
                together = 1
                if kind == s.RQ_BULK:
                    bulk = 1
    m[g.requests] = total
    m[g.together] = together
    m[g.passed] = 1 - bulk
    m[g.latest] = latest
    m[g.ordered] = ordered


@core
def list_requests(m: Any, gpc: int, g: s.Gpc, order: int) -> None:
    """Make a GPC's list of the requests of its SMs."""
    total = m[g.requests]
    begin = m[s.chip.now]
    if m[g.ordered] and m[g.latest] - begin < s.BUCKETS - 1:
        m[g.requests] = merge_runs(m, g, begin, order)
        return
    if total <= FEW:
        sort_few(m, g, begin, order)
    else:
        sort_many(m, gpc, g, begin, order)
    if m[s.chip.keeps_runs]:
        m[g.requests] = join_runs(m, order, total)


@core
def depart(m: Any, gpc: int) -> None:
    """Sort the requests that a GPC's SMs made in the window that began at ``chip.now``, and pass them on to the slices' groups."""
    g = gpc_at(m, gpc)
    count_requests(m, g)
    m[g.awaits] = 0
    for group in range(s.SLICE_GROUPS):
        m[g.counts[group]] = 0
    if m[g.requests] == 0:
        return
    order = gpc_order(m, g)
    list_requests(m, gpc, g, order)
    total = m[g.requests]
    bulk = 1 - m[g.passed]
    host = host_address(m)
    for i in range(total):
        if i + AHEAD < total:
            prefetch(host + 8 * place_of(m[order + i + AHEAD]))
        word = m[order + i]
        r = place_of(word)
        kind = m[r.kind]
        if kind >= s.RQ_STRONG:
            continue
        home = slice_of(m, m[r.line])
        m[r.answer] = home
        if kind == s.RQ_STORE or kind == s.RQ_ATOMIC:
            note_far_write(m, index_of(word), home, m[r.time])
        if bulk == 0 and first_of(word) == 0:
            pass_gpc(m, gpc, index_of(word), r, kind)
        group = group_of(m, home)
        count = m[g.counts[group]]
        m[g.counts[group]] = count + 1
        m[group_list(m, g, group) + count] = word


@core
def take_back(m: Any, gpc: int) -> None:
    """Take the answers of the last window back to a GPC's SMs."""
    g = gpc_at(m, gpc)
    if m[g.awaits] == 0:
        return
    m[g.awaits] = 0
    order = gpc_order(m, g)
    host = host_address(m)
    total = m[g.requests]
    for i in range(total):
        if i + AHEAD < total:
            prefetch(host + 8 * place_of(m[order + i + AHEAD]))
        return_answers(m, gpc, m[order + i])


@core
def return_answers(m: Any, gpc: int, word: int) -> None:
    """Move the answers to a list's word from their slice to their SM."""
    if in_run(m, word):
        run_back_to_gpc(m, gpc, sm_of(m, word), place_of(word), first_of(word), count_of(word))
    else:
        back_to_gpc(m, gpc, place_of(word))


@core
def open_list(m: Any, queue: s.RequestQueue, gpc: int, first: int, count: int) -> None:
    """Add a list of a GPC to a queue."""
    m[queue.next[gpc]] = first + 1
    m[queue.end[gpc]] = first + count
    m[queue.heads[gpc]] = m[first] if count else s.INF
    m[queue.left] += count


@core
def take_of_run(m: Any, queue: s.RequestQueue, gpc: int, word: int) -> int:
    """Take, of the piece of a run at the head of a GPC's list, the requests that come before the heads of all other lists."""
    m[queue.heads[gpc]] = s.INF
    other = m[queue.heads[oldest_way(host_address(m) + 8 * queue.heads)]]
    more = (other - word - 1) >> _LATE  # of the next requests, each in the next cycle
    if more >= count_of(word) - 1:
        return word
    m[queue.heads[gpc]] = word + (more + 1) * (_NEXT - (1 << _MORE))
    return (word & ~(_RUN << _MORE)) | more << _MORE


@core
def take(m: Any, queue: s.RequestQueue) -> int:
    """The smallest word of a queue's lists."""
    gpc = oldest_way(host_address(m) + 8 * queue.heads)
    word = m[queue.heads[gpc]]
    if count_of(word) > 1:
        word = take_of_run(m, queue, gpc, word)
        if m[queue.heads[gpc]] != s.INF:
            return word
    m[queue.left] -= 1
    place = m[queue.next[gpc]]
    if place < m[queue.end[gpc]]:
        m[queue.heads[gpc]] = m[place]
        m[queue.next[gpc]] = place + 1
    else:
        m[queue.heads[gpc]] = s.INF
    return word


@core
def empty_queue(m: Any, number: int) -> s.RequestQueue:
    """A queue without lists."""
    queue = s.RequestQueue(m[s.chip.queues] + number * s.RequestQueue.size)
    for gpc in range(MAX_GPCS):
        m[queue.heads[gpc]] = s.INF
    m[queue.left] = 0
    return queue


@core
def come_near(m: Any, queue: s.RequestQueue, i: int, taken: int) -> int:
    """Take the word that is two times AHEAD after the i-th from a queue, which ``taken`` were taken from; prefetch, on the host, the state that it and the one between need.

    Returns how many were taken with it.
    """
    host = host_address(m)
    ring = queue.ring
    if m[queue.left]:
        word = take(m, queue)
        m[ring + (taken & (s.RING_WORDS - 1))] = word
        prefetch(host + 8 * place_of(word))
        taken += 1
    if 0 <= i + AHEAD < taken:
        word = m[ring + ((i + AHEAD) & (s.RING_WORDS - 1))]
        announce(m, index_of(word), place_of(word))
    return taken


@core
def serve_word(m: Any, word: int) -> None:
    """Serve a list's word at its slice."""
    index, r = index_of(word), place_of(word)
    if in_run(m, word):
        note_turn(m, index, m[r.answer])
        serve_run(m, sm_of(m, word), r, first_of(word), count_of(word))
    else:
        serve_at_slice(m, index, r)


@core
def serve_group(m: Any, group: int) -> None:
    """Serve all GPCs' requests to a group of slices."""
    queue = empty_queue(m, group)
    for gpc in range(m[s.chip.gpcs]):
        g = gpc_at(m, gpc)
        open_list(m, queue, gpc, group_list(m, g, group), m[g.counts[group]])
    if m[queue.left] == 0:
        return
    taken = 0
    i = -2 * AHEAD
    while i < taken:
        taken = come_near(m, queue, i, taken)
        if 0 <= i < taken:
            serve_word(m, m[queue.ring[i & (s.RING_WORDS - 1)]])
        i += 1


@core
def serve_together(m: Any, code: Any) -> None:
    """Serve all requests of the chip's SMs, one by one."""
    queue = empty_queue(m, s.SLICE_GROUPS)
    for gpc in range(m[s.chip.gpcs]):
        g = gpc_at(m, gpc)
        open_list(m, queue, gpc, gpc_order(m, g), m[g.requests])
    if m[queue.left] == 0:
        return
    taken = 0
    i = -2 * AHEAD
    while i < taken:
        taken = come_near(m, queue, i, taken)
        if 0 <= i < taken:
            serve_alone(m, code, m[queue.ring[i & (s.RING_WORDS - 1)]])
        i += 1


@core
def serve_alone(m: Any, code: Any, word: int) -> None:
    """Serve a list's word and return its answers."""
    r = place_of(word)
    kind = m[r.kind]
    if kind >= s.RQ_STRONG:
        sm = sm_of(m, word)
        serve_in_order(m, code, sm, r)
        if m[s.chip.error]:
            mark(m, sm, s.Warp(m[r.warp]))
        return
    gpc = m[m[s.chip.gpc_of_sm] + index_of(word)]
    if m[gpc_at(m, gpc).passed] == 0 and first_of(word) == 0:
        pass_gpc(m, gpc, index_of(word), r, kind)
    serve_word(m, word)
    return_answers(m, gpc, word)


@core
def requests_to_serve(m: Any, code: Any) -> int:
    """Serve the requests that only one thread can; returns how many are left for the groups of slices."""
    total = 0
    together = m[s.chip.pages_move] | m[s.chip.translations] | m[s.chip.probe_sets]
    for gpc in range(m[s.chip.gpcs]):
        g = gpc_at(m, gpc)
        total += m[g.requests]
        together |= m[g.together]
    m[s.chip.served] = total
    if together:
        serve_together(m, code)
        return 0
    for gpc in range(m[s.chip.gpcs]):
        g = gpc_at(m, gpc)
        m[g.awaits] = m[g.requests]
    return total
