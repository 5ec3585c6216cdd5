"""The main loop of several devices whose launches run at once in simulated time.

A round has the windows that begin before any of them ends, at most one of each device.  A window is shorter than any link, so the devices' windows of a round
depend on each other only by what warps read and write.  First the SMs of all devices run, then strong accesses are executed, device by device, then
the slices serve the other requests and the windows end.  Host threads share the first and last steps, a device at a time; the order of what devices
can see of each other does not depend on them.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import (
    atomic_add,
    atomic_peek,
    atomic_poke,
    core,
    host_address,
    peek,
    poke,
    words,
    words_at,
)
from warpwright.timing import state as s
from warpwright.timing.exchange import requests_to_serve, serve_group
from warpwright.timing.warming import RUNNING
from warpwright.timing.window_steps import LOOKS_BEFORE_SLEEP, begin, close_window, run_gpc, wait_a_little, window_end

RUN_SMS, END_WINDOW = range(2)
"""Steps that threads share."""
JOINS, SERVED = 1, 2
"""A device has a window in the round, and its strong accesses have been executed."""


@core
def device_at(table: int, number: int) -> int:
    """The address of a device's row."""
    return table + 8 * (s.DG_WORDS + number * s.DV_WORDS)


@core
def round_end(table: int) -> int:
    """When the first of the windows that begin now ends, in femtoseconds."""
    end = s.INF
    for number in range(peek(table + 8 * s.DG_COUNT)):
        d = device_at(table, number)
        if peek(d + 8 * s.DV_RUNS):
            m = words_at(peek(d + 8 * s.DV_STATE))
            end = min(end, window_end(m) * peek(d + 8 * s.DV_PERIOD))
    return end


@core
def join_round(table: int) -> int:
    """Let the devices whose windows begin before any ends take part in a round; returns how many do."""
    end = round_end(table)
    count = 0
    for number in range(peek(table + 8 * s.DG_COUNT)):
        d = device_at(table, number)
        poke(d + 8 * s.DV_JOINS, 0)
        if peek(d + 8 * s.DV_RUNS) == 0:
            continue
        m = words_at(peek(d + 8 * s.DV_STATE))
        if m[s.chip.now] * peek(d + 8 * s.DV_PERIOD) < end:
            m[m[s.chip.thread_phase] + s.PHASE_END] = window_end(m)
            poke(d + 8 * s.DV_JOINS, JOINS)
            count += 1
    return count


@core
def do_step(d: int, step: int) -> None:
    """A device's part of a step."""
    m = words_at(peek(d + 8 * s.DV_STATE))
    code = words_at(peek(d + 8 * s.DV_PROGRAM))
    end = m[m[s.chip.thread_phase] + s.PHASE_END]
    if step == RUN_SMS:
        for turn in range(m[s.chip.gpcs]):
            run_gpc(m, code, m[m[s.chip.gpc_turns] + turn], end)
        return
    if peek(d + 8 * s.DV_REQUESTS):
        for group in range(s.SLICE_GROUPS):
            serve_group(m, group)
    poke(d + 8 * s.DV_OUTCOME, close_window(m, code, end))


@core
def take_device(table: int, first: int) -> bool:
    """Do the open step for a device that nobody has taken, the ``first`` one rather than others; False if none is left."""
    count = peek(table + 8 * s.DG_COUNT)
    for turn in range(count):
        number = first + turn
        if number >= count:
            number -= count
        d = device_at(table, number)
        if atomic_peek(d + 8 * s.DV_TAKEN) == 0 and atomic_add(d + 8 * s.DV_TAKEN, 1) == 0:
            do_step(d, peek(table + 8 * s.DG_STEP))
            atomic_add(table + 8 * s.DG_DONE, 1)
            return True
    return False


@core
def share_step(table: int, step: int, joined: int) -> None:
    """Open a step for the devices of a round, do it together with the helpers that have a core, and wait for what these have begun."""
    count = peek(table + 8 * s.DG_COUNT)
    if peek(table + 8 * s.DG_HELPERS) == 0:
        for number in range(count):
            d = device_at(table, number)
            if peek(d + 8 * s.DV_JOINS):
                do_step(d, step)
        return
    poke(table + 8 * s.DG_STEP, step)
    atomic_poke(table + 8 * s.DG_DONE, 0)
    for number in range(count):
        d = device_at(table, number)
        if peek(d + 8 * s.DV_JOINS):
            atomic_poke(d + 8 * s.DV_TAKEN, 0)
    while take_device(table, 0):
        pass
    turns = 0
    while atomic_peek(table + 8 * s.DG_DONE) < joined:
        wait_a_little(min(turns, LOOKS_BEFORE_SLEEP))
        turns += 1


@core
def earliest(table: int) -> int:
    """The device of a round whose window begins first, of those whose requests nobody has looked at; its row, or 0."""
    found = 0
    begin = s.INF
    for number in range(peek(table + 8 * s.DG_COUNT)):
        d = device_at(table, number)
        if peek(d + 8 * s.DV_JOINS) == JOINS:
            m = words_at(peek(d + 8 * s.DV_STATE))
            now = m[s.chip.now] * peek(d + 8 * s.DV_PERIOD)
            if now < begin:
                begin = now
                found = d
    return found


@core
def serve_strong(table: int) -> None:
    """Serve the requests of a round that only one thread can, device by device: first those of the window that begins first."""
    while True:
        d = earliest(table)
        if d == 0:
            return
        m = words_at(peek(d + 8 * s.DV_STATE))
        poke(d + 8 * s.DV_REQUESTS, requests_to_serve(m, words_at(peek(d + 8 * s.DV_PROGRAM))))
        poke(d + 8 * s.DV_JOINS, SERVED)


@core
def stopped(table: int) -> int:
    """How many devices of a round have left their loops."""
    count = 0
    for number in range(peek(table + 8 * s.DG_COUNT)):
        d = device_at(table, number)
        if peek(d + 8 * s.DV_JOINS) and peek(d + 8 * s.DV_OUTCOME) != RUNNING:
            count += 1
    return count


@core
def run_devices(state: Any, limit: int) -> int:
    """Run at most ``limit`` rounds; returns how many devices Python must look at (``DV_OUTCOME``)."""
    table = host_address(words(state))
    for number in range(peek(table + 8 * s.DG_COUNT)):
        d = device_at(table, number)
        poke(d + 8 * s.DV_OUTCOME, RUNNING)
        m = words_at(peek(d + 8 * s.DV_STATE))
        if peek(d + 8 * s.DV_RUNS) and m[s.chip.begun] == 0:
            begin(m)
    for _ in range(limit):
        joined = join_round(table)
        if joined == 0:
            return 0
        share_step(table, RUN_SMS, joined)
        serve_strong(table)
        share_step(table, END_WINDOW, joined)
        left = stopped(table)
        if left:
            return left
    return 0


@core
def help_devices(state: Any, first: int) -> int:
    """Another host thread's part of ``run_devices``: takes devices of every step, ``first`` before others, until it is told to end."""
    table = host_address(words(state))
    turns = 0
    while atomic_peek(table + 8 * s.DG_LEAVE) == 0:
        if take_device(table, first):
            turns = 0
        else:
            wait_a_little(turns)
            turns += 1
    return 0
