"""Kernels that turn to the host's memory or to another device's: time, counters and the bound that binds, beside what two H200s measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.abi import HERE, HOST, MIGRATES, PEER
from warpwright.run import Run

CARD = json.loads((Path(__file__).parents[1] / "bench/data/h200/elsewhere.json").read_text())["results"]
NAMES = {HERE: "device", HOST: "host", PEER: "peer"}
SMS = 132
SOURCE = """
typedef unsigned long long u64;
extern "C" __global__ void chase(u64 p, int steps, int* clocks) {
    long long from = clock64();
    for (int i = 0; i < steps; i++) p = *(volatile u64*)p;
    clocks[0] = (int)(clock64() - from) + (int)(p >> 63);
}
extern "C" __global__ void read_lines(u64 at, int turns, int* out) {
    u64 all = (u64)gridDim.x * blockDim.x;
    const int4* from = (const int4*)at + blockIdx.x * (u64)blockDim.x + threadIdx.x;
    int sum = 0;
    for (int i = 0; i < turns; i++) {
        int4 v = __ldcg(from + i * all);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 7) out[0] = sum;
}
extern "C" __global__ void write_lines(u64 at, int turns, int* out) {
    u64 all = (u64)gridDim.x * blockDim.x;
    int4* to = (int4*)at + blockIdx.x * (u64)blockDim.x + threadIdx.x;
    for (int i = 0; i < turns; i++) to[i * all] = make_int4(1, 2, 3, i);
}
extern "C" __global__ void count(u64 at, int turns, int* out) {
    for (int i = 0; i < turns; i++) atomicAdd((int*)at, 1);
}
extern "C" __global__ void publish(u64 at, int turns, int* clocks) {
    long long from = clock64();
    for (int i = 0; i < turns; i++) {
        ((volatile int*)at)[threadIdx.x] = i;
        __threadfence_system();
    }
    if (threadIdx.x == 0) clocks[0] = (int)(clock64() - from);
}
"""


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("h200")


@pytest.fixture(scope="module")
def kernels(gpu: ww.GPU) -> Any:
    return gpu.compile(SOURCE)


def launch(
    gpu: ww.GPU, kernels: Any, name: str, place: int, size: int, turns: int, grid: int = 1, block: int = 1
) -> tuple[Run, int]:
    """The run on memory of a place, and the clock that the kernel may have left."""
    memory = gpu.memory.allocate(size, "memory somewhere", place=place)
    try:
        if name == "chase":
            ring = (
                memory.address + np.roll(np.random.default_rng(1).permutation(size // 128), -1).astype(np.uint64) * 128
            )
            memory_words = gpu.memory.view(memory.address, size).view(np.uint64)
            order = np.roll((ring - memory.address) // 128, 1).astype(np.int64)
            memory_words[order * 16] = ring
        out = np.zeros(1, np.int32)
        run = kernels[name][grid, block](np.uint64(memory.address), np.int32(turns), out)
    finally:
        gpu.memory.free(memory)
    return run, int(out[0])


def measured(suite: str, **wanted: Any) -> float:
    """The card's value of the one row that is so."""
    found = [r["value"] for r in CARD[suite] if all(r.get(k) == v for k, v in wanted.items())]
    assert len(found) == 1, (suite, wanted, len(found))
    return float(found[0])


@pytest.mark.parametrize("place", [HERE, HOST, PEER])
def test_a_load_takes_as_long_as_a_cards(gpu: ww.GPU, kernels: Any, place: int) -> None:
    size, steps = 32 << 10, 64
    short, long = (launch(gpu, kernels, "chase", place, size, n)[1] for n in (steps, 3 * steps))
    card = measured("latency", name="strong", place=NAMES[place], kernel="chase_volatile")
    if place == HERE:
        assert (long - short) / (2 * steps) < 800  # cold
    else:
        assert (long - short) / (2 * steps) == pytest.approx(card, rel=0.03)


