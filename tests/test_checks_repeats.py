"""Launches that begin as an earlier one are not watched again, and show what that one showed; others are watched."""

from __future__ import annotations

import numpy as np

import warpwright as ww

SOURCE = r"""
extern "C" __global__ void turn(const int *x, int *y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (x[0] == 0) __syncthreads();
    y[t] = s[(t + 32) & 63];
}
__constant__ int wanted;
extern "C" __global__ void fills(int *x) { if (threadIdx.x < wanted) x[threadIdx.x] = 1; }
extern "C" __global__ void reads(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void counts(int *x) { x[threadIdx.x] += 1; }
"""


def checked() -> tuple[ww.GPU, ww.Module]:
    gpu = ww.GPU("a100", check="all")
    return gpu, gpu.compile(SOURCE, name="repeats.cu")


def repeated(gpu: ww.GPU) -> int:
    assert gpu.checker is not None
    return gpu.checker.repeats.repeated


def test_the_same_launch_shows_the_same_again() -> None:
    gpu, module = checked()
    x, y = gpu.array(np.arange(1, 65, dtype=np.int32)), gpu.array(np.zeros(64, np.int32))
    counts = []
    for _ in range(5):
        module["turn"][1, 64](x, y)
        counts.append([f.count for f in gpu.findings])
    # The first tells what such launches touch; the second finds in y what the first wrote, as all later ones do.
    assert repeated(gpu) == 3
    assert counts == [[32 * n for _ in counts[0]] for n in range(1, 6)]
    assert len(counts[0]) >= 1
    assert (y.numpy()[32:] == np.arange(1, 33)).all()


def test_other_contents_are_watched() -> None:
    gpu, module = checked()
    x, y = gpu.array(np.zeros(64, np.int32)), gpu.array(np.zeros(64, np.int32))
    for _ in range(4):
        module["turn"][1, 64](x, y)
    assert repeated(gpu) == 2
    assert gpu.findings == []
    x.set(np.full(64, 1, np.int32))
    module["turn"][1, 64](x, y)
    assert repeated(gpu) == 2
    assert "error" in {f.severity for f in gpu.findings}


def test_a_launch_that_changes_its_memory_is_watched_each_time() -> None:
    gpu, module = checked()
    x = gpu.array(np.zeros(32, np.int32))
    for _ in range(4):
        module["counts"][1, 32](x)
    assert repeated(gpu) == 0
    assert (x.numpy() == 4).all()


def test_constant_memory_is_part_of_how_a_launch_begins() -> None:
    gpu, module = checked()
    x = gpu.array(np.zeros(32, np.int32))
    for wanted in (8, 8, 8, 16, 16, 16):
        module.symbol("wanted").set(np.int32(wanted))
        module["fills"][1, 32](x)
    # Of each three, the first makes the kind known, the second what it finds.
    assert repeated(gpu) == 2
    assert x.numpy().sum() == 16


def test_what_was_written_is_part_of_how_a_launch_begins() -> None:
    gpu, module = checked()
    y = gpu.array(np.zeros(32, np.int32))
    x = gpu.empty(32, np.int32)
    for _ in range(4):
        module["reads"][1, 32](x, y)
    assert repeated(gpu) == 2
    (finding,) = gpu.findings
    assert finding.count == 4 * 32
    x.set(np.zeros(32, np.int32))  # what was there already: now it was written
    module["reads"][1, 32](x, y)
    assert repeated(gpu) == 2
    assert finding.count == 4 * 32
