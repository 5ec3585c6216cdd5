"""What the cycle model is built on: the scan of warp slots, memory that launches share, the default scheduler inside the model."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.chips.chip_files import load_chip
from warpwright.native.direct import entry
from warpwright.native.intrinsics import BOUNDSCHECK, divide, divide_small, host_address, words
from warpwright.timing import SOURCES, buffer_reuse, policies, windows
from warpwright.timing import state as s
from warpwright.timing.coalescer import bank_passes, lines_kept
from warpwright.timing.intrinsics import find_way, oldest, oldest_way, scan_slots
from warpwright.timing.records import Addresses
from warpwright.timing.reset import LaunchSizes, initial_state

INF = 1 << 60


@partial(entry, what="", sources=SOURCES)
def scan(fields: Any, found: Any, now: int) -> int:
    at, to = host_address(words(fields)), words(found)
    to[0], to[1] = scan_slots(at, at + 128, at + 256, now)
    return 2


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 40) | st.just(INF), min_size=16, max_size=16),
    st.lists(st.integers(0, 15), min_size=16, max_size=16),
    st.lists(st.integers(0, 40) | st.just(INF), min_size=16, max_size=16),
    st.integers(0, 40),
)
def test_scan_slots_is_the_scan_of_one_slot_after_the_other(
    times: list[int], ports: list[int], free: list[int], now: int
) -> None:
    at = [max(time, free[port]) for time, port in zip(times, ports, strict=True)]
    mask = sum(1 << slot for slot, time in enumerate(at) if time <= now)
    following = min((time for time in at if time > now), default=INF)
    found = np.empty(2, np.int64)
    assert scan(np.array(times + ports + free, np.int64), found, now) == 2
    assert found.tolist() == [mask, following]


@partial(entry, what="", sources=SOURCES)
def ways(fields: Any, found: Any, line: int, shift: int, ready: int) -> int:
    m, to = words(fields), words(found)
    at = host_address(m)
    to[0], to[1], to[2] = find_way(at, line, shift), oldest_way(at), oldest(ready, at)
    to[3], to[4] = divide(m[0], line + 1), divide_small(m[0] & 0xFFFFFFFF, line + 1)
    return 5


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 300) | st.integers(0, 1 << 58), min_size=16, max_size=16),
    st.integers(0, 20),
    st.integers(0, 13),
    st.integers(1, (1 << 16) - 1),
)
def test_vectors_of_ways_are_one_way_after_the_other(fields: list[int], line: int, shift: int, ready: int) -> None:
    found = np.empty(5, np.int64)
    assert ways(np.array(fields, np.int64), found, line, shift, ready) == 5
    way, least, first, quotient, short = found.tolist()
    assert way == next((i for i, field in enumerate(fields) if field >> shift == line), 16)
    assert least == fields.index(min(fields))
    able = [fields[i] if ready >> i & 1 else 1 << 60 for i in range(16)]
    assert first == able.index(min(able))
    assert quotient == fields[0] // (line + 1)
    assert short == (fields[0] & 0xFFFFFFFF) // (line + 1)


@partial(entry, what="", sources=SOURCES)
def passes(
    state: Any, sm: int, base: int, tabled: int, step: int, mask: int, size: int, distinct: int, packs: int
) -> int:
    return bank_passes(words(state), sm, Addresses(base, tabled != 0, step, mask), size, distinct != 0, packs != 0)


def passes_of_lanes(addresses: list[int], mask: int, size: int, distinct: bool, packs: bool) -> int:
    """The definition: for each group of lanes the most words (different ones, but for atomics) in one bank; loads of lanes that have the same
    addresses in pairs are of twice as large groups."""
    lanes = 32 if size <= 4 else 128 // size
    active = [lane for lane in range(32) if mask >> lane & 1]
    for apart in (1, 2):
        if (
            packs
            and lanes < 32
            and all(addresses[i] == addresses[i ^ apart] for i in active if mask >> (i ^ apart) & 1)
        ):
            lanes = 32 if size == 8 else 16
    total = 0
    for first in range(0, 32, lanes):
        banks: dict[int, list[int]] = {}
        for lane in range(first, first + lanes):
            if mask >> lane & 1:
                for word in range(addresses[lane] >> 2, (addresses[lane] >> 2) + max(size >> 2, 1)):
                    banks.setdefault(word & 31, []).append(word)
        total += max((len(held) if distinct else len(set(held)) for held in banks.values()), default=0)
    return total


def idle() -> s.State:
    """An H200's state, with warps of 32 lanes."""
    state = initial_state(load_chip("h200"), LaunchSizes(100, 1, 1, 1))
    state.words[s.chip.lanes], state.words[s.chip.full_wave] = 32, 0xFFFFFFFF
    return state


