"""Random chip files: each is refused with a sentence, or runs a kernel rightly.

``python -m tests.chip_files FIRST COUNT EVERY`` tries the files of so many seeds in this process and prints each seed before it is
tried, so that a crash has a culprit; a kernel runs on every ``EVERY``-th of those that are accepted, the others build their state.
"""

from __future__ import annotations

import random
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import warpwright as ww
from warpwright.chips import Chip, ChipError, chip_names, load_chip
from warpwright.chips.chip import fields
from warpwright.errors import WarpwrightError
from warpwright.timing.reset import LaunchSizes, initial_state

WILD: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 31, 32, 33, 64, 127, 1000, 65535, 1 << 20, 10**9, 2**31, 2**63, 10**30),
    *(0.0, 0.5, -0.1, 1e-300, 1e300, float("inf"), float("nan")),
    *("", "9.0", "12.0", "many", True, False, [], [0], [1, 2], [-1], ["x"], {}),
)
SOURCE = """
extern "C" __global__ void work(const float* x, float* y, unsigned* sums, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.f;
    __syncthreads();
    float total = 0.f;
    for (int k = 0; k < 8; k++) total = fmaf(tile[(threadIdx.x + 33 * k) % blockDim.x], 2.f, total);
    if (i < n) y[i] = total + __shfl_xor_sync(~0u, float(threadIdx.x), 1);
    atomicAdd(&sums[threadIdx.x % 4], 1u);
    __threadfence();
}
"""


def near(value: Any, pick: random.Random) -> Any:
    """A value of the same kind, not far away."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return pick.choice((value + 1, value - 1, value * 2, value // 2, value * 3, value * 16, value // 16, value))
    if isinstance(value, float):
        return value * pick.choice((0.01, 0.5, 0.9, 1.1, 2.0, 100.0))
    if isinstance(value, list):
        changed = list(value)
        if changed and pick.random() < 0.7:
            changed[pick.randrange(len(changed))] = pick.choice((0, 1, -1, 4, 40, 4000))
        else:
            changed = changed[: pick.randrange(len(changed) + 1)]
        return changed
    return pick.choice(("6.1", "7.0", "8.6", "8.9", "9.0", "10.0", "", value))


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return "{}" if value == {} else str(value)


@cache
def known(name: str) -> Chip:
    return load_chip(name)


def chip_file(seed: int) -> str:
    """The text of a chip file."""
    pick = random.Random(seed)
    # The cycle model does not know chips of compute capability 1.x.
    base = pick.choice([name for name in chip_names() if known(name).arch >= 60])
    chip = known(base)
    lines = {}
    for _ in range(pick.choice((1, 1, 2, 3, 5))):
        field = pick.choice(list(fields()))
        value = pick.choice(WILD) if pick.random() < 0.3 else near(chip.get(field), pick)
        name = field if pick.random() < 0.97 else field[:-1] + pick.choice("abc")
        lines[name] = f"{name} = {toml(value)}"
    if pick.random() < 0.1:
        lines["["] = f"[{pick.choice(('sm', 'l2', 'dram', 'l3', 'sources'))}]\nsm_count = 7"
    return f'base = "{base}"\n' + "\n".join(lines.values()) + "\n"


@cache
def expected(n: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(n, dtype=np.float32) % 17
    blocks = -(-n // threads)
    tile = np.zeros(blocks * threads, np.float32)
    tile[:n] = x
    tile = tile.reshape(blocks, threads)
    lane = np.arange(threads)
    total = np.zeros_like(tile)
    for k in range(8):
        total += np.float32(2) * tile[:, (lane + 33 * k) % threads]
    return x, (total + (lane ^ 1).astype(np.float32)).reshape(-1)[:n]


def run_kernel(chip: Chip, n: int = 3000) -> None:
    """Time a kernel in full and compare its results.

    Raises:
        WarpwrightError: the chip cannot run it.
    """
    threads = min(256, chip.sm.max_threads_per_block)
    x, wanted = expected(n, threads)
    y, sums = np.zeros(n, np.float32), np.zeros(4, np.uint32)
    blocks = -(-n // threads)
    run = ww.GPU(chip, timing="full", threads=1).compile(SOURCE)["work"][blocks, threads](x, y, sums, n)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(sums, [blocks * threads // 4] * 4)
    assert 0 < run.cycles < 10**9
    assert run.seconds > 0


def tried(seed: int, folder: Path, every: int) -> str:
    """``refused`` (with the sentence), ``built`` or ``ran``."""
    path = folder / "mine.toml"
    path.write_text(chip_file(seed), encoding="utf-8")
    try:
        chip = load_chip(str(path))
    except ChipError as error:
        said = str(error)
        assert "mine" in said, said
        assert "\n" not in said, said
        return f"refused: {said}"
    if seed % every == 0:
        try:
            run_kernel(chip)
        except WarpwrightError as error:
            return f"refused: {error}"
        return "ran"
    initial_state(
        chip, LaunchSizes(max(chip.shared.l1_kib - chip.shared.shared_carveout_kib[-1], 0), 20, 8, 100, 12, 2)
    )
    return "built"


def main() -> None:
    first, count, every = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            print(seed, end=" ", flush=True)
            try:
                print(tried(seed, Path(folder), every), flush=True)
            except Exception as error:
                print(f"failed: {type(error).__name__}: {error}\n{chip_file(seed)}", flush=True)
                raise


if __name__ == "__main__":
    main()
