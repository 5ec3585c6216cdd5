"""Modules, kernels and launchers: ``module[name]``, ``kernel[grid, block]`` and the launch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from warpwright.arrays import Symbol
from warpwright.chips import Partition
from warpwright.errors import ExecutionError, KernelNotFoundError, LaunchError, UnsupportedError, WarpwrightError
from warpwright.session import session
from warpwright.tracebacks import without_own_frames

if TYPE_CHECKING:
    from warpwright.api import GPU
    from warpwright.engine.access_policy import AccessWindow
    from warpwright.engine.launch import LaunchTemplate
    from warpwright.engine.module import LoadedModule
    from warpwright.engine.ptx_module import PtxModule
    from warpwright.run import Progress, Run

MOST_LAUNCHERS = 64
"""Maximum number of configurations that a kernel keeps."""


class Module:
    """Compiled code on a GPU: its kernels and global variables by name."""

    def __init__(self, gpu: GPU, loaded: LoadedModule | PtxModule) -> None:
        self.gpu = gpu
        self._loaded = loaded
        self._kernels: dict[str, Kernel] = {}

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, sorted."""
        return self._loaded.kernel_names()

    @property
    def ptx(self) -> str | None:
        """PTX text, if the module was made from CUDA C++ or PTX."""
        return self._loaded.compiled.ptx

    @property
    def cubin(self) -> bytes:
        """The machine code as an ELF file."""
        return self._loaded.compiled.cubin

    def machine_code(self, name: str) -> bytes:
        """The machine words of one kernel, as this GPU runs them.

        Raises:
            KernelNotFoundError: there is no such kernel; the message lists the kernels.
            UnsupportedError: the kernel has no machine code of its own here; ``cubin`` holds the module's.
        """
        from warpwright.engine.machine_code_module import MachineCodeModule

        kernel = self._loaded.find(name)
        if not isinstance(self._loaded, MachineCodeModule):
            raise UnsupportedError(f"{self._loaded.compiled.name}: the code of its kernels is in .cubin")
        self._loaded.load(kernel)
        return self._loaded.machine_code[kernel.name]

    @property
    def warnings(self) -> list[str]:
        """The compiler's warnings."""
        return [str(w) for w in self._loaded.compiled.warnings]

    def __getitem__(self, name: str) -> Kernel:
        """The kernel called ``name``.

        Raises:
            KernelNotFoundError: lists the kernels there are.
        """
        symbol = self._loaded.find(name).name
        if symbol not in self._kernels:
            self._kernels[symbol] = Kernel(self, symbol)
        return self._kernels[symbol]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self._loaded.find(name)
        except KernelNotFoundError:
            return False
        return True

    def symbol(self, name: str) -> Symbol:
        """The global or ``__constant__`` variable called ``name``: ``.set(values)``, ``.get(dtype)``.

        Raises:
            KernelNotFoundError: there is no such variable; the message lists the variables.
        """
        return Symbol(self.gpu.memory, self._loaded.place(name), name)

    def __repr__(self) -> str:
        return f"<module {self._loaded.compiled.name} for {self.gpu.name}: {', '.join(self.kernels) or 'no kernels'}>"


def _is_simple(configuration: Any) -> bool:
    """Whether a launch's configuration consists only of int and tuples of int, so that equality identifies it."""
    if type(configuration) is not tuple or not 2 <= len(configuration) <= 3:
        return False
    for part in configuration:
        kind = type(part)
        if kind is not int and (kind is not tuple or any(type(extent) is not int for extent in part)):
            return False
    return True


