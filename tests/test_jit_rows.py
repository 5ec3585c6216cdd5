"""Accesses whose addresses only turn out at run time to lie in rows: values and faults are the interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww

SOURCE = """
#define AT(T, bytes) \\
extern "C" __global__ void load_at_##bytes(int n, const long long *offset, const char *x, T *y) { \\
    int i = blockIdx.x * blockDim.x + threadIdx.x; \\
    if (i < n) y[i] = *(const T *)(x + offset[i]); \\
} \\
extern "C" __global__ void store_at_##bytes(int n, const long long *offset, const T *x, char *y) { \\
    int i = blockIdx.x * blockDim.x + threadIdx.x; \\
    if (i < n) *(T *)(y + offset[i]) = x[i]; \\
}
AT(float, 4)
AT(float2, 8)
AT(float4, 16)

extern "C" __global__ void picture(int width, int height, int pitch, const float *x, float *y) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < width && row < height) y[row * width + column] = 2 * x[row * pitch + column];
}

extern "C" __global__ void walk(int n, int pitch, const float *x, float *y) {
    int lane = threadIdx.x, row = threadIdx.y + threadIdx.z;
    const float *p = x + row * pitch + lane;
    float sum = 0;
    for (int k = 0; k < n; k++) {
        sum += p[k] * p[pitch];
        p += pitch;
        y[row * blockDim.x + lane] = sum;
    }
}

extern "C" __global__ void far(int pitch, int row, const float *x, float *y) {
    int at = (threadIdx.y + row) * pitch + threadIdx.x;
    if (threadIdx.x < 8) y[threadIdx.y * 8 + threadIdx.x] = x[at];
}

