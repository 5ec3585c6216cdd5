"""The simulated ``radeon`` device without Mesa: buffers, packets, and compute programs on what is bound."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.driver.drm.radeon import dma_ring
from warpwright.driver.drm.radeon import packets as pm4
from warpwright.driver.drm.radeon.buffer_objects import Buffers
from warpwright.driver.drm.radeon.command_processor import APPEND_COUNTERS, CommandProcessor
from warpwright.driver.drm.radeon.dispatch_state import (
    FIRST_RESOURCE,
    PROGRAM_START,
    TARGET_REGISTERS,
    THREADS_X,
    buffer_resource,
    texture_resource,
)
from warpwright.driver.drm.radeon.dispatches import Dispatcher
from warpwright.driver.drm.radeon.identity import DIES
from warpwright.errors import MemoryFaultError, OutOfMemoryError, UnsupportedError
from warpwright.isa.r600 import layouts
from warpwright.isa.r600.layouts import GENERATIONS

CHIP_OF = {"evergreen": "hd5870", "cayman": "hd6970"}


class Machine:
    """A device with three buffers at known addresses."""

    def __init__(self, generation: str = "cayman") -> None:
        self.buffers = Buffers(1 << 24, 1 << 22)
        self.dispatcher = Dispatcher(CHIP_OF[generation], self.buffers)
        self.dispatcher.__dict__["gpu"] = ww.GPU(CHIP_OF[generation], timing="off", unified=True)
        self.processor = CommandProcessor(self.buffers, self.dispatcher)
        for address in (0x1_0000_0000, 0x1_0001_0000, 0x1_0002_0000):
            buffer = self.buffers.allocate(4096, 4096, local=True)
            self.buffers.place(buffer, address)
            self.dispatcher.show(buffer)

    def words(self, address: int, count: int) -> Any:
        return self.buffers.view(address, 4 * count, "the test").view(np.uint32)


def packet(operation: int, *words: int) -> list[int]:
    return [3 << 30 | len(words) - 1 << 16 | operation << 8, *words]


# --- buffers ----------------------------------------------------------------------------------------------------
def test_freed_memory_is_zero_and_used_again() -> None:
    buffers = Buffers(1 << 20, 1 << 20)
    first = buffers.allocate(5000, 0, local=True)
    assert first.size == 8192
    buffers.bytes[first.offset : first.offset + 8192] = 7
    assert buffers.release(first.handle) is first
    again = buffers.allocate(8192, 0, local=True)
    assert again.offset == first.offset
    assert not buffers.bytes[again.offset : again.offset + 8192].any()


def test_memory_that_is_full_says_which() -> None:
    buffers = Buffers(1 << 20, 1 << 16)
    with pytest.raises(OutOfMemoryError, match=r"no 131072 free bytes of mapped host memory \(0 MiB in all\)"):
        buffers.allocate(1 << 17, 0, local=False)


def test_an_address_outside_of_buffers_is_a_fault() -> None:
    machine = Machine()
    with pytest.raises(MemoryFaultError, match="the test accesses 8 bytes at 0x100000ffc: the buffer there has 4096"):
        machine.words(0x1_0000_0FFC, 2)
    with pytest.raises(MemoryFaultError, match="there is no buffer there"):
        machine.words(0x5000, 1)


# --- packets ----------------------------------------------------------------------------------------------------
def test_registers_resources_and_copies() -> None:
    machine = Machine()
    machine.words(0x1_0000_0000, 4)[:] = [1, 2, 3, 4]
    stream = [*packet(pm4.SET_CONTEXT_REG, 16, 5, 6), 2 << 30, *packet(pm4.SET_RESOURCE, 8, *range(8))]
    stream += packet(pm4.CP_DMA, 0, 1, 0x1_0000, 1, 16)
    stream += packet(pm4.CP_DMA, 9, 2 << 29 | 1, 0x1_0020, 1, 8)
    machine.processor.execute(stream)
    assert machine.processor.registers[0x28040] == 5
    assert machine.processor.registers[0x28044] == 6
    assert machine.processor.resources[1] == tuple(range(8))
    assert machine.words(0x1_0001_0000, 10).tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 9, 9]


def test_events_write_data_and_time() -> None:
    machine = Machine()
    write_64, time = 2 << 29 | 1, 3 << 29 | 1
    machine.processor.execute(packet(pm4.EVENT_WRITE_EOP, 0x14, 0, write_64, 7, 8))
    machine.processor.execute(packet(pm4.EVENT_WRITE_EOP, 0x14, 16, time, 0, 0))
    found = machine.words(0x1_0000_0000, 6).tolist()
    assert found[:2] == [7, 8]
    assert found[4] or found[5]


def test_append_counters_come_from_memory_and_go_back() -> None:
    machine = Machine("evergreen")
    machine.words(0x1_0000_0000, 1)[:] = 41
    offset = (APPEND_COUNTERS - 0x28000) // 4 + 2
    machine.processor.execute(packet(pm4.SET_APPEND_COUNT, offset << 16 | 3, 0, 1))
    assert machine.dispatcher.counter(2)[0] == 41
    machine.dispatcher.counter(2)[0] += 1
    machine.processor.execute(packet(pm4.EVENT_WRITE_EOS, 0x62F, 64, 1, APPEND_COUNTERS // 4 + 2))
    assert machine.words(0x1_0000_0040, 1)[0] == 42


def test_words_of_global_data_share_come_from_memory_and_go_back() -> None:
    machine = Machine()
    machine.words(0x1_0000_0000, 1)[:] = 17
    machine.processor.execute(packet(pm4.CP_DMA, 0, 1 << 20 | 1, 12, 0, 4))
    assert machine.dispatcher.share_words(12, 1)[0] == 17
    machine.processor.execute(packet(pm4.EVENT_WRITE_EOS, 0x62F, 32, 1 << 29 | 1, 1 << 16 | 3))
    assert machine.words(0x1_0000_0020, 1)[0] == 17


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (packet(0x2D, 3, 2), "DRAW_INDEX_AUTO: the graphics pipeline of Cypress and Cayman is not modelled"),
        (packet(0x7F, 0), "packet 0x7f has no meaning here"),
        ([3 << 30 | 5 << 16, 1], "word 0, 0xc0050000, begins no packet"),
        ([0], "word 0, 0x00000000, begins no packet"),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(stream: list[int], why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        Machine().processor.execute(stream)


def test_the_copy_engine_copies_words_and_bytes_and_fills() -> None:
    machine = Machine()
    machine.words(0x1_0000_0000, 4)[:] = [1, 2, 3, 4]
    copy = [3 << 28 | 4, 0x1_0000, 0, 1, 1]
    by_bytes = [3 << 28 | 0x40 << 20 | 5, 0x2_0000, 0, 1, 1]
    fill = [0xD << 28 | 2, 0x1_0040, 9, 1 << 16]
    dma_ring.execute(machine.buffers, [*copy, *by_bytes, *fill, 0xF << 28])
    assert machine.words(0x1_0001_0000, 4).tolist() == [1, 2, 3, 4]
    assert machine.words(0x1_0002_0000, 2).tolist() == [1, 2]
    assert machine.words(0x1_0001_0040, 2).tolist() == [9, 9]
    with pytest.raises(UnsupportedError, match="tiled textures are not modelled"):
        dma_ring.execute(machine.buffers, [3 << 28 | 8 << 20, 0, 0])


# --- compute programs -------------------------------------------------------------------------------------------
def descriptor(address: int, size: int, stride: int, form: int, kind: int, signed: bool = False) -> list[int]:
    """Words of a buffer for fetches."""
    words = address >> 32 | stride << 8 | form << 20 | kind << 26 | signed << 28
    return [address & 0xFFFFFFFF, size - 1, words, 0x3440, size // stride, 0, 0, 3 << 30]


def program(generation: str) -> bytes:
    """Fetches the element of a thread's number from resource 0, in its format, and stores its four words to target 0."""
    write = {"rat_id": 0, "rat_inst": 1, "type": 1, "rw_gpr": 2, "index_gpr": 0, "comp_mask": 15, "array_size": 0xFFF}
    control = layouts.CONTROL[generation]
    ends = generation == "evergreen"
    words = [
        control.write({"addr": 4, "cf_inst": 1, "barrier": 1}),
        layouts.RAT[generation].write({**write, "cf_inst": 0x56, "barrier": 1}),
        control.write({"end_of_program": 1, "barrier": 1} if ends else {"cf_inst": 0x20, "barrier": 1}),
        0,
    ]
    fetch = layouts.VERTEX[generation].write(
        {"dst_gpr": 2, "dst_sel_y": 1, "dst_sel_z": 2, "dst_sel_w": 3, "use_const_fields": 1, "fetch_type": 2}
    )
    return struct.pack("<6Q", *words, fetch & (1 << 64) - 1, fetch >> 64)


