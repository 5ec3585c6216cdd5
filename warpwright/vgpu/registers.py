"""Registers and rings of a virtual function.

A function's first base address register (BAR 0) is a page of registers: its doorbell, and the card's time (open-gpu-doc, NV_VIRTUAL_FUNCTION: the page begins
at 0x30000, the time is at 0x80 of it, the doorbell at 0x90).  Its second one (BAR 1) is its part of the card's memory.  Commands go
through a ring in the memory of the process; the doorbell tells the card that there are some.  Answers come back through another ring.
"""

from __future__ import annotations

import json
import mmap
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from warpwright.errors import ExecutionError

FUNCTION_BYTES = 0x10000
TIME_0, TIME_1, DOORBELL = 0x80, 0x84, 0x90
RING_BYTES = 1 << 20
_HEADER_BYTES = 64
"""PUT and GET, before the entries."""
_PUT, _GET = 0, 8
_FULL_SECONDS = 0.0005


class GuestError(ExecutionError):
    """A process that used a virtual function has failed, or its card has."""


class Registers:
    """The register page of a virtual function, which the card and the process both see."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, FUNCTION_BYTES)

    def read(self, offset: int) -> int:
        """A register of 32 bits."""
        return int(struct.unpack_from("<I", self._page, offset)[0])

    def write(self, offset: int, value: int) -> None:
        """Write a register of 32 bits."""
        struct.pack_into("<I", self._page, offset, value & 0xFFFF_FFFF)

    @property
    def ns(self) -> int:
        """The card's time."""
        return self.read(TIME_1) << 32 | self.read(TIME_0)

    @ns.setter
    def ns(self, value: int) -> None:
        self.write(TIME_1, value >> 32)
        self.write(TIME_0, value)


class Ring:
    """Messages from one process to another, in order."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _HEADER_BYTES + RING_BYTES)

    def _word(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self._memory, offset)[0])

    def put(self, message: dict[str, Any]) -> None:
        """Add a message; waits while there is no room.

        Raises:
            GuestError: the message is larger than the ring.
        """
        text = json.dumps(message).encode()
        data = struct.pack("<I", len(text)) + text
        if len(data) > RING_BYTES:
            raise GuestError(f"a command of {len(data):,} bytes: the ring has {RING_BYTES:,}; make it shorter")
        put = self._word(_PUT)
        while put + len(data) - self._word(_GET) > RING_BYTES:
            time.sleep(_FULL_SECONDS)
        for part, at in self._parts(put, len(data)):
            self._memory[at : at + part.stop - part.start] = data[part]
        struct.pack_into("<Q", self._memory, _PUT, put + len(data))

    def messages(self) -> Iterator[dict[str, Any]]:
        """Take what there is."""
        while self._word(_GET) < self._word(_PUT):
            get = self._word(_GET)
            (length,) = struct.unpack("<I", self._read(get, 4))
            message = json.loads(self._read(get + 4, length))
            struct.pack_into("<Q", self._memory, _GET, get + 4 + length)
            yield message

    def _read(self, place: int, length: int) -> bytes:
        return b"".join(self._memory[at : at + part.stop - part.start] for part, at in self._parts(place, length))

    @staticmethod
    def _parts(place: int, length: int) -> list[tuple[slice, int]]:
        """Pieces of a message, and where in memory each is: two if it goes over the ring's end."""
        first = place % RING_BYTES
        until = min(length, RING_BYTES - first)
        parts = [(slice(0, until), _HEADER_BYTES + first)]
        return parts if until == length else [*parts, (slice(until, length), _HEADER_BYTES)]


class Channel:
    """A function's registers, its rings, and what stands for the writes that a card would see on the bus."""

    def __init__(self, token: int) -> None:
        self.token = token
        """What the process writes to the doorbell."""
        self.registers = Registers()
        self.commands, self.answers = Ring(), Ring()
        self.card, self.process = socket.socketpair()

    def ring_doorbell(self) -> None:
        """Tell the card that there are commands."""
        self.registers.write(DOORBELL, self.token)
        self.process.sendall(b"d")

    def rung(self) -> bool:
        """Take the doorbell's write; False if the process has gone.

        Raises:
            GuestError: the process has written another function's token.
        """
        try:
            if not self.card.recv(4096):
                return False
        except ConnectionError:
            return False
        written = self.registers.read(DOORBELL)
        if written != self.token:
            raise GuestError(f"the doorbell was rung with {written:#x}, and the function's channel is {self.token:#x}")
        return True

    def answer(self, message: dict[str, Any]) -> None:
        """Send an answer to the process, if it is still there."""
        self.answers.put(message)
        try:
            self.card.sendall(b"a")
        except (BrokenPipeError, ConnectionError):
            return

    def await_answer(self) -> dict[str, Any]:
        """The next answer.

        Raises:
            GuestError: the card has gone.
        """
        if not self.process.recv(1):
            raise GuestError("the card has gone")
        return next(self.answers.messages())
