"""Contexts: primary and other contexts, each thread's stack of contexts, limits, and the state after a failed kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from warpwright.driver import cmemory, printf_buffer, results
from warpwright.driver.calls import entry
from warpwright.driver.capture_rules import forbid_any
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Context, Device, state
from warpwright.driver.functions import BANK_SIZES, CACHE_CONFIGURATIONS
from warpwright.driver.work_order import host_waits_for

_LIMITS = {0: 1024, 1: 8650752, 2: 8 << 20, 4: 2048, 5: 64, 7: 0, 8: 0}
"""Values by CUlimit, of an H200: stack size, printf buffer, heap of device malloc, pending launches by kernels, L2
granularity, then shared memory of a block, which can only be read."""
_STACK, _MAX_SHARED, _SHARED = 0, 7, 8
_SET_ASIDE = 6
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE, which belongs to the device."""
_NO_LIMITS = (3, 9)
_GRAIN = {0: (16, 16), 1: (512 << 10, 1), 2: (4 << 20, 1), 4: (32, 1)}
"""Minimum value, and granularity."""
_MOST_STACK_BYTES = 512 << 10
"""Local memory of a thread, of which the stack is a part."""
_FLAGS, _WAYS_TO_WAIT, _WAYS = 0xFF, 7, (0, 1, 2, 4)
"""CU_CTX_*: how the host waits, then mapped memory, local memory, dumps."""


@entry("cuDevicePrimaryCtxRetain")
def retain(place: int, device: int) -> None:
    primary = state().device_of(device).primary
    primary.users += 1
    cmemory.put64(place, primary.handle)


@entry("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2")
def release(device: int) -> int | None:
    primary = state().device_of(device).primary
    if not primary.users:
        return results.INVALID_CONTEXT
    primary.users -= 1
    if not primary.users:
        empty(primary)
    return None


@entry("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2")
def reset(device: int) -> None:
    empty(state().device_of(device).primary)


@entry("cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2")
def set_primary_flags(device: int, flags: int) -> None:
    state().device_of(device).primary.flags = checked_flags(flags)


@entry("cuDevicePrimaryCtxGetState")
def primary_state(device: int, flags: int, active: int) -> None:
    primary = state().device_of(device).primary
    cmemory.put32(flags, primary.flags)
    cmemory.put32(active, int(primary.users > 0))


def checked_flags(flags: int) -> int:
    """Check flags of a context, which may select at most one way to wait.

    Raises:
        CudaError: for other flags.
    """
    if flags & ~_FLAGS or flags & _WAYS_TO_WAIT not in _WAYS:
        raise CudaError(results.INVALID_VALUE)
    return flags


def empty(context: Context) -> None:
    """Free everything that belongs to a context, and clear its error."""
    printf_buffer.flush()
    from warpwright.driver.graph_memory import withdraw_all

    withdraw_all(context)
    for allocation in list(context.allocations.values()):
        if not allocation.freed:
            context.device.gpu.memory.free(allocation)
    context.allocations.clear()
    for module in list(context.modules):
        module.unload()
    context.modules.clear()
    for peer in list(context.peers):
        _close(context, peer)
    context.sticky = 0
    context.limits.clear()


def _create(place: int, flags: int, device: int) -> None:
    s = state()
    context = Context(s.device_of(device), checked_flags(flags))
    context.handle = s.handles.add(context)
    s.stack.append(context)
    cmemory.put64(place, context.handle)


@entry("cuCtxCreate_v2")
def create(place: int, flags: int, device: int) -> None:
    _create(place, flags, device)


@entry("cuCtxCreate_v3")
def create_3(place: int, affinity: int, count: int, flags: int, device: int) -> None:
    _create(place, flags, device)


@entry("cuCtxCreate_v4")
def create_4(place: int, parameters: int, flags: int, device: int) -> None:
    _create(place, flags, device)


@entry("cuCtxDestroy", "cuCtxDestroy_v2", "cuCtxDetach")
def destroy(handle: int) -> None:
    s = state()
    context = s.handles.get(Context, handle)
    if context.primary or context.partition is not None:
        raise CudaError(results.INVALID_CONTEXT)
    empty(context)
    if s.stack and s.stack[-1] is context:
        s.stack.pop()
    s.handles.drop(handle)


@entry("cuCtxPushCurrent", "cuCtxPushCurrent_v2")
def push(handle: int) -> None:
    state().check_process()
    state().stack.append(state().handles.get(Context, handle))


@entry("cuCtxPopCurrent", "cuCtxPopCurrent_v2")
def pop(place: int) -> int | None:
    state().check_process()
    if not state().stack:
        return results.INVALID_CONTEXT
    cmemory.put64(place, state().stack.pop().handle)
    return None


@entry("cuCtxSetCurrent")
def set_current(handle: int) -> None:
    state().check_process()
    stack = state().stack
    context = state().handles.get(Context, handle) if handle else None
    if stack:
        stack.pop()
    if context is not None:
        stack.append(context)


@entry("cuCtxGetCurrent")
def get_current(place: int) -> None:
    state().check_process()
    stack = state().stack
    cmemory.put64(place, stack[-1].handle if stack else 0)


@entry("cuCtxGetDevice")
def get_device(place: int) -> int | None:
    state().check_process()
    if not state().stack:
        return results.INVALID_CONTEXT
    cmemory.put32(place, state().device.ordinal)
    return None


@entry("cuCtxGetDevice_v2")
def get_device_2(place: int, handle: int) -> None:
    state().check_process()
    cmemory.put32(place, (state().handles.get(Context, handle).device if handle else state().device).ordinal)


