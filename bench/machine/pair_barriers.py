"""Barriers of the grids of two devices: the driver's routine and candidates for its protocol, on two cards and on the model.

``python -m bench.machine.pair_barriers --build FOLDER`` makes the cubins, ``--cubins FOLDER --out FILE`` measures on two cards, and
``warpwright run --gpu h200,h200 bench/machine/pair_barriers.py --cubins FOLDER --shapes 1x32`` measures the model, whose driver routine is Warpwright's.

The driver's routine is that of ``multi_grid_group`` (``cuLaunchCooperativeKernelMultiDevice``).  A candidate has four letters (``pair_barriers.cu``): the scope of the fences before the
first barrier (``s`` system, ``g`` GPU); who fences (``a`` all threads, ``l`` the first of a block); how the devices meet (``t`` one reports and is released, ``x`` each tells the other,
``a`` both add to a word of one of them); and the fences of the second barrier of each grid (``a``, ``l``, ``n`` none), or ``r`` where blocks wait for a released word instead.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = [(b, t) for b in (0, 1, 2, 4, 8, 16, 32) for t in (32, 64, 128, 256, 512, 1024) if b * t <= 2048]
"""Blocks per SM (0: a single block of each device) and threads per block."""
KERNELS = (
    *("sata", "satl", "satn", "satr", "saxl", "saxr", "saal", "saar", "sltl", "slxr"),
    *("gata", "gatl", "gaxl", "gaxr", "gltl", "glxr", "gaar", "glar"),
)  # fmt: skip
WORKSPACE_BYTES, CYCLES_AT = 4096, 2048
SM_COUNT = 16
"""CUdevice_attribute."""


class Pair:
    """The first two devices, each with a context, a stream, a workspace that the other reaches, and modules."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        self.contexts, self.streams, self.words, self.modules = [], [], [], []
        for number in range(count):
            device, context, stream, words = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
            self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.call("cuCtxSetCurrent", context)
            self.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
            self.call("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(WORKSPACE_BYTES))
            loaded = {}
            for path in sorted(folder.glob("*.cubin")):
                loaded[path.stem] = ctypes.c_void_p()
                self.call("cuModuleLoadData", ctypes.byref(loaded[path.stem]), ctypes.c_char_p(path.read_bytes()))
            self.modules.append(loaded)
            self.contexts.append(context)
            self.streams.append(stream)
            self.words.append(words.value)
            sms = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(sms), ctypes.c_int(SM_COUNT), device)
            self.sm_count = sms.value
        for one in range(count):
            for other in range(count):
                if one != other:
                    self.call("cuCtxSetCurrent", self.contexts[one])
                    self.call("cuCtxEnablePeerAccess", self.contexts[other], ctypes.c_uint(0))

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver.

        Raises:
            RuntimeError: for a result other than 0.
        """
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} returned {code}")

    def function(self, number: int, module: str, kernel: str) -> ctypes.c_void_p:
        """A kernel on a device, whose context becomes the current one."""
        self.call("cuCtxSetCurrent", self.contexts[number])
        found = ctypes.c_void_p()
        self.call(
            "cuModuleGetFunction", ctypes.byref(found), self.modules[number][module], ctypes.c_char_p(kernel.encode())
        )
        return found

    def cells(self, number: int, devices: int, repeats: int, of_driver: bool) -> tuple[Any, ...]:
        """The arguments of a device's kernel."""
        own, other = self.words[number], self.words[devices - 1 - number]
        cycles = ctypes.c_uint64(own + CYCLES_AT)
        if of_driver:
            return ctypes.c_uint64(own), cycles, ctypes.c_int(repeats)
        return ctypes.c_uint64(own), ctypes.c_uint64(other), cycles, ctypes.c_int(number), ctypes.c_int(repeats)

    def launch(self, kernel: str, blocks: int, threads: int, repeats: int, devices: int) -> None:
        """Launch a kernel on each device: ``driver`` by one call for all, another by one for each."""
        kept: list[Any] = []
        packed = b""
        of_driver = kernel == "driver"
        for number in range(devices):
            function = self.function(number, "driver" if of_driver else "pair", "grids" if of_driver else kernel)
            cells = self.cells(number, devices, repeats, of_driver)
            parameters = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(cell) for cell in cells])
            kept.append((function, cells, parameters))
            packed += struct.pack("<Q7I4xQQ", function.value or 0, blocks, 1, 1, threads, 1, 1, 0,
                                  self.streams[number].value or 0, ctypes.addressof(parameters))  # fmt: skip
        if of_driver:
            count = ctypes.c_uint(devices)
            self.call("cuLaunchCooperativeKernelMultiDevice", ctypes.c_char_p(packed), count, ctypes.c_uint(0))
            return
        for number, (function, _, parameters) in enumerate(kept):
            self.call("cuCtxSetCurrent", self.contexts[number])
            dims = [ctypes.c_uint(v) for v in (blocks, 1, 1, threads, 1, 1, 0)]
            self.call("cuLaunchCooperativeKernel", function, *dims, self.streams[number], parameters)

    def cycles(self, kernel: str, blocks: int, threads: int, repeats: int, devices: int) -> int:
        """Cycles of the first block of the first device around ``repeats`` barriers of ``devices`` grids; kernel ``driver`` is the driver's routine."""
        for number in range(devices):
            self.call("cuCtxSetCurrent", self.contexts[number])
            words = ctypes.c_uint64(self.words[number])
            self.call("cuMemsetD8_v2", words, ctypes.c_ubyte(0), ctypes.c_size_t(WORKSPACE_BYTES))
            self.call("cuCtxSynchronize")
        self.launch(kernel, blocks, threads, repeats, devices)
        for number in range(devices):
            self.call("cuCtxSetCurrent", self.contexts[number])
            self.call("cuStreamSynchronize", self.streams[number])
        out = np.zeros(1, np.uint32)
        self.call("cuCtxSetCurrent", self.contexts[0])
        at = ctypes.c_uint64(self.words[0] + CYCLES_AT)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), at, ctypes.c_size_t(4))
        return int(out[0])

    def barrier(
        self, kernel: str, blocks: int, threads: int, repeats: tuple[int, int], devices: int, turns: int
    ) -> float:
        """Cycles of one more barrier: the median of turns."""
        grid = blocks * self.sm_count or 1
        each = []
        for _ in range(turns):
            few, many = (self.cycles(kernel, grid, threads, count, devices) for count in repeats)
            each.append((many - few) / (repeats[1] - repeats[0]))
        return float(np.median(each))


