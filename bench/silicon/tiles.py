"""Random matrix tiles for tensor-core instructions, the same on every machine (PCG64, integers only)."""

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
FIELDS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23)}
"""Exponent and mantissa bits."""


def numbers(
    rng: np.random.Generator, element: str, shape: tuple[int, ...], middle: int, spread: int, zeros: int
) -> np.ndarray:
    """uint32 bits: exponents within ``spread`` below ``middle`` (biased; 0 gives subnormals), ``zeros`` of 16 are zero."""
    exponent_bits, mantissa_bits = FIELDS[element]
    top = (1 << exponent_bits) - 2
    exponent = np.clip(middle - rng.integers(0, spread + 1, shape), 0, top).astype(np.uint32)
    mantissa = rng.integers(0, 1 << mantissa_bits, shape, dtype=np.uint32)
    sparse = rng.integers(0, 4, shape, dtype=np.uint32)
    mantissa = np.where(sparse == 0, 0, mantissa).astype(np.uint32)
    sign = rng.integers(0, 2, shape, dtype=np.uint32)
    value = (sign << np.uint32(exponent_bits + mantissa_bits)) | (exponent << np.uint32(mantissa_bits)) | mantissa
    value = np.where(rng.integers(0, 16, shape) < zeros, 0, value).astype(np.uint32)
    return value << np.uint32(13) if element == "tf32" else value


def matrices(kernel: str, distribution: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A [count, 16, k], B [count, k, 8], C [count, 16, 8] as uint32 bits of their elements."""
    element, accumulator, k = KERNELS[kernel]
    rng = np.random.Generator(np.random.PCG64([seed, *kernel.encode(), *distribution.encode()]))
    shapes = (count, 16, k), (count, k, 8), (count, 16, 8)
    bias = (1 << FIELDS[element][0] - 1) - 1
    bias_c = (1 << FIELDS[accumulator][0] - 1) - 1
    if distribution == "bits":
        wide = 32 if element == "tf32" else 16
        made = [rng.integers(0, 1 << w, s, dtype=np.uint32 if w < 32 else np.uint64).astype(np.uint32)
                for w, s in zip((wide, wide, 32 if accumulator == "f32" else 16), shapes, strict=True)]  # fmt: skip
        # Few special values, or every sum is a NaN.
        keep = 15 if element == "f16" else 255
        for n in range(2):
            special = (
                (made[n] >> np.uint32(10 if element == "f16" else 7 if element == "bf16" else 23))
                & np.uint32(31 if element == "f16" else 255)
            ) == keep * (2 if element == "f16" else 1) + (element == "f16")
            rare = rng.integers(0, 4, shapes[n]) != 0
            made[n] = np.where(special & rare, 0, made[n]).astype(np.uint32)
        return made[0], made[1], made[2]
    if distribution == "near":
        settings = (bias + 2, 4, 0), (bias + 2, 4, 0), (bias_c + 6, 12, 1)
    elif distribution == "far":
        span = min(2 * bias, 40)
        settings = (bias + span // 2, span, 1), (bias + span // 2, span, 1), (bias_c + span // 2, span + 8, 1)
    elif distribution == "few":
        settings = (bias + 10, 20, 13), (bias + 10, 20, 6), (bias_c + 10, 40 if accumulator == "f32" else 20, 3)
    else:
        settings = (bias + 1, 1, 0), (bias + 1, 1, 0), (bias_c + 4, 8, 2)
    a = numbers(rng, element, shapes[0], *settings[0])
    b = numbers(rng, element, shapes[1], *settings[1])
    c = numbers(rng, accumulator, shapes[2], *settings[2])
    if distribution == "cancel":  # the second half of k repeats the first with the other sign, but for a few bits
        half = k // 2
        sign = np.uint32(1 << 31 if element == "tf32" else 1 << 15)
        unit = np.uint32(1 << 13 if element == "tf32" else 1)
        order = rng.permutation(k)
        a[:, :, half:] = a[:, :, :half] ^ sign
        b[:, half:] = b[:, :half] ^ (unit * rng.integers(0, 2, (count, half, 8), dtype=np.uint32))
        a, b = a[:, :, order], b[:, order]
    return a, b, c


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
