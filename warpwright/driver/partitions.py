"""Resources of a device and green contexts: some of its SMs for the kernels of some streams.

A green context shares memory, modules and errors with the device's primary one.  Errors, and the number of groups into
which an SM resource is split, follow an H200's driver (13.0; the calls of ``bench/stream_answers.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpwright.chips import partition
from warpwright.chips.partition import Steps, split, steps
from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Context, Device, Stream, state
from warpwright.driver.streams import Event, await_event, create_stream, record, within_priorities

_RESOURCE, _RESOURCE_BYTES = "<iBB2x84s4xIII36x", 144
"""CUdevResource: type; in the driver's bytes whether it is part of a split, its device and a bit for each SM; SMs and the steps of their number."""
_BITS_BYTES = 84
_SMS = 1
"""CU_DEV_RESOURCE_TYPE_SM."""
_APART, _FOR_CLUSTERS = 1, 2
"""CUdevSmResourceSplit_flags."""
_NO_STEPS = Steps(0, 0)
_DEFAULT_STREAM = 1
"""CU_GREEN_CTX_DEFAULT_STREAM, which is required for every green context."""
_NON_BLOCKING = 1
_MAP_HOST = 8
"""CU_CTX_MAP_HOST."""


@dataclass(frozen=True, slots=True)
class _SmResource:
    device: Device
    sms: tuple[int, ...]
    part: bool = False
    """Whether it is the result of a split, and cannot be split again."""

    def write(self, place: int, told: Steps) -> None:
        """Store it in a structure; without SMs it has no type."""
        bits = sum(1 << n for n in self.sms).to_bytes(_BITS_BYTES, "little")
        kind = _SMS if self.sms else 0
        cmemory.write(_RESOURCE, place, kind, self.part, self.device.ordinal, bits, len(self.sms), *told)


def _read(place: int) -> _SmResource:
    """The SM resource at an address.

    Raises:
        CudaError: CUDA_ERROR_INVALID_RESOURCE_TYPE.
    """
    kind, part, ordinal, bits, *_ = cmemory.read(_RESOURCE, place)
    if kind != _SMS:
        raise CudaError(results.INVALID_RESOURCE_TYPE)
    held = int.from_bytes(bits, "little")
    return _SmResource(
        state().device_of(ordinal), tuple(n for n in range(held.bit_length()) if held >> n & 1), bool(part)
    )


@dataclass(eq=False, slots=True)
class _Description:
    """The result of cuDevResourceGenerateDesc: the SMs of a future green context."""

    device: Device
    sms: tuple[int, ...]


def _of_device(device: Device) -> _SmResource:
    return _SmResource(device, tuple(range(device.gpu.chip.sm.sm_count)))


def _of_context(context: Context) -> _SmResource:
    if context.partition is None:
        return _of_device(context.device)
    return _SmResource(context.device, context.partition.sms, part=True)


def _tell(place: int, resource: _SmResource, kind: int) -> None:
    """Answer a query for a resource of a kind.

    Raises:
        CudaError: CUDA_ERROR_INVALID_RESOURCE_TYPE, for all kinds but SMs.
    """
    if kind != _SMS:
        raise CudaError(results.INVALID_RESOURCE_TYPE)
    resource.write(place, steps(resource.device.gpu.chip))


@entry("cuDeviceGetDevResource")
def of_device(device: int, place: int, kind: int) -> None:
    _tell(place, _of_device(state().device_of(device)), kind)


@entry("cuCtxGetDevResource")
def of_context(handle: int, place: int, kind: int) -> int | None:
    if not handle:
        return results.INVALID_CONTEXT
    _tell(place, _of_context(state().handles.get(Context, handle)), kind)
    return None


@entry("cuGreenCtxGetDevResource")
def of_green_context(handle: int, place: int, kind: int) -> None:
    _tell(place, _of_context(_green(handle)), kind)


@entry("cuDevSmResourceSplitByCount")
def split_by_count(groups: int, count: int, given: int, remaining: int, flags: int, least: int) -> int | None:
    """Split SMs into groups of one size; without a destination for the groups, only count them."""
    resource = _read(given)
    if (flags & _APART and flags & _FOR_CLUSTERS) or (groups and not cmemory.get32(count)):
        return results.INVALID_VALUE
    chip, apart = resource.device.gpu.chip, bool(flags & _APART)
    size = steps(chip, apart).size_of(least)
    if resource.part or least > len(resource.sms):
        return results.INVALID_RESOURCE_CONFIGURATION
    # All SMs together also form a group if their number is not a multiple.
    size = min(size, len(resource.sms))
    made, rest = split(chip, size, cmemory.get32(count) if groups else len(resource.sms), apart)
    cmemory.put32(count, len(made))
    if not groups:
        return None
    for n, sms in enumerate(made):
        _SmResource(resource.device, tuple(sms), part=True).write(groups + _RESOURCE_BYTES * n, _NO_STEPS)
    if remaining:
        _SmResource(resource.device, tuple(rest), part=True).write(remaining, _NO_STEPS)
    return None


