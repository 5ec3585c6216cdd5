"""One small interface to run a cubin's kernels on a real card and on the model, so that a benchmark is written once.

The real card is reached through the CUDA driver API (``libcuda.so.1``, ctypes): a cubin is loaded as it is, nothing is
compiled there. The model is ``warpwright.GPU``. Both take the same cubin bytes, so both run the same machine code.
Argument types follow the values: a `Buffer` is a 64-bit address, a NumPy scalar its own bytes.
"""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

Dim = int | tuple[int, ...]


class DeviceError(RuntimeError):
    """A call to the card's driver failed; the text names the call and the driver's own words."""


class Buffer(Protocol):
    """Device memory: its address, and copies to and from the host."""

    nbytes: int

    @property
    def address(self) -> int: ...
    def read(self, dtype: Any, count: int, offset_bytes: int = 0) -> np.ndarray: ...
    def write(self, data: np.ndarray, offset_bytes: int = 0) -> None: ...
    def free(self) -> None: ...


class Module(Protocol):
    """A loaded cubin."""

    def launch(
        self, kernel: str, grid: Dim, block: Dim, args: Sequence[Any], shared_bytes: int = 0, cluster: int = 1
    ) -> float:
        """Run one launch, with clusters of the given number of blocks, to its end; returns seconds (events on the card, simulated time on the model)."""


class Device(Protocol):
    """The interface of a GPU that benchmarks use."""

    kind: str

    def describe(self) -> dict[str, Any]: ...
    def load(self, cubin: bytes) -> Module: ...
    def alloc(self, nbytes: int) -> Buffer: ...
    def upload(self, data: np.ndarray) -> Buffer: ...


def _triple(dim: Dim) -> tuple[int, int, int]:
    values = (dim,) if isinstance(dim, int) else tuple(dim)
    padded = (*values, 1, 1, 1)
    return padded[0], padded[1], padded[2]


# ---------------------------------------------------------------------------------------------------- the real card

_ATTRIBUTES = {
    "sm_count": 16, "clock_khz": 13, "memory_clock_khz": 36, "memory_bus_bits": 37, "l2_bytes": 38,
    "compute_major": 75, "compute_minor": 76, "shared_per_sm_bytes": 81, "registers_per_sm": 82,
    "shared_per_block_optin_bytes": 97, "max_threads_per_sm": 39, "max_blocks_per_sm": 106,
}  # fmt: skip
_MAX_DYNAMIC_SHARED = 8
_CARVEOUT = 9
_NON_PORTABLE_CLUSTERS = 14
_CLUSTER_DIMENSION = 4
"""CUlaunchAttributeID."""


class CardBuffer:
    """Memory of the real card."""

    def __init__(self, card: Card, nbytes: int) -> None:
        self.card, self.nbytes = card, nbytes
        pointer = ctypes.c_uint64()
        card.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(nbytes))
        self._address = pointer.value

    @property
    def address(self) -> int:
        return self._address

    def read(self, dtype: Any, count: int, offset_bytes: int = 0) -> np.ndarray:
        out = np.empty(count, dtype)
        self.card.call(
            "cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(self._address + offset_bytes),
            ctypes.c_size_t(out.nbytes),
        )  # fmt: skip
        return out

    def write(self, data: np.ndarray, offset_bytes: int = 0) -> None:
        flat = np.ascontiguousarray(data)
        self.card.call(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(self._address + offset_bytes), ctypes.c_void_p(flat.ctypes.data),
            ctypes.c_size_t(flat.nbytes),
        )  # fmt: skip

    def zero(self) -> None:
        self.card.call("cuMemsetD8_v2", ctypes.c_uint64(self._address), ctypes.c_ubyte(0), ctypes.c_size_t(self.nbytes))

    def free(self) -> None:
        if self._address:
            self.card.call("cuMemFree_v2", ctypes.c_uint64(self._address))
            self._address = 0


