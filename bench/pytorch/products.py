"""The libraries' matrix products beside cuBLAS on a real card, in one run: times, their ratio, and how far the results differ.

    python -m bench.pytorch.products build --to FOLDER        # compiles the kernels, where NVRTC is
    python -m bench.pytorch.products card --from FOLDER --out FILE   # on the card, with PyTorch
    python -m bench.pytorch.products table FILE…              # writes the ratios of --library-model nvidia from such files
    python -m bench.pytorch.products table FILE… --keep       # the same; cases in none of the files keep their ratios

With ``--sides 256 512 …`` every combination of these sizes is measured, in place of squares.
Operands are column-major with elements drawn from a normal distribution: A as it is or transposed, B as it is or transposed (``nn`` to ``tt``). cuBLAS is
called through PyTorch. Both are timed in turn, by events around a graph of ten products, which the host does not slow down, and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import itertools
import json
import statistics
from collections.abc import Callable, Iterator
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
TABLE = Path(library_kernels.__file__).parent / "data" / "nvidia_times.json"


@dataclass(frozen=True)
class Case:
    """A product of types, transpositions and sizes."""

    kind: str
    layout: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """``f16 nn 2048`` of a square product, ``f16 nn 1024x512x2048`` of another."""
        sizes = dict.fromkeys((self.m, self.n, self.k))
        return f"{self.kind} {self.layout} {self.m if len(sizes) == 1 else f'{self.m}x{self.n}x{self.k}'}"

    def row_major(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of the row-major tensors that hold A and B column-major."""
        transposed_a, transposed_b = (letter == "t" for letter in self.layout)
        return (
            (self.m, self.k) if transposed_a else (self.k, self.m),
            (self.k, self.n) if transposed_b else (self.n, self.k),
        )

    def product(self, a: int = 0, b: int = 0, d: int = 0) -> Product:
        """With operands at these addresses."""
        type = KINDS[self.kind]
        ops = ["nt".index(letter) for letter in self.layout]
        return Product(
            *(self.m, self.n, self.k),
            Matrix(a, type, self.k if ops[0] else self.m, op=ops[0]),
            Matrix(b, type, self.n if ops[1] else self.k, op=ops[1]),
            *(Matrix(d, type, self.m), Matrix(d, type, self.m)),
            *(Scalar(1), Scalar(0)),
            R_64F if type == R_64F else R_32F,
            tf32=self.kind == "tf32",
        )


def cases(kinds: list[str], layouts: list[str], shapes: list[tuple[int, int, int]]) -> Iterator[Case]:
    """All combinations."""
    for kind in kinds:
        for layout in layouts:
            for shape in shapes:
                yield Case(kind, layout, *shape)


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

    def __init__(self, folder: Path, rounds: int) -> None:
        import torch

        self.rounds = rounds

        self.torch, self.folder, self.driver = torch, folder, Driver()
        torch.manual_seed(1)
        torch.cuda.init()

    def measure(self, case: Case) -> dict[str, Any]:
        """Seconds of a product by ours and by cuBLAS, and the largest difference over the largest result."""
        torch = self.torch
        dtype = getattr(torch, {"f16": "float16", "bf16": "bfloat16", "f64": "float64"}.get(case.kind, "float32"))
        torch.backends.cuda.matmul.allow_tf32 = case.kind == "tf32"
        # A column-major matrix is the transposed one of a row-major tensor.
        a, b = (torch.randn(*sizes, dtype=dtype, device="cuda") for sizes in case.row_major())
        ours = torch.zeros(case.n, case.m, dtype=dtype, device="cuda")
        left, right = (x.T if letter == "n" else x for x, letter in zip((a, b), case.layout, strict=True))
        planned = plan(case.product(a.data_ptr(), b.data_ptr(), ours.data_ptr()), TARGET)
        cubin = (self.folder / cubin_name(planned)).read_bytes()
        function = self.driver.function(cubin, planned.name, planned.shared_bytes)
        theirs = torch.matmul(right.T, left.T)

        def launch() -> None:
            self.driver.launch(function, planned, torch.cuda.current_stream().cuda_stream)

        launch()
        torch.cuda.synchronize()
        exact = left.double() @ right.double()
        off = [float(((x.double() - exact).abs().max() / exact.abs().max()).item()) for x in (ours.T, theirs.T)]
        del exact
        # The transposed product, so that cuBLAS is asked for the same column-major result.
        graphs = [self._graph(run) for run in (launch, lambda: torch.matmul(right.T, left.T, out=theirs))]
        seconds: list[list[float]] = [[], []]
        for _ in range(self.rounds):
            for found, graph in zip(seconds, graphs, strict=True):
                found.append(self._seconds(graph))
        mine, cublas = (statistics.median(found) for found in seconds)
        flops = 2 * case.m * case.n * case.k
        return {
            "kernel": planned.name,
            "code": library_kernels.code_digest(cubin),
            "seconds": mine,
            "cublas_seconds": cublas,
            "ratio": cublas / mine,
            "tflops": flops / mine / 1e12,
            "cublas_tflops": flops / cublas / 1e12,
            "error": off[0],
            "cublas_error": off[1],
        }

    def _graph(self, run: Callable[[], Any]) -> Any:
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(TIMED):
                run()
        graph.replay()
        return graph

    def _seconds(self, graph: Any) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / TIMED


