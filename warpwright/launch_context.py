"""What a launch needs while it runs: the structure that every warp reads, and the services, textures and copies that its kernel uses."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from warpwright.engine.abi import LAUNCH
from warpwright.engine.allocation import Allocation
from warpwright.engine.bulk_native import BulkCopies
from warpwright.engine.child_launches import DeviceLaunches
from warpwright.engine.constant_bank0 import (
    is_cooperative,
    place_graph,
    place_parameters,
    place_workspace,
    reads_parameters_by_address,
)
from warpwright.engine.geometry import check_cooperative
from warpwright.engine.kernels import copies_in_bulk
from warpwright.engine.launch import GRID_WORKSPACE_BYTES, NOT_COOPERATIVE, LaunchContext, lacks_grid_barrier
from warpwright.engine.services import LaunchServices, emit, heap_of
from warpwright.engine.textures.launch_textures import LaunchTextures, uses_textures
from warpwright.errors import AssertionFailedError, TrapError
from warpwright.isa.services import LAUNCHES

if TYPE_CHECKING:
    from warpwright.kernel import Launcher


@contextmanager
def assembled(
    launcher: Launcher, parameters: bytes | bytearray, cooperative: bool | None, *, says: bool = True
) -> Iterator[tuple[LaunchContext, DeviceLaunches | None]]:
    """A launch with everything that it needs while it runs: its context, and the kernels that it may launch.

    Raises:
        LaunchError: a cooperative grid does not fit the chip.
        ExecutionError: what the launch raises, with what the context knows about it.
    """
    kernel, geometry = launcher.kernel, launcher.geometry
    gpu, program, memory = kernel.gpu, kernel._loaded.program, kernel.gpu.memory
    workspace: Allocation | None = None
    window: Allocation | None = None
    launches: DeviceLaunches | None = None
    synchronises = is_cooperative(program) and cooperative is not False
    if synchronises or cooperative:
        check_cooperative(geometry, launcher.resident, launcher.chip, kernel.name)
    if synchronises:
        workspace = memory.allocate(GRID_WORKSPACE_BYTES, f"grid barrier of {kernel.name}")
    try:
        if "malloc" in program.services:
            # Its heap must be among the allocations that the launch sees.
            heap_of(memory)
        if LAUNCHES in program.services:
            launches = DeviceLaunches(memory, lambda address: _kernel_at(launcher, address))
        context, window = launch_context(launcher, parameters, workspace)
        copies = _provide(launcher, context, launches)
        context.is_cooperative = synchronises
        try:
            yield context, launches
        except TrapError as error:
            if context.services is not None and context.services.assertions:
                raise AssertionFailedError("\n".join(context.services.assertions)) from None
            if lacks_grid_barrier(context):
                raise TrapError(f"{error}\n  {NOT_COOPERATIVE}") from None
            raise
        finally:
            if context.services is not None and says:
                emit(context.services, gpu.on_output or _print)
        for provided in (context.services, context.textures, copies):
            if provided is not None and provided.failure is not None:
                raise provided.failure
    finally:
        for allocation in (workspace, window):
            if allocation is not None:
                memory.free(allocation)
        if launches is not None:
            launches.release()


def _provide(launcher: Launcher, context: LaunchContext, launches: DeviceLaunches | None) -> BulkCopies | None:
    """Give a launch the services, textures and bulk copies that its kernel uses; the last of them."""
    gpu, loaded = launcher.kernel.gpu, launcher.kernel._loaded
    if loaded.program.services:
        context.services = LaunchServices(context, launches)
        function = context.services.native()
        context.words[LAUNCH.slot("service")] = ctypes.cast(function, ctypes.c_void_p).value or 0
        context.keep.append(function)
    if uses_textures(loaded.program):
        context.textures = LaunchTextures(context)
        if gpu.engine != "interpreter":
            context.textures.provide(context)
    if not copies_in_bulk(loaded):
        return None
    copies = BulkCopies(context)
    copier = copies.native()
    context.words[LAUNCH.slot("bulk")] = ctypes.cast(copier, ctypes.c_void_p).value or 0
    context.keep.append(copier)
    return copies


def launch_context(
    launcher: Launcher, parameters: bytes | bytearray, workspace: Allocation | None = None
) -> tuple[LaunchContext, Allocation | None]:
    """Return the LAUNCH structure of a launch, and the memory of its parameters if the kernel reads them by address.

    Args:
        workspace: memory of the grid's barrier, if the kernel has one.
    """
    kernel = launcher.kernel
    gpu, loaded = kernel.gpu, kernel._loaded
    program, memory = loaded.program, gpu.memory
    kernel._loaded_module.prepare(loaded)
    constants = kernel._loaded_module.constants
    common, template = launcher.prepared(constants.address if constants is not None else 0, len(parameters))
    bank0 = bytearray(common)
    bank0[program.parameter_base_bytes : program.parameter_base_bytes + len(parameters)] = parameters
    if workspace is not None:
        place_workspace(program, bank0, workspace.address)
    place_graph(program, bank0, memory)
    window: Allocation | None = None
    if reads_parameters_by_address(program):
        window = memory.allocate(len(bank0), f"parameters of {kernel.name}")
        place_parameters(program, bank0, window.address)
        memory.view(window.address, len(bank0))[...] = bank0
    context = template.context(bank0)
    context.window, context.set_aside_bytes = launcher.window, gpu.set_aside_bytes
    context.grid_barrier = workspace.address if workspace is not None else 0
    context.passing = tuple(one.address for one in (workspace, window) if one is not None)
    return context, window


def _kernel_at(launcher: Launcher, address: int) -> tuple[str, int]:
    """Symbol and bytes of parameters of a kernel that another launches."""
    symbol = launcher.kernel._loaded.kernels_at[address]
    record = launcher.kernel._loaded_module.compiled.kernels[symbol]
    return symbol, max((p.offset_bytes + p.size_bytes for p in record.parameters), default=0)


def _print(text: bytes) -> None:
    sys.stdout.write(text.decode(errors="replace"))
    sys.stdout.flush()