@entry("cuCtxGetFlags")
def get_flags(place: int) -> int | None:
    state().check_process()
    if not state().stack:
        return results.INVALID_CONTEXT
    cmemory.put32(place, state().stack[-1].flags)
    return None


@entry("cuCtxSetFlags")
def set_flags(flags: int) -> None:
    state().current().flags = checked_flags(flags)


@entry("cuCtxGetId")
def get_id(handle: int, place: int) -> None:
    context = state().handles.get(Context, handle) if handle else state().current()
    cmemory.put64(place, context.handle)


@entry("cuCtxGetApiVersion")
def api_version(handle: int, place: int) -> None:
    if handle:
        state().handles.get(Context, handle)
    else:
        state().current()
    cmemory.put32(place, 3020)


@entry("cuCtxSynchronize", "cuCtxSynchronize_v2")
def synchronize(*_: int) -> None:
    printf_buffer.flush()
    device = state().current().device
    forbid_any(device)
    device.default_stream.ps = max(x.ps for x in device.streams)
    state().host_waits(device.default_stream.ps)
    host_waits_for(device.streams)


@entry("cuCtxGetLimit")
def get_limit(place: int, limit: int) -> int | None:
    context = state().current()
    _check_limit(limit)
    gpu = context.device.gpu
    if limit == _MAX_SHARED:
        cmemory.put64(place, gpu.chip.shared.shared_max_per_block_kib << 10)
    elif limit == _SET_ASIDE:
        cmemory.put64(place, gpu.set_aside_bytes)
    else:
        cmemory.put64(place, context.limits.get(limit, _LIMITS[limit]))
    return None


def _check_limit(limit: int) -> None:
    """Distinguish limits that the device does not have from those that do not exist."""
    if limit not in _LIMITS and limit != _SET_ASIDE:
        raise CudaError(results.UNSUPPORTED_LIMIT if limit in _NO_LIMITS else results.INVALID_VALUE)


@entry("cuCtxSetLimit")
def set_limit(limit: int, value: int) -> int | None:
    context = state().current()
    _check_limit(limit)
    if limit in (_MAX_SHARED, _SHARED):
        return results.NOT_PERMITTED
    if limit == _SET_ASIDE:
        l2, gpu = context.device.gpu.chip.l2, context.device.gpu
        if value > l2.l2_set_aside_max_kib << 10:
            return results.INVALID_VALUE
        gpu.set_aside(value)
        return None
    least, unit = _GRAIN.get(limit, (0, 1))
    value = max(-(-value // unit) * unit, least)
    if limit == _STACK and value > _MOST_STACK_BYTES:
        return results.INVALID_VALUE
    context.limits[limit] = value
    return None


@entry("cuCtxResetPersistingL2Cache")
def reset_persisting() -> None:
    synchronize()
    state().current().device.gpu.reset_persisting_l2()


@entry("cuCtxGetCacheConfig")
def cache_config(place: int) -> None:
    cmemory.put32(place, state().current().cache_config)


@entry("cuCtxSetCacheConfig")
def set_cache_config(value: int) -> int | None:
    context = state().current()
    if value not in CACHE_CONFIGURATIONS:
        return results.INVALID_VALUE
    context.cache_config = value
    return None


@entry("cuCtxGetSharedMemConfig")
def shared_config(place: int) -> None:
    # Since Kepler banks are four bytes wide, whatever was requested.
    state().current()
    cmemory.put32(place, 1)


@entry("cuCtxSetSharedMemConfig")
def set_shared_config(value: int) -> int | None:
    state().current()
    return None if value in BANK_SIZES else results.INVALID_VALUE


@entry("cuCtxGetStreamPriorityRange")
def priorities(least: int, greatest: int) -> None:
    state().current()
    cmemory.put32(least, 0)
    cmemory.put32(greatest, -5 & 0xFFFF_FFFF)


def _peer_of(handle: int) -> Device:
    if not handle:
        raise CudaError(results.INVALID_CONTEXT)
    return state().handles.get(Context, handle).device


@entry("cuCtxEnablePeerAccess")
def enable_peers(handle: int, flags: int) -> int | None:
    """Let kernels of the current context access the memory of another context's device, including later allocations."""
    context, peer = state().current(), _peer_of(handle)
    if flags:
        return results.INVALID_VALUE
    if not state().can_access(context.device, peer):
        return results.PEER_ACCESS_UNSUPPORTED
    if peer in context.peers:
        return results.PEER_ACCESS_ALREADY_ENABLED
    _open(context, peer)
    return None


def _open(context: Context, peer: Device) -> None:
    if not state().reaches(context.device, peer):
        peer.gpu.memory.open_to(context.device.gpu.memory)
    context.peers.add(peer)


@contextmanager
def peers_open(contexts: Sequence[Context]) -> Iterator[None]:
    """Temporarily let kernels of these contexts access each other's devices, even if the program has not requested
    it."""
    opened = []
    for context in contexts:
        for other in contexts:
            if other.device is not context.device and other.device not in context.peers:
                _open(context, other.device)
                opened.append((context, other.device))
    try:
        yield
    finally:
        for context, device in opened:
            _close(context, device)


@entry("cuCtxDisablePeerAccess")
def disable_peers(handle: int) -> int | None:
    context, peer = state().current(), _peer_of(handle)
    if peer not in context.peers:
        return results.PEER_ACCESS_NOT_ENABLED
    _close(context, peer)
    return None


def _close(context: Context, peer: Device) -> None:
    context.peers.remove(peer)
    if not state().reaches(context.device, peer):
        peer.gpu.memory.close_to(context.device.gpu.memory)


@entry("cuCtxGetExecAffinity")
def affinity(*_: Any) -> int:
    return results.NOT_SUPPORTED
