"""Bulk copies, tensor maps and mbarriers in both engines, both front ends and in time; the cases that an H200 ran too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from bench.silicon import interleaved
from tests.bulk_cases import SOURCE, AddressOf, Case, MapOf, cases, swizzle_places
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.tensor_maps import EncodeTiled, encode_tiled
from warpwright.engine.tensor_map import TensorMap, TensorMapError, decode
from warpwright.errors import IllegalInstructionError

CASES = {case.name: case for case in cases()}
TYPES = {"u1": 0, "u2": 1, "u4": 2, "i4": 3, "u8": 4, "f2": 6, "f4": 7, "f8": 8}


def map_of(made: MapOf, address: int) -> TensorMap:
    """The tensor map that a case asks for."""
    a = made.hidden
    rank = a.ndim
    return TensorMap(
        *(
            address,
            TYPES[a.dtype.str[1:]],
            tuple(reversed(a.shape)),
            tuple(a.strides[rank - 2 - n] for n in range(rank - 1)),
        ),
        *(tuple(reversed(made.box)), tuple(reversed(made.steps or (1,) * rank))),
        *(
            0,
            {0: 0, 32: 1, 64: 2, 128: 3}[made.swizzle],
            0,
            made.fill,
            made.lower,
            made.upper,
            made.channels,
            made.pixels,
        ),
    )


def run(gpu: ww.GPU, module: Any, case: Case) -> Any:
    """Launch a case and check its result."""
    arguments: list[Any] = []
    tensors: dict[int, Any] = {}
    for n, argument in enumerate(case.arguments):
        if isinstance(argument, MapOf):
            tensors[n] = gpu.array(argument.hidden)
            made = map_of(argument, tensors[n].device_address())
            made.check()
            arguments.append(made.encode())
        elif isinstance(argument, AddressOf):
            tensors[n] = gpu.array(argument.hidden)
            arguments.append(np.uint64(tensors[n].device_address()))
        else:
            arguments.append(argument.copy() if isinstance(argument, np.ndarray) else argument)
    kernel = module[case.kernel]
    launched = kernel.clustered(case.cluster) if case.cluster > 1 else kernel
    done = launched[case.grid, case.block, case.shared](*arguments)
    case.check([tensors[n].numpy() if n in tensors else a for n, a in enumerate(arguments)])
    return done


@pytest.fixture(scope="module", params=["sass-compiled", "sass-interpreter", "ptx-compiled"])
def machine(request: Any) -> Any:
    front, engine = request.param.split("-")
    gpu = ww.GPU("h200", timing="off", engine=engine, front_end=front)
    source = SOURCE if front == "sass" else SOURCE[: SOURCE.index('extern "C" __global__ void replaced')]
    return gpu, gpu.compile(source, name="bulk.cu", options=("-arch=sm_90a",) if front == "sass" else ())


RECORDED = json.loads((Path(__file__).parent / "data" / "tensor_maps.json").read_text())["maps"]


@pytest.mark.parametrize("name", RECORDED)
def test_maps_are_those_of_the_driver_of_an_h200(name: str) -> None:
    given, address, raw = (RECORDED[name][key] for key in ("arguments", "address", "bytes"))
    fields = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items() if key != "l2"}
    if fields["lower"] is not None:
        fields["box"] = (1,) * len(fields["sizes"])
    made = TensorMap(
        address=address, promotion=given.get("l2", 0), **{"box": (1,) * len(given["sizes"]), "upper": (), **fields}
    )
    made.check()
    assert made.encode().hex() == raw
    assert decode(made.encode()) == made


BASE = TensorMap(1 << 20, 6, (1024, 512), (2048,), (64, 16), (1, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": 8}, "not a multiple of 16 bytes"),
        ({"strides": (24,)}, "a stride of 24 bytes: it must be a multiple of 16 below 2\\*\\*40"),
        ({"box": (257, 1)}, "a box of 257 elements along a dimension: it must be 1 to 256"),
        ({"box": (4, 1)}, "the box's inner dimension has 8 bytes: they must be a multiple of 16"),
        ({"box": (128, 1), "swizzle": 3}, "the box's inner dimension has 256 bytes, more than the swizzle's 128"),
        ({"steps": (1, 9)}, "an element stride of 9: it must be 1 to 8"),
        ({"interleave": 1}, "an interleaved tensor has three to five dimensions, not 2"),
        (
            {"interleave": 2, "sizes": (8, 4, 3), "strides": (16, 64), "box": (8, 1, 1), "steps": (1, 1, 1)},
            "a stride of 16 bytes: it must be a multiple of 32",
        ),
    ],
)
def test_maps_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TensorMapError, match=message):
        replace(BASE, **changes).check()


@pytest.mark.parametrize(
    ("start", "message"), [((0, 5), "multiple of 16 bytes"), ((-2, 0), "no coordinate of a store negative")]
)
def test_coordinates_that_end_a_launch_on_a_card_too(machine: Any, start: tuple[int, int], message: str) -> None:
    gpu, module = machine
    a = gpu.zeros((32, 64), np.float32)
    with pytest.raises(IllegalInstructionError, match=message):
        module["store_tile"][1, 32, 1024](
            gpu.tensor_map(a, (4, 16)),
            np.zeros(1024, np.uint8),
            np.int32(2),
            np.uint32(256),
            *map(np.int32, reversed(start)),
            np.int32(0),
        )


def test_a_map_of_another_rank(machine: Any) -> None:
    gpu, module = machine
    with pytest.raises(IllegalInstructionError, match="tensor map of another rank or mode"):
        module["store_tile"][1, 32, 1024](
            gpu.tensor_map(gpu.zeros(64, np.float32), (16,)),
            np.zeros(1024, np.uint8),
            np.int32(2),
            np.uint32(256),
            *[np.int32(0)] * 3,
        )


def test_copies_take_their_time_and_bring_the_same_bytes() -> None:
    gpu = ww.GPU("h200")
    module = gpu.compile(SOURCE, name="bulk.cu", options=("-arch=sm_90a",))
    cycles = {
        name: run(gpu, module, CASES[name]).cycles
        for name in ("scale", "spread_4", "multicast", "store_2d", "column_4d")
    }
    overhead = gpu.chip.launch.launch_overhead_cycles
    assert all(count > overhead + 300 for count in cycles.values())


@pytest.mark.ci
@pytest.mark.parametrize("name", CASES)
def test_case(machine: Any, name: str) -> None:
    if name == "replaced" and "replaced" not in machine[1]:
        pytest.skip("tensormap.replace belongs to sm_90a, and runs as machine code")
    run(*machine, CASES[name])


def test_random_interleaved_maps_move_what_they_move_on_a_card() -> None:
    assert interleaved.check() == []


def test_a_copy_of_an_interleaved_tensor(machine: Any) -> None:
    """Units of 32 bytes with a swizzle: width, height, slices of channels, images; one slice is moved, whatever the box says."""
    gpu, module = machine
    images, slices, height, width, per = shape = (2, 3, 5, 4, 16)
    a = np.arange(np.prod(shape), dtype=np.uint16).reshape(shape)
    tensor = gpu.array(a)
    strides = (width * 32, height * width * 32, slices * height * width * 32)
    made = TensorMap(
        *(
            tensor.device_address(),
            TYPES["u2"],
            (width, height, slices, images),
            strides,
            (8, 2, 7, 1),
            (1, 1, 1, 1),
            2,
            1,
        )
    )
    made.check()
    want = np.zeros((2, 8, per), np.uint16)
    want[:, :3] = a[1, 2, 1:3, 1:4]
    image = np.zeros(512, np.uint8)
    image[swizzle_places(512, 32)] = want.view(np.uint8).ravel()
    out = np.zeros(512, np.uint8)
    start = [np.int32(v) for v in (1, 1, 2, 1, 0)]
    module["load_tile"][1, 64, 1024](made.encode(), out, np.int32(4), np.uint32(512), np.uint32(512), *start)
    assert (out == image).all()


def test_the_driver_makes_interleaved_maps() -> None:
    room = np.zeros(256, np.uint8)
    place = -(-room.ctypes.data // 64) * 64
    words = [np.array(v, t) for v, t in (((8, 4, 3), "u8"), ((256, 1024), "u8"), ((8, 1, 1), "u4"), ((1, 1, 1), "u4"))]
    addresses = [w.ctypes.data for w in words]
    encode_tiled(EncodeTiled(place, 1, 3, 1 << 20, *addresses, 2, 1, 0, 0))
    raw = room[place - room.ctypes.data :][:128].tobytes()
    made = decode(raw)
    assert (made.sizes, made.strides, made.interleave, made.swizzle) == ((8, 4, 3), (256, 1024), 2, 1)
    with pytest.raises(CudaError, match="an interleaved tensor has three to five dimensions, not 2"):
        encode_tiled(EncodeTiled(place, 1, 2, 1 << 20, *addresses, 2, 1, 0, 0))


def bulk_latency() -> str:
    """The microbenchmark's own source: its head and this kernel."""
    text = (
        Path("bench/micro/hopper.cu")
        .read_text()
        .replace('#include "common.cuh"', Path("bench/micro/common.cuh").read_text())
    )
    head = text[: text.index("// Rounds of a cluster's barrier")]
    kernel = text[text.index('extern "C" __global__ void bulk_latency') :]
    return head + kernel[: kernel.index('extern "C" __global__ void tensor_latency')]


