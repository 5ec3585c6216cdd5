"""The heap of device ``malloc`` under the checks: what runs off a piece, is freed twice, never freed, never written."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpwright as ww
from warpwright.tools.checks.heap import leaks

SOURCE = r"""
extern "C" __global__ void overrun(int *y) {
    char *p = (char *)malloc(24);
    p[23 + y[0]] = 1;
    free(p);
}
extern "C" __global__ void after_free(int *y) {
    int *p = (int *)malloc(64);
    p[3] = 1;
    free(p);
    y[1] = *(volatile int *)&p[3];
}
extern "C" __global__ void wrong_free(int *y) {
    int *p = (int *)malloc(64);
    free(p + y[0]);
}
extern "C" __global__ void double_free(int *y) {
    int *p = (int *)malloc(64);
    for (int k = 0; k <= y[0]; k++) free(p);
}
extern "C" __global__ void unwritten(int *y) {
    int *p = (int *)malloc(64);
    p[0] = 1;
    y[1] = p[5 - y[0]];
    free(p);
}
__device__ int *kept;
extern "C" __global__ void takes(int *y) {
    kept = (int *)malloc(4);
    *kept = 7;
}
extern "C" __global__ void gives(int *y) {
    y[1] = *kept;
    free(kept);
    free(nullptr);
}
"""


def line(text: str) -> str:
    return f"heap.cu:{SOURCE[: SOURCE.index(text)].count(chr(10)) + 1}:"


@pytest.mark.parametrize(
    ("kernel", "text", "title", "sentence"),
    [
        (
            "overrun",
            "p[23",
            "Invalid __global__ write of size 1 bytes",
            "directly after the end of 24 bytes that malloc",
        ),
        ("after_free", "y[1] = *(vol", "Invalid __global__ read of size 4 bytes", "byte 12 of 64 bytes .* were freed"),
        (
            "wrong_free",
            "free(p + y",
            "Malloc/Free error encountered: Invalid pointer to device-side free",
            "free takes",
        ),
        ("double_free", "for (int k", "Malloc/Free error encountered: Device-side double free", "with it before"),
        ("unwritten", "y[1] = p[5", "Uninitialized __global__ memory read of size 4 bytes", "byte 16 of heap"),
    ],
)
def test_misuse_of_the_heap_is_found_at_its_line(kernel: str, text: str, title: str, sentence: str) -> None:
    gpu = ww.GPU("a100", check="memcheck,initcheck")
    y = gpu.array(np.array([1, 0], np.int32))
    module = gpu.compile(SOURCE, name="heap.cu")
    if title.startswith("Invalid"):
        with pytest.raises(ww.MemoryFaultError):
            module[kernel][1, 1](y)
    else:
        module[kernel][1, 1](y)
    (finding,) = gpu.findings
    assert finding.title == title
    assert finding.places[0].line.startswith(line(text))
    assert re.search(sentence, " ".join(finding.details))


def test_pieces_live_on_between_launches_and_are_leaked_until_freed() -> None:
    gpu = ww.GPU("a100", check="all")
    y = gpu.array(np.zeros(2, np.int32))
    module = gpu.compile(SOURCE, name="heap.cu")
    module["takes"][1, 1](y)
    (leak,) = leaks(gpu.memory)
    assert leak.title.startswith("Leaked 4 bytes at 0x")
    assert leak.places[0].line.startswith(line("kept = (int *)malloc"))
    module["gives"][1, 1](y)
    assert leaks(gpu.memory) == []
    assert gpu.findings == []
    assert y.get()[1] == 7
