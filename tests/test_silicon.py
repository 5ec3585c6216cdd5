"""Special functions and tensor-core sums against what an H200 gave (bench/silicon/data)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.silicon import tiles
from warpwright.engine import numerics, silicon_mma
from warpwright.engine.silicon_mufu import FUNCTIONS, HALVES, mufu

DATA = Path(__file__).parent.parent / "bench" / "silicon" / "data"


@pytest.fixture(scope="module")
def card() -> dict[str, np.ndarray]:
    with np.load(DATA / "mufu_sample.npz") as stored:
        return dict(stored)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_over_the_whole_range(card: dict[str, np.ndarray], name: str) -> None:
    arguments = (12345 + 16381 * 64 * np.arange(4096, dtype=np.uint64)).astype(np.uint32)
    np.testing.assert_array_equal(mufu(name, arguments), card[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_for_every_exponent(card: dict[str, np.ndarray], name: str) -> None:
    arguments = 262143 + 262144 * 8 * np.arange(2048, dtype=np.uint32)
    np.testing.assert_array_equal(mufu(name, arguments), card[f"{name}.exponents"])


@pytest.mark.parametrize("name", HALVES)
def test_function_of_every_half(card: dict[str, np.ndarray], name: str) -> None:
    np.testing.assert_array_equal(mufu(name, np.arange(1 << 16, dtype=np.uint32)), card[name])


def test_unknown_function() -> None:
    with pytest.raises(KeyError) as failure:
        mufu("sinh", np.zeros(1, np.uint32))
    assert failure.value.args[0].startswith("MUFU has no function 'sinh'; there are rcp, rsq, sqrt, ")


def test_operation_in_f64_is_the_upper_words() -> None:
    three = np.array([3.0], np.float64).view(np.uint64)
    result = numerics.mufu("rcp", "f64", three)
    assert result.view(np.float64)[0] == pytest.approx(1 / 3, rel=2**-20)
    assert int(result[0]) & 0xFFFFFFFF == 0


def fragments(kernel: str, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C of registers [tile, register, lane]: what tiles.registers undoes."""
    element, _, k = tiles.KERNELS[kernel]
    lane = np.arange(32)
    group, thread, per = lane // 4, lane % 4, 1 if element == "tf32" else 2
    count_a, count_b = 2 * k // (4 * per), k // (4 * per)
    a, b = np.zeros((len(words), 16, k), np.uint32), np.zeros((len(words), k, 8), np.uint32)
    for part in range(per):
        for n in range(count_a):
            value = words[:, n] >> np.uint32(16 * part) & np.uint32(0xFFFF if per == 2 else 0xFFFFFFFF)
            a[:, group + 8 * (n % 2), thread * per + part + 4 * per * (n // 2)] = value
        for n in range(count_b):
            value = words[:, count_a + n] >> np.uint32(16 * part) & np.uint32(0xFFFF if per == 2 else 0xFFFFFFFF)
            b[:, thread * per + part + 4 * per * n, group] = value
    return a, b, tiles.result(kernel, words[:, count_a + count_b :])


@pytest.mark.parametrize("kernel", tiles.KERNELS)
def test_tensor_core_sums(kernel: str) -> None:
    element, accumulator, _ = tiles.KERNELS[kernel]
    with np.load(DATA / "mma_sample.npz") as stored:
        inputs, outputs = stored[f"{kernel}.in"], stored[f"{kernel}.out"]
    a, b, c = fragments(kernel, inputs)
    np.testing.assert_array_equal(tiles.registers(kernel, a, b, c), inputs)
    result = silicon_mma.matrix(90, element, accumulator, a, b, c)
    np.testing.assert_array_equal(result, tiles.result(kernel, outputs))


def test_generations_differ_in_bits_and_chunks() -> None:
    """1 + 15 * 2**-24 in f32: each product is lost alone beside 1, and kept where the adder has a bit for it."""
    a = np.full((16, 16), 0x0C00, np.uint16)  # 2**-12
    a[:, 0] = 0x3C00
    b = np.full((16, 8), 0x0C00, np.uint16)
    b[0] = 0x3C00
    c = np.zeros((16, 8), np.uint32)
    results = {arch: int(silicon_mma.matrix(arch, "f16", "f32", a, b, c)[0, 0]) for arch in (70, 80, 90)}
    assert results == {70: 0x3F800000, 80: 0x3F800007, 90: 0x3F800007}


def test_no_tensor_cores_before_volta() -> None:
    with pytest.raises(ValueError) as failure:
        silicon_mma.unit(61)
    assert str(failure.value) == "sm_61 has no tensor cores; the first is sm_70"
