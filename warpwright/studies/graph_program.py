"""Graphs of kernels and the same kernels in streams, by shape: a program for ``warpwright run``, which prints microseconds as JSON.

``python graph_program.py ARCH CYCLES SHAPES``, with shapes as ``STAGESxWIDTH``: so many times a kernel, and so many that wait for it, and a last one that joins
them; width 1 is a line.  It is ``bench/machine/graphs.cu`` in Python.  Only the public driver interface is used.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from typing import Any

SOURCE = """
extern "C" __global__ void spin(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) { }
}
"""
GATE_CYCLES = 1_000_000
"""Of a kernel that runs while the host submits what is measured."""
_NON_BLOCKING, _NO_TIMING = 1, 2


class Driver:
    """Calls of the driver with 64-bit handles."""

    def __init__(self, arch: int) -> None:
        from warpwright.toolchain import compile_source

        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = self.made("cuDevicePrimaryCtxRetain", 0)
        self.call("cuCtxSetCurrent", context)
        module = self.made("cuModuleLoadData", compile_source(SOURCE, arch).cubin)
        self._spin = self.made("cuModuleGetFunction", module, b"spin")

    def call(self, name: str, *arguments: Any) -> None:
        """Make a call.

        Raises:
            RuntimeError: it fails.
        """
        given = [ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments]
        code = getattr(self._library, name)(*given)
        if code:
            raise RuntimeError(f"{name} returned {code}")

    def made(self, name: str, *arguments: Any) -> int:
        """The handle that a call stores at its first argument."""
        handle = ctypes.c_uint64()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value

    def spin(self, stream: int, cycles: int) -> None:
        """Launch the kernel."""
        held = ctypes.c_longlong(cycles)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(held))
        self.call("cuLaunchKernel", self._spin, 1, 1, 1, 32, 1, 1, 0, stream, pointers, 0)

    def between(self, first: int, last: int) -> float:
        """Microseconds between two events."""
        found = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(found), first, last)
        return 1e3 * found.value


class Shapes:
    """Streams and events of all shapes."""

    def __init__(self, driver: Driver, widest: int) -> None:
        self.driver = driver
        self.streams = [driver.made("cuStreamCreate", _NON_BLOCKING) for _ in range(widest)]
        self.forked = driver.made("cuEventCreate", _NO_TIMING)
        self.joined = [driver.made("cuEventCreate", _NO_TIMING) for _ in range(widest)]
        self.first, self.last = driver.made("cuEventCreate", 0), driver.made("cuEventCreate", 0)

    def submit(self, stages: int, width: int, cycles: int) -> None:
        """Submit a shape to the streams."""
        driver, streams = self.driver, self.streams
        for _ in range(stages):
            driver.spin(streams[0], cycles)
            if width == 1:
                continue
            driver.call("cuEventRecord", self.forked, streams[0])
            for n in range(width):
                if n:
                    driver.call("cuStreamWaitEvent", streams[n], self.forked, 0)
                driver.spin(streams[n], cycles)
                if n:
                    driver.call("cuEventRecord", self.joined[n], streams[n])
                    driver.call("cuStreamWaitEvent", streams[0], self.joined[n], 0)
        if width > 1:
            driver.spin(streams[0], cycles)

    def graph(self, stages: int, width: int, cycles: int) -> int:
        """The same as an executable graph."""
        driver = self.driver
        driver.call("cuStreamBeginCapture_v2", self.streams[0], 0)
        self.submit(stages, width, cycles)
        captured = ctypes.c_uint64()
        driver.call("cuStreamEndCapture", self.streams[0], ctypes.byref(captured))
        ready = driver.made("cuGraphInstantiateWithFlags", captured.value, 0)
        driver.call("cuGraphUpload", ready, self.streams[0])
        return ready

    def measure(self, work: Callable[[], None]) -> dict[str, float]:
        """Microseconds of the host's calls, and between events, while the device waits for the host to submit."""
        driver = self.driver
        driver.call("cuCtxSynchronize")
        driver.spin(self.streams[0], GATE_CYCLES)
        driver.call("cuEventRecord", self.first, self.streams[0])
        began = time.perf_counter()
        work()
        call = time.perf_counter() - began
        driver.call("cuEventRecord", self.last, self.streams[0])
        driver.call("cuCtxSynchronize")
        return {"call_us": 1e6 * call, "device_us": driver.between(self.first, self.last)}


def main(arch: int, cycles: int, names: list[str]) -> None:
    """Measure shapes and print them."""
    shapes = [tuple(int(part) for part in name.split("x")) for name in names]
    driver = Driver(arch)
    made = Shapes(driver, max(width for _, width in shapes))
    found = {}
    for name, (stages, width) in zip(names, shapes, strict=True):
        ready = made.graph(stages, width, cycles)

        def launch(ready: int = ready) -> None:
            driver.call("cuGraphLaunch", ready, made.streams[0])

        def submit(stages: int = stages, width: int = width) -> None:
            made.submit(stages, width, cycles)

        found[name] = {"graph": made.measure(launch), "streams": made.measure(submit)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","))
