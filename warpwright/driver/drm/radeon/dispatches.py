"""Launches compute programs: reads from the registers which program, and what is bound to it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from warpwright.driver.drm.radeon.buffer_objects import Buffer, Buffers
from warpwright.driver.drm.radeon.dispatch_state import (
    TEXTURE,
    ComputeState,
    ImageLevel,
    LinearImage,
    buffer_resource,
    levels_of,
    texture_resource,
)
from warpwright.engine.abi import HERE, HOST
from warpwright.engine.allocation import Allocation
from warpwright.engine.host_mappings import UNIFIED_BASE
from warpwright.errors import UnsupportedError
from warpwright.isa.r600.bindings import (
    IMAGE_RECORD_BYTES,
    LINE_BYTES,
    RECORD_BYTES,
    Bindings,
    BoundImage,
    Resource,
    Target,
)
from warpwright.isa.r600.decode import decode_program
from warpwright.isa.r600.decoded_program import Listing
from warpwright.isa.r600.element_formats import element_bytes, is_known
from warpwright.isa.r600.fields import UndefinedWord
from warpwright.isa.r600.meaning_share import ALL_BYTES, SHARE_BYTES
from warpwright.isa.r600.tables_control import Role
from warpwright.isa.r600.tables_fetch import FetchKind

if TYPE_CHECKING:
    from warpwright.api import GPU
    from warpwright.kernel import Kernel

FIRST_RETURN, RETURN_COUNT = 160, 8
"""Resources of what atomics return, one for each random access target: Mesa's numbers."""
KNOWN_AT = UNIFIED_BASE + (1 << 37)
"""Where caches and channels take virtual address 0 to be."""


