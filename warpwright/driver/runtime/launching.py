"""Launches: ``<<<>>>`` (configuration pushed, popped by the stub, launched), cooperative and extended ones, attributes."""

from __future__ import annotations

from typing import Any

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import PerThread, state
from warpwright.driver.entry_points import Dim3
from warpwright.driver.functions import Function
from warpwright.driver.launches import Launch, check, gather, submit_launch, with_attributes
from warpwright.driver.multi_device import launch_on_streams
from warpwright.driver.occupancy import active_blocks, active_clusters, largest_cluster
from warpwright.driver.runtime.calls import runtime
from warpwright.driver.runtime.registration import function_of

INVALID_CONFIGURATION = 9
"""cudaErrorInvalidConfiguration."""
_configurations: PerThread[list[tuple[Any, ...]]] = PerThread(list)
"""Pushed by ``<<<>>>`` and popped by the stub that follows."""


def _pending() -> list[tuple[Any, ...]]:
    return _configurations.mine()


@entry("__cudaPushCallConfiguration")
def push(grid: Dim3, block: Dim3, shared: int, stream: int) -> int:
    _pending().append((grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream))
    return 0


@entry("__cudaPopCallConfiguration")
def pop(grid: int, block: int, shared: int, stream: int) -> int:
    if not _pending():
        return results.INVALID_VALUE
    gx, gy, gz, bx, by, bz, size, queue = _pending().pop()
    cmemory.write("3I", grid, gx, gy, gz)
    cmemory.write("3I", block, bx, by, bz)
    cmemory.put64(shared, size)
    cmemory.put64(stream, queue)
    return 0


def _launch(target: Function, grid: Dim3, block: Dim3, pointers: int, shared: int, stream: int, **more: Any) -> None:
    state().current()
    made = Launch(
        target, (grid.x, grid.y, grid.z), (block.x, block.y, block.z), shared, gather(target, pointers, 0), **more
    )
    _checked(made)
    submit_launch(made, stream)


def _checked(launch: Launch) -> None:
    try:
        check(launch)
        if launch.block[0] * launch.block[1] * launch.block[2] > state().gpu.chip.sm.max_threads_per_block:
            raise CudaError(results.INVALID_VALUE)
    except CudaError as error:
        code = INVALID_CONFIGURATION if error.code == results.INVALID_VALUE and not error.message else error.code
        raise CudaError(code, error.message) from None


@runtime("cudaLaunchKernel", "__cudaLaunchKernel")
def launch_kernel(host: int, grid: Dim3, block: Dim3, pointers: int, shared: int, stream: int) -> None:
    _launch(function_of(host), grid, block, pointers, shared, stream)


@runtime("cudaLaunchCooperativeKernel")
def launch_cooperative(host: int, grid: Dim3, block: Dim3, pointers: int, shared: int, stream: int) -> None:
    _launch(function_of(host), grid, block, pointers, shared, stream, cooperative=True)


_LAUNCH_PARAMETERS_BYTES = 56
"""Of cudaLaunchParams: kernel, grid, block, arguments, shared bytes, stream."""


@runtime("cudaLaunchCooperativeKernelMultiDevice")
def launch_multi_device(place: int, count: int, flags: int) -> None:
    cmemory.given(place)
    asked = []
    for number in range(count):
        host, gx, gy, gz, bx, by, bz, arguments, shared, stream = cmemory.read(
            "Q6IQQQ", place + _LAUNCH_PARAMETERS_BYTES * number
        )
        asked.append((host, (gx, gy, gz), (bx, by, bz), shared, stream, arguments))
    launch_on_streams(asked, flags, function_of, _checked)


def _configured(configuration: int, host: int, pointers: int) -> tuple[Launch, int]:
    """A launch by cudaLaunchConfig_t, and its stream; no arguments are read where ``pointers`` is 0."""
    gx, gy, gz, bx, by, bz, shared, stream, attributes, count = cmemory.read("6IQQQI", configuration)
    target = function_of(host)
    arguments = gather(target, pointers, 0) if pointers else b""
    made = Launch(target, (gx, gy, gz), (bx, by, bz), shared, arguments)
    return (with_attributes(made, attributes, count) if count else made), stream


@runtime("cudaLaunchKernelExC")
def launch_ex(configuration: int, host: int, pointers: int) -> None:
    state().current()
    made, stream = _configured(configuration, host, pointers)
    _checked(made)
    submit_launch(made, stream)


@runtime("cudaFuncGetAttributes")
def attributes(place: int, host: int) -> None:
    f = function_of(host)
    values = [f.attribute(n) for n in range(16)]
    cmemory.write(
        "3N7i6i",
        place,
        *(values[1], values[2], values[3]),
        *(values[0], values[4], values[5], values[6], values[7], values[8], values[9]),
        *(values[10], values[11], values[12], values[13], values[15], values[14]),
    )


@runtime("cudaFuncSetAttribute")
def set_attribute(host: int, number: int, value: int) -> None:
    function_of(host).set_attribute(number, value)


@runtime("cudaFuncSetCacheConfig", "cudaFuncSetSharedMemConfig")
def set_cache_config(host: int, value: int) -> None:
    function_of(host)


@runtime("cudaFuncGetName")
def get_name(place: int, host: int) -> None:
    cmemory.put64(place, cmemory.static_text(function_of(host).symbol))


@runtime("cudaOccupancyMaxActiveBlocksPerMultiprocessor")
def max_active(place: int, host: int, threads: int, shared: int) -> None:
    cmemory.put32(place, active_blocks(function_of(host), threads, shared))


@runtime("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
def max_active_with_flags(place: int, host: int, threads: int, shared: int, flags: int) -> None:
    cmemory.put32(place, active_blocks(function_of(host), threads, shared))


@runtime("cudaOccupancyAvailableDynamicSMemPerBlock")
def available_shared(place: int, host: int, blocks: int, threads: int) -> None:
    from warpwright.driver.occupancy import available_shared as of_function

    of_function(place, function_of(host).handle, blocks, threads)


@runtime("cudaOccupancyMaxActiveClusters")
def max_active_clusters(place: int, host: int, configuration: int) -> None:
    cmemory.put32(place, active_clusters(_configured(configuration, host, 0)[0]))


@runtime("cudaOccupancyMaxPotentialClusterSize")
def max_potential_cluster(place: int, host: int, configuration: int) -> None:
    cmemory.put32(place, largest_cluster(_configured(configuration, host, 0)[0]))