def build(folder: Path, arch: int) -> None:
    """Make the cubins."""
    from bench.machine.barriers import driver_cubin
    from warpwright.toolchain import compile_source

    folder.mkdir(parents=True, exist_ok=True)
    kernels = Path(__file__).with_suffix(".cu").read_text()
    (folder / "pair.cubin").write_bytes(compile_source(kernels, arch, options=["-maxrregcount=32"]).cubin)
    (folder / "driver.cubin").write_bytes(driver_cubin(arch))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="make the cubins in this folder and end")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--cubins", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", default=["driver", *KERNELS], help="kernels")
    parser.add_argument("--shapes", nargs="+", help="blocks per SM x threads, such as 4x256")
    parser.add_argument("--devices", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--repeats", nargs=2, type=int, default=(8, 40))
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.arch)
        return
    pair = Pair(options.cubins)
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes] if options.shapes else SHAPES
    found: dict[str, Any] = {"shapes": shapes, "rows": {}}
    for kernel in options.only:
        for devices in options.devices if kernel == "driver" else (2,):
            try:
                row = [pair.barrier(kernel, *shape, options.repeats, devices, options.turns) for shape in shapes]
            except RuntimeError as error:
                print(kernel, devices, error, flush=True)
                continue
            found["rows"][f"{kernel} {devices}"] = row
            print(kernel, devices, " ".join(f"{value:.0f}" for value in row), flush=True)
            if options.out:
                options.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
