"""``--library-model nvidia``: which ratio a product has, what a launch's time becomes, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import warpwright as ww
from warpwright.cli import app
from warpwright.libraries.cublas import measured_products
from warpwright.libraries.cublas.product_kernels import Target, measured_as, plan
from warpwright.libraries.cublas.products import BIAS, RELU, Matrix, Product, Scalar
from warpwright.libraries.cudnn import measured_convolutions
from warpwright.libraries.cudnn.convolutions import FORWARD, Geometry, Operand, class_of
from warpwright.libraries.cudnn.convolutions import plan as plan_convolution
from warpwright.libraries.cudnn.handles import Tensor
from warpwright.libraries.element_types import R_16BF, R_32F
from warpwright.libraries.library_kernels import code_digest
from warpwright.library_times import LibraryTime, measured_times, unmeasured
from warpwright.toolchain import compile_source
from warpwright.tools.launch_tables import launch_columns


def product(m: int, n: int, k: int, type: int = R_16BF, ops: tuple[int, int] = (1, 0), batch: int = 1) -> Product:
    a = Matrix(0, type, k if ops[0] else m, m * k, ops[0])
    b = Matrix(0, type, n if ops[1] else k, k * n, ops[1])
    d = Matrix(0, type, m, m * n)
    return Product(m, n, k, a, b, d, d, Scalar(1), Scalar(0), R_32F, batch)


def time_of(p: Product) -> LibraryTime:
    return measured_products.time_of(p, "code", "h200")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two products of one machine code, one of another."""
    rows = [
        ["bf16", "tn", 2048, 2048, 2048, 1, "kernel", "code", 30.0, 27.0],
        ["bf16", "tn", 4096, 4096, 2048, 1, "kernel", "code", 100.0, 75.0],
        ["bf16", "tn", 256, 256, 256, 1, "kernel", "another", 5.0, 4.0],
    ]
    monkeypatch.setattr(measured_products, "measured_times", lambda: {"h200": {"products": rows}})
    measured_products._by_class.cache_clear()


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    measured_products._by_class.cache_clear()
    measured_convolutions._by_class.cache_clear()


def tensor(sizes: list[int], order: str, type: int = measured_convolutions.HALF) -> Tensor:
    """Without gaps, in an order of memory."""
    _, c, h, w = sizes
    return Tensor(
        type=type, sizes=sizes, strides=[c * h * w, 1, w * c, c] if order == "nhwc" else [c * h * w, h * w, w, 1]
    )


def convolution_time(channels: int, side: int, order: str = "nchw", dilation: int = 1, type: int = 2) -> LibraryTime:
    """Of a convolution of eight images with filters of 3 x 3."""
    x, w, y = [8, channels, side, side], [channels, channels, 3, 3], [8, channels, side, side]
    tensors = tensor(x, order, type), tensor(w, order, type), tensor(y, order, type)
    g = Geometry([dilation] * 2, [1, 1], [dilation] * 2, groups=1)
    a, b, c = (Operand(one, 0) for one in tensors)
    name = plan_convolution(FORWARD, (a, b, c), g, (1.0, 0.0)).name
    return measured_convolutions.time_of(class_of(FORWARD, tensors, g), name, "h200")


def test_a_convolution_has_the_ratio_of_the_nearest_measured_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = "warpwright_convolution_forward_1x3x3_stride_1x1x1"
    rows = [
        ["f16", "nchw", "forward", "kernel", kernel, 8192, 64, 64, 90.0, 9.0],
        ["f16", "nchw", "forward", "kernel", kernel, 2048, 128, 128, 80.0, 16.0],
    ]
    monkeypatch.setattr(measured_convolutions, "measured_times", lambda: {"h200": {"convolutions": rows}})
    measured_convolutions._by_class.cache_clear()
    assert convolution_time(64, 32) == LibraryTime("cuDNN", 0.1, "f16 nchw forward, 64 to 64 channels of 8192")
    assert convolution_time(100, 20).ratio == 0.2
    for other in (
        convolution_time(64, 128),
        convolution_time(64, 32, order="nhwc"),
        convolution_time(64, 32, dilation=2),
        convolution_time(64, 32, type=measured_convolutions.BFLOAT16),
        convolution_time(64, 32, type=0),
    ):
        assert other == LibraryTime("cuDNN")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("sizes", "ratio", "measured"),
    [((2048, 2048, 2048), 0.9, "2048x2048x2048"), ((2304, 2048, 3000), 0.9, "2048x2048x2048"), ((4096, 3584, 2048), 0.75, "4096x4096x2048")],
)  # fmt: skip
def test_a_product_has_the_ratio_of_the_nearest_measured_shape(
    sizes: tuple[int, int, int], ratio: float, measured: str
) -> None:
    found = time_of(product(*sizes))
    assert found == LibraryTime("cuBLAS", ratio, f"bf16 tn {measured}")
    assert str(found) == f"× {ratio:.2f} (cuBLAS bf16 tn {measured})"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    "other",
    [
        product(16384, 2048, 2048),
        product(2048, 2048, 512),
        product(2048, 2048, 2048, ops=(0, 0)),
        product(2048, 2048, 2048, type=R_32F),
        product(2048, 2048, 2048, batch=4),
        product(256, 256, 256),
    ],
    ids=["far in m", "far in k", "transposition", "type", "batch", "other code"],
)
def test_a_product_of_no_measured_class_has_no_ratio(other: Product) -> None:
    assert time_of(other).ratio is None
    assert str(time_of(other)) == "no ratio measured (cuBLAS)"