class Kernel:
    """A kernel; ``kernel[grid, block](arguments)`` launches it."""

    def __init__(self, module: Module, symbol: str) -> None:
        from warpwright.engine.arguments import describe_parameters

        self.module = module
        self.gpu = module.gpu
        loaded = module._loaded
        self._loaded_module = loaded
        self._loaded = loaded.load(loaded.compiled.kernels[symbol])
        self.name = self._loaded.kernel.plain_name
        self.parameters = describe_parameters(self._loaded.program, loaded.compiled.source, loaded.compiled.ptx)
        self._launchers: dict[Any, Launcher] = {}
        """By grid, block and dynamic shared memory: checking them takes as long as an empty launch."""

    @property
    def registers(self) -> int:
        """Number of registers per thread."""
        return self._loaded.program.registers

    @property
    def shared_bytes(self) -> int:
        """Static shared memory per block, in bytes."""
        return self._loaded.program.shared_static_bytes - self._loaded.kernel.shared_reserved_bytes

    @property
    def local_bytes(self) -> int:
        """Local memory (stack) per thread, in bytes."""
        return self._loaded.program.local_bytes_per_thread

    def __getitem__(self, configuration: Any) -> Launcher:
        """``kernel[grid, block]``, ``kernel[grid, block, dynamic shared bytes]`` or with a stream as the last item.

        Grid and block are an int or up to three of them.  Launches run one after the other, in the order they
        are made, whatever their stream.

        Raises:
            LaunchError: when the configuration is not of that form or does not fit the chip.
        """
        simple = _is_simple(configuration)
        known = self._launchers.get(configuration) if simple else None
        if known is not None:
            return known
        made = Launcher(self, *self._configured(configuration))
        if simple:
            if len(self._launchers) >= MOST_LAUNCHERS:
                self._launchers.clear()
            self._launchers[configuration] = made
        return made

    def _configured(self, configuration: Any) -> tuple[Any, Any, Any]:
        """Grid, block, dynamic shared bytes."""
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(parts) <= 4:
            raise LaunchError(
                f"{self.name}[...] takes grid and block, then optionally dynamic shared bytes and a stream, "
                f"not {len(parts)} value{'' if len(parts) == 1 else 's'}"
            )
        return parts[0], parts[1], parts[2] if len(parts) > 2 else 0

    def clustered(self, cluster: int | Sequence[int]) -> ClusteredKernel:
        """The kernel launched in clusters of blocks: ``kernel.clustered((2, 1, 1))[grid, block](…)``.

        Args:
            cluster: blocks per axis, which replace those of ``__cluster_dims__``.
        """
        from warpwright.engine.geometry import as_dim3

        return ClusteredKernel(self, as_dim3(cluster, "cluster"))

    def __call__(self, *arguments: Any) -> Run:
        raise LaunchError(f"give {self.name} a grid and a block: {self.name}[grid, block](...)")

    def __repr__(self) -> str:
        takes = ", ".join(f"{p.declared or p.wanted} {p.name}".strip().replace(" * ", " *") for p in self.parameters)
        return f"<kernel {self.name}({takes}), {self.registers} registers>"


class ClusteredKernel:
    """A kernel with the shape of its clusters; ``[grid, block]`` is that of a :class:`Kernel`."""

    def __init__(self, kernel: Kernel, cluster: tuple[int, int, int]) -> None:
        self.kernel = kernel
        self.cluster = cluster

    def __getitem__(self, configuration: Any) -> Launcher:
        """A launcher, as :meth:`Kernel.__getitem__` makes it.

        Raises:
            LaunchError: also when the clusters do not divide the grid or do not fit the chip.
        """
        return Launcher(self.kernel, *self.kernel._configured(configuration), self.cluster)