class Dispatcher:
    """Runs the programs of one device.

    Args:
        chip: its name.
        buffers: its memory.
    """

    def __init__(self, chip: str, buffers: Buffers) -> None:
        self.chip, self.buffers = chip, buffers
        self.launches = 0
        self._shown: dict[int, Allocation] = {}
        self._kernels: dict[tuple[bytes, str], Kernel] = {}

    @cached_property
    def gpu(self) -> GPU:
        """The GPU that runs the programs, made for the first one."""
        from warpwright.api import GPU

        made = GPU(self.chip, device=0)
        for buffer in self.buffers.by_handle.values():
            if buffer.address:
                self._map(made, buffer)
        return made

    @cached_property
    def share(self) -> Allocation:
        """Global data share, with the append counters after it."""
        return self.gpu.memory.allocate(ALL_BYTES, "global data share")

    def share_words(self, at: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """Words of global data share from a byte address on; the append counters begin at its end."""
        return self.gpu.memory.view(self.share.address + at, 4 * count).view(np.uint32)

    def counter(self, number: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """An append counter, as an array of one word."""
        return self.share_words(SHARE_BYTES + 4 * number, 1)

    # --- memory -------------------------------------------------------------------------------------------------
    def show(self, buffer: Buffer) -> None:
        """Let programs reach a buffer that has its address."""
        if "gpu" in self.__dict__:
            self._map(self.gpu, buffer)

    def _map(self, gpu: GPU, buffer: Buffer) -> None:
        at = self.buffers.host_address + buffer.offset
        place = HERE if buffer.local else HOST
        self._shown[buffer.handle] = gpu.memory.map(
            at, buffer.size, f"buffer {buffer.handle}", place, moved_bytes=at - (KNOWN_AT + buffer.address)
        )

    def hide(self, buffer: Buffer) -> None:
        """Let programs no longer reach a buffer."""
        allocation = self._shown.pop(buffer.handle, None)
        if allocation is not None:
            self.gpu.memory.unmap(allocation)

    # --- launches -----------------------------------------------------------------------------------------------
    def dispatch(self, state: ComputeState, groups: tuple[int, int, int]) -> None:
        """Run the program that the registers name on a grid of groups.

        Raises:
            UnsupportedError: for a program or a binding that has no meaning here.
            MemoryFaultError: an address is in no buffer.
        """
        from warpwright.run_launch import launch_packed

        generation = self.gpu.chip.identity.generation
        code = self._code(state)
        try:
            listing = decode_program(code, generation)
        except UndefinedWord as error:
            raise UnsupportedError(f"compute program at {state.program_address:#x}: {error}") from None
        bindings, words = _Binder(state, self.buffers).bind(listing)
        kernel = self._kernel(state, code, bindings)
        self.launches += 1
        launch_packed(kernel[groups, state.group], words)

    def _code(self, state: ComputeState) -> bytes:
        """The program's bytes, with what follows it in its buffer."""
        buffer = self.buffers.find(state.program_address)
        size = buffer.address + buffer.size - state.program_address if buffer is not None else 8
        return self.buffers.view(state.program_address, size // 8 * 8, "the fetch of a compute program").tobytes()

    def _kernel(self, state: ComputeState, code: bytes, bindings: Bindings) -> Kernel:
        from warpwright.engine.r600_bound import ComputeProgram, load_bound
        from warpwright.kernel import Module

        shared = state.shared_bytes
        key = (code, repr((bindings, shared, state.registers_used)))
        if key not in self._kernels:
            name = f"compute_shader_{len(self._kernels)}"
            made = ComputeProgram(name, code, bindings, state.registers_used, shared, self.share.address)
            self._kernels[key] = Module(self.gpu, load_bound(made, self.gpu.chip.arch, self.gpu.memory))[name]
        return self._kernels[key]


class _Binder:
    """Collects the bindings of one program, and the launch's words for them."""

    def __init__(self, state: ComputeState, buffers: Buffers) -> None:
        self.state, self.buffers = state, buffers
        self.words = bytearray()
        self.returns: dict[int, int] = {}

    def bind(self, listing: Listing) -> tuple[Bindings, bytes]:
        """The bindings of a program, and the words of its launch."""
        buffers, textures = _resources_of(listing)
        resources = {n: self._resource(n) for n in sorted(buffers) if not self._returned(n)}
        images = {n: self._texture(n) for n in sorted(textures)}
        samplers = {n: found for n in sorted(_samplers_of(listing)) if (found := self.state.sampler(n)) is not None}
        targets = {n: self._target(n) for n in sorted(_targets_of(listing))}
        lines = {key: self._line(*key) for key in sorted(_lines_of(listing))}
        return Bindings(lines, resources, images, samplers, targets, self.returns, len(self.words)), bytes(self.words)

    def _returned(self, number: int) -> bool:
        """Whether a resource has what random accesses return; notes of which target."""
        if FIRST_RETURN <= number < FIRST_RETURN + RETURN_COUNT:
            self.returns[number] = number - FIRST_RETURN
            return True
        return False

    def _host_address(self, address: int) -> tuple[int, int]:
        """Where the device's memory has an address, and the bytes of its buffer from there on."""
        buffer = self.buffers.find(address)
        room = buffer.address + buffer.size - address if buffer is not None else 0
        return (self.buffers.host_pointer(address, 1, "a binding") if room else 0), room

    def _record(self, address: int, size: int, elements: int) -> int:
        """The launch's words of a buffer; where they are."""
        at = len(self.words)
        host, room = self._host_address(address)
        self.words += struct.pack("<QII", host, min(size, room), elements)
        assert len(self.words) == at + RECORD_BYTES
        return at

    def _image(self, image: LinearImage) -> BoundImage:
        """The launch's words of an image, and how a program sees it.

        Raises:
            UnsupportedError: its format is not modelled.
        """
        if not is_known(image.data_format):
            raise UnsupportedError(f"images of format {image.data_format:#x} are not modelled on Cypress and Cayman")
        at, size = len(self.words), element_bytes(image.data_format)
        levels = levels_of(image, size)
        for level in levels:
            self._level(level, image.first_layer, size)
        kinds = image.data_format, image.number_format, image.signed, len(levels), image.selects
        return BoundImage(at, image.dimensions, image.layered, *kinds, image.cube)

    def _level(self, level: ImageLevel, first_layer: int, size: int) -> None:
        """The launch's words of a level with elements of ``size`` bytes."""
        host, room = self._host_address(level.address)
        width, height, layers = level.extents
        # A layer in use that the buffer does not hold is outside of the image.
        layers = min(layers, room // (size * level.layer_elements) - first_layer) if room else 0
        first = host + size * level.layer_elements * first_layer
        steps = level.row_elements, level.layer_elements
        at = len(self.words)
        self.words += struct.pack("<Q6I", first, width if layers > 0 else 0, height, max(0, layers), *steps, 0)
        assert len(self.words) == at + IMAGE_RECORD_BYTES

    def _resource(self, number: int) -> Resource:
        words = self.state.resource(number)
        if words is None or words[7] >> 30 == TEXTURE:
            # Fetches from what is not bound give zeros.
            return Resource(self._record(0, 0, 0), 4, 0x0D, 1, False, (0, 4, 4, 5))
        found = buffer_resource(words)
        at = self._record(found.address, found.size, found.elements)
        return Resource(at, found.stride_bytes, found.data_format, found.number_format, found.signed, found.selects)

    def _texture(self, number: int) -> BoundImage:
        words = self.state.resource(number)
        if words is None or words[7] >> 30 != TEXTURE:
            return self._image(LinearImage(0, (0, 0, 0), 8, 8, 0, 2, False, 0x0D, 1, False, (4, 4, 4, 5), 0))
        return self._image(texture_resource(words))

    def _target(self, number: int) -> Target | BoundImage:
        found = self.state.target(number)
        if found is None:
            return Target(self._record(0, 0, 0), 0x0D, 1, False)
        if isinstance(found, LinearImage):
            return self._image(found)
        if not is_known(found.data_format):
            raise UnsupportedError(f"buffers of format {found.data_format:#x} are not modelled on Cypress and Cayman")
        size = found.elements * element_bytes(found.data_format)
        at = self._record(found.address, size, found.elements)
        return Target(at, found.data_format, found.number_format, found.signed)

    def _line(self, buffer: int, line: int) -> int:
        """A line of a constant buffer; zeros beyond its end."""
        at = len(self.words)
        address, size = self.state.constants(buffer)
        first = LINE_BYTES * line
        held = max(0, min(LINE_BYTES, size - first))
        found = b""
        if held:
            holder = self.buffers.find(address + first)
            room = holder.address + holder.size - address - first if holder is not None else 0
            found = self.buffers.view(address + first, min(held, room), "a constant buffer").tobytes() if room else b""
        self.words += found.ljust(LINE_BYTES, b"\0")
        return at


def _resources_of(listing: Listing) -> tuple[set[int], set[int]]:
    """Resources that fetches take for buffers, and for images."""
    fetches = [fetch for clause in listing.clauses.values() for fetch in clause.fetches]
    buffers = {f.fields["buffer_id"] for f in fetches if f.operation.kind in (FetchKind.VERTEX, FetchKind.SEMANTIC)}
    images = {f.fields["resource_id"] for f in fetches if f.operation.kind is FetchKind.TEXTURE}
    return buffers, images


def _samplers_of(listing: Listing) -> set[int]:
    """Samplers that fetches name."""
    fetches = [fetch for clause in listing.clauses.values() for fetch in clause.fetches]
    return {f.fields["sampler_id"] for f in fetches if f.operation.kind is FetchKind.TEXTURE}


def _targets_of(listing: Listing) -> Iterator[int]:
    for word in listing.control:
        if word.operation.role is Role.RAT:
            yield word.fields["rat_id"]


def _lines_of(listing: Listing) -> Iterator[tuple[int, int]]:
    """Buffers and lines that clauses lock."""
    extended: Mapping[str, int] = {}
    for word in listing.control:
        if word.operation.role is Role.ALU_EXTENDED:
            extended = word.fields
            continue
        if word.operation.role is Role.ALU_CLAUSE:
            if any(mode for name, mode in extended.items() if "mode" in name):
                raise UnsupportedError(
                    "constant caches 2 and 3, or an index to a constant buffer, have no meaning here"
                )
            for bank in range(2):
                for n in range(min(2, word.fields[f"kcache_mode{bank}"])):
                    yield word.fields[f"kcache_bank{bank}"], word.fields[f"kcache_addr{bank}"] + n
        extended = {}
