"""What the cycle model is built on: the scan of warp slots, memory that launches share, the default scheduler inside the model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.timing import buffers, policies
from warpwright.timing.native import entry, host_address, scan_slots, words

INF = 1 << 60


@entry
def scan(fields, now):  # type: ignore[no-untyped-def]
    at = host_address(words(fields))
    return scan_slots(at, at + 128, at + 256, now)


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
    assert scan(np.array(times + ports + free, np.int64), now) == (mask, following)


def test_memory_of_a_launch_is_used_again_and_zero_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_kept", {})
    first, zeros = buffers.take("state", 1000)
    assert zeros == range(1000)
    assert not first.any()
    assert first.ctypes.data % 64 == 0
    first[:] = 7
    first[100:200] = 0
    buffers.give_back("state", first, range(100, 200))
    smaller, zeros = buffers.take("state", 900)
    assert zeros == range(100, 200)
    assert smaller.ctypes.data == first.ctypes.data
    buffers.give_back("state", smaller)
    assert not buffers.take_zeros("state", 1000).any()
    assert len(buffers.take("state", 2000)[1]) == 2000, "a larger launch gets memory of its own"


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
"""


def test_the_default_scheduler_is_the_same_inside_the_model_and_called_by_address() -> None:
    def by_address(ready: int, last: int, ages):  # type: ignore[no-untyped-def]
        if last >= 0 and (ready >> last) & 1:
            return last
        best = -1
        for slot in range(16):
            if (ready >> slot) & 1 and (best < 0 or ages[slot] > ages[best]):
                best = slot
        return best

    cycles = []
    for scheduler in (policies.greedy_then_youngest, by_address, policies.loose_round_robin):
        kernel = ww.GPU("h200", scheduler=scheduler).compile(SOURCE)["mix"]
        cycles.append(kernel[300, 256](np.linspace(0, 1, 300 * 256, dtype=np.float32), 9).cycles)
    assert cycles[0] == cycles[1] != cycles[2]
