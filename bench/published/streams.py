"""The kernels of gpu-benches (github.com/te42kyfo/gpu-benches): streams, pointer chases, sums over a cache.

Their source is taken from a checkout and compiled by the product for the card's architecture. They measure a steady-state rate of long runs, so each is run at
two lengths and the difference is used.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import warpwright as ww
from bench.published.rows import Row, card_file

REPOSITORY = "github.com/te42kyfo/gpu-benches"
FOLDER = "gpu-benches"
ARRAYS = {"init": 1, "read": 1, "scale": 2, "triad": 3, "3pt": 2, "5pt": 2}
"""Arrays whose bytes gpu-stream counts."""
KERNELS = {"3pt": "stencil1d3pt_kernel", "5pt": "stencil1d5pt_kernel"}
STATIC_BYTES = 6144 + 1024
"""gpu-stream's shared array, and what a block of an A100 has reserved."""


def _between(file: Path, first: str, last: str) -> str:
    text = file.read_text()
    begin = text.index(first)
    return text[begin : text.index(last, begin)]


def _slope(gpu: ww.GPU, runs: list[tuple[float, ww.Run]]) -> float:
    """Work per cycle between a short and a long run."""
    (less, short), (more, long) = runs
    return (more - less) / (long.cycles - short.cycles)


def stream(row: Row, checkouts: Path) -> float:
    """GB/s of one of gpu-stream's kernels with two blocks of a size on each SM.

    The publication gets two blocks by the carve-out of shared memory; here each block asks for nearly half of it.
    """
    text = _between(checkouts / FOLDER / "gpu-stream/main.cu", "template <typename T>", "void measureFunc")
    name = f"{KERNELS.get(row.details['kernel'], row.details['kernel'] + '_kernel')}<double>"
    gpu = ww.GPU(str(card_file(row.card)))
    module = gpu.compile(f"const int spoilerSize = 768;\n{text}", name_expressions=[name])
    block, sms = int(row.details["block"]), gpu.chip.sm.sm_count
    # Streams at DRAM's rate must exceed L2; latency-bound blocks need not.
    items_wanted = (3 << 19, 9 << 19) if block <= 128 else [gpu.chip.l2.l2_kib * 16 * n for n in (10, 22)]
    waves = [-(-items // (2 * block * sms)) for items in items_wanted]
    shared = gpu.chip.shared.shared_carveout_kib[-1] * 1024 // 2 - STATIC_BYTES - 512
    runs = []
    for count in waves:
        items = 2 * sms * count * block
        arrays = [gpu.empty(items + 1024, np.float64) for _ in range(4)]
        run = module[name][items // block, block, shared](*arrays, items, False)
        runs.append((8.0 * ARRAYS[row.details["kernel"]] * items, run))
        for array in arrays:
            array.free()
    return _slope(gpu, runs) * gpu.chip.clocks.sm_clock_mhz / 1000


def latency(row: Row, checkouts: Path) -> float:
    """Cycles of a load in gpu-latency's chase through a random cycle of lines' halves, 64 bytes apart."""
    text = _between(checkouts / FOLDER / "gpu-latency/main.cu", "template <typename T>", "int main")
    gpu = ww.GPU(str(card_file(row.card)))
    module = gpu.compile(
        f"typedef long int64_t;\n{text}".replace("int64_t *idx = buf", "int64_t *idx = (int64_t *)buf"),
        name_expressions=["pchase<int64_t>"],
    )
    length = int(row.details["kib"]) * 16
    order = np.random.default_rng(1).permutation(length)
    buffer = gpu.empty(8 * length, np.uint64)
    chain = np.zeros(8 * length, np.uint64)
    chain[8 * order] = np.uint64(buffer.device_address()) + np.roll(order, -1).astype(np.uint64) * np.uint64(64)
    buffer.set(chain)
    turns = 1 if length * 64 > gpu.chip.l2.l2_kib * 1024 else 0
    counts = (16384, 65536) if turns else (max(length, 2048), max(length, 2048) + 32768)
    runs = [(float(n), module["pchase<int64_t>"][1, 64](buffer, buffer, n)) for n in counts]
    return 1 / _slope(gpu, runs)


def cache(row: Row, checkouts: Path) -> float:
    """GB/s of all SMs that sum the same array of doubles again and again, a block of 256 threads each."""
    text = _between(
        checkouts / FOLDER / "gpu-cache/main.cu",
        "template <int N, int iters, int BLOCKSIZE>",
        "template <int N, int iters, int blockSize>",
    )
    gpu = ww.GPU(str(card_file(row.card)))
    count = int(row.details["kib"]) * 128
    turns = [max(4, 60000 // count), max(12, 180000 // count)]
    names = [f"sumKernel<{count}, {n}, 256>" for n in turns]
    module = gpu.compile(f"typedef double dtype;\n{text}", name_expressions=names)
    sms, array = gpu.chip.sm.sm_count, gpu.zeros(count, np.float64)
    runs = [
        (8.0 * count * n * sms, module[name][sms, 256](array, array, 0)) for n, name in zip(turns, names, strict=True)
    ]
    return _slope(gpu, runs) * gpu.chip.clocks.sm_clock_mhz / 1000


MEASURES = {"gpu-stream": stream, "gpu-latency": latency, "gpu-cache": cache}