@pytest.mark.ci
def test_passes_that_are_kept_are_those_that_are_counted() -> None:
    state = idle()
    rng = np.random.default_rng(5)
    tables = rng.integers(0, 16, (6, 32)) * 16  # a kernel's own do not change either
    tables = np.concatenate([tables, np.repeat(tables[:2, :16], 2, axis=1), tables[2:4, [i & ~2 for i in range(32)]]])
    for _ in range(1500):
        tabled, distinct, packs = bool(rng.integers(2)), bool(rng.integers(2)), bool(rng.integers(2))
        size = int(rng.choice([1, 4, 8, 16]))
        mask = 0xFFFFFFFF if rng.integers(3) else int(rng.integers(1, 1 << 32))
        base = (1 << 40) + int(rng.integers(64)) * 16
        stride = int(rng.integers(-8, 9)) * max(size, 4)
        table = tables[rng.integers(len(tables))]
        step = table.ctypes.data if tabled else stride
        found = passes(state.words, state.sm(int(rng.integers(132))), base, tabled, step, mask, size, distinct, packs)
        addresses = [base + int(d) for d in (table if tabled else np.arange(32) * stride)]
        assert found == passes_of_lanes(addresses, mask, size, distinct, packs)


@partial(entry, what="", sources=SOURCES)
def kept_lines(state: Any, sm: int, base: int, tabled: int, step: int, mask: int, size: int) -> int:
    return lines_kept(words(state), sm, Addresses(base, tabled != 0, step, mask), size)


def lines_of_lanes(addresses: list[int], mask: int, size: int) -> dict[int, tuple[int, int]]:
    """The definition: by line its sectors and 16 bits each with the bytes of them that lanes name."""
    lines: dict[int, tuple[int, int]] = {}
    for lane, address in enumerate(addresses):
        if mask >> lane & 1:
            sector = address >> 5 & 3
            sectors, held = lines.get(address >> 7, (0, 0))
            lines[address >> 7] = sectors | 1 << sector, held + (size << 16 * sector)
    return lines


@pytest.mark.ci
def test_lines_that_are_kept_are_those_that_lanes_name() -> None:
    state = idle()
    rng = np.random.default_rng(6)
    tables = [np.cumsum(rng.integers(0, reach, 32)) * 16 for reach in (1, 2, 3, 6, 40)]
    met = 0
    for _ in range(2000):
        tabled = bool(rng.integers(2))
        size = int(rng.choice([1, 4, 8, 16]))
        mask = int(rng.choice([0xFFFFFFFF, 0xFFFF, 0xF0F0F0F0, int(rng.integers(1, 1 << 32))]))
        base = (1 << 40) + int(rng.integers(1 << 20)) * 16
        stride = int(rng.choice([-256, -16, 16, 32, 48, 256]))
        if stride == size:
            continue
        table = tables[rng.integers(5)]
        index = int(rng.integers(132))
        sm = state.sm(index)
        n = kept_lines(state.words, sm, base, tabled, table.ctypes.data if tabled else stride, mask, size)
        found = {
            int(state.words[s.SM(sm).lines[i]]): (
                int(state.words[s.SM(sm).line_sectors[i]]),
                int(state.words[s.SM(sm).line_bytes[i]]),
            )
            for i in range(n)
        }
        addresses = [base + int(d) for d in (table if tabled else np.arange(32) * stride)]
        assert found == lines_of_lanes(addresses, mask, size)
        assert n == len(found)
        met += n <= s.PATTERN_LINES
    assert met > 200, "many are of few lines, which are kept"


