"""What an SM's requests pass on their way to L2 and back, by those who serve them: GPCs and groups of slices.

A GPC sorts the requests of its SMs by (time, SM, number) and passes them through what its SMs share; a group of slices merges the
lists of all GPCs and serves them in the same order; the GPC takes the answers back in the order of its list.  So everything that is shared
sees its requests in one order that does not depend on host threads, and GPCs among themselves, like groups, can go at once.
What reaches across groups (strong accesses, which are executed, and bulk copies) is served by one thread with all else of its window.
"""

from __future__ import annotations

from typing import Any

from warpwright.chips.sections import MAX_GPCS
from warpwright.native.intrinsics import core, host_address, prefetch, u
from warpwright.timing import state as s
from warpwright.timing.address_hash import slice_of
from warpwright.timing.crossbar import announce, back_to_gpc, pass_gpc, serve_at_slice, serve_in_order
from warpwright.timing.intrinsics import oldest_way
from warpwright.timing.l2 import group_of
from warpwright.timing.warp import mark

AHEAD = 8
"""Requests between fetching what one looks at to the host's caches and serving it."""
FEW = 24
"""So many requests are sorted by insertion."""
# A word of a list: the cycle of its window in which a request comes, its SM's number, its place; words rise as requests are served.
_LATE, _SM = 48, 36
_PLACE = (1 << _SM) - 1


@core
def place_of(word: int) -> int:
    """The request of a list's word."""
    return word & _PLACE


@core
def index_of(word: int) -> int:
    """The number of its SM."""
    return (word >> _SM) & 0xFFF


@core
def gpc_at(m: Any, gpc: int) -> int:
    """The fields of a GPC."""
    return m[u(s.H_GPC_FIELDS)] + gpc * s.GP_SLOTS


@core
def sort_few(m: Any, g: int, begin: int, order: int) -> None:
    """Sort a GPC's few requests by insertion."""
    requests = m[u(s.H_OFF_REQUESTS)]
    count = 0
    for index in range(m[u(g + s.GP_FIRST)], m[u(g + s.GP_END)]):
        sm = m[u(s.H_SM_FIRST)] + index * m[u(s.H_SM_SLOTS)]
        for j in range(m[u(sm + s.SM_REQUESTS)]):
            r = sm + requests + j * s.R_SLOTS
            word = min(m[u(r + s.R_TIME)] - begin, s.BUCKETS - 1) << _LATE | index << _SM | r
            place = order + count
            while place > order and m[u(place - 1)] > word:
                m[u(place)] = m[u(place - 1)]
                place -= 1
            m[u(place)] = word
            count += 1


@core
def sort_many(m: Any, gpc: int, g: int, begin: int, order: int) -> None:
    """Sort a GPC's requests by counting how many come in each cycle."""
    requests = m[u(s.H_OFF_REQUESTS)]
    buckets = m[u(s.H_BUCKETS)] + gpc * s.BUCKET_SLOTS
    for i in range(s.BUCKETS + 1):
        m[u(buckets + i)] = 0
    first, last = m[u(g + s.GP_FIRST)], m[u(g + s.GP_END)]
    for index in range(first, last):
        sm = m[u(s.H_SM_FIRST)] + index * m[u(s.H_SM_SLOTS)]
        for j in range(m[u(sm + s.SM_REQUESTS)]):
            late = min(m[u(sm + requests + j * s.R_SLOTS + s.R_TIME)] - begin, s.BUCKETS - 1)
            m[u(buckets + late + 1)] += 1
    for i in range(s.BUCKETS):
        m[u(buckets + i + 1)] += m[u(buckets + i)]
    for index in range(first, last):
        sm = m[u(s.H_SM_FIRST)] + index * m[u(s.H_SM_SLOTS)]
        for j in range(m[u(sm + s.SM_REQUESTS)]):
            r = sm + requests + j * s.R_SLOTS
            late = min(m[u(r + s.R_TIME)] - begin, s.BUCKETS - 1)
            place = m[u(buckets + late)]
            m[u(buckets + late)] = place + 1
            m[u(order + place)] = late << _LATE | index << _SM | r


