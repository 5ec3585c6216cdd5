"""Destructors that call the graphics device when Python has ended, or while it ends."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.mesa_drivers import needs_mesa
from warpwright.driver.drm import late_calls
from warpwright.driver.drm.exports import NOUVEAU
from warpwright.driver.drm.structures import BufferContext, BufferReference, List, PushBuffer

PROGRAM = Path(__file__).with_name("late_destruction.py")
DEVICE_ADDRESS = 0x2000_0000


@pytest.mark.parametrize("when", [pytest.param(when, marks=needs_mesa("nouveau")) for when in ("during", "after")])
def test_a_context_may_outlive_python(when: str) -> None:
    """The driver waits in a loop for the fence of its last words."""
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "g80", str(PROGRAM), when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    said = [line for line in done.stderr.splitlines() if "warpwright: compiling" not in line]
    assert (done.returncode, said) == (0, [])
    assert done.stdout.splitlines()[0] == "drawn"


class Stream:
    """A pushbuffer over host memory, followed by 64 bytes of the device's memory."""

    def __init__(self, words: list[int]) -> None:
        self.memory = (ctypes.c_uint32 * 16)()
        self.words = (ctypes.c_uint32 * 64)(*words)
        start, memory = ctypes.addressof(self.words), ctypes.addressof(self.memory)
        self.pushbuffer = PushBuffer(cur=start + 4 * len(words), end=start + 256)
        self.pushbuffer.first = self.pushbuffer.begun = start
        self.pushbuffer.limit = start + 240
        self.pushbuffer.memory, self.pushbuffer.memory_bytes = memory, 64
        self.pushbuffer.from_device = memory - DEVICE_ADDRESS

    def call(self, name: str, *arguments: int) -> int:
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_uint64] * (1 + len(arguments)))
        return int(function(late_calls.address(name))(ctypes.addressof(self.pushbuffer), *arguments))


def report(address: int, sequence: int) -> list[int]:
    """Four words from QUERY_ADDRESS_HIGH on."""
    return [4 << 18 | 3 << 13 | 0x1B00, address >> 32, address & 0xFFFF_FFFF, sequence, 0x1000_F010]


def test_a_late_submission_writes_its_reports_and_nothing_else() -> None:
    data_that_looks_like_a_report = [6 << 18 | 3 << 13 | 0x0F00, 0, *report(DEVICE_ADDRESS + 16, 7)]
    stream = Stream([*data_that_looks_like_a_report, *report(DEVICE_ADDRESS + 8, 41), *report(DEVICE_ADDRESS + 64, 42)])
    assert stream.call("nouveau_pushbuf_kick", 0) == 0
    assert list(stream.memory) == [0, 0, 41, *[0] * 13]
    assert stream.pushbuffer.cur == stream.pushbuffer.begun == stream.pushbuffer.first
    assert stream.pushbuffer.end == stream.pushbuffer.limit


def test_a_late_callback_adds_its_fence_in_the_submission() -> None:
    stream = Stream([])
    called = []

    def notify(pointer: int) -> int:
        called.append(pointer)
        for n, word in enumerate(report(DEVICE_ADDRESS, 5)):
            stream.words[n] = word
        stream.pushbuffer.cur += 20
        return stream.call("nouveau_pushbuf_kick", 0)

    callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64)(notify)
    stream.pushbuffer.kick_notify = ctypes.cast(callback, ctypes.c_void_p).value
    assert stream.call("nouveau_pushbuf_space", 60, 0, 0) == 0
    assert called == []
    assert stream.call("nouveau_pushbuf_space", 61, 0, 0) == 0
    assert called == [ctypes.addressof(stream.pushbuffer)]
    assert stream.memory[0] == 5


def test_a_late_reset_unlinks_the_references_of_a_bin() -> None:
    context = BufferContext()
    nodes = [BufferReference(bin=number) for number in (1, 2, 1)]
    for head, listed in (("pending", nodes), ("current", [])):
        at = ctypes.addressof(context) + getattr(BufferContext, head).offset
        chain = [at, *map(ctypes.addressof, listed), at]
        for before, after in pairwise(chain):
            List.from_address(before).next, List.from_address(after).prev = after, before
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_int32)
    assert function(late_calls.address("nouveau_bufctx_reset"))(ctypes.addressof(context), 1) == 0
    kept = ctypes.addressof(nodes[1])
    assert (context.pending.next, context.pending.prev) == (kept, kept)
    head = ctypes.addressof(context) + BufferContext.pending.offset
    assert (nodes[1].thead.next, nodes[1].thead.prev) == (head, head)


def test_late_calls_that_create_something_fail() -> None:
    made = [name for name in NOUVEAU if name.endswith("_new")]
    assert len(made) >= 5
    for name in made:
        assert ctypes.CFUNCTYPE(ctypes.c_int32)(late_calls.address(name))() < 0, name