def test_lines_of_addresses_in_a_record_are_those_that_lanes_name() -> None:
    state = idle()
    sm = state.sm(7)
    rng = np.random.default_rng(8)
    for turn in range(1200):
        size = int(rng.choice([1, 2, 4, 8, 16]))
        addresses = (1 << 40) + int(rng.integers(1 << 20)) * size + np.arange(32) * size
        if turn % 4 == 1:  # all but one lane side by side
            addresses[rng.integers(32)] += size * int(rng.integers(-40, 40))
        elif turn % 4 == 2:
            addresses = rng.permutation(addresses)
        elif turn % 4 == 3:
            addresses = addresses[0] + rng.integers(0, 64, 32) * size
        mask = 0xFFFFFFFF if turn % 3 else int(rng.integers(1, 1 << 32))
        n = kept_lines(state.words, sm, 0, True, addresses.ctypes.data, mask, size)
        lists = s.SM(sm).lines, s.SM(sm).line_sectors, s.SM(sm).line_bytes, s.SM(sm).line_words
        found = {
            int(state.words[at[i]]): [int(state.words[one[i]]) for one in rest]
            for i in range(n)
            for at, *rest in [lists]
        }
        expected = lines_of_lanes([int(one) for one in addresses], mask, size)
        words = dict.fromkeys(expected, 0)
        for lane in range(32):
            if mask >> lane & 1:
                words[int(addresses[lane]) >> 7] |= ((1 << max(size // 4, 1)) - 1) << (
                    (int(addresses[lane]) & 127) >> 2
                )
        assert list(found.items()) == [(line, [*expected[line], words[line]]) for line in expected]


def test_memory_of_a_launch_is_used_again_and_zero_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_reuse, "_kept", {})
    first, zeros = buffer_reuse.take("state", 1000)
    assert zeros == range(1000)
    assert not first.any()
    assert first.ctypes.data % 64 == 0
    first[:] = 7
    first[100:200] = 0
    buffer_reuse.give_back("state", first, range(100, 200))
    smaller, zeros = buffer_reuse.take("state", 900)
    assert zeros == range(100, 200)
    assert smaller.ctypes.data == first.ctypes.data
    buffer_reuse.give_back("state", smaller)
    assert not buffer_reuse.take_zeros("state", 1000).any()
    assert len(buffer_reuse.take("state", 2000)[1]) == 2000, "a larger launch gets memory of its own"


SOURCE = r"""
extern "C" __global__ void mix(float *x, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = v;
        __syncthreads();
        v = fmaf(v, 0.5f, s[(threadIdx.x * 7 + k) & 255]);
        if (threadIdx.x & 32) v = __sinf(v);
        __syncthreads();
    }
    x[i] = v;
}
extern "C" __global__ void meet(float *x, int n) {  // at the barrier of a cluster that is the block alone
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; ++k) {
        x[i] += k;
        asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    }
}
"""


def test_the_default_scheduler_is_the_same_inside_the_model_and_called_by_address() -> None:
    def by_address(ready: int, last: int, ages):
        if last >= 0 and (ready >> last) & 1:
            return last
        best = -1
        for slot in range(16):
            if (ready >> slot) & 1 and (best < 0 or ages[slot] < ages[best]):
                best = slot
        return best

    cycles = []
    for scheduler in (policies.greedy_then_oldest, by_address, policies.loose_round_robin):
        kernel = ww.GPU("h200", scheduler=scheduler).compile(SOURCE)["mix"]
        cycles.append(kernel[300, 256](np.linspace(0, 1, 300 * 256, dtype=np.float32), 40).cycles)
    assert cycles[0] == cycles[1] != cycles[2]


@pytest.mark.parametrize("name", ["mix", "meet"])
def test_a_launch_of_few_blocks_finds_what_a_full_launch_left_cleared(name: str) -> None:
    kernel = ww.GPU("h200").compile(SOURCE)[name]

    def run(blocks: int) -> tuple[int, dict[str, float]]:
        launched = kernel[blocks, 256](np.linspace(0, 1, 300 * 256, dtype=np.float32), 3)
        return launched.cycles, dict(launched.metrics)

    few, more = run(3), run(300)
    assert run(3) == few  # behind a launch that filled every SM
    assert run(5) != few
    assert run(3) == few  # behind one that left L2 empty
    assert run(300) == more


BOTH = f"""
import numpy as np, warpwright as ww
for name in ("mix", "meet"):
    kernel = ww.GPU("h200").compile({SOURCE!r})[name]
    run = kernel[300, 256](np.linspace(0, 1, 300 * 256, dtype=np.float32), 3)
    print(run.cycles, sorted(run.metrics.items()))
"""


@pytest.mark.slow
def test_numba_with_checked_indices_gives_the_same_cycles_and_counters() -> None:
    checked, direct = (
        subprocess.run(
            [sys.executable, "-c", BOTH],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "WARPWRIGHT_BOUNDSCHECK": value},
        ).stdout
        for value in "10"
    )
    assert checked == direct
    assert "sm__cycles" in direct