@core
def gpc_order(m: Any, g: int) -> int:
    """A GPC's list."""
    return m[u(s.H_ORDER)] + m[u(g + s.GP_FIRST)] * s.MAX_REQUESTS


@core
def group_list(m: Any, g: int, group: int) -> int:
    """What of a GPC's list goes to a group of slices."""
    sms = m[u(g + s.GP_END)] - m[u(g + s.GP_FIRST)]
    whole = m[u(s.H_GROUP_ORDER)] + m[u(g + s.GP_FIRST)] * s.MAX_REQUESTS * s.SLICE_GROUPS
    return whole + group * sms * s.MAX_REQUESTS


@core
def depart(m: Any, gpc: int) -> None:
    """Sort the requests that a GPC's SMs made in the window that began at ``H_NOW``, and pass them on to the slices' groups."""
    g = gpc_at(m, gpc)
    total = 0
    together = 0
    bulk = 0
    requests = m[u(s.H_OFF_REQUESTS)]
    for index in range(m[u(g + s.GP_FIRST)], m[u(g + s.GP_END)]):
        sm = m[u(s.H_SM_FIRST)] + index * m[u(s.H_SM_SLOTS)]
        total += m[u(sm + s.SM_REQUESTS)]
        for j in range(m[u(sm + s.SM_REQUESTS)]):
            kind = m[u(sm + requests + j * s.R_SLOTS + s.R_KIND)]
            if kind >= s.RQ_STRONG:
                together = 1
                if kind == s.RQ_BULK:
                    bulk = 1
    m[u(g + s.GP_REQUESTS)] = total
    m[u(g + s.GP_TOGETHER)] = together
    m[u(g + s.GP_PASSED)] = 1 - bulk
    m[u(g + s.GP_AWAITS)] = 0
    for group in range(s.SLICE_GROUPS):
        m[u(g + s.GP_COUNTS + group)] = 0
    if total == 0:
        return
    order = gpc_order(m, g)
    if total <= FEW:
        sort_few(m, g, m[u(s.H_NOW)], order)
    else:
        sort_many(m, gpc, g, m[u(s.H_NOW)], order)
    host = host_address(m)
    for i in range(total):
        if i + AHEAD < total:
            prefetch(host + 8 * place_of(m[u(order + i + AHEAD)]))
        word = m[u(order + i)]
        r = place_of(word)
        kind = m[u(r + s.R_KIND)]
        if kind >= s.RQ_STRONG:
            continue
        home = slice_of(m, m[u(r + s.R_LINE)])
        m[u(r + s.R_ANSWER)] = home
        if bulk == 0:
            pass_gpc(m, gpc, r, kind)
        group = group_of(m, home)
        count = m[u(g + s.GP_COUNTS + group)]
        m[u(g + s.GP_COUNTS + group)] = count + 1
        m[u(group_list(m, g, group) + count)] = word


@core
def take_back(m: Any, gpc: int) -> None:
    """Take the answers of the last window back to a GPC's SMs."""
    g = gpc_at(m, gpc)
    if m[u(g + s.GP_AWAITS)] == 0:
        return
    m[u(g + s.GP_AWAITS)] = 0
    order = gpc_order(m, g)
    host = host_address(m)
    total = m[u(g + s.GP_REQUESTS)]
    for i in range(total):
        if i + AHEAD < total:
            prefetch(host + 8 * place_of(m[u(order + i + AHEAD)]))
        back_to_gpc(m, gpc, place_of(m[u(order + i)]))


@core
def open_list(m: Any, queue: int, gpc: int, first: int, count: int) -> None:
    """Have a queue take a list of a GPC."""
    m[u(queue + s.Q_NEXT + gpc)] = first + 1
    m[u(queue + s.Q_END + gpc)] = first + count
    m[u(queue + s.Q_HEADS + gpc)] = m[u(first)] if count else s.INF


