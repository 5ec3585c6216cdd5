"""The libraries' convolutions beside cuDNN on a real card, in one run: times and how far the results differ.

    python -m bench.pytorch.convolutions build --to FOLDER           # compiles the kernels, where NVRTC is
    python -m bench.pytorch.convolutions card --from FOLDER --out FILE    # on the card, with PyTorch

Two-dimensional convolutions of the sizes of residual networks, forward and both gradients, in both orders in memory. cuDNN is called through PyTorch with its
heuristics' choice of algorithm, and its time includes whatever it converts. Both are timed as in ``bench.pytorch.products``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.device import smi
from bench.pytorch.products import TARGET, Card, cubin_name
from warpwright.libraries import library_kernels
from warpwright.libraries.cublas.product_kernels import Plan
from warpwright.libraries.cudnn.convolutions import FORWARD, Geometry, Operand, plan
from warpwright.libraries.cudnn.handles import Tensor
from warpwright.libraries.cudnn.measured_convolutions import BFLOAT16, HALF, RESULTS

KINDS = {"f16": ("float16", HALF), "bf16": ("bfloat16", BFLOAT16)}
ORDERS = ("nchw", "nhwc")
LAYERS = (
    # Channels in and out, height and width of the input, filter, stride.
    *((64, 64, 56, 1, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 64, 32, 3, 1)),
    *((128, 128, 56, 3, 2), (128, 128, 28, 3, 1), (128, 512, 28, 1, 1), (512, 128, 28, 1, 1), (256, 512, 56, 1, 2)),
    *((256, 256, 28, 3, 2), (256, 256, 14, 3, 1), (256, 1024, 14, 1, 1), (1024, 256, 14, 1, 1)),
    *((512, 512, 14, 3, 2), (512, 512, 7, 3, 1), (512, 2048, 7, 1, 1), (2048, 512, 7, 1, 1)),
)
IMAGES = (8, 32)


@dataclass(frozen=True)
class Case:
    """One product of a convolution."""

    kind: str
    order: str
    mode: int
    images: int
    in_channels: int
    out_channels: int
    side: int
    filter: int
    stride: int

    @property
    def name(self) -> str:
        sizes = f"{self.images}x{self.in_channels}x{self.side}x{self.side}"
        how = f"{self.filter}x{self.filter} stride {self.stride}"
        return f"{self.kind} {self.order} {RESULTS[self.mode]}, {sizes} to {self.out_channels}, {how}"

    @property
    def padding(self) -> int:
        return self.filter // 2

    def shapes(self) -> tuple[list[int], list[int], list[int]]:
        """Sizes of input, filter and output."""
        out = (self.side + 2 * self.padding - self.filter) // self.stride + 1
        return (
            [self.images, self.in_channels, self.side, self.side],
            [self.out_channels, self.in_channels, self.filter, self.filter],
            [self.images, self.out_channels, out, out],
        )

    def plan(self, addresses: tuple[int, int, int] = (0, 0, 0)) -> Plan:
        """With tensors at these addresses."""
        type = KINDS[self.kind][1]
        x, w, y = (
            Operand(Tensor(type=type, sizes=sizes, strides=_strides(sizes, self.order)), address)
            for sizes, address in zip(self.shapes(), addresses, strict=True)
        )
        both = [[n, n] for n in (self.padding, self.stride, 1)]
        return plan(self.mode, (x, w, y), Geometry(*both, groups=1), (1.0, 0.0))


def _strides(sizes: list[int], order: str) -> list[int]:
    _, channels, height, width = sizes
    if order == "nchw":
        return [channels * height * width, height * width, width, 1]
    return [channels * height * width, 1, width * channels, channels]


def cases() -> Iterator[Case]:
    """All combinations."""
    for kind in KINDS:
        for order in ORDERS:
            for mode in range(len(RESULTS)):
                for images in IMAGES:
                    for in_channels, out_channels, *rest in LAYERS:
                        yield Case(kind, order, mode, images, in_channels, out_channels, *rest)


def build(to: Path) -> None:
    """Compile every case's kernel."""
    to.mkdir(parents=True, exist_ok=True)
    for planned in {cubin_name(p): p for p in (case.plan() for case in cases())}.values():
        macros = {"KERNEL": planned.name, **planned.macros}
        compiled = library_kernels.compiled(planned.file, "cuDNN", macros, TARGET.arch)
        (to / cubin_name(planned)).write_bytes(compiled.cubin)