def dispatch(machine: Machine, generation: str, resource: list[int], elements: int, threads: int = 64) -> None:
    code = np.frombuffer(program(generation), dtype=np.uint8)
    machine.buffers.view(0x1_0002_0000, len(code), "the test")[:] = code
    target = TARGET_REGISTERS[0]
    registers = {
        PROGRAM_START: 0x1_0002_0000 >> 8,
        PROGRAM_START + 4: 4,
        THREADS_X: threads,
        target: 0x1_0001_0000 >> 8,
        target + 0x10: 0x22 << 2 | 4 << 12,
        target + 0x18: elements - 1,
    }
    machine.processor.registers.update(registers)
    machine.processor.execute(packet(pm4.SET_RESOURCE, 8 * FIRST_RESOURCE, *resource))
    machine.processor.execute(packet(pm4.DISPATCH_DIRECT, 1, 1, 1, 1))


ONE = 0x3F800000
FORMATS = [
    (np.uint8, 1, 0x01, 1, False),
    (np.int8, 4, 0x1A, 1, True),
    (np.uint8, 4, 0x1A, 0, False),
    (np.int16, 2, 0x0F, 0, True),
    (np.uint16, 4, 0x1F, 2, False),
    (np.float16, 4, 0x20, 0, False),
    (np.uint32, 3, 0x2F, 1, False),
    (np.float32, 4, 0x23, 0, False),
]


