"""Virtual functions: each process has registers, a doorbell and a part of the memory of its own, on one card with one clock."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.vgpu import GuestError, VirtualFunction, VirtualizedGPU
from warpwright.vgpu.card import TIME_SLICED
from warpwright.vgpu.registers import DOORBELL, RING_BYTES, Channel, Registers, Ring

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's fork and shared memory")

SOURCE = r"""
extern "C" __global__ void scale(float *x, float by, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i];
    for (int n = 0; n < rounds; n++) a = a * 1.0001f + 0.1f;
    x[i] = rounds ? a : x[i] * by;
}
extern "C" __global__ void wild(float *x) { x[1 << 28] = 1; }
"""


def scale(function: VirtualFunction) -> Any:
    """A process that scales an array by its number."""
    kernel = function.compile(SOURCE)["scale"]
    x = function.array(np.arange(256, dtype=np.float32))
    kernel[2, 128](x, float(function.number + 2), 0)
    run = function.wait()[0]
    return {"sum": float(x.get().sum()), "cycles": run.cycles, "process": os.getpid(), "address": x.address}


def spin(function: VirtualFunction) -> Any:
    kernel = function.compile(SOURCE)["scale"]
    x = function.zeros(128 * 108)
    kernel[108, 128](x, np.float32(1), np.int32(3000))
    kernel[1, 128](x, 1, 10)
    runs = function.wait()
    return [[run.begin_seconds, run.end_seconds, run.seconds] for run in runs] + [[function.seconds]]


def wild(function: VirtualFunction) -> Any:
    function.compile(SOURCE)["wild"][1, 32](function.zeros(32))
    function.wait()


def test_processes_have_results_of_their_own_and_one_card() -> None:
    card = VirtualizedGPU("a100", threads=1)
    functions = [card.create("20c") for _ in range(2)]
    found = card.run(*((function, scale) for function in functions))
    total = float(np.arange(256, dtype=np.float32).sum())
    assert [one["sum"] for one in found] == [2 * total, 3 * total]
    assert len({one["process"] for one in found} | {os.getpid()}) == 3
    assert found[0]["address"] != found[1]["address"]
    assert found[0]["cycles"] == found[1]["cycles"]
    assert card.ns > 0
    # The functions are there for other processes afterwards, on the clock that goes on.
    before = card.ns
    assert card.run((functions[1], scale))[0]["sum"] == 3 * total
    assert card.ns > before
    assert all(not function.gpu.memory.used_bytes or function.channel is None for function in functions)


def test_functions_in_time_slices_take_turns_and_the_same_turns_every_time() -> None:
    def times() -> Any:
        card = VirtualizedGPU("a100", threads=1)
        functions = [card.create("20c") for _ in range(2)]
        return card.run(*((function, spin) for function in functions))

    one, other = times()
    assert other[0][0] >= one[1][1], "the second function's turn begins after the first one's work"
    assert one[2][0] == other[2][0] == pytest.approx(max(one[1][1], other[1][1]), abs=2e-9)
    assert times() == [one, other]


def test_functions_on_instances_run_at_once() -> None:
    card = VirtualizedGPU("a100", threads=1)
    functions = [card.create("3-20c"), card.create("1-5c")]
    one, other = card.run(*((function, spin) for function in functions))
    assert one[0][0] == other[0][0] == 0
    # The smaller instance needs several waves for the same blocks.
    assert other[0][2] > one[0][2]
    assert one[1][0] == pytest.approx(one[0][1])


def test_a_fault_and_the_end_of_a_process_concern_its_function_alone() -> None:
    card = VirtualizedGPU("a100", threads=1)
    functions = [card.create("10c") for _ in range(4)]

    def leave(function: VirtualFunction) -> None:
        os._exit(3)

    def err(function: VirtualFunction) -> None:
        raise ValueError("no idea")

    found = card.run((functions[0], wild), (functions[1], scale), (functions[2], leave), (functions[3], err))
    assert isinstance(found[0], GuestError)
    assert "wild" in str(found[0])
    assert found[1]["sum"] > 0
    assert str(found[2]) == "the process of function 2 has ended without a result"
    assert str(found[3]) == "ValueError: no idea"


def test_a_function_has_its_part_of_the_memory_and_no_more() -> None:
    card = VirtualizedGPU("a100", threads=1)
    function = card.create("4c")
    assert function.gpu.memory.capacity_bytes == 40 * 2**30 // TIME_SLICED["4c"] // 4096 * 4096

    def greedy(function: VirtualFunction) -> Any:
        held = function.empty(2**28)
        assert len(function.bar1) == 40 * 2**30 // 10 // 4096 * 4096
        try:
            function.empty(2**30)
        except GuestError as error:
            function.free(held)
            held = function.zeros(16)
            return [str(error), held.get().tolist()]
        return []

    refused, zeros = card.run((function, greedy))[0]
    assert "4" in refused
    assert "memory" in refused
    assert zeros == [0] * 16


def test_freed_memory_is_zero_when_it_is_allocated_again() -> None:
    """The memory of a function is shared between processes, whose pages are not dropped as private ones are."""
    card = VirtualizedGPU("a100", threads=1)
    function = card.create("40c")
    array = function.gpu.array(np.full(1 << 20, 7, np.uint8))
    address = array.device_address()
    array.free()
    again = function.gpu.empty(1 << 20, np.uint8)
    assert again.device_address() == address
    assert not again.get().any()


def test_a_doorbell_with_another_function_s_token_is_noticed() -> None:
    card = VirtualizedGPU("a100", threads=1)
    function = card.create("40c")

    def wrong(function: VirtualFunction) -> None:
        function._channel.token = 0x1FF
        function.compile(SOURCE)

    found = card.run((function, wrong))[0]
    assert str(found) == "the doorbell was rung with 0x1ff, and the function's channel is 0x100"


def test_profiles_of_one_kind_and_number() -> None:
    card = VirtualizedGPU("a100")
    with pytest.raises(ArgumentError, match="profile '3c' is not known; use one of 40c, 20c"):
        card.create("3c")
    card.create("20c")
    with pytest.raises(
        UnsupportedError, match="the card has functions of 20c: functions in time slices have one profile"
    ):
        card.create("10c")
    card.create("20C")
    with pytest.raises(UnsupportedError, match="the card has 2 functions of 20c, as many as it can have"):
        card.create("20c")
    with pytest.raises(UnsupportedError, match="the profiles of virtual functions are those of a100"):
        VirtualizedGPU("v100")
    with pytest.raises(ArgumentError, match="give each function of this card one process"):
        card.run((card.functions[0], scale), (card.functions[0], scale))


def test_more_than_eight_functions_have_shorter_slices() -> None:
    slices = []
    for profile in ("5c", "4c"):
        card = VirtualizedGPU("a100")
        slices.append(card.create(profile).gpu.chip.launch.time_slice_us)
    assert slices == [2000, 1000]


def test_a_ring_wraps_and_refuses_what_it_cannot_hold() -> None:
    ring = Ring()
    text = "x" * (RING_BYTES // 3)
    for number in range(10):
        ring.put({"number": number, "text": text})
        assert [one["number"] for one in ring.messages()] == [number]
    with pytest.raises(GuestError, match=r"the ring has 1,048,576; make it shorter"):
        ring.put({"text": "x" * RING_BYTES})


def test_registers_have_doorbell_and_time() -> None:
    registers = Registers()
    registers.ns = 5_000_000_123
    assert registers.ns == 5_000_000_123
    channel = Channel(0x107)
    channel.ring_doorbell()
    assert channel.registers.read(DOORBELL) == 0x107
    assert channel.rung()
    channel.process.close()
    assert not channel.rung()
