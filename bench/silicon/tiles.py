"""Matrix tiles of tensor-core instructions: elements in the registers of a warp, and back."""

from __future__ import annotations

import numpy as np

KERNELS: dict[str, tuple[str, str, int]] = {
    "f16_f32_k16": ("f16", "f32", 16),
    "bf16_f32_k16": ("bf16", "f32", 16),
    "tf32_f32_k8": ("tf32", "f32", 8),
    "f16_f16_k16": ("f16", "f16", 16),
    "f16_f32_k8": ("f16", "f32", 8),
    "bf16_f32_k8": ("bf16", "f32", 8),
    "tf32_f32_k4": ("tf32", "f32", 4),
    "f16_f16_k8": ("f16", "f16", 8),
}
"""Kernel of mma.cu: element of A and B, element of C and D, k."""


def pack(element: str, halves: list[np.ndarray]) -> list[np.ndarray]:
    """Elements of one lane, lowest first, to registers."""
    if element in ("tf32", "f32"):
        return halves
    return [halves[n] | halves[n + 1] << np.uint32(16) for n in range(0, len(halves), 2)]


def registers(kernel: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The fragments of PTX's mma.m16n8k*: [count, registers, 32] uint32, A's, then B's, then C's."""
    element, accumulator, k = KERNELS[kernel]
    lane = np.arange(32)
    group, thread = lane // 4, lane % 4
    per = 1 if element == "tf32" else 2
    words: list[np.ndarray] = []
    halves = [a[:, group + 8 * (n % 2), thread * per + p + 4 * per * (n // 2)]
              for n in range(2 * k // (4 * per)) for p in range(per)]  # fmt: skip
    words += pack(element, halves)
    halves = [b[:, thread * per + p + 4 * per * n, group] for n in range(k // (4 * per)) for p in range(per)]
    words += pack(element, halves)
    words += pack(accumulator, [c[:, group + 8 * (n // 2), thread * 2 + n % 2] for n in range(4)])
    return np.ascontiguousarray(np.stack(words, axis=1))


def result(kernel: str, words: np.ndarray) -> np.ndarray:
    """[count, 2 or 4, 32] registers of D to [count, 16, 8] elements."""
    lane = np.arange(32)
    group, thread = lane // 4, lane % 4
    out = np.zeros((words.shape[0], 16, 8), np.uint32)
    for n in range(4):
        if KERNELS[kernel][1] == "f32":
            value = words[:, n]
        else:
            value = (words[:, n // 2] >> np.uint32(16 * (n % 2))) & np.uint32(0xFFFF)
        out[:, group + 8 * (n // 2), thread * 2 + n % 2] = value
    return out
