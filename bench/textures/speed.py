"""Time of a fetch in a compiled kernel, without timing: ``python -m bench.textures.speed``.

Shortest of five launches of 2**18 fetches each, the kernel's two or three loads and its store of a result included.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import warpwright as ww
from bench.textures.cases import FORMATS, Case
from warpwright.engine.textures.table import Format, Sampler, make_image, table_of

FETCHES = 1 << 18
CASES = (
    Case("fetch", "f32", 1, (1000,), kind="linear"),
    Case("t2", "f32", 1, (256, 256)),
    Case("t2", "f32", 1, (256, 256), normalized=True, address=(0, 0, 0)),
    Case("t2", "f32", 1, (256, 256), linear=True, normalized=True, address=(0, 0, 0)),
    Case("t2", "f32", 4, (256, 256), linear=True, normalized=True, address=(0, 0, 0)),
    Case("t2", "u8", 4, (256, 256), linear=True, normalized=True, address=(0, 0, 0)),
    Case("t3", "f32", 1, (64, 64, 64), linear=True, normalized=True),
)


def main() -> None:
    device = ww.GPU("h200", timing="off")
    loaded = device.compile((Path(__file__).parent / "kernels.cu").read_text(), name="kernels.cu")
    rng = np.random.default_rng(0)
    for case in CASES:
        image = make_image(device.memory, Format.of(FORMATS[case.format][1], case.channels), case.shape)
        image.buffer = case.kind == "linear"
        sampler = Sampler(case.address, case.linear, case.normalized)
        handle = table_of(device.memory).add(image, sampler)
        rows = [rng.random(FETCHES) * (1 if case.normalized else size) for size in case.shape]
        coordinates, out = device.array(np.stack(rows).astype(np.float32)), device.zeros((FETCHES, 4), np.uint32)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            loaded[case.kernel][FETCHES // 128, 128](np.uint64(handle), coordinates, out, FETCHES)
            times.append(time.perf_counter() - began)
        print(f"{case.name:60s} {min(times) / FETCHES * 1e9:7.1f} ns a fetch")


if __name__ == "__main__":
    main()