def test_a_bias_an_activation_and_c_do_not_change_which_kernel_counts() -> None:
    target = Target(arch=90, multiprocessors=132)
    plain = product(2048, 2048, 2048)
    more = replace(plain, flags=BIAS | RELU, bias=1 << 20, beta=Scalar(1))
    assert plan(more, target).macros != plan(plain, target).macros
    assert plan(measured_as(more), target).macros == plan(plain, target).macros


def test_the_measurements_are_of_kernels_that_are_planned() -> None:
    """Each row is a product of the libraries, with plausible times."""
    found = measured_times()["h200"]["products"]
    assert len(found) >= 15
    for kind, layout, m, n, k, batch, kernel, code, own_us, nvidia_us in found:
        assert kernel.startswith("warpwright_"), kernel
        assert len(bytes.fromhex(code)) == 4
        assert batch == 1
        assert 0.05 < nvidia_us / own_us < 5, (kind, layout, m, n, k)


def test_chips_without_measurements_are_named() -> None:
    assert unmeasured(["h200", "h200"]) == ""
    assert unmeasured(["h200", "a100"]) == (
        "no times of NVIDIA's libraries were measured on a100, only on h200: omit --library-model"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--library-model", "amd"), "--library-model amd is not known: nvidia"),
        (("--library-model", "nvidia", "--timing", "off"), "--library-model scales times: omit --timing off"),
        (("--library-model", "nvidia", "--gpu", "v100"), "--library-model nvidia: no times of NVIDIA's libraries were measured on v100"),
    ],
)  # fmt: skip
def test_misuse_is_refused_before_the_program_starts(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit(3)\n")
    result = CliRunner().invoke(app, ["run", *words, str(program)])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


_PROGRAM = """
import ctypes
import numpy as np
import warpwright.libraries.cublas.measured_products as measured

class AnyCode:
    def get(self, key, missing):
        return [((64, 64, 64, 1), 0.4)] if key[:2] == ("f32", "nn") else missing

measured._by_class = lambda chip: AnyCode()
cuda, blas = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.13")
P, U = (lambda x: x.ctypes.data_as(ctypes.c_void_p)), ctypes.c_uint64
context, handle, place = (np.zeros(1, np.uint64) for _ in range(3))
assert cuda.cuInit(U(0)) == 0 and cuda.cuDevicePrimaryCtxRetain(P(context), U(0)) == 0
assert cuda.cuCtxSetCurrent(U(int(context[0]))) == 0 and cuda.cuMemAlloc_v2(P(place), U(1 << 16)) == 0
assert blas.cublasCreate_v2(P(handle)) == 0
one, zero, at = np.ones(1, np.float32), np.zeros(1, np.float32), U(int(place[0]))
for n in (64, 16):
    size = U(n)
    assert blas.cublasSgemm_v2(U(int(handle[0])), U(0), U(0), size, size, size, P(one), at, size, at, size, P(zero), at, size) == 0
assert cuda.cuCtxSynchronize() == 0
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_a_launch_takes_the_scaled_time_and_says_so(tmp_path: Path) -> None:
    program, launches, page = (tmp_path / name for name in ("product.py", "launches.json", "page.html"))
    program.write_text(_PROGRAM)
    asked = ["--gpu", "h200", "--library-model", "nvidia", "--json", str(launches), "--report", str(page)]
    command = [sys.executable, "-m", "warpwright", "run", *asked, str(program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-2000:]
    scaled, other = json.loads(launches.read_text())
    own_seconds = [row["cycles"] / (row["sm_clock_mhz"] * 1e6) for row in (scaled, other)]
    assert scaled["seconds"] == pytest.approx(0.4 * own_seconds[0])
    assert (scaled["library"], scaled["library_time_ratio"]) == ("cuBLAS", 0.4)
    assert scaled["library_measured"] == "f32 nn 64x64x64"
    assert other["seconds"] == pytest.approx(own_seconds[1])
    assert other["library_time_ratio"] is None
    said = "1 of 2 launches from libraries have NVIDIA's times by measured ratios (--library-model nvidia); 1 (cuBLAS) keep their own: no ratio measured"
    assert said in " ".join(run.stdout.split())
    html = page.read_text()
    assert said.replace("'", "&#x27;") in html
    assert "× 0.40 (cuBLAS f32 nn 64x64x64)" in html
    assert "no ratio measured (cuBLAS)" in html


def test_the_table_of_launches_shows_the_ratio() -> None:
    module = ww.GPU("h200").compile('extern "C" __global__ void nothing() {}')
    run = module["nothing"][1, 32]()
    seconds = run.seconds
    run.library = LibraryTime("cuBLAS", 0.5, "f32 nn 64x64x64")
    assert run.seconds == 0.5 * seconds
    columns = {column.heading: column.cells for column in launch_columns([run])}
    assert columns["library"] == ["× 0.50"]
    run.library = None
    assert "library" not in {column.heading for column in launch_columns([run])}


def test_a_digest_is_of_the_machine_code_alone() -> None:
    """Line tables name the folder of the sources, which differs between installations."""
    source = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= FACTOR; }'
    one, moved, other = (
        code_digest(compile_source(source, 90, defines={"FACTOR": factor}, name=name).cubin)
        for factor, name in ((2, "a.cu"), (2, "/another/folder/b.cu"), (3, "a.cu"))
    )
    assert one == moved != other
