"""Packages of PyPI that open the driver themselves, run as they are: in this process and in one of their own.

Each is asked for here only where it is installed: ``pip install taichi`` (Python 3.13 and older), ``pip install cupy-cuda12x``.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver_library import ENVIRONMENT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
ROOT = Path(__file__).parents[1]
TAICHI = """
import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, device_memory_GB=0.25)
assert ti.lang.impl.current_cfg().arch == ti.cuda
pixels = ti.field(dtype=float, shape=(192, 96))
counts = ti.field(dtype=int, shape=8)
Pair = ti.types.struct(left=ti.f32, right=ti.i32)
pairs = Pair.field(shape=50)

@ti.func
def square(z):
    return ti.Vector([z[0] ** 2 - z[1] ** 2, z[1] * z[0] * 2])

@ti.kernel
def paint():
    for i, j in pixels:
        c = ti.Vector([-0.8, 0.2])
        z = ti.Vector([i / 96 - 1, j / 96 - 0.5]) * 2
        iterations = 0
        while z.norm() < 20 and iterations < 50:
            z = square(z) + c
            iterations += 1
        pixels[i, j] = iterations
        ti.atomic_add(counts[iterations % 8], 1)

@ti.kernel
def total(a: ti.types.ndarray(dtype=ti.f64, ndim=1)) -> ti.f64:
    s = ti.cast(0, ti.f64)
    for i in a:
        s += a[i]
    return s

@ti.kernel
def fill():
    for i in pairs:
        pairs[i] = Pair(left=ti.sqrt(ti.cast(i, ti.f32)), right=i * 3)

paint()
want = np.zeros((192, 96))
for i in range(192):
    for j in range(96):
        z, n = complex(i / 96 - 1, j / 96 - 0.5) * 2, 0
        while abs(z) < 20 and n < 50:
            z, n = z * z + complex(-0.8, 0.2), n + 1
        want[i, j] = n
got = pixels.to_numpy()
assert (got == want).mean() > 0.99, (got == want).mean()
assert np.array_equal(counts.to_numpy(), np.bincount(got.astype(int).ravel() % 8, minlength=8))
assert total(np.arange(1000, dtype=np.float64)) == 499500
fill()
assert np.array_equal(pairs.right.to_numpy(), 3 * np.arange(50)) and pairs.left[49] == 7
print("taichi agrees")
"""
CUPY = """
import cupy as cp
import numpy as np

x = cp.arange(1000, dtype=cp.float32)
twice = cp.ElementwiseKernel("float32 x", "float32 y", "y = 2 * x + 1", "twice")
raw = cp.RawKernel('extern "C" __global__ void add(float *y, const float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += x[i]; }', "add")
y = twice(x)
raw((8,), (128,), (y, x, np.int32(1000)))
assert np.array_equal(y.get(), 3 * np.arange(1000, dtype=np.float32) + 1)
assert float((x * x).sum()) == float((np.arange(1000, dtype=np.float64) ** 2).sum())
assert np.array_equal(cp.sort(-x).get(), -np.arange(999, -1, -1, dtype=np.float32))
print("cupy agrees")
"""


def run(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    file = folder / "program.py"
    file.write_text(program)
    command = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", "h200", "--timing", "off", *words, str(file)]
    found = os.pathsep.join([str(ROOT), *([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [])])
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": found},
    )


def test_the_driver_is_found_without_a_version() -> None:
    """As Taichi opens it, in a process that was running before."""
    program = f"""
import ctypes, sys
sys.path.insert(0, {os.fspath(ROOT)!r})
from warpwright.driver import attach
attach.preload()
before = set(globals())
for name in ("libcuda.so", "libcuda.so.1"):
    version = ctypes.c_int()
    assert ctypes.CDLL(name).cuDriverGetVersion(ctypes.byref(version)) == 0
    assert version.value == 13000
assert set(globals()) - before == {{"before", "name", "version"}}, "the driver's start leaves names in the program"
assert attach.__name__ == "warpwright.driver.attach"
linked = ctypes.CDLL(str(attach.folder() / "libcuda.so"))
assert linked.cuInit(0) == 0
"""
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("taichi") is None, reason="taichi is not installed")
@pytest.mark.parametrize("words", [(), (sys.executable,)])
def test_taichi_runs(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(TAICHI, tmp_path, *words)
    assert "taichi agrees" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert "terminate" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="cupy is not installed")
def test_cupy_runs_on_a_shared_runtime_and_is_told_otherwise(tmp_path: Path) -> None:
    """Its wheels have the runtime linked into them: the message says so."""
    done = run(CUPY, tmp_path)
    assert "cupy agrees" in done.stdout or "this program's CUDA runtime is linked into it" in done.stderr, done.stderr