@core
def take(m: Any, queue: int) -> int:
    """The smallest word of a queue's lists."""
    gpc = oldest_way(host_address(m) + 8 * (queue + s.Q_HEADS))
    word = m[u(queue + s.Q_HEADS + gpc)]
    place = m[u(queue + s.Q_NEXT + gpc)]
    if place < m[u(queue + s.Q_END + gpc)]:
        m[u(queue + s.Q_HEADS + gpc)] = m[u(place)]
        m[u(queue + s.Q_NEXT + gpc)] = place + 1
    else:
        m[u(queue + s.Q_HEADS + gpc)] = s.INF
    return word


@core
def empty_queue(m: Any, number: int) -> int:
    """A queue without lists."""
    queue = m[u(s.H_QUEUES)] + number * s.Q_SLOTS
    for gpc in range(MAX_GPCS):
        m[u(queue + s.Q_HEADS + gpc)] = s.INF
    return queue


@core
def come_near(m: Any, queue: int, i: int, total: int) -> None:
    """Take the request that is two times AHEAD behind the i-th from a queue, and have the host fetch what it and the one between need."""
    host = host_address(m)
    ring = queue + s.Q_RING
    if i + 2 * AHEAD < total:
        word = take(m, queue)
        m[u(ring + ((i + 2 * AHEAD) & (s.RING_WORDS - 1)))] = word
        prefetch(host + 8 * place_of(word))
    if 0 <= i + AHEAD < total:
        word = m[u(ring + ((i + AHEAD) & (s.RING_WORDS - 1)))]
        announce(m, index_of(word), place_of(word))


@core
def serve_group(m: Any, group: int) -> None:
    """Serve what all GPCs ask of a group of slices."""
    queue = empty_queue(m, group)
    total = 0
    for gpc in range(m[u(s.H_GPCS)]):
        g = gpc_at(m, gpc)
        count = m[u(g + s.GP_COUNTS + group)]
        open_list(m, queue, gpc, group_list(m, g, group), count)
        total += count
    for i in range(-2 * AHEAD, total):
        come_near(m, queue, i, total)
        if i >= 0:
            word = m[u(queue + s.Q_RING + (i & (s.RING_WORDS - 1)))]
            serve_at_slice(m, index_of(word), place_of(word))


@core
def serve_together(m: Any, code: Any) -> None:
    """Serve everything that the SMs of the chip ask, request by request."""
    queue = empty_queue(m, s.SLICE_GROUPS)
    total = 0
    for gpc in range(m[u(s.H_GPCS)]):
        g = gpc_at(m, gpc)
        open_list(m, queue, gpc, gpc_order(m, g), m[u(g + s.GP_REQUESTS)])
        total += m[u(g + s.GP_REQUESTS)]
    for i in range(-2 * AHEAD, total):
        come_near(m, queue, i, total)
        if i < 0:
            continue
        word = m[u(queue + s.Q_RING + (i & (s.RING_WORDS - 1)))]
        index, r = index_of(word), place_of(word)
        sm = m[u(s.H_SM_FIRST)] + index * m[u(s.H_SM_SLOTS)]
        kind = m[u(r + s.R_KIND)]
        if kind >= s.RQ_STRONG:
            serve_in_order(m, code, sm, r)
            if m[u(s.H_ERROR)]:
                mark(m, sm, m[u(r + s.R_WARP)])
            continue
        gpc = m[u(m[u(s.H_GPC_OF_SM)] + index)]
        if m[u(gpc_at(m, gpc) + s.GP_PASSED)] == 0:
            pass_gpc(m, gpc, r, kind)
        serve_at_slice(m, index, r)
        back_to_gpc(m, gpc, r)


@core
def requests_to_serve(m: Any, code: Any) -> int:
    """Serve what only one thread can; gives how many requests are left for the groups of slices."""
    total = 0
    together = 0
    for gpc in range(m[u(s.H_GPCS)]):
        g = gpc_at(m, gpc)
        total += m[u(g + s.GP_REQUESTS)]
        together |= m[u(g + s.GP_TOGETHER)]
    m[u(s.H_SERVED)] = total
    if together:
        serve_together(m, code)
        return 0
    for gpc in range(m[u(s.H_GPCS)]):
        g = gpc_at(m, gpc)
        m[u(g + s.GP_AWAITS)] = m[u(g + s.GP_REQUESTS)]
    return total
