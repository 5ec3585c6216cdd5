"""Command streams of the graphics device: headers, methods, registers, and the engines that need no programs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.graphics_streams import OFFSETS, THREE_D, TWO_D, Stream
from warpwright.errors import MemoryFaultError, OutOfMemoryError, WarpwrightError
from warpwright.graphics import methods_2d, methods_3d, methods_compute, methods_m2mf
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.methods import MethodTable, RegisterEngine
from warpwright.graphics.pushbuffer import CommandError, Pushbuffer, Words


class Recorder:
    def __init__(self) -> None:
        self.writes: list[tuple[int, list[int], bool]] = []

    def write(self, method: int, words: Words, increments: bool) -> None:
        self.writes.append((method, words.tolist(), increments))


def words(*values: int) -> NDArray[np.uint32]:
    return np.array(values, dtype=np.uint32)


def test_headers_name_subchannel_method_and_length() -> None:
    recorder = Recorder()
    pushbuffer = Pushbuffer({7: recorder})
    pushbuffer.execute(
        words(1 << 18 | 2 << 13, 7, 2 << 18 | 2 << 13 | 0x200, 11, 12, 0x4008_0000 | 2 << 13 | 0x300, 1, 2)
    )
    assert recorder.writes == [(0x200, [11, 12], True), (0x300, [1, 2], False)]


def test_a_long_header_takes_its_words_from_later_segments() -> None:
    recorder = Recorder()
    pushbuffer = Pushbuffer({7: recorder})
    pushbuffer.execute(words(1 << 18, 7, 0x0003_0000 | 0x15E8))
    pushbuffer.execute(words(3, 5))
    pushbuffer.execute(words(6, 7))
    assert recorder.writes == [(0x15E8, [5], False), (0x15E8, [6, 7], False)]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ((0x2000_0001,), "pushbuffer word 0x20000001 is not a method header"),
        ((1 << 18 | 3 << 13 | 0x200, 1), "method 0x0200 on subchannel 3, to which no object is bound"),
        ((1 << 18, 99), "binds the object 0x63, which does not exist on this channel"),
    ],
)
def test_what_is_wrong_with_a_stream_is_said(stream: tuple[int, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        Pushbuffer({}).execute(words(*stream))


@pytest.mark.parametrize("module", [methods_2d, methods_3d, methods_compute, methods_m2mf])
def test_tables_have_each_method_once(module: object) -> None:
    rows = module.ROWS  # type: ignore[attr-defined]
    table = MethodTable("a class", rows)
    assert len(table.names) == sum(row[2] if len(row) == 4 else 1 for row in rows)
    assert all(0x100 <= offset < 0x2000 and offset % 4 == 0 for offset in table.names)


def test_two_rows_may_not_share_a_method() -> None:
    with pytest.raises(ValueError, match=r"B and A\[1\] share 0x0204"):
        MethodTable("a class", [(0x200, "A", 2, 4), (0x204, "B")])


def test_an_unknown_method_is_an_error_with_its_place() -> None:
    stream = Stream()
    stream.words += [1 << 18 | THREE_D << 13 | 0x1FF0, 0]
    with pytest.raises(CommandError, match=r"the 3D class \(0x8297\) has no method 0x1ff0 \(after QUERY_GET\)"):
        stream.submit()


def test_registers_are_set_up_to_the_method_that_starts_work() -> None:
    seen = []
    table = MethodTable("a class", [(0x200, "A"), (0x204, "START"), (0x208, "B")])
    engine = RegisterEngine(
        table, {"START": lambda method, data: seen.append((engine["A"], engine["B"], int(data[0])))}
    )
    engine.write(0x200, words(1, 2, 3), True)
    assert seen == [(1, 0, 2)]
    assert engine["B"] == 3


@pytest.mark.ci
def test_a_copy_moves_rows() -> None:
    stream = Stream()
    memory = stream.device.memory
    source, target = memory.allocate(8192, 4096, True), memory.allocate(8192, 4096, True)
    memory.view(source.address, 8192, "a test")[:] = np.arange(8192) % 251
    stream.copy(source.address + 3, target.address, 100, 20, 256)
    stream.submit()
    rows = memory.view(source.address, 8192, "a test")[3:][: 20 * 256].reshape(20, 256)[:, :100]
    assert (memory.view(target.address, 2000, "a test").reshape(20, 100) == rows).all()


def test_a_copy_outside_its_buffer_is_a_fault_and_changes_nothing() -> None:
    stream = Stream()
    memory = stream.device.memory
    first, second = memory.allocate(4096, 4096, True), memory.allocate(4096, 4096, True)
    memory.view(second.address, 4096, "a test")[:] = 7
    stream.copy(second.address, first.address + 4000, 100, 1, 100)
    with pytest.raises(MemoryFaultError, match=r"GPU fault: a memory copy \(to\) accesses 100 bytes"):
        stream.submit()
    assert (memory.view(second.address, 4096, "a test") == 7).all()
    assert not memory.view(first.address, 4096, "a test").any()


def test_an_upload_writes_words_of_the_stream() -> None:
    stream = Stream()
    memory = stream.device.memory
    buffer = memory.allocate(4096, 4096, True)
    stream.put(TWO_D, "DST_FORMAT", 0xF3, 1)
    stream.put(TWO_D, "DST_PITCH", 1 << 18, 1 << 16, 1, buffer.address >> 32, buffer.address)
    stream.put(TWO_D, "SIFC_BITMAP_ENABLE", 0)
    stream.put(TWO_D, "SIFC_FORMAT", 0xF3)
    stream.put(TWO_D, "SIFC_WIDTH", 10, 1, 0, 1, 0, 1, 0, 40, 0, 0)
    stream.words += [0x4000_0000 | 3 << 18 | TWO_D << 13 | 0x860, 0x03020100, 0x07060504, 0x0B0A0908]
    stream.submit()
    assert memory.view(buffer.address, 64, "a test")[40:52].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0]


def test_constants_go_to_their_buffer_and_no_further() -> None:
    stream = Stream()
    memory = stream.device.memory
    buffer = memory.allocate(4096, 4096, True)
    stream.put(THREE_D, "CB_DEF_ADDRESS_HIGH", buffer.address >> 32, buffer.address, 5 << 16 | 16)
    stream.put(THREE_D, "CB_ADDR", 2 << 8 | 5)
    stream.words += [0x4000_0000 | 4 << 18 | THREE_D << 13 | 0xF04, 1, 2, 3, 4]
    stream.submit()
    assert memory.words(buffer.address, 8, "a test").tolist() == [0, 0, 1, 2, 0, 0, 0, 0]


@pytest.mark.ci
def test_a_clear_covers_the_intersection_of_its_rectangles() -> None:
    stream = Stream()
    memory = stream.device.memory
    buffer = memory.allocate(64 * 64 * 4, 4096, True)
    stream.put(THREE_D, "RT_ADDRESS_HIGH", buffer.address >> 32, buffer.address, 0xD5, 0x40, 0)
    stream.put(THREE_D, "RT_HORIZ", 64, 64)
    stream.put(THREE_D, "RT_ARRAY_MODE", 1)
    stream.put(THREE_D, "SCREEN_SCISSOR_HORIZ", 40 << 16 | 8, 64 << 16)
    stream.put(THREE_D, "VIEWPORT_HORIZ", 64 << 16, 10 << 16 | 20)
    stream.put(THREE_D, "CLEAR_COLOR", *(int(np.float32(v).view(np.uint32)) for v in (1.0, 0.5, 0.0, 1.0)))
    stream.put(THREE_D, "COND_MODE", 1)
    stream.put(THREE_D, "CLEAR_BUFFERS", 0x3C & ~8)
    stream.submit()
    from warpwright.graphics.surface_layout import tiled

    layout = tiled(buffer.address, 256, 0x40, 64)
    offsets = layout.offsets(np.arange(64) * 4, np.arange(64)[:, None])
    image = memory.bytes[memory.place(buffer.address, 1, "a test") + offsets[..., None] + np.arange(4)]
    expected = np.zeros((64, 64, 4), dtype=np.uint8)
    expected[20:30, 8:48] = (255, 0, 0, 255)
    assert (image == expected).all()


def test_reports_of_queries() -> None:
    stream = Stream()
    memory = stream.device.memory
    buffer = memory.allocate(4096, 4096, False)
    stream.put(THREE_D, "QUERY_ADDRESS_HIGH", buffer.address >> 32, buffer.address, 77, 0x1000_F010)
    stream.put(THREE_D, "QUERY_ADDRESS_HIGH", buffer.address >> 32, buffer.address + 16, 78, 0x0100_F002)
    stream.submit()
    report = memory.words(buffer.address, 8, "a test")
    assert report[0] == 77
    assert not report[1:4].any()
    assert report[4:6].tolist() == [78, 0]


def test_memory_is_found_given_back_and_exhausted() -> None:
    memory = GraphicsDevice(1 << 20, 1, 1).memory
    buffers = [memory.allocate(1 << 18, 4096, True) for _ in range(4)]
    with pytest.raises(OutOfMemoryError, match="no 4096 free bytes of local memory"):
        memory.allocate(1, 4096, True)
    for buffer in (buffers[1], buffers[3], buffers[2]):
        memory.free(buffer)
    assert memory.find(buffers[1].address) is None
    again = memory.allocate(3 << 18, 4096, True)
    assert again.address == buffers[1].address
    assert memory.find(again.address + 5) is again


@pytest.mark.ci
def test_random_streams_end_in_errors_and_leave_other_buffers_alone() -> None:
    """Words that are mostly valid headers: no crash, and nothing outside of what they may name is written."""
    rng = np.random.default_rng(1)
    stream = Stream()
    memory = stream.device.memory
    guard = memory.allocate(1 << 16, 4096, True)
    memory.view(guard.address, 1 << 16, "a test")[:] = 0xA5
    stream.submit()
    names = [(s, o) for s, table in OFFSETS.items() for o in table.names]
    failures = 0
    for _ in range(3000):
        if rng.random() < 0.1:
            stream.words = rng.integers(0, 1 << 32, 20).tolist()
        else:
            for _ in range(int(rng.integers(1, 12))):
                subchannel, offset = names[int(rng.integers(len(names)))]
                count = int(rng.integers(1, 5))
                value = rng.integers(0, 1 << int(rng.integers(1, 33)), count).tolist()
                stream.words += [count << 18 | subchannel << 13 | offset, *value]
        try:
            stream.submit()
        except WarpwrightError:
            failures += 1
    assert failures > 300
    assert (memory.view(guard.address, 1 << 16, "a test") == 0xA5).all()
