"""What a process sees of its virtual function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.errors import ArgumentError
from warpwright.vgpu.registers import Channel, GuestError

Shape = int | Sequence[int]


@dataclass(eq=False, slots=True)
class GuestArray:
    """An array in the function's part of the card's memory."""

    number: int
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    _bar1: npt.NDArray[np.uint8]
    _base: int

    def numpy(self) -> npt.NDArray[Any]:
        """The array through BAR 1: reads and writes reach the card's memory."""
        size = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        first = self.address - self._base
        return self._bar1[first : first + size].view(self.dtype).reshape(self.shape)

    def get(self) -> npt.NDArray[Any]:
        """A copy."""
        return self.numpy().copy()


@dataclass(frozen=True, slots=True)
class GuestRun:
    """A kernel that has run: its own time, and its times on the card's clock."""

    kernel: str
    cycles: int
    seconds: float
    begin_seconds: float
    end_seconds: float


class GuestKernel:
    """A kernel of a module: ``kernel[grid, block](arguments)`` submits it."""

    def __init__(self, function: VirtualFunction, module: int, name: str) -> None:
        self._function, self._module, self.name = function, module, name

    def __getitem__(self, shape: tuple[Any, Any]) -> GuestLaunch:
        grid, block = shape
        return GuestLaunch(self._function, self._module, self.name, _sizes(grid), _sizes(block))


@dataclass(frozen=True, slots=True)
class GuestLaunch:
    """A kernel with its grid."""

    function: VirtualFunction
    module: int
    kernel: str
    grid: list[int]
    block: list[int]

    def __call__(self, *arguments: Any) -> None:
        """Submit it; it runs by the time :meth:`VirtualFunction.wait` returns."""
        self.function.submit(
            {
                "do": "launch",
                "module": self.module,
                "kernel": self.kernel,
                "grid": self.grid,
                "block": self.block,
                "arguments": [_argument(one) for one in arguments],
            }
        )


class GuestModule:
    """A compiled module."""

    def __init__(self, function: VirtualFunction, number: int) -> None:
        self._function, self._number = function, number

    def __getitem__(self, name: str) -> GuestKernel:
        return GuestKernel(self._function, self._number, name)


class VirtualFunction:
    """A virtual function, as its process uses it."""

    def __init__(self, number: int, profile: str, channel: Channel, bar1: npt.NDArray[np.uint8], base: int) -> None:
        self.number = number
        self.profile = profile
        self.bar0 = channel.registers
        self.bar1 = bar1
        """The function's part of the card's memory, in bytes."""
        self._channel, self._base = channel, base

    @property
    def seconds(self) -> float:
        """The card's time, from the registers."""
        return self.bar0.ns * 1e-9

    def compile(self, source: str) -> GuestModule:
        """Compile CUDA C++.

        Raises:
            GuestError: the compiler refuses it.
        """
        return GuestModule(self, self._ask({"do": "compile", "source": source})["module"])

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32) -> GuestArray:
        """An array in the function's memory.

        Raises:
            GuestError: the function's part of the memory is full.
        """
        sizes, kind = tuple(_sizes(shape)), np.dtype(dtype)
        made = self._ask({"do": "allocate", "shape": sizes, "dtype": kind.str})
        return GuestArray(made["array"], made["address"], sizes, kind, self.bar1, self._base)

    def zeros(self, shape: Shape, dtype: npt.DTypeLike = np.float32) -> GuestArray:
        """An array of zeros."""
        made = self.empty(shape, dtype)
        made.numpy()[...] = 0
        return made

    def array(self, values: npt.ArrayLike) -> GuestArray:
        """A copy of an array in the function's memory."""
        held = np.ascontiguousarray(values)
        made = self.empty(held.shape, held.dtype)
        made.numpy()[...] = held
        return made

    def free(self, array: GuestArray) -> None:
        """Free an array."""
        self._ask({"do": "free", "array": array.number})

    def submit(self, command: dict[str, Any]) -> None:
        """Put a command into the ring and ring the doorbell."""
        self._channel.commands.put(command)
        self._channel.ring_doorbell()

    def wait(self) -> list[GuestRun]:
        """Wait until all submitted kernels have run; returns their times.

        Raises:
            GuestError: a kernel has failed, with its report.
        """
        return [GuestRun(**one) for one in self._ask({"do": "wait"})["runs"]]

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        self.submit(command)
        answer = self._channel.await_answer()
        if "error" in answer:
            raise GuestError(answer["error"])
        return answer


def _sizes(shape: Any) -> list[int]:
    return [int(one) for one in (shape if isinstance(shape, Sequence) else [shape])]


def _argument(value: Any) -> list[Any]:
    """An argument of a kernel as the ring carries it."""
    if isinstance(value, GuestArray):
        return ["array", value.number]
    if isinstance(value, np.generic):
        return [value.dtype.str, value.item()]
    if isinstance(value, bool | int | float):
        return ["number", value]
    raise ArgumentError(f"{value!r} is no argument of a kernel: give arrays of the function and numbers")
