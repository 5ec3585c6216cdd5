"""Policies: plain Python functions that the model calls; what they cost, what they may be, and what is said of those that are wrong."""

from __future__ import annotations

import ctypes
import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from bench.swap import by_fractions, most_recent, oldest_first
from warpwright.native import direct
from warpwright.native.function_source import TranslationError
from warpwright.timing import policies

SOURCE = r"""
extern "C" __global__ void sweep(int n, int turns, const float *x, float *y)
{
    float sum = 0;
    for (int turn = 0; turn < turns; turn++)
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            sum += x[i];
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
FLOATS = 100_000
"""More than an L1 holds by a half."""


def swept(floats: int = FLOATS, **options: Any) -> ww.Run:
    kernel = ww.GPU("h200", **options).compile(SOURCE)["sweep"]
    return kernel[1, 512](floats, 4, np.ones(floats, np.float32), np.zeros(512, np.float32))


def from_the_end(ready, last, ages):
    return ages[-1] - ages[last]


def others(kind: policies.Kind) -> list[Callable[..., int]]:
    """The named policies that the model calls by address: all but its own."""
    return [policy for policy in kind.known.values() if policy is not kind.own]


def machine_code(kind: policies.Kind, policy: Callable[..., int]) -> Callable[..., int]:
    """A policy as the model calls it, with NumPy arrays for its pointers."""
    words = [ctypes.c_void_p if array else ctypes.c_int64 for array in kind.arguments]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *words)(policies.compile_policy(kind, policy))
    return lambda *values: call(*(v.ctypes.data if isinstance(v, np.ndarray) else v for v in values))


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 0xFFFF),
    st.integers(-1, 15),
    st.lists(st.integers(0, 1 << 40), min_size=16, max_size=16, unique=True),
)
def test_a_compiled_scheduler_decides_as_python_does(ready: int, last: int, ages: list[int]) -> None:
    for policy in (*others(policies.SCHEDULER), oldest_first, from_the_end):
        assert COMPILED[policy](ready, last, np.array(ages)) == policy(ready, last, ages), policy


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 999), st.integers(1, 999)), min_size=4, max_size=32), st.integers(0, 9999))
def test_a_compiled_replacement_decides_as_python_does(stamps: list[tuple[int, int]], time: int) -> None:
    used, filled = zip(*stamps, strict=True)
    for policy in (*others(policies.L1_REPLACEMENT), most_recent):
        expected = policy(used, filled, len(stamps), time)
        assert COMPILED[policy](np.array(used), np.array(filled), len(stamps), time) == expected, policy


COMPILED = {
    policy: machine_code(kind, policy)
    for kind, mine in (
        (policies.SCHEDULER, (oldest_first, from_the_end)),
        (policies.L1_REPLACEMENT, (most_recent,)),
    )
    for policy in (*others(kind), *mine)
}


def test_another_replacement_changes_what_l1_finds_and_nothing_else() -> None:
    usual, recent = swept(), swept(l1_replacement=most_recent)
    assert usual.metrics["smsp__inst_executed.sum"] == recent.metrics["smsp__inst_executed.sum"]
    # A sweep over more than L1 holds: each line has gone when the older one of two mostly goes, and the other policy keeps most of them.
    assert usual.metrics["l1tex__t_sector_hit_rate.pct"] < 20
    assert recent.metrics["l1tex__t_sector_hit_rate.pct"] > 35
    assert recent.cycles < usual.cycles
    small = [swept(10_000, l1_replacement=policy).cycles for policy in ("least_recently_used", most_recent)]
    assert small[0] == small[1]  # what fits is never replaced


def test_the_models_own_replacement_is_the_function_of_its_name() -> None:
    def same(used, filled, ways, time):
        drawn = (time * 0x9E3779B1 + used[0]) >> 9
        one, other = drawn % ways, (drawn >> 9) % ways
        return other if used[other] < used[one] else one

    for chip in ("h200", "p100"):  # of sixteen ways and of four
        kernels = [ww.GPU(chip, l1_replacement=policy).compile(SOURCE)["sweep"] for policy in ("older_of_two", same)]
        cycles = [k[1, 512](FLOATS, 2, np.ones(FLOATS, np.float32), np.zeros(512, np.float32)).cycles for k in kernels]
        assert cycles[0] == cycles[1]


PROGRAM = """
import sys, time
import numpy as np, warpwright as ww

def oldest_first(ready, last, ages):
    best = -1
    for slot in range(16):
        if (ready >> slot) & 1 and (best < 0 or ages[slot] < ages[best]):
            best = slot
    return best

def most_recent(used, filled, ways, time):
    newest = 0
    for way in range(1, ways):
        if used[way] > used[newest]:
            newest = way
    return newest

def seconds(**options):
    began = time.process_time()
    kernel = ww.GPU("h200", **options).compile(SOURCE)["sweep"]
    kernel[1, 512](1000, 1, np.ones(1000, np.float32), np.zeros(512, np.float32))
    return time.process_time() - began