@pytest.mark.ci
@pytest.mark.parametrize(("dtype", "channels", "form", "kind", "signed"), FORMATS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_fetch_converts_from_the_format_of_its_resource(
    generation: str, dtype: Any, channels: int, form: int, kind: int, signed: bool
) -> None:
    machine = Machine(generation)
    element = np.dtype(dtype).itemsize * channels
    given = np.random.default_rng(form).integers(0, 120, 64 * channels).astype(dtype)
    if signed:
        given[::2] = -given[::2]
    machine.buffers.view(0x1_0000_0000, given.nbytes, "the test")[:] = given.view(np.uint8)
    dispatch(machine, generation, descriptor(0x1_0000_0000, 64 * element, element, form, kind, signed), 64)
    is_integer = kind == 1 and not np.issubdtype(dtype, np.floating)
    numbers = given.reshape(64, channels)
    if is_integer:
        expected = numbers.astype(np.int64).astype(np.uint32)
    elif kind == 0 and np.issubdtype(dtype, np.integer):
        fractions = numbers.astype(np.float32) * np.float32(1 / np.iinfo(dtype).max)
        expected = np.maximum(fractions, np.float32(-1)).view(np.uint32)
    else:
        expected = numbers.astype(np.float32).view(np.uint32)
    found = machine.words(0x1_0001_0000, 256).reshape(64, 4)
    assert (found[:, :channels] == expected).all()
    assert not found[:, channels:3].any()
    assert channels == 4 or (found[:, 3] == 0).all() or (found[:, 3] == (1 if is_integer else ONE)).all()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_accesses_outside_of_resources_give_zeros_and_outside_of_targets_do_nothing(generation: str) -> None:
    machine = Machine(generation)
    machine.words(0x1_0000_0000, 256)[:] = 5
    machine.words(0x1_0001_0000, 256)[:] = 8
    dispatch(machine, generation, descriptor(0x1_0000_0000, 16 * 20, 16, 0x22, 1), elements=30)
    found = machine.words(0x1_0001_0000, 256).reshape(64, 4)
    assert (found[:20] == 5).all()
    assert (found[20:30] == 0).all()
    assert (found[30:] == 8).all()


def test_a_descriptor_of_a_buffer() -> None:
    found = buffer_resource(tuple(descriptor(0x1_0000_0100, 64, 8, 0x1D, 1, True)))
    assert (found.address, found.size, found.stride_bytes, found.elements) == (0x1_0000_0100, 64, 8, 8)
    assert (found.data_format, found.number_format, found.signed, found.selects) == (0x1D, 1, True, (0, 1, 2, 3))


WORDS = (0x004C01C5, 0x10008017, 0x01000400, 0x01000400, 0x0B200101, 0x00040000, 0x80000000, 0x800200CD)
"""A texture of 20 x 24 words in three layers, as Mesa 22.3 describes it for Cayman."""


def test_a_descriptor_of_a_texture() -> None:
    found = texture_resource(WORDS)
    assert (found.address, found.extents, found.dimensions, found.layered) == (0x1_0004_0000, (20, 24, 3), 2, True)
    assert (found.row_elements, found.layer_elements, found.levels, found.first_layer) == (64, 64 * 24, 1, 0)
    assert (found.data_format, found.number_format, found.signed, found.selects) == (0x0D, 1, True, (0, 4, 4, 5))


@pytest.mark.parametrize(
    ("word", "bits", "why"),
    [(1, 4 << 28, "tiled images"), (0, 6, "textures with samples"), (4, 1 << 28, "without their first level")],
)
def test_textures_that_are_not_modelled_are_refused(word: int, bits: int, why: str) -> None:
    words = list(WORDS)
    words[word] = words[word] & ~(7 if word == 0 else 15 << 28) | bits
    with pytest.raises(UnsupportedError, match=why):
        texture_resource(tuple(words))


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (0x22 << 2 | 4 << 8 | 4 << 12 | 3 << 27, "tiled images"),
        (0x1A << 2 | 6 << 12, "numbers of type 6"),
        (0x1A << 2 | 1 << 15, "channels in order 1"),
        (0x0B << 2 | 7 << 12, "buffers of format 0xb"),
        (0x0B << 2 | 7 << 12 | 3 << 27, "images of format 0xb"),
        (0x22 << 2 | 4 << 12 | 6 << 27, "resources of type 6"),
    ],
)
def test_targets_that_are_not_modelled_are_refused(info: int, why: str) -> None:
    machine = Machine()
    machine.processor.registers[TARGET_REGISTERS[0] + 0x10] = info
    code = np.frombuffer(program("cayman"), dtype=np.uint8)
    machine.buffers.view(0x1_0002_0000, len(code), "the test")[:] = code
    machine.processor.registers |= {PROGRAM_START: 0x1_0002_0000 >> 8, TARGET_REGISTERS[0]: 0x1_0001_0000 >> 8}
    with pytest.raises(UnsupportedError, match=why):
        machine.processor.execute(packet(pm4.DISPATCH_DIRECT, 1, 1, 1, 1))


def test_the_kernel_driver_names_the_two_boards() -> None:
    assert {name: die.pci_device for name, die in DIES.items()} == {"evergreen": 0x6898, "cayman": 0x6718}
    assert DIES["cayman"].tiling == 0x1013