def card(folder: Path, out: Path, chosen: list[Case], rounds: int) -> None:
    """Measure all cases, and write them at the end and every hundred."""
    bench = Card(folder, rounds)
    found: dict[str, Any] = {}
    built = [case for case in chosen if (folder / cubin_name(plan(case.product(), TARGET))).exists()]
    if len(built) < len(chosen):
        print(f"kernels of {len(chosen) - len(built)} of {len(chosen)} cases were not built")
    chosen = built
    for number, case in enumerate(chosen, 1):
        found[case.name] = one = bench.measure(case)
        print(
            f"{case.name:14} {one['ratio']:.2f}  {one['tflops']:.0f} of {one['cublas_tflops']:.0f} TFLOP/s  error {one['error']:.1e} ({one['cublas_error']:.1e})",
            flush=True,
        )
        if number % 100 and number < len(chosen):
            continue
        about = {
            "card": smi(),
            "torch": bench.torch.__version__,
            "command": "python -m bench.pytorch.products card --from FOLDER --out FILE",
        }
        out.write_text(json.dumps({**about, "products": found}, indent=1) + "\n")


def _product_row(name: str, one: dict[str, Any]) -> list[Any]:
    kind, layout, sizes = name.split()
    shape = [int(size) for size in sizes.split("x")]
    return [kind, layout, *(shape * 3 if len(shape) == 1 else shape), 1, one["kernel"], one["code"]]


def _convolution_row(one: dict[str, Any]) -> list[Any]:
    return [one["type"], one["order"], one["result"], one["kernel"], one["code"], *one["sizes"]]


def _present_rows() -> tuple[dict[str, dict[str, list[Any]]], list[dict[str, str]]]:
    """The table's present rows by case, and the records of where they were measured."""
    present = json.loads(TABLE.read_text())["h200"]
    products = {Case(*row[:5]).name: row for row in present["products"]}
    convolutions = {f"kept {number}": row for number, row in enumerate(present["convolutions"])}
    return {"products": products, "convolutions": convolutions}, present["about"]


def table(files: list[Path], keep: bool) -> None:
    """Write the ratios of ``--library-model nvidia`` from measurements on an H200 or H100, of products and of ``bench.pytorch.convolutions``: of a case in several files, the last counts.

    With ``keep``, products in none of the files keep their rows, and so do convolutions if no file has any.
    """
    rows: dict[str, dict[str, list[Any]]] = {"products": {}, "convolutions": {}}
    about: list[dict[str, str]] = []
    if keep:
        rows, about = _present_rows()
    for file in files:
        found = json.loads(file.read_text())
        card = {"driver": found["card"]["driver_version"], "memory_clock": found["card"]["clocks.max.mem"]}
        about.append({"torch": found["torch"], **card, "command": found["command"]})
        if "convolutions" in found:
            rows["convolutions"] = {
                name: row for name, row in rows["convolutions"].items() if not name.startswith("kept ")
            }
        for name, one in found.get("products", {}).items():
            times = [round(one[of] * 1e6, 3) for of in ("seconds", "cublas_seconds")]
            rows["products"][name] = [*_product_row(name, one), *times]
        for name, one in found.get("convolutions", {}).items():
            times = [round(one[of] * 1e6, 3) for of in ("seconds", "cudnn_seconds")]
            rows["convolutions"][name] = [*_convolution_row(one), *times]
    parts = [f'"about": {json.dumps(about)}']
    for name, some in rows.items():
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in some.values()) + "\n]")
    TABLE.write_text('{"h200": {\n' + ",\n".join(parts) + "\n}}\n")
    print(f"{len(rows['products'])} products and {len(rows['convolutions'])} convolutions in {TABLE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "card", "table"))
    parser.add_argument("files", nargs="*", type=Path, help="for table")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=["nn", "tn"])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--sides", nargs="+", type=int, help="every combination of these, in place of squares")
    parser.add_argument("--kernels", default="", help="only cases whose kernel's name contains this, for example wgmma")
    parser.add_argument("--keep", action="store_true", help="for table: keep the rows of other cases")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--to", type=Path, default=Path("build/products"))
    parser.add_argument("--from", dest="source", type=Path, default=Path("build/products"))
    parser.add_argument("--out", type=Path, default=Path("products.json"))
    options = parser.parse_args()
    if options.what == "table":
        table(options.files, options.keep)
        return
    shapes = list(itertools.product(options.sides, repeat=3)) if options.sides else [(n, n, n) for n in options.sizes]
    chosen = [
        case
        for case in cases(options.kinds, options.layouts, shapes)
        if options.kernels in plan(case.product(), TARGET).name
    ]
    if options.what == "build":
        build(options.to, chosen)
    else:
        card(options.source, options.out, chosen, options.rounds)


if __name__ == "__main__":
    main()
