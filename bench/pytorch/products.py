"""The libraries' matrix products beside cuBLAS on a real card, in one run: times, their ratio, and how far the results differ.

    python -m bench.pytorch.products build --to FOLDER        # compiles the kernels, where NVRTC is
    python -m bench.pytorch.products card --from FOLDER --out FILE   # on the card, with PyTorch

Operands are column-major with elements drawn from a normal distribution: A as it is or transposed, B as it is or transposed (``nn`` to ``tt``). cuBLAS is
called through PyTorch. Both are timed in turn, by events around ten products, and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.device import smi
from warpwright.libraries import library_kernels
from warpwright.libraries.cublas.product_kernels import Plan, Target, plan
from warpwright.libraries.cublas.products import Matrix, Product, Scalar
from warpwright.libraries.element_types import R_16BF, R_16F, R_32F, R_64F

TARGET = Target(arch=90, multiprocessors=132)
KINDS = {"f16": R_16F, "bf16": R_16BF, "tf32": R_32F, "f32": R_32F, "f64": R_64F}
LAYOUTS = ("nn", "tn", "nt", "tt")
SIZES = (2048, 4096, 8192)
TIMED, ROUNDS = 10, 7
_MAX_DYNAMIC_SHARED = 8


@dataclass(frozen=True)
class Case:
    """A square product."""

    kind: str
    layout: str
    size: int

    @property
    def name(self) -> str:
        return f"{self.kind} {self.layout} {self.size}"

    def product(self, a: int = 0, b: int = 0, d: int = 0) -> Product:
        """With operands at these addresses."""
        type, size = KINDS[self.kind], self.size
        ops = ["nt".index(letter) for letter in self.layout]
        return Product(
            *(size, size, size),
            Matrix(a, type, size, op=ops[0]),
            Matrix(b, type, size, op=ops[1]),
            *(Matrix(d, type, size), Matrix(d, type, size)),
            *(Scalar(1), Scalar(0)),
            R_64F if type == R_64F else R_32F,
            tf32=self.kind == "tf32",
        )


def cases(kinds: list[str], layouts: list[str], sizes: list[int]) -> Iterator[Case]:
    """All combinations."""
    for kind in kinds:
        for layout in layouts:
            for size in sizes:
                yield Case(kind, layout, size)


def cubin_name(planned: Plan) -> str:
    """The file of a plan's code: by its source, name and macros."""
    asked = json.dumps([planned.file, planned.name, sorted(planned.macros.items())])
    return f"{planned.name}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}.cubin"


def build(to: Path, chosen: list[Case]) -> None:
    """Compile every case's kernel."""
    to.mkdir(parents=True, exist_ok=True)
    for case in chosen:
        planned = plan(case.product(), TARGET)
        compiled = library_kernels.compiled(
            planned.file, "cuBLAS", {"KERNEL": planned.name, **planned.macros}, TARGET.arch
        )
        (to / cubin_name(planned)).write_bytes(compiled.cubin)


class Driver:
    """The card's driver, in the context that PyTorch made."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
            RuntimeError: its name and number of the error.
        """
        result = getattr(self.library, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: error {result}")

    def function(self, cubin: bytes, name: str, shared_bytes: int) -> ctypes.c_void_p:
        """A kernel of a cubin, which may have so much dynamic shared memory."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)
        return function

    def launch(self, function: ctypes.c_void_p, planned: Plan, stream: int) -> None:
        """Launch a plan."""
        values = [ctypes.create_string_buffer(value, len(value)) for value in planned.arguments]
        table = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        shape = (*planned.grid, planned.threads, 1, 1, planned.shared_bytes)
        self.call("cuLaunchKernel", function, *shape, ctypes.c_void_p(stream), table, None)


class Card:
    """One case after another on the card."""

    def __init__(self, folder: Path) -> None:
        import torch

        self.torch, self.folder, self.driver = torch, folder, Driver()
        torch.manual_seed(1)
        torch.cuda.init()

    def measure(self, case: Case) -> dict[str, Any]:
        """Seconds of a product by ours and by cuBLAS, and the largest difference over the largest result."""
        torch, size = self.torch, case.size
        dtype = getattr(torch, {"f16": "float16", "bf16": "bfloat16", "f64": "float64"}.get(case.kind, "float32"))
        torch.backends.cuda.matmul.allow_tf32 = case.kind == "tf32"
        # A column-major matrix is the transposed one of a row-major tensor.
        a, b = (torch.randn(size, size, dtype=dtype, device="cuda") for _ in range(2))
        ours = torch.zeros(size, size, dtype=dtype, device="cuda")
        left, right = (x.T if letter == "n" else x for x, letter in zip((a, b), case.layout, strict=True))
        planned = plan(case.product(a.data_ptr(), b.data_ptr(), ours.data_ptr()), TARGET)
        function = self.driver.function(
            (self.folder / cubin_name(planned)).read_bytes(), planned.name, planned.shared_bytes
        )
        stream = torch.cuda.current_stream().cuda_stream
        theirs = torch.matmul(right.T, left.T)
        self.driver.launch(function, planned, stream)
        torch.cuda.synchronize()
        exact = left.double() @ right.double()
        off = [float(((x.double() - exact).abs().max() / exact.abs().max()).item()) for x in (ours.T, theirs.T)]
        del exact
        # The transposed product, so that cuBLAS is asked for the same column-major result.
        runs = (
            lambda: self.driver.launch(function, planned, stream),
            lambda: torch.matmul(right.T, left.T, out=theirs),
        )
        seconds: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for found, run in zip(seconds, runs, strict=True):
                found.append(self._seconds(run))
        mine, cublas = (statistics.median(found) for found in seconds)
        flops = 2 * size**3
        return {
            "kernel": planned.name,
            "seconds": mine,
            "cublas_seconds": cublas,
            "ratio": cublas / mine,
            "tflops": flops / mine / 1e12,
            "cublas_tflops": flops / cublas / 1e12,
            "error": off[0],
            "cublas_error": off[1],
        }

    def _seconds(self, run: Any) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        begin.record()
        for _ in range(TIMED):
            run()
        end.record()
        self.torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / TIMED


def card(folder: Path, out: Path, chosen: list[Case]) -> None:
    """Measure all cases, and write them as they come."""
    bench = Card(folder)
    found: dict[str, Any] = {}
    for case in chosen:
        found[case.name] = one = bench.measure(case)
        print(
            f"{case.name:14} {one['ratio']:.2f}  {one['tflops']:.0f} of {one['cublas_tflops']:.0f} TFLOP/s  error {one['error']:.1e} ({one['cublas_error']:.1e})",
            flush=True,
        )
        about = {
            "card": smi(),
            "torch": bench.torch.__version__,
            "command": "python -m bench.pytorch.products card --from FOLDER --out FILE",
        }
        out.write_text(json.dumps({**about, "products": found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "card"))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=["nn", "tn"])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--to", type=Path, default=Path("build/products"))
    parser.add_argument("--from", dest="source", type=Path, default=Path("build/products"))
    parser.add_argument("--out", type=Path, default=Path("products.json"))
    options = parser.parse_args()
    chosen = list(cases(options.kinds, options.layouts, options.sizes))
    if options.what == "build":
        build(options.to, chosen)
    else:
        card(options.source, options.out, chosen)


if __name__ == "__main__":
    main()
