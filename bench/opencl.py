"""The engine benchmark's kernels through OpenCL: ``[oclgrind] python -m bench.opencl SIZES``.

Runs on the first available OpenCL platform (under ``oclgrind`` that is Oclgrind's) on one thread, checks every result
and prints a JSON object: the platform's name and, for each kernel, seconds to build and to run (CPU time, shortest).
SIZES is a JSON object with ``many``, ``n``, ``width``, ``height``, ``limit``.  Needs ``pyopencl``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).parent / "kernels" / "engine.cl"
REPEATS = 5
ENOUGH_SECONDS = 4.0


def escape_counts(width: int, height: int, limit: int) -> Any:
    """Iterations of every point, in f32 as the kernel computes them."""
    one, two, three = np.float32(1), np.float32(2), np.float32(3)
    cx = (np.arange(width, dtype=np.float32) * three / np.float32(width) - two)[None, :]
    cy = (np.arange(height, dtype=np.float32) * two / np.float32(height) - one)[:, None]
    zx, zy = (np.zeros((height, width), np.float32) for _ in range(2))
    counts = np.zeros((height, width), np.int32)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(limit):
            inside = zx * zx + zy * zy < 4
            counts += inside
            zx, zy = zx * zx - zy * zy + cx, two * zx * zy + cy
    return counts


def main() -> None:
    import pyopencl as cl

    sizes = json.loads(sys.argv[1])
    many, n, width, height, limit = (sizes[k] for k in ("many", "n", "width", "height", "limit"))
    platform = cl.get_platforms()[0]
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    begin = time.process_time()
    program = cl.Program(context, SOURCE.read_text()).build()
    building = time.process_time() - begin
    generator = np.random.default_rng(0)
    x, y = (generator.random(many, dtype=np.float32) for _ in range(2))
    a, b = (generator.random(n * n, dtype=np.float32) for _ in range(2))
    read, write = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, cl.mem_flags.WRITE_ONLY

    def on_device(array: Any) -> Any:
        return cl.Buffer(context, read, hostbuf=array)

    sum_of_squares = (a.reshape(n, n).astype(np.float64) @ b.reshape(n, n)).astype(np.float32).ravel()
    ones, dx, dy, da, db = np.float32(2), *(on_device(v) for v in (x, y, a, b))
    counts = escape_counts(width, height, limit).ravel()
    launches = {
        "triad": ((many,), (256,), [np.int32(many), ones, dx, dy], ones * x + y),
        "matmul": ((n, n), (32, 8), [np.int32(n), da, db], sum_of_squares),
        "mandelbrot": ((width, height), (32, 8), [np.int32(width), np.int32(height), np.int32(limit)], counts),
        "tiled": ((n, n), (16, 16), [np.int32(n), da, db], sum_of_squares),
    }
    seconds = {}
    for name, (grid, block, arguments, expected) in launches.items():
        out = cl.Buffer(context, write, expected.nbytes)
        kernel = cl.Kernel(program, name)
        times: list[float] = []
        while len(times) < REPEATS and sum(times) < ENOUGH_SECONDS:
            begin = time.process_time()
            kernel(queue, grid, block, *arguments, out).wait()
            times.append(time.process_time() - begin)
        found = np.empty_like(expected)
        cl.enqueue_copy(queue, found, out).wait()
        if name == "mandelbrot":
            # Points at the border depend on whether the compiler fuses multiplications and additions.
            assert np.mean(found != expected) < 0.02, name
        else:
            assert np.allclose(found, expected, rtol=1e-4), name
        seconds[name] = min(times)
    print(json.dumps({"platform": f"{platform.name} {platform.version}", "building": building, "seconds": seconds}))


if __name__ == "__main__":
    os.environ["POCL_MAX_PTHREAD_COUNT"] = "1"
    main()
