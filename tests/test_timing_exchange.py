"""Requests between SMs and L2: GPC by GPC and group by group they are served as they would be one after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwright.chips.chip_files import load_chip
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES
from warpwright.timing import state as s
from warpwright.timing.exchange import depart, requests_to_serve, serve_group, take_back
from warpwright.timing.numbered_units import gpc_at
from warpwright.timing.reset import LaunchSizes, initial_state


@partial(entry, what="", sources=SOURCES)
def exchange(state: Any, together: int) -> int:
    """A window's requests, by GPCs and groups of slices or ``together``, one after the other; gives how many."""
    m = words(state)
    for gpc in range(m[s.chip.gpcs]):
        depart(m, gpc)
        if together:
            m[s.Gpc(gpc_at(m, gpc)).together] = 1
    if requests_to_serve(m, m):
        for group in range(s.SLICE_GROUPS - 1, -1, -1):
            serve_group(m, group)
    for gpc in range(m[s.chip.gpcs] - 1, -1, -1):
        take_back(m, gpc)
    return m[s.chip.served]


def ask(state: s.State, rng: np.random.Generator, begin: int, count: int, spread: int) -> None:
    """Random loads, stores and atomics of random SMs at times from ``begin`` on."""
    m = state.words
    m[s.chip.now] = begin
    for sm in state.sms():
        sm[s.SM.requests] = 0
    offset = int(m[s.chip.requests_at])
    few = rng.integers(0, 132, 6)
    for _ in range(count):
        sm = state.sms()[int(rng.choice(few)) if rng.integers(3) == 0 else int(rng.integers(132))]
        r = sm[offset + int(sm[s.SM.requests]) * s.Request.size :]
        kind = int(rng.choice([s.RQ_LOAD, s.RQ_LOAD, s.RQ_LOAD_AROUND, s.RQ_STORE, s.RQ_ATOMIC]))
        r[s.Request.time] = begin + int(rng.integers(spread))
        r[s.Request.line] = (1 << 33) + int(rng.integers(1 << int(rng.integers(1, 18))))
        r[s.Request.kind] = kind
        r[s.Request.sectors] = int(rng.integers(1, 16))
        r[s.Request.full] = 0
        if kind == s.RQ_STORE:
            r[s.Request.full] = sum(int(rng.integers(4, 33)) << (16 * sector) for sector in range(3))
        elif kind == s.RQ_ATOMIC:
            r[s.Request.full] = sum(0b0001_000001 << (10 * i) for i in range(4) if int(r[s.Request.sectors]) >> i & 1)
        sm[s.SM.requests] += 1


def answers(state: s.State) -> list[int]:
    m, found = state.words, []
    for sm in state.sms():
        count, offset = int(sm[s.SM.requests]), int(m[s.chip.requests_at])
        found += (
            sm[offset : offset + count * s.Request.size].reshape(count, s.Request.size)[:, s.Request.answer].tolist()
        )
    return found


@pytest.mark.ci
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1 << 30), st.lists(st.integers(0, 700), min_size=1, max_size=3), st.sampled_from([3, 300, 2000]))
def test_groups_of_slices_answer_as_one_that_serves_all(seed: int, counts: list[int], spread: int) -> None:
    found = []
    for together in (False, True):
        rng = np.random.default_rng(seed)
        state = initial_state(load_chip("h200", l2_kib=1504), LaunchSizes(100, 1, 1, 1))
        window = int(state.words[s.chip.window])
        seen: list[list[int]] = []
        for number, count in enumerate(counts):
            ask(state, rng, number * window, count, spread)
            assert exchange(state.words, together) == count
            seen.append(answers(state))
        first, last = state.areas["gpc_ports"], state.areas["buckets"]
        ports = state.words[first:last].copy()  # with translations, coalescers, DRAM
        l2 = state.words[state.areas["l2"] : state.areas["sms"]].copy()
        found.append((seen, ports, l2, [s.counted(state.words, field) for field in range(s.SliceGroup.installed + 1)]))
    (one, one_ports, one_l2, one_counts), (other, other_ports, other_l2, other_counts) = found
    assert one == other
    assert one_counts == other_counts
    assert np.array_equal(one_ports, other_ports)
    assert np.array_equal(one_l2, other_l2)
    assert all(answer > 0 for window in one for answer in window)


