"""wgmma against what an H200 gave (``bench/silicon/check_wgmma.py``): sums and places of operands."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warpwright as ww
from bench.silicon import wgmma as source
from bench.silicon import wgmma_cases
from bench.silicon.wgmma import descriptor
from tests.test_silicon import aligned, compiled_mma
from warpwright.chips import load_chip
from warpwright.engine import numerics
from warpwright.engine.wgmma import Descriptor
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass.schedule import work_of
from warpwright.timing.pipes import timing_of
from warpwright.toolchain import compile_source

DATA = Path(__file__).parent.parent / "bench" / "silicon" / "data"


def fragments_of(kernel: str) -> tuple[tuple[str, str, str, int, int, int, int], np.ndarray, np.ndarray]:
    """The operation's attribute, its registers and results [tile, register, lane]."""
    first, second, accumulator = source.SUMS[kernel]
    with np.load(DATA / "wgmma_sample.npz") as stored:
        inputs, outputs = stored[f"{kernel}.in"], stored[f"{kernel}.out"]
    # The four warps of a group share the B of the first.
    inputs[:, 4:6] = np.repeat(inputs[::4, 4:6], 4, axis=0)
    element = first if first == second else first + second
    n_c = outputs.shape[1]
    return (f"m16n8k{source.K[first]}", element, accumulator, 4, 2, n_c, 90), inputs, outputs


@pytest.mark.parametrize("kernel", source.SUMS)
def test_interpreter_sums_as_the_card(kernel: str) -> None:
    attr, inputs, outputs = fragments_of(kernel)
    with np.errstate(all="ignore"):
        for tile, want in zip(inputs, outputs, strict=True):
            np.testing.assert_array_equal(np.stack(numerics.mma(attr, list(tile))), want)


@pytest.mark.ci
@pytest.mark.parametrize("kernel", source.SUMS)
def test_compiled_sums_as_the_card(kernel: str) -> None:
    attr, inputs, outputs = fragments_of(kernel)
    run = compiled_mma("_".join(("ww_mma", *map(str, attr))))
    buffer = aligned(16)
    for tile, want in zip(inputs, outputs, strict=True):
        buffer[: len(tile)] = tile
        run(buffer.ctypes.data)
        np.testing.assert_array_equal(buffer[: len(want)], want)


CARD = wgmma_cases.cases()
SOME = [0, 5, 13, 34, 56, 67, 70, 73, 97, 113, 116]
"""Cases that the fast tests run: every kind of operand, placement and option once."""


@pytest.fixture(scope="module")
def stored() -> dict[str, np.ndarray]:
    with np.load(DATA / "wgmma_cases.npz") as results:
        return dict(results)


def launched(chosen: list[int], engine: str, front_end: str = "sass") -> dict[int, np.ndarray]:
    """What each case leaves in D's registers [lane, word]."""
    gpu = ww.GPU("h200", timing="off", engine=engine, front_end=front_end)
    module = gpu.compile(wgmma_cases.module([CARD[n] for n in chosen]))
    found = {}
    for place, n in enumerate(chosen):
        case = CARD[n]
        memory, lanes = case.inputs(n)
        module[f"c{place}"][1, 128](memory, lanes, *map(np.uint64, case.descriptors()), np.uint32(case.keeps))
        found[n] = lanes[:, : case.words]
    return found


@pytest.mark.ci
@pytest.mark.parametrize(
    ("engine", "front_end"), [("interpreter", "sass"), ("compiled", "sass"), ("interpreter", "ptx")]
)
def test_products_as_the_card(stored: dict[str, np.ndarray], engine: str, front_end: str) -> None:
    for n, result in launched(SOME, engine, front_end).items():
        np.testing.assert_array_equal(result, stored[f"c{n}"], err_msg=str(CARD[n]))


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "front_end"), [("interpreter", "sass"), ("compiled", "sass"), ("compiled", "ptx")])
def test_all_products_as_the_card(stored: dict[str, np.ndarray], engine: str, front_end: str) -> None:
    for n, result in launched(list(range(len(CARD))), engine, front_end).items():
        np.testing.assert_array_equal(result, stored[f"c{n}"], err_msg=str(CARD[n]))