@pytest.mark.ci
@pytest.mark.skipif(BOUNDSCHECK, reason="checked indices are compiled without a cache")
def test_the_model_is_compiled_once_on_a_machine_and_not_for_another_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    compile_policy = policies.compile_policy

    def counted(kind: policies.Kind, policy: policies.Scheduler) -> int:
        compiled.append(policy)
        return compile_policy(kind, policy)

    monkeypatch.setattr(policies, "compile_policy", counted)

    def highest(ready: int, last: int, ages):
        for slot in range(15, -1, -1):
            if (ready >> slot) & 1:
                return slot
        return last

    def launch(scheduler: policies.Scheduler) -> None:
        kernel = ww.GPU("h200", scheduler=scheduler).compile(SOURCE)["mix"]
        kernel[2, 256](np.ones(512, np.float32), 2)

    launch(policies.greedy_then_oldest)
    before = (len(windows.run_windows.signatures), sum(windows.run_windows.stats.cache_misses.values()))
    launch(highest)
    launch(highest)
    assert compiled == [highest]
    assert before == (len(windows.run_windows.signatures), sum(windows.run_windows.stats.cache_misses.values()))
    program = f"import numpy as np, warpwright as ww\nk = ww.GPU('h200').compile({SOURCE!r})['mix']\n"
    program += "k[2, 256](np.ones(512, np.float32), 2)\nfrom warpwright.timing import windows\n"
    program += "import sys\nstats = windows.run_windows.stats\n"
    program += "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "False"]  # nor is Numba waited for


ADDER = """
import numpy as np
from warpwright.native.intrinsics import words
from warpwright.native.numba_entry import entry

def add(state, value):
    m = words(state)
    m[0] += value
    return m[0]

add = entry(add, what="an adder")
print(add(np.ones(1, np.int64), 4), sum(add.stats.cache_hits.values()), sum(add.stats.cache_misses.values()))
"""


@pytest.mark.ci
@pytest.mark.skipif(BOUNDSCHECK, reason="checked indices are compiled without a cache")
def test_code_is_compiled_once_and_with_a_word_to_the_user(tmp_path: Path) -> None:
    program = tmp_path / "adder.py"
    program.write_text(ADDER)
    environment = {**os.environ, "WARPWRIGHT_CACHE": str(tmp_path / "cache")}
    first, second = (
        subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    )
    assert (first.stdout.split(), second.stdout.split()) == (["5", "0", "1"], ["5", "1", "0"])
    assert first.stderr == "warpwright: compiling an adder, once on this machine …\n"
    assert second.stderr == ""
