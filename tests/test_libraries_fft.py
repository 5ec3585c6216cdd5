"""cuFFT of this package, called as C programs call it, against NumPy."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from tests.library_calls import Array, Device, Library

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
C2C, R2C, C2R, Z2Z, D2Z, Z2D = 0x29, 0x2A, 0x2C, 0x69, 0x6A, 0x6C
FORWARD, INVERSE = -1, 1
INVALID_PLAN, INVALID_VALUE = 1, 4


@pytest.fixture(scope="module")
def fft(memory: Device) -> Library:
    return Library("libcufft.so.12")


def random(*shape: int) -> Array:
    made = np.random.default_rng(len(shape)).standard_normal((2, *shape))
    return made[0] + 1j * made[1]


def plan(fft: Library, sizes: tuple[int, ...], kind: int, batch: int) -> int:
    place = ctypes.c_int32()
    numbers = np.array(sizes, np.int32)
    fft("cufftPlanMany", ctypes.byref(place), len(sizes), numbers, 0, 1, 0, 0, 1, 0, kind, batch)
    return place.value


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 17, 64, 97, 100, 210, 331, 1024, 1009])
def test_every_size(memory: Device, fft: Library, n: int) -> None:
    x = random(2, n)
    number = plan(fft, (n,), Z2Z, 2)
    source, target = memory.put(x.reshape(-1)), memory.put(np.zeros(2 * n, complex))
    fft("cufftExecZ2Z", number, source, target, FORWARD)
    np.testing.assert_allclose(memory.get(target, complex, (2, n), "C"), np.fft.fft(x), atol=1e-12 * n)
    fft("cufftExecZ2Z", number, target, target, INVERSE)
    np.testing.assert_allclose(memory.get(target, complex, (2, n), "C") / n, x, atol=1e-13 * n)
    fft("cufftDestroy", number)
    memory.free()


@pytest.mark.parametrize("sizes", [(15,), (16,), (6, 9), (5, 8), (3, 4, 7), (2, 6, 10)])
def test_real_transforms(memory: Device, fft: Library, sizes: tuple[int, ...]) -> None:
    x = random(3, *sizes).real.astype(np.float32)
    axes = tuple(range(1, len(sizes) + 1))
    expected = np.fft.rfftn(x, axes=axes)
    source, target = memory.put(x.reshape(-1)), memory.put(np.zeros(expected.size, np.complex64))
    forward, inverse = plan(fft, sizes, R2C, 3), plan(fft, sizes, C2R, 3)
    fft("cufftExecR2C", forward, source, target)
    found = memory.get(target, np.complex64, expected.shape, "C")
    np.testing.assert_allclose(found, expected, atol=1e-4)
    fft("cufftExecC2R", inverse, target, source)
    back = memory.get(source, np.float32, x.shape, "C")
    np.testing.assert_allclose(back / np.prod(sizes), x, atol=1e-5)
    memory.free()


def test_strides_and_a_work_area(memory: Device, fft: Library) -> None:
    """Columns of a matrix: elements a row apart, transforms an element apart."""
    x = random(12, 5).astype(np.complex64)
    place, size = ctypes.c_int32(), ctypes.c_uint64()
    fft("cufftCreate", ctypes.byref(place))
    number = place.value
    fft("cufftSetAutoAllocation", number, 0)
    n, embed = np.array([12], np.int64), np.array([12], np.int64)
    fft(
        "cufftXtMakePlanMany", number, 1, n, embed, 5, 1, 4, embed, 5, 1, 4, 5, ctypes.byref(size), 4,
    )  # fmt: skip
    source = memory.put(x.reshape(-1))
    assert fft.raw("cufftXtExec", number, source, source, FORWARD) == INVALID_PLAN
    fft("cufftSetWorkArea", number, memory.put(np.zeros(size.value, np.uint8)))
    fft("cufftXtExec", number, source, source, FORWARD)
    np.testing.assert_allclose(memory.get(source, np.complex64, x.shape, "C"), np.fft.fft(x, axis=0), atol=1e-5)


def test_wrong_plans(fft: Library) -> None:
    place = ctypes.c_int32()
    assert fft.raw("cufftPlan1d", ctypes.byref(place), 0, C2C, 1) == INVALID_VALUE
    assert fft.raw("cufftPlan1d", ctypes.byref(place), 8, 1234, 1) == INVALID_VALUE
    assert fft.raw("cufftExecC2C", 4321, 0, 0, FORWARD) == INVALID_PLAN