def test_places_of_elements_as_the_card_reads_them() -> None:
    with np.load(DATA / "wgmma_map.npz") as places:
        for name in places.files:
            kernel, word = name.split()
            found = places[name].astype(np.int64)
            size = 4 if "tf32" in kernel else 2
            depth = 32 // size
            index, k = (
                np.arange(found.size // found.shape[0 if "_b_" in kernel else 1])[:, None],
                np.arange(depth)[None],
            )
            descriptor = Descriptor.of(int(word, 16) & 0xFFFFFFFF, int(word, 16) >> 32)
            if kernel.endswith("_1"):
                expected = descriptor.transposed_places(index, k)
            else:
                expected = descriptor.places(index, k * size)
            np.testing.assert_array_equal(found if "_a_" in kernel else found[:depth].T, expected // size, err_msg=name)


def test_a_descriptor_beyond_shared_memory_is_a_fault() -> None:
    case = CARD[0]
    memory, lanes = case.inputs(0)
    for engine in ("interpreter", "compiled"):
        module = ww.GPU("h200", timing="off", engine=engine).compile(wgmma_cases.module([case]))
        beyond = np.uint64(descriptor(131072, 16, 1024, 1))
        with pytest.raises(ww.MemoryFaultError, match="shared"):
            module["c0"][1, 128](memory, lanes.copy(), beyond, beyond, np.uint32(1))


def test_intervals_are_those_of_the_card() -> None:
    """Products with both operands in shared memory, and of several warpgroups with A in registers."""
    cycles = json.loads((DATA / "check_wgmma.json").read_text())["cycles_per_product"]
    chip = load_chip("h200")
    checked = 0
    for name, (types, n, registers, *_, sparse, _, sets) in source.timed().items():
        measured = cycles.get(f"{name} x2", {}).get("cycles")
        if measured is None or sets > 1:
            continue
        opcode = {"s8": "IGMMA", "b1": "BGMMA", "e4m3": "QGMMA", "e5m2": "QGMMA"}.get(types[0], "HGMMA")
        place = Operand(Kind.REGISTER if registers else Kind.UNIFORM_REGISTER, 8)
        modifiers = (*(("SP",) if sparse else ()), f"64x{n}x{source.K[types[0]]}")
        instruction = Instruction(0, opcode, modifiers, (Operand(Kind.REGISTER, 24), place))
        interval = timing_of(work_of(instruction), chip, False).interval_cycles
        assert interval == pytest.approx(measured, abs=1.0, rel=0.02), name
        checked += 1
    assert checked > 60


def test_source_that_needs_them_is_compiled_for_the_chips_own_features() -> None:
    text = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    assert compile_source(text, 90).arch == "90a"
    with pytest.raises(ww.CompileError, match=r"not supported on \.target 'sm_80'"):
        compile_source(text, 80)


@given(st.integers(0, 255), st.sampled_from(["e4m3", "e5m2"]))
def test_small_floats_fit_into_halves(byte: int, element: str) -> None:
    value = numerics.to_f64("f16", numerics.small_half(element, np.array([byte], np.uint32)))
    kind = ml_dtypes.float8_e4m3fn if element == "e4m3" else ml_dtypes.float8_e5m2
    np.testing.assert_array_equal(value, np.array([byte], np.uint8).view(kind).astype(np.float64))


GROUPS = [(64, 1, 0), (64, 4, 1), (128, 1, 0), (128, 4, 0), (256, 2, 0), (256, 4, 1)]


@pytest.fixture(scope="module")
def timed_gpu() -> ww.GPU:
    return ww.GPU("h200", timing="full")


@pytest.mark.ci
def test_groups_of_products_take_the_cards_time(timed_gpu: ww.GPU) -> None:
    """Groups of products with a wait after each, for itself or for the one before."""
    card = json.loads((DATA / "check_wgmma.json").read_text())["cycles_per_group"]
    module = timed_gpu.compile(
        compile_source(source.HEAD + "".join(source.wait_kernel(*g) for g in GROUPS), "90a").cubin
    )
    for columns, many, left in GROUPS:
        spans = []
        for count in (8, 24):
            out = timed_gpu.zeros(8, np.uint32)
            module[f"wait_{columns}_{many}_{left}"][1, 128, 49152 + 1024](out, np.int32(count), np.int32(0))
            spans.append(int(out.numpy()[::2].max()))
        measured = card[f"{columns} columns, {many} products, {left} left"]
        assert (spans[1] - spans[0]) / 16 == pytest.approx(measured, rel=0.05), (columns, many, left)


@pytest.mark.ci
@pytest.mark.parametrize("place", range(len(source.SKEWS)))
def test_a_late_warp_holds_up_its_groups_products_alone(place: int, timed_gpu: ww.GPU) -> None:
    """As on the card: the others wait for a warp that comes late to the products, and not at the fence, the commit or the wait."""
    card = json.loads((DATA / "check_wgmma.json").read_text())["cycles_of_warps"]
    measured = np.array(card[f"warp 2 {source.SKEWS[place]}"])
    module = timed_gpu.compile(compile_source(source.HEAD + source.skew_kernel(place), "90a").cubin)
    out = timed_gpu.zeros(256, np.uint32)
    module[f"skew_{place}"][1, 128, 49152 + 1024](out, np.int32(2), np.int32(4000), np.int32(0))
    stamps = out.numpy()[:20].reshape(4, 5).astype(np.int64)
    ours = stamps - stamps[:, :1].min()
    # Sleeps differ from launch to launch on a card: each at least a thousand cycles, everything else a few hundred.
    np.testing.assert_array_equal(ours > 1000, measured > 1000)