class Launcher:
    """A kernel with its grid and block, ready to be called.

    Args:
        partition: the SMs that run its blocks; the default is all SMs.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Any,
        block: Any,
        shared: Any,
        cluster: tuple[int, int, int] | None = None,
        partition: Partition | None = None,
    ) -> None:
        from warpwright.engine.geometry import Geometry, as_dim3, check_geometry

        self.kernel = kernel
        self.partition = partition
        self.chip = kernel.gpu.chip if partition is None else partition.chip
        try:
            dynamic = int(shared)
        except (TypeError, ValueError):
            raise LaunchError(f"{kernel.name}: dynamic shared memory is a number of bytes, not {shared!r}") from None
        self.geometry = Geometry(
            as_dim3(grid, "grid"),
            as_dim3(block, "block"),
            dynamic,
            kernel._loaded.kernel.shared_reserved_bytes,
            cluster or kernel._loaded.kernel.cluster,
            kernel._loaded.program.lanes,
        )
        self.resident = check_geometry(kernel._loaded.program, self.geometry, self.chip, kernel.name)
        self.window: AccessWindow | None = None
        self._prepared: tuple[tuple[int, int], bytes, LaunchTemplate] | None = None

    def with_window(self, window: AccessWindow | None) -> Launcher:
        """The same launch with an access-policy window: ``kernel[grid, block].with_window(ww.AccessWindow(...))(...)``."""
        from warpwright.engine.access_policy import AccessWindow

        if window is not None and not isinstance(window, AccessWindow):
            raise TypeError(f"with_window() takes a ww.AccessWindow or None, not {window!r}")
        made = copy(self)
        made.window = window
        return made

    def bound(self, arguments: Sequence[Any]) -> tuple[Launcher, Sequence[Any]]:
        """The launcher for a launch's arguments, and the arguments to pack: images of OpenCL C decide what a kernel's fetches do."""
        kernel = self.kernel
        loaded, words = kernel._loaded_module.bound(kernel._loaded, arguments, self.geometry.dynamic_shared_bytes)
        if loaded is kernel._loaded:
            return self, words
        made, made.kernel = copy(self), copy(kernel)
        made.kernel._loaded, made.kernel._launchers = loaded, {}
        made._prepared = None
        made.__dict__.pop("metrics", None)
        return made, words

    def prepared(self, constant_window: int, parameter_bytes: int) -> tuple[bytes, LaunchTemplate]:
        """Return what launches share: constant bank 0 without arguments, and the launch template. The first launch builds them.

        Args:
            constant_window: device address of bank 3.
            parameter_bytes: size of the arguments in bytes.
        """
        key = constant_window, parameter_bytes
        known = self._prepared
        if known is None or known[0] != key:
            from warpwright.engine.constant_bank0 import constant_bank0
            from warpwright.engine.launch import LaunchTemplate

            loaded, gpu = self.kernel._loaded, self.kernel.gpu
            sm_count = gpu.chip.sm.sm_count
            sms = self.partition.sms if self.partition is not None else None
            bank0 = constant_bank0(
                *(loaded.program, self.geometry, bytes(parameter_bytes)),
                constant_window=constant_window,
                sm_count=sm_count,
            )
            template = LaunchTemplate(loaded.program, self.geometry, gpu.memory, loaded.banks, sm_count, sms)
            known = self._prepared = key, bytes(bank0), template
        return known[1], known[2]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metrics that are known before a launch runs, by Nsight Compute's names."""
        geometry, program = self.geometry, self.kernel._loaded.program
        threads = geometry.blocks * geometry.threads_per_block
        return {
            "launch__block_size": geometry.threads_per_block,
            "launch__grid_size": geometry.blocks,
            "launch__registers_per_thread": program.registers,
            "launch__shared_mem_per_block_static": self.kernel.shared_bytes,
            "launch__shared_mem_per_block_dynamic": geometry.dynamic_shared_bytes,
            "launch__thread_count": threads,
            "launch__waves_per_multiprocessor": geometry.blocks / (self.resident.blocks_per_sm * self.chip.sm.sm_count),
            "sm__maximum_warps_per_active_cycle_pct": 100.0 * self.resident.fraction,
        }

    def __repr__(self) -> str:
        shape, shared = self.geometry, self.geometry.dynamic_shared_bytes
        dynamic = f", {shared:,} bytes of dynamic shared memory" if shared else ""
        return f"<launcher of {self.kernel.name}, grid {shape.grid}, block {shape.block}{dynamic}: call it with the arguments>"

    def progress_line(self) -> Callable[[Progress], None] | None:
        """The display of a long launch's progress: a bar on a terminal, a line every few seconds elsewhere."""
        from warpwright.tools.progress import ProgressLine, log

        return ProgressLine() if sys.stderr.isatty() else log

    def __call__(self, *arguments: Any) -> Run:
        """Run the kernel; arguments are described at :func:`warpwright.engine.arguments.pack`."""
        from warpwright.run_launch import launch

        gpu = self.kernel.gpu
        try:
            gpu.check_alive(self.kernel.name)
            run = launch(self, arguments)
        except (WarpwrightError, KeyboardInterrupt) as error:
            if isinstance(error, ExecutionError):
                gpu.launch_failed(error)
            raise without_own_frames(error) from error.__cause__
        gpu.launches.append(run)
        if session.on_launch is not None:
            session.on_launch(run)
        return run