def test_a_bulk_load_takes_the_cycles_of_a_card() -> None:
    """``bench/micro/hopper.cu``, bulk_latency: from the issue to the end of the wait, by size."""
    rows = json.loads((Path("bench/data/h200/micro_hopper.json")).read_text())["results"]["bulk_copies"]
    measured = {
        row["bytes"]: row["value"]
        for row in rows
        if (row["name"], row["metric"], row.get("count")) == ("bulk_latency", "whole", 1)
    }
    gpu = ww.GPU("h200")
    kernel = gpu.compile(bulk_latency())["bulk_latency"]
    memory, out = gpu.array(np.zeros(1 << 17, np.uint8)), gpu.array(np.zeros(16, np.uint32))
    errors = []
    for size in (16, 128, 512, 1024, 2048, 4096, 16384, 65536):
        kernel[1, 32, size + 1024](out, memory, size, 1)
        errors.append(float(np.median(out.get()[5::2])) - measured[size])
    assert abs(np.mean(errors)) < 8, errors
    assert max(map(abs, errors)) < 22, errors


def test_a_bulk_load_follows_the_way_to_l2() -> None:
    """It passes neither L1 nor the queue: only what lies behind them makes it later."""
    found = {}
    for name, changes in {
        "": {},
        "l2": {"l2_hit_latency_cycles": 380, "dram_latency_cycles": 670},
        "engine": {"bulk_copy_latency_cycles": 106},
    }.items():
        gpu = ww.GPU("h200", **changes)
        out = gpu.array(np.zeros(16, np.uint32))
        gpu.compile(bulk_latency())["bulk_latency"][1, 32, 2048](out, gpu.array(np.zeros(64, np.uint8)), 16, 1)
        found[name] = float(np.median(out.get()[5::2]))
    assert found["l2"] - found[""] == pytest.approx(100, abs=8)
    assert found["engine"] - found[""] == pytest.approx(100, abs=8)