class ConvolutionCard(Card):
    """One convolution after another on the card."""

    def convolve(self, case: Case) -> dict[str, Any]:
        """Seconds by ours and by cuDNN, and the largest difference over the largest result."""
        torch = self.torch
        dtype = getattr(torch, KINDS[case.kind][0])
        memory = torch.channels_last if case.order == "nhwc" else torch.contiguous_format
        tensors = [torch.randn(*sizes, dtype=dtype, device="cuda").to(memory_format=memory) for sizes in case.shapes()]
        x, w, y = tensors
        ours = torch.zeros_like((y, x, w)[case.mode])
        own = [*tensors]
        own[(2, 0, 1)[case.mode]] = ours
        planned = case.plan(tuple(t.data_ptr() for t in own))
        cubin = (self.folder / cubin_name(planned)).read_bytes()
        function = self.driver.function(cubin, planned.name, planned.shared_bytes)
        theirs = self._cudnn(case, x, w, y)

        def launch() -> None:
            self.driver.launch(function, planned, torch.cuda.current_stream().cuda_stream)

        launch()
        expected = theirs()
        torch.cuda.synchronize()
        off = ((ours.double() - expected.double()).abs().max() / expected.double().abs().max()).item()
        seconds: list[list[float]] = [[], []]
        graphs = [self._graph(run) for run in (launch, theirs)]
        for _ in range(self.rounds):
            for found, graph in zip(seconds, graphs, strict=True):
                found.append(self._seconds(graph))
        mine, cudnn = (statistics.median(found) for found in seconds)
        return {
            **{
                "kernel": planned.name,
                "code": library_kernels.code_digest(cubin),
                "type": case.kind,
                "order": case.order,
                "result": RESULTS[case.mode],
            },
            "sizes": [case.images * case.side**2, case.in_channels, case.out_channels],
            **{"seconds": mine, "cudnn_seconds": cudnn, "ratio": cudnn / mine, "difference": off},
        }

    def _cudnn(self, case: Case, x: Any, w: Any, y: Any) -> Callable[[], Any]:
        torch, pair = self.torch, [case.padding, case.padding]
        steps = [case.stride, case.stride]
        if case.mode == FORWARD:
            return lambda: torch.nn.functional.conv2d(x, w, stride=steps, padding=pair)
        mask = [case.mode == 1, case.mode == 2, False]
        rest = (None, steps, pair, [1, 1], False, [0, 0], 1, mask)
        return lambda: torch.ops.aten.convolution_backward(y, x, w, *rest)[case.mode - 1]


def card(folder: Path, out: Path, rounds: int) -> None:
    """Measure all cases, and write them at the end and every fifty."""
    bench = ConvolutionCard(folder, rounds)
    found: dict[str, Any] = {}
    chosen = list(cases())
    for number, case in enumerate(chosen, 1):
        found[case.name] = one = bench.convolve(case)
        print(f"{case.name}: {one['ratio']:.2f}, difference {one['difference']:.1e}", flush=True)
        if number % 50 and number < len(chosen):
            continue
        about = {"card": smi(), "torch": bench.torch.__version__, "cudnn": bench.torch.backends.cudnn.version()}
        command = "python -m bench.pytorch.convolutions card --from FOLDER --out FILE"
        out.write_text(json.dumps({**about, "command": command, "convolutions": found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "card"))
    parser.add_argument("--to", type=Path, default=Path("build/convolutions"))
    parser.add_argument("--from", dest="source", type=Path, default=Path("build/convolutions"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("convolutions.json"))
    options = parser.parse_args()
    if options.what == "build":
        build(options.to)
    else:
        card(options.source, options.out, options.rounds)


if __name__ == "__main__":
    main()