extern "C" __global__ void other_orders(int pitch, int step, const float *x, float *y, long long *index) {
    int lane = threadIdx.x, row = threadIdx.y, at = row * 16 + lane, wide = row * step + lane;
    index[at] = (long long)wide * 3;
    y[at] = x[row * pitch + 2 * lane] + x[row * pitch + 15 - lane] + x[row * pitch + lane / 2] + x[lane * pitch + row];
}
"""
PLACES = 300
"""Length of the array that offsets point into."""


@pytest.fixture(scope="module")
def engines() -> list[Any]:
    return [ww.GPU("a100", timing="off", engine=engine).compile(SOURCE) for engine in ("compiled", "interpreter")]


def same(modules: list[Any], name: str, grid: Any, block: Any, arguments: list[Any]) -> tuple[str, Any]:
    """What a launch says and leaves in its last argument, the same from both engines."""
    found = []
    for module in modules:
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            module[name][grid, block](*copies)
            found.append(("", copies[-1].view(np.uint8)))
        except ww.WarpwrightError as error:
            found.append((str(error), np.zeros(0, dtype=np.uint8)))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])
    return found[0]


@st.composite
def rows(draw: st.DrawFn, size: int) -> np.ndarray:
    """Byte offsets of a warp: two rows that mostly lie inside, now and then with something wrong with a lane."""
    starts = [size * draw(st.integers(-1, PLACES - 14)) for _ in range(2)]
    wrong = draw(st.sampled_from([0, 0, 0, 1, 2, 3, size // 2, -1, -5, 1 << 62, -(1 << 63)]))
    if draw(st.booleans()):
        starts[draw(st.integers(0, 1))] += wrong
        wrong = 0
    all_of_them = [s + size * n for s in starts for n in range(16)]
    all_of_them[draw(st.integers(0, 31))] += wrong
    # Addresses wrap around.
    offsets = np.array([at % (1 << 64) for at in all_of_them], dtype=np.uint64).view(np.int64)
    if draw(st.booleans()):
        inside = np.clip(offsets // size, 0, PLACES - 1) * size
        offsets = np.where(draw(st.booleans()), inside, offsets)
    return offsets


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([4, 8, 16]), st.integers(1, 32), st.booleans())
def test_lanes_of_any_offsets(engines: list[Any], data: st.DataObject, size: int, lanes: int, store: bool) -> None:
    """The first warp makes the allocation known, the second goes anywhere."""
    offsets = np.concatenate([size * np.arange(32), data.draw(rows(size))]).astype(np.int64)
    n, words = 32 + lanes, size // 4
    x = np.arange(words * (PLACES if not store else 64), dtype=np.float32) + 1
    y = np.zeros(words * (PLACES if store else 64), dtype=np.float32)
    said, left = same(engines, f"{'store' if store else 'load'}_at_{size}", 2, 32, [n, offsets, x, y])
    used = offsets[:n]
    fine = bool(np.all((used >= 0) & (used <= size * (PLACES - 1)) & (used % size == 0)))
    assert fine == (said == "")
    if not fine:
        return
    source, found = x.reshape(-1, words), left.view(np.float32).reshape(-1, words)
    if not store:
        assert np.array_equal(found[:n], source[used // size])
        return
    expected = y.reshape(-1, words).copy()
    for lane, at in enumerate(used):
        expected[at // size] = source[lane]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_the_thread_at_fault_in_the_middle_of_a_row_is_named(engines: list[Any], size: int) -> None:
    offsets = size * np.concatenate([np.arange(32), np.arange(16), PLACES - 10 + np.arange(16)])
    x, y = np.zeros(size // 4 * PLACES, dtype=np.float32), np.zeros(size * 16, dtype=np.float32)
    said, _ = same(engines, f"load_at_{size}", 2, 32, [64, offsets.astype(np.int64), x, y])
    assert "thread (26, 0, 0)" in said
    assert "block (1, 0, 0)" in said


@settings(max_examples=25, deadline=None)
@given(
    block=st.tuples(st.one_of(st.sampled_from([8, 16]), st.integers(1, 40)), st.integers(1, 9)),
    size=st.tuples(st.integers(1, 50), st.integers(1, 20)),
    extra=st.integers(0, 5),
    short=st.integers(0, 3),
)
def test_pictures_of_any_pitch(
    engines: list[Any], block: tuple[int, int], size: tuple[int, int], extra: int, short: int
) -> None:
    """Rows of a picture with an unknown pitch, in blocks of any shape; some end before the last row does."""
    width, height = size
    pitch = width + extra
    length = max(1, pitch * (height - 1) + width - short)
    x = np.arange(length, dtype=np.float32)
    y = np.zeros(width * height, dtype=np.float32)
    grid = (-(-width // block[0]), -(-height // block[1]))
    said, left = same(engines, "picture", grid, block, [width, height, pitch, x, y])
    assert (said == "") == (pitch * (height - 1) + width <= length)
    if not said:
        wanted = 2 * (pitch * np.arange(height)[:, None] + np.arange(width))
        assert np.array_equal(left.view(np.float32), wanted.ravel().astype(np.float32))


@pytest.mark.ci
@settings(max_examples=40, deadline=None)
@given(
    block=st.sampled_from(
        [(16, 2, 1), (16, 3, 1), (16, 1, 3), (8, 4, 1), (8, 5, 2), (8, 2, 2), (16, 1, 1), (32, 2, 1)]
    ),
    n=st.integers(0, 9),
    pitch=st.integers(-2, 70),
    spare=st.integers(-2, 2),
)
def test_pointers_that_walk_by_rows(
    engines: list[Any], block: tuple[int, int, int], n: int, pitch: int, spare: int
) -> None:
    """Rows at an unknown pitch, moved on in a loop, up to the end of the array and beyond."""
    rows = block[1] + block[2] - 1
    last = pitch * (rows - 1) + block[0] - 1 + max((n - 1) * (pitch + 1), n * pitch)
    length = max(1, last + 1 + spare)
    x = (np.arange(length) % 97).astype(np.float32)
    y = np.zeros(rows * block[0], dtype=np.float32)
    said, _ = same(engines, "walk", 1, block, [n, pitch, x, y])
    if pitch >= 0 and n:
        assert (said == "") == (last < length)


@pytest.mark.parametrize(("width", "height"), [(16, 2), (8, 4)])
def test_an_index_that_passes_its_limit_in_a_row(width: int, height: int) -> None:
    """Only lanes that execute count; one that does stops the launch with its name."""
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile(SOURCE)["far"]
    x = gpu.array(np.arange(64, dtype=np.float32))
    y = np.zeros(64, dtype=np.float32)
    pitch = (1 << 31) - 12
    start = x.device_address() - 4 * pitch
    kernel[1, (width, 1)](pitch, 1, start, y)
    assert np.array_equal(y[:8], np.arange(8))
    with pytest.raises(ww.UnsupportedError, match=r"passes 2\*\*31 between threads of one warp in kernel far"):
        kernel[1, (width, 1)](pitch + 8, 1, start + 32, y)
    with pytest.raises(ww.WarpwrightError):
        kernel[1, (width, height)](pitch, 0, x, y)


@pytest.mark.parametrize("pitch", [0, 1, 33])
def test_rows_in_other_orders_and_numbers_that_pass_2_to_the_31(engines: list[Any], pitch: int) -> None:
    lane, row = np.arange(16), np.arange(4)[:, None]
    step = (1 << 30) - 3
    x = np.arange(16 * 33 + 40, dtype=np.float32)
    y, index = np.zeros(64, dtype=np.float32), np.zeros(64, dtype=np.int64)
    found = []
    for module in engines:
        module["other_orders"][1, (16, 4)](pitch, step, x, y, index)
        found.append((y.copy(), index.copy()))
    places = (row * pitch + 2 * lane, row * pitch + 15 - lane, row * pitch + lane // 2, lane * pitch + row)
    assert np.array_equal(found[0][0].reshape(4, 16), sum(x[p] for p in places))
    assert np.array_equal(found[0][1].reshape(4, 16), (row * step + lane).astype(np.int32).astype(np.int64) * 3)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