EMPTY = """
#define SHARED(p) ((unsigned)__cvta_generic_to_shared(p))
extern "C" __global__ void empty(const char *nowhere, char *out, int bytes, int odd) {
    __shared__ __align__(16) unsigned long long bar;
    __shared__ __align__(16) char tile[16];
    unsigned b = SHARED(&bar), done = 0;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b) : "memory");
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(nowhere), "r"(bytes) : "memory");
    // Past the end, as far as the next 16 bytes.
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(out), "r"(16) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(SHARED(tile) + odd), "l"(nowhere), "r"(bytes), "r"(b) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(nowhere), "r"(SHARED(tile) + odd), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    *out = 7;
}
"""


@pytest.mark.parametrize(("timing", "engine"), [("off", "compiled"), ("off", "interpreter"), ("full", "compiled")])
def test_copies_of_no_byte_may_name_any_place(timing: str, engine: str) -> None:
    gpu = ww.GPU("h200", timing=timing, engine=engine)
    module = gpu.compile(EMPTY)
    out = gpu.array(np.zeros(1, np.uint8))
    module["empty"][1, 1](np.uint64(0), out, 0, 3)
    assert out.numpy()[0] == 7
    with pytest.raises(ww.MemoryFaultError):
        module["empty"][1, 1](np.uint64(0), out, 16, 0)