seconds(), seconds()
print(seconds(scheduler=oldest_first), seconds(l1_replacement=most_recent), "numba" in sys.modules)
"""


@pytest.mark.ci
@pytest.mark.skipif(direct.intrinsics.BOUNDSCHECK, reason="checked indices are compiled by Numba")
def test_the_first_swap_of_a_process_does_not_wait_for_numba(tmp_path: Path) -> None:
    program = tmp_path / "swap.py"
    program.write_text(PROGRAM.replace("SOURCE", repr(SOURCE)))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    scheduler, replacement, numba = done.stdout.split()
    assert numba == "False"
    # Of CPU time, launch included; 0.03 on a quiet core, and a core that others use takes twice as long.
    assert float(scheduler) < 0.2
    assert float(replacement) < 0.2


def test_numba_compiles_what_the_translation_does_not_know() -> None:
    with pytest.raises(TranslationError, match=r"by_fractions: 1e\+30 is not a number"):
        direct.policy_address(by_fractions, policies.SCHEDULER.arguments)
    function = machine_code(policies.SCHEDULER, by_fractions)
    ages = np.arange(16, 0, -1)
    assert [function(ready, -1, ages) for ready in (1, 6, 0xFFFF)] == [
        by_fractions(r, -1, ages) for r in (1, 6, 0xFFFF)
    ]
    assert machine_code(policies.SCHEDULER, lambda ready, last, ages: last + 1)(1, 4, ages) == 5


def test_what_a_function_does_is_compiled_also_when_its_file_says_something_else(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def mine(ready, last, ages):\n    return 3\n")
    space: dict[str, Any] = {"__name__": "mine"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    path.write_text("def mine(ready, last, ages):\n    return 4\n")
    linecache.checkcache(str(path))
    assert machine_code(policies.SCHEDULER, space["mine"])(1, 0, np.zeros(16, np.int64)) == 3


def test_an_array_is_never_left() -> None:
    def behind(ready, last, ages):
        return ages[last]

    function = machine_code(policies.SCHEDULER, behind)
    ages = np.arange(100, 116)
    assert [function(1, at, ages) for at in (-1, -16, 0, 15, 16, 1 << 40, -17)] == [115, 100, 100, 115, 115, 115, 115]


def test_a_policy_that_chooses_what_is_not_there_is_named() -> None:
    def elsewhere(*arguments: Any) -> str:
        with pytest.raises(ww.UnsupportedError) as caught:
            swept(**{str(arguments[0]): arguments[1]})
        return str(caught.value)

    def beyond(ready, last, ages):
        return 16

    def outside(used, filled, ways, time):
        return ways

    def ends(ready, last, ages):
        if ready == 0:
            return 1

    def writes(ready, last, ages):
        ages[0] = 0
        return last

    def short(ready, last):
        return 0

    def imports(ready, last, ages):
        import os

        return os.getpid()

    assert elsewhere("scheduler", short) == (
        "scheduler: 'short' takes (ready, last), but it is called with (ready, last, ages)"
    )
    assert elsewhere("scheduler", imports).startswith(
        "scheduler: 'imports' cannot be compiled, neither as the model is ("
    )
    assert elsewhere("scheduler", beyond) == "scheduler: 'beyond' chose a warp slot that cannot issue"
    assert elsewhere("scheduler", ends) == "scheduler: 'ends' chose a warp slot that cannot issue"
    assert elsewhere("l1_replacement", outside) == "l1_replacement: 'outside' chose a way that the set does not have"
    assert elsewhere("l1_replacement", 5) == (
        "l1_replacement=5 is not known; use a function or one of older_of_two, least_recently_used, first_in_first_out"
    )
    said = elsewhere("scheduler", writes)
    assert said.startswith("scheduler: 'writes' cannot be compiled, neither as the model is (")
    assert "a policy only reads its arrays) nor by Numba (" in said


WALK = """
extern "C" __global__ void walk(const int *next, int *out, int steps) {
    int at = threadIdx.x * 32;
    for (int i = 0; i < steps; i++) at = next[at];
    out[threadIdx.x] = at;
}
"""


def test_the_chip_says_among_how_many_ways_the_oldest_is_replaced() -> None:
    """0 drawn ways: of all, as ``least_recently_used``; more of them come nearer to it."""
    lines = 2200  # 1.2 times what the L1 of a block without shared memory holds
    following = (np.arange(lines * 32, dtype=np.int32) + 32 * 32) % (lines * 32)

    def hits(**options: object) -> tuple[int, float]:
        run = ww.GPU("h200", **options).compile(WALK)["walk"][1, 32](following, np.zeros(32, np.int32), 400)
        return run.cycles, run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]

    assert hits(l1_drawn_ways=0) == hits(l1_replacement="least_recently_used")
    assert hits(l1_drawn_ways=2) == hits()
    found = [hits(l1_drawn_ways=n)[1] for n in (1, 2, 4)]
    assert found[0] > found[1] > found[2] > hits(l1_drawn_ways=0)[1]