class CardModule:
    """A cubin loaded on the real card."""

    instructions: int | None = None
    """Not known without a profiler."""

    def __init__(self, card: Card, cubin: bytes) -> None:
        self.card = card
        self.handle = ctypes.c_void_p()
        card.call("cuModuleLoadData", ctypes.byref(self.handle), ctypes.c_char_p(cubin))
        self.functions: dict[str, ctypes.c_void_p] = {}
        self.shared_set: dict[str, int] = {}

    def function(self, kernel: str) -> ctypes.c_void_p:
        if kernel not in self.functions:
            handle = ctypes.c_void_p()
            self.card.call("cuModuleGetFunction", ctypes.byref(handle), self.handle, ctypes.c_char_p(kernel.encode()))
            self.functions[kernel] = handle
        return self.functions[kernel]

    def symbol(self, name: str) -> tuple[int, int]:
        """Address and size in bytes of a global or constant of the module."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.card.call(
            "cuModuleGetGlobal_v2",
            ctypes.byref(address),
            ctypes.byref(size),
            self.handle,
            ctypes.c_char_p(name.encode()),
        )
        return address.value, size.value

    def unload(self) -> None:
        """Give the module back; its globals' values go with it."""
        self.card.call("cuModuleUnload", self.handle)
        self.functions.clear()

    def write_symbol(self, name: str, data: np.ndarray) -> None:
        address, size = self.symbol(name)
        flat = np.ascontiguousarray(data)
        self.card.call(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(flat.ctypes.data),
            ctypes.c_size_t(min(flat.nbytes, size)),
        )  # fmt: skip

    def carveout(self, kernel: str, percent: int) -> None:
        """Prefer `percent` of the SM's memory as shared memory (0: as much L1 as the chip gives)."""
        self.card.call("cuFuncSetAttribute", self.function(kernel), ctypes.c_int(_CARVEOUT), ctypes.c_int(percent))

    def enqueue(
        self, kernel: str, grid: Dim, block: Dim, args: Sequence[Any], shared_bytes: int = 0, cluster: int = 1
    ) -> None:
        """Launch without waiting."""
        function = self.function(kernel)
        if shared_bytes > 48 * 1024 and self.shared_set.get(kernel) != shared_bytes:
            self.card.call(
                "cuFuncSetAttribute", function, ctypes.c_int(_MAX_DYNAMIC_SHARED), ctypes.c_int(shared_bytes)
            )
            self.shared_set[kernel] = shared_bytes
        cells: list[Any] = []
        for value in args:
            if isinstance(value, CardBuffer):
                cells.append(ctypes.c_uint64(value.address))
            elif isinstance(value, np.generic):
                cells.append(ctypes.create_string_buffer(value.tobytes(), value.nbytes))
            else:
                raise TypeError(f"{kernel}: argument {value!r} is neither a Buffer nor a NumPy scalar")
        pointers = (ctypes.c_void_p * max(1, len(cells)))(*[ctypes.addressof(cell) for cell in cells])
        if cluster > 1:
            self.card.call(
                "cuFuncSetAttribute", function, ctypes.c_int(_NON_PORTABLE_CLUSTERS), ctypes.c_int(cluster > 8)
            )
            attribute = ctypes.create_string_buffer(struct.pack("<i4x3I52x", _CLUSTER_DIMENSION, cluster, 1, 1), 72)
            packed = struct.pack(
                "<7I4xQQI4x", *_triple(grid), *_triple(block), shared_bytes, 0, ctypes.addressof(attribute), 1
            )
            self.card.call("cuLaunchKernelEx", ctypes.c_char_p(packed), function, pointers, ctypes.c_void_p(0))
            return
        dims = [ctypes.c_uint(v) for v in (*_triple(grid), *_triple(block))]
        self.card.call(
            "cuLaunchKernel", function, *dims, ctypes.c_uint(shared_bytes), ctypes.c_void_p(0), pointers,
            ctypes.c_void_p(0),
        )  # fmt: skip

    def launch(
        self, kernel: str, grid: Dim, block: Dim, args: Sequence[Any], shared_bytes: int = 0, cluster: int = 1
    ) -> float:
        return self.launches(kernel, grid, block, args, shared_bytes, 1, cluster)

    def launches(
        self, kernel: str, grid: Dim, block: Dim, args: Sequence[Any], shared_bytes: int, count: int, cluster: int = 1
    ) -> float:
        """Seconds between events around `count` launches back to back."""
        card = self.card
        card.call("cuEventRecord", card.start, ctypes.c_void_p(0))
        for _ in range(count):
            self.enqueue(kernel, grid, block, args, shared_bytes, cluster)
        card.call("cuEventRecord", card.stop, ctypes.c_void_p(0))
        card.call("cuEventSynchronize", card.stop)
        milliseconds = ctypes.c_float()
        card.call("cuEventElapsedTime", ctypes.byref(milliseconds), card.start, card.stop)
        return milliseconds.value * 1e-3


