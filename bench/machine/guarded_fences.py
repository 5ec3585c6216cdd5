"""What a fence costs whose guard is false for all lanes of its warp, or true for one.

Compilers put a branch around such a fence. Here the fence's words (MEMBAR, ERRBAR and the invalidation of L1) are given the guard of an instruction before them.

``python -m bench.machine.guarded_fences --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from bench.device import Device, Module
from bench.machine.card_program import measure_cubin
from bench.micro.patch import bits, field

KERNELS = [f"{store}{name}" for store in ("", "stored_") for name in ("nothing", "gl", "sys", "cta")]
LANES = (0, 1, 32)
WARPS = (1, 4, 8, 32)
REPEATS = (4, 36)
UNROLLED = 8
FENCE_WORDS = (0x992, 0x9AB, 0x5AB, 0x98F)
"""Opcodes of MEMBAR, ERRBAR, CGAERRBAR and CCTL."""
GUARDED = 0x212
"""LOP3, whose guard the fences take."""
ALWAYS = 7
WORD_BYTES = 16


def guarded(cubin: bytes) -> bytes:
    """The cubin with the guard of the last guarded LOP3 before each word of a fence on that word."""
    made, guard = bytearray(cubin), ALWAYS
    for at in range(0, len(cubin) - WORD_BYTES + 1, WORD_BYTES):
        word = int.from_bytes(cubin[at : at + WORD_BYTES], "little")
        opcode = bits(word, 0, 12)
        if opcode == GUARDED and bits(word, 12, 4) != ALWAYS:
            guard = bits(word, 12, 4)
        elif opcode in FENCE_WORDS and bits(word, 12, 4) == ALWAYS:
            made[at : at + WORD_BYTES] = field(word, 12, 4, guard).to_bytes(WORD_BYTES, "little")
    return bytes(made)


def measure(device: Device, cubin: bytes) -> dict[str, list[float]]:
    """Cycles of a warp per fence, by kernel and number of lanes whose guard is true, for each of ``WARPS`` on one SM; ``always``: without guards."""
    out, words = device.upload(np.zeros(4 * 64, np.uint32)), device.upload(np.zeros(2048, np.uint32))

    def span(module: Module, kernel: str, warps: int, repeats: int, lanes: int) -> float:
        """Mean cycles of the warps; the median of several launches."""
        each = []
        for _ in range(1 if device.kind == "model" else 5):
            module.launch(kernel, 1, 32 * warps, [out, words, np.int32(repeats), np.int32(lanes)])
            read = out.read(np.uint32, 4 * warps).reshape(-1, 4).astype(np.int64)
            each.append(float((read[:, 1] - read[:, 0]).mean()))
        return float(np.median(each))

    found: dict[str, list[float]] = {}
    few, many = REPEATS
    for name, module, counts in (
        ("always", device.load(cubin), (32,)),
        ("", device.load(guarded(cubin)), LANES),
    ):
        for kernel, lanes in itertools.product(KERNELS, counts):
            spans = [[span(module, kernel, warps, repeats, lanes) for repeats in (few, many)] for warps in WARPS]
            cycles = [(last - first) / ((many - few) * UNROLLED) for first, last in spans]
            found[f"{kernel} {name or lanes}"] = [round(one, 2) for one in cycles]
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, warps=WARPS)