@entry("cuDevResourceGenerateDesc")
def describe(place: int, resources: int, count: int) -> int | None:
    found = [_read(resources + _RESOURCE_BYTES * n) for n in range(count)] if resources else []
    sms = [n for one in found for n in one.sms]
    if not found or len({one.device for one in found}) > 1 or len(set(sms)) < len(sms):
        return results.INVALID_RESOURCE_CONFIGURATION
    cmemory.put64(place, state().handles.add(_Description(found[0].device, tuple(sorted(sms)))))
    return None


# --- green contexts ----------------------------------------------------------------------------------
def _green(handle: int) -> Context:
    found = state().handles.get(Context, handle)
    if found.partition is None:
        raise CudaError(results.INVALID_CONTEXT)
    return found


@entry("cuGreenCtxCreate")
def create(place: int, description: int, ordinal: int, flags: int) -> int | None:
    if flags != _DEFAULT_STREAM:
        return results.INVALID_VALUE
    s = state()
    device, wanted = s.device_of(ordinal), s.handles.get(_Description, description)
    if wanted.device is not device:
        return results.INVALID_VALUE
    primary = device.primary
    primary.users += 1
    made = Context(
        device,
        flags=_MAP_HOST,
        fault=primary.fault,
        limits=primary.limits,
        modules=primary.modules,
        allocations=primary.allocations,
        peers=primary.peers,
        storage=primary.storage,
        partition=partition(device.gpu.chip, wanted.sms),
    )
    made.handle = s.handles.add(made)
    cmemory.put64(place, made.handle)
    return None


@entry("cuGreenCtxDestroy")
def destroy(handle: int) -> None:
    from warpwright.driver.contexts import release

    s = state()
    context = _green(handle)
    context.destroyed = True
    s.handles.drop(handle)
    release(context.device.ordinal)


@entry("cuCtxFromGreenCtx")
def as_context(place: int, handle: int) -> None:
    """A green context used as a context has the same handle."""
    cmemory.put64(place, _green(handle).handle)


@entry("cuGreenCtxGetId")
def identity(handle: int, place: int) -> None:
    cmemory.put64(place, _green(handle).handle)


@entry("cuGreenCtxStreamCreate")
def new_stream(place: int, handle: int, flags: int, priority: int) -> int | None:
    if flags != _NON_BLOCKING:
        return results.INVALID_VALUE
    cmemory.put64(place, create_stream(flags, within_priorities(priority), _green(handle)))
    return None


@entry("cuStreamGetGreenCtx")
def green_context_of(handle: int, place: int) -> None:
    context = state().stream(handle).context
    cmemory.put64(place, context.handle if context is not None else 0)


def _streams(context: Context) -> Sequence[Stream]:
    """The streams of a context."""
    wanted = context if context.partition is not None else None
    return [stream for stream in context.device.streams if stream.context is wanted]


def _record(context: Context, event: int) -> None:
    """Record in an event the time at which all work given to a context so far will have ended."""
    found = state().handles.get(Event, event)
    record(found, max(_streams(context), key=lambda stream: stream.ps, default=context.device.default_stream))


def _wait(context: Context, event: int) -> None:
    """Let later work of a context wait for an event."""
    found = state().handles.get(Event, event)
    for stream in _streams(context):
        await_event(found, stream)


@entry("cuGreenCtxRecordEvent")
def record_green(handle: int, event: int) -> int | None:
    if not event:
        return results.INVALID_HANDLE
    _record(_green(handle), event)
    return None


@entry("cuCtxRecordEvent")
def record_context(handle: int, event: int) -> int | None:
    if not event:
        return results.INVALID_HANDLE
    _record(state().handles.get(Context, handle), event)
    return None


@entry("cuGreenCtxWaitEvent")
def wait_green(handle: int, event: int) -> None:
    _wait(_green(handle), event)


@entry("cuCtxWaitEvent")
def wait_context(handle: int, event: int) -> None:
    _wait(state().handles.get(Context, handle), event)
