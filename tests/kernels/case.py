"""What one corpus case is: a kernel, how to launch it, and what it must leave in memory.

A case holds everything that a launch needs (source file, kernel name, grid, block, dynamic shared memory, arguments)
and an independent statement of the result: either the expected contents of some of its device buffers, with a
tolerance, or a check for results whose order CUDA leaves open. References are computed in NumPy from the meaning of
the kernel; they never come from running it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Size: TypeAlias = Literal["small", "large"]
Array: TypeAlias = npt.NDArray[Any]
Outputs: TypeAlias = Mapping[int, Array]
Argument: TypeAlias = "Array | np.generic"

KERNELS = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class Case:
    """One launch of one kernel and what it must give.

    ``args`` are in the kernel's order: an array is a device buffer (copied in before the launch), a NumPy scalar is
    passed by value, an ``np.void`` is a structure passed by value.  ``expected`` maps an argument's index to the
    buffer's contents after the launch; values may differ by ``atol + rtol * |expected|`` (both zero: equal, where
    NaN equals NaN).  ``check`` gets every buffer after the launch, by index of argument, and raises AssertionError.
    ``device_globals`` are contents to write into the module's named global or constant variables before the launch.
    """

    name: str
    source: Path
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Argument, ...]
    shared_bytes: int = 0
    expected: Mapping[int, Array] = field(default_factory=dict)
    rtol: float = 0.0
    atol: float = 0.0
    check: Callable[[Outputs], None] | None = None
    min_arch: int = 70
    options: tuple[str, ...] = ()
    device_globals: Mapping[str, Array] = field(default_factory=dict)

    def verify(self, outputs: Outputs) -> None:
        """Compare the buffers after a launch (by index of argument) with the reference; AssertionError says where."""
        for index, want in self.expected.items():
            got = np.asarray(outputs[index])
            where = f"{self.name}: argument {index} of {self.kernel}"
            if self.rtol == 0.0 and self.atol == 0.0:
                np.testing.assert_array_equal(got, want, err_msg=where)
            else:
                np.testing.assert_allclose(got, want, rtol=self.rtol, atol=self.atol, err_msg=where)
        if self.check is not None:
            self.check(outputs)

    def run(self, module: Any) -> tuple[Any, dict[int, Array]]:
        """Launch the kernel of a compiled module (``warpwright.Module``) on copies of the arguments.

        Returns what the launch tells of itself, and the buffers after it, by index of argument.
        """
        for symbol, contents in self.device_globals.items():
            module.symbol(symbol).set(contents)
        args = [a.copy() if isinstance(a, np.ndarray) and a.ndim else a for a in self.args]
        run = module[self.kernel][self.grid, self.block, self.shared_bytes](*args)
        return run, {i: a for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.ndim}


Builder: TypeAlias = Callable[[Size, np.random.Generator], Case]


def pick(size: Size, small: int, large: int) -> int:
    """The extent that belongs to the size."""
    return small if size == "small" else large


def triple(extent: int | Sequence[int]) -> tuple[int, int, int]:
    """A grid or block extent as (x, y, z); missing dimensions are 1."""
    values = (extent,) if isinstance(extent, int) else tuple(int(v) for v in extent)
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def launch(
    source: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Argument],
    expected: Mapping[int, Array] | None = None,
    **more: Any,
) -> Case:
    """A case of ``tests/kernels/<source>``; ``more`` are further fields of `Case`.  Its name is the kernel's."""
    return Case(
        name=str(more.pop("name", kernel)),
        source=KERNELS / source,
        kernel=kernel,
        grid=triple(grid),
        block=triple(block),
        args=tuple(args),
        expected=dict(expected or {}),
        **more,
    )