@pytest.mark.parametrize("place", [HOST, PEER])
@pytest.mark.parametrize("kernel", ["read_lines", "write_lines"])
def test_streams_move_as_many_bytes_a_second(gpu: ww.GPU, kernels: Any, place: int, kernel: str) -> None:
    each, turns = SMS * 512 * 16, (4, 12)
    runs = [launch(gpu, kernels, kernel, place, each * n, n, SMS, 512)[0] for n in turns]
    rate = each * (turns[1] - turns[0]) / (runs[1].seconds - runs[0].seconds) / 1e9
    name = {"read_lines": "read16", "write_lines": "write16"}[kernel]
    card = measured(
        "streams", name="lines", place=NAMES[place], kernel=name, blocks=SMS, threads=1024, metric="bytes_per_ns"
    )
    assert rate == pytest.approx(card, rel=0.08)
    assert runs[1].bottleneck.startswith("PCI Express" if place == HOST else "NVLink")
    assert runs[1].attribution().limit.overrides is not None


def test_the_hosts_lines_pass_l2_and_stay_nowhere_in_it_and_other_devices_do_not_pass_it(
    gpu: ww.GPU, kernels: Any
) -> None:
    size = SMS * 256 * 16
    host, peer, here = (
        launch(gpu, kernels, "read_lines", p, 2 * size, 2, SMS, 256)[0].metrics for p in (HOST, PEER, HERE)
    )
    sectors = 2 * size / 32
    assert host["lts__t_sectors_srcunit_tex_aperture_sysmem.sum"] == sectors
    assert host["lts__t_sectors_srcunit_tex_op_read.sum"] == sectors
    assert host["pcie__read_bytes.sum"] == 2 * size / 128 * (128 + 12)
    assert host["dram__bytes_read.sum"] == peer["dram__bytes_read.sum"] == 0
    assert here["dram__bytes_read.sum"] == 2 * size
    assert peer["nvlrx__bytes_data_user.sum"] == 2 * size
    assert peer["lts__t_sectors_srcunit_tex_op_read.sum"] == 0
    assert "pcie__read_bytes.sum" not in here


def test_atomics_on_one_word_take_turns(gpu: ww.GPU, kernels: Any) -> None:
    for place, card in ((HOST, 2234), (PEER, 5.56)):
        few, many = (launch(gpu, kernels, "count", place, 128, 4, blocks, 32)[0].cycles for blocks in (2, 6))
        # The compiler adds a warp's lanes up before: one lane of each warp goes.
        assert (many - few) / 16 == pytest.approx(card, rel=0.15)


@pytest.mark.parametrize("place", [HERE, HOST, PEER])
def test_fences_for_the_system_wait_until_what_was_written_has_arrived(gpu: ww.GPU, kernels: Any, place: int) -> None:
    few, many = (launch(gpu, kernels, "publish", place, 128, n, 1, 32)[1] for n in (4, 12))
    card = measured("fences", name="fence_sys", place=NAMES[place], stores=1, warps=1)
    # Alone, such a fence takes 1,220 cycles on the machine with two cards that this comes from, and 1,022 on the one with a single card, which the chip has.
    assert (many - few) / 8 == pytest.approx(card, rel=0.17 if place == HERE else 0.13)


def test_managed_memory_is_where_it_is_used(gpu: ww.GPU, kernels: Any) -> None:
    managed, own = (
        launch(gpu, kernels, "read_lines", p, SMS * 256 * 16, 1, SMS, 256)[0].cycles for p in (MIGRATES, HERE)
    )
    assert managed == own


def test_memory_elsewhere_costs_a_launch_nothing_that_does_not_turn_to_it(gpu: ww.GPU, kernels: Any) -> None:
    cycles = set()
    for place in (HERE, HOST, PEER):
        there = gpu.memory.allocate(1 << 20, "memory somewhere", place=place)
        cycles.add(launch(gpu, kernels, "read_lines", HERE, SMS * 256 * 16, 1, SMS, 256)[0].cycles)
        gpu.memory.free(there)
    assert len(cycles) == 1


@pytest.mark.parametrize("place", [HOST, PEER])
def test_cycles_do_not_depend_on_host_threads(place: int) -> None:
    cycles = set()
    for threads in (1, 3):
        gpu = ww.GPU("h200", threads=threads)
        kernels = gpu.compile(SOURCE)
        cycles.add(launch(gpu, kernels, "read_lines", place, SMS * 256 * 64, 4, SMS, 256)[0].cycles)
    assert len(cycles) == 1