@pytest.mark.ci
def test_answers_come_in_the_order_of_time_sm_and_number() -> None:
    """Of loads of one line the first asks L2; which one that is does not depend on where its GPC stands in a list."""
    state = initial_state(load_chip("h200"), LaunchSizes(100, 1, 1, 1))
    m, offset = state.words, int(state.words[s.chip.requests_at])
    for index, time in ((0, 40), (100, 7), (17, 7), (99, 7)):
        sm = state.sms()[index]
        sm[s.Request(offset).time], sm[s.Request(offset).line], sm[s.Request(offset).kind] = time, 1 << 30, s.RQ_LOAD
        sm[s.Request(offset).sectors], sm[s.SM.requests] = 15, 1
    assert exchange(m, False) == 4
    order = [int(m[m[s.chip.order] + index * s.MAX_REQUESTS]) for index in (0, 16, 96)]
    assert [word >> 36 & 0xFFF for word in order] == [0, 17, 99]
    assert s.counted(m, s.SliceGroup.coalesced) == 4  # SM 100 joins SM 99, which comes first of its GPC
    joined, first = (int(state.sms()[index][s.Request(offset).answer]) for index in (100, 99))
    assert joined >= first


def ask_g80(state: s.State, begin: int, runs: list[tuple[int, int, int, int]]) -> None:
    """Make requests of SMs of G80: SM, time, line, and how many equal loads (0: a store), which are one request where the state keeps runs."""
    m = state.words
    m[s.chip.now] = begin
    keeps = bool(m[s.chip.keeps_runs])
    for sm in state.sms():
        sm[s.SM.requests] = sm[s.SM.repeated] = 0
    for index, time, line, loads in runs:
        sm = state.sms()[index]
        for k in range(1 if keeps else max(loads, 1)):
            number = int(sm[s.SM.requests])
            r = sm[int(m[s.chip.requests_at]) + number * s.Request.size :]
            r[s.Request.time], r[s.Request.line], r[s.Request.sectors] = begin + time + k, line, 1 << line % 4
            r[s.Request.kind] = s.RQ_LOAD_AROUND if loads else s.RQ_STORE
            r[s.Request.full] = 1 if loads else 32 << 16 * (line % 4)
            place = number + int(sm[s.SM.repeated])
            sm[int(m[s.chip.runs_at]) + number] = place << s.RUN_BITS | (loads if keeps and loads else 1)
            sm[s.SM.requests] += 1
        sm[s.SM.repeated] += max(loads - 1, 0) if keeps else 0


def each_answer(state: s.State) -> list[int]:
    """The answers to loads, those of runs one by one."""
    m, found = state.words, []
    for sm in state.sms():
        for number in range(int(sm[s.SM.requests])):
            r = sm[int(m[s.chip.requests_at]) + number * s.Request.size :]
            run = int(sm[int(m[s.chip.runs_at]) + number])
            length, first = run & (1 << s.RUN_BITS) - 1, int(m[s.chip.answers_at]) + (run >> s.RUN_BITS)
            if r[s.Request.kind] == s.RQ_LOAD_AROUND:
                found += sm[first : first + length].tolist() if length > 1 else [int(r[s.Request.answer])]
    return found


@pytest.mark.ci
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 300), st.sampled_from([20, 200, 1500]))
def test_a_run_of_equal_loads_is_answered_as_its_loads_one_by_one(seed: int, count: int, spread: int) -> None:
    """Of SMs whose requests come between, and in the same cycles; with stores, in two windows."""
    rng = np.random.default_rng(seed)
    lines = (1 << 33) + rng.integers(1 << int(rng.integers(1, 14)), size=2 * count)
    made = [
        [(int(rng.integers(16)), int(rng.integers(spread)), int(line), int(rng.integers(17))) for line in part]
        for part in (lines[:count], lines[count:])
    ]
    found = []
    for keeps, together in ((1, False), (1, True), (0, False)):
        state = initial_state(load_chip("g80"), LaunchSizes(100, 1, 1, 1))
        assert state.words[s.chip.keeps_runs] == 1
        state.words[s.chip.keeps_runs] = keeps
        seen = []
        for number, runs in enumerate(made):
            ask_g80(state, number * int(state.words[s.chip.window]), runs)
            exchange(state.words, together)
            seen.append(each_answer(state))
        ports = state.words[state.areas["gpc_ports"] : state.areas["buckets"]].copy()
        found.append((seen, ports, [s.counted(state.words, field) for field in range(s.SliceGroup.installed + 1)]))
    (one, one_ports, one_counts), *others = found
    for other, ports, counts in others:
        assert one == other
        assert one_counts == counts
        assert np.array_equal(one_ports, ports)
    assert all(answer > 0 for window in one for answer in window)