class Card:
    """The first CUDA device of this machine."""

    kind = "card"

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self.lib = ctypes.CDLL(library)
        self.call("cuInit", ctypes.c_uint(0))
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), ctypes.c_int(0))
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.start, self.stop = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(self.start), ctypes.c_uint(0))
        self.call("cuEventCreate", ctypes.byref(self.stop), ctypes.c_uint(0))

    def call(self, name: str, *args: Any) -> None:
        """Call a driver function; a result other than 0 becomes a `DeviceError` that names it."""
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
            raise DeviceError(f"{name} failed with {code}: {(text.value or b'unknown error').decode()}")

    def describe(self) -> dict[str, Any]:
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, ctypes.c_int(128), self.device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        facts: dict[str, Any] = {"device": name.value.decode(), "cuda_driver": version.value}
        for key, number in _ATTRIBUTES.items():
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), self.device)
            facts[key] = value.value
        facts["nvidia_smi"] = smi()
        return facts

    def load(self, cubin: bytes) -> CardModule:
        return CardModule(self, cubin)

    def alloc(self, nbytes: int) -> CardBuffer:
        return CardBuffer(self, nbytes)

    def upload(self, data: np.ndarray) -> CardBuffer:
        buffer = CardBuffer(self, data.nbytes)
        buffer.write(data)
        return buffer


def smi() -> dict[str, str]:
    """Driver, clocks, temperature and power as nvidia-smi reports them now; empty where the tool is missing."""
    fields = (
        "driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu,power.draw,ecc.mode.current"
    )
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        line = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        return {"error": str(error)}
    return dict(zip(fields.split(","), [part.strip() for part in line.split(",")], strict=False))


# --------------------------------------------------------------------------------------------------------- the model


class ModelBuffer:
    """Memory of the simulated device: a device array of bytes, which the host sees as a NumPy view."""

    def __init__(self, gpu: Any, data: np.ndarray) -> None:
        self.array = gpu.array(np.ascontiguousarray(data).view(np.uint8).reshape(-1))
        self.nbytes = data.nbytes

    @property
    def address(self) -> int:
        return int(self.array.device_address())

    def read(self, dtype: Any, count: int, offset_bytes: int = 0) -> np.ndarray:
        size = count * np.dtype(dtype).itemsize
        out: np.ndarray = self.array.numpy()[offset_bytes : offset_bytes + size].copy().view(dtype)
        return out

    def write(self, data: np.ndarray, offset_bytes: int = 0) -> None:
        flat = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        self.array.numpy()[offset_bytes : offset_bytes + flat.size] = flat

    def zero(self) -> None:
        self.array.numpy()[:] = 0

    def free(self) -> None:
        self.array.free()


class ModelModule:
    """A cubin on the simulated device."""

    instructions: int | None = None
    """Warp instructions of the last launch."""
    cycles, active_cycles = 0, 0
    """Cycles of the last launch: elapsed, and of the SM that was active longest."""

    def __init__(self, gpu: Any, cubin: bytes) -> None:
        self.module = gpu.compile(cubin)

    def write_symbol(self, name: str, data: np.ndarray) -> None:
        self.module.symbol(name).set(data)

    def launch(
        self, kernel: str, grid: Dim, block: Dim, args: Sequence[Any], shared_bytes: int = 0, cluster: int = 1
    ) -> float:
        values = [value.array if isinstance(value, ModelBuffer) else value for value in args]
        shape = (grid, block, shared_bytes) if shared_bytes else (grid, block)
        loaded = self.module[kernel]
        run = (loaded.clustered(cluster) if cluster > 1 else loaded)[shape](*values)
        self.instructions, self.cycles = run.instructions, run.cycles
        self.active_cycles = int(run.timing.sm["active_cycles"].max())
        return float(run.seconds)

    def launches(
        self, kernel: str, grid: Dim, block: Dim, args: Sequence[Any], shared_bytes: int, count: int, cluster: int = 1
    ) -> float:
        return sum(self.launch(kernel, grid, block, args, shared_bytes, cluster) for _ in range(count))


class Model:
    """A simulated GPU of the named chip."""

    kind = "model"

    def __init__(self, chip: str, **how: Any) -> None:
        import warpwright

        self.gpu = warpwright.GPU(chip, **how)
        self.chip = chip

    def describe(self) -> dict[str, Any]:
        return {"device": f"warpwright {self.chip}", "sm_count": self.gpu.chip.sm.sm_count}

    def load(self, cubin: bytes) -> ModelModule:
        return ModelModule(self.gpu, cubin)

    def alloc(self, nbytes: int) -> ModelBuffer:
        return ModelBuffer(self.gpu, np.zeros(nbytes, np.uint8))

    def upload(self, data: np.ndarray) -> ModelBuffer:
        return ModelBuffer(self.gpu, data)


def open_device(kind: str, chip: str = "h200") -> Card | Model:
    """The real card (`card`) or the model of `chip` (`model`)."""
    if kind == "card":
        return Card()
    if kind == "model":
        return Model(chip)
    raise ValueError(f"device {kind!r} is unknown: say 'card' or 'model'")
