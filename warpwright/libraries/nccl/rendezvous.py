"""How ranks find each other: a socket of the process that made the communicator's identity answers every rank with what all of them sent."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import threading
from typing import Any

from warpwright.libraries.calls import LibraryError

MARK = b"WWnccl\0\0"
_SIZE = struct.Struct("<Q")


def identity() -> bytes:
    """128 bytes that name a communicator to be, and its server, which ends with the last rank's connection."""
    name = f"warpwright-nccl-{os.getpid()}-{os.urandom(8).hex()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)
    listener.listen(256)
    threading.Thread(target=_serve, args=(listener,), name=name, daemon=True).start()
    return (MARK + name.encode()).ljust(128, b"\0")


def _receive(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = connection.recv(min(count - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def _message(connection: socket.socket) -> bytes:
    (size,) = _SIZE.unpack(_receive(connection, _SIZE.size))
    return _receive(connection, size)


def _serve(listener: socket.socket) -> None:
    """Gather one message of each rank and answer all of them, until one leaves."""
    connections: dict[int, socket.socket] = {}
    count = 1
    with listener:
        while len(connections) < count:
            connection, _ = listener.accept()
            try:
                count, rank = pickle.loads(_message(connection))
            except EOFError:
                continue
            connections[rank] = connection
    try:
        while connections:
            parts = {}
            for rank, connection in list(connections.items()):
                said = _message(connection)
                if not said:  # the rank leaves
                    connections.pop(rank).close()
                    continue
                parts[rank] = said
            answer = pickle.dumps(parts)
            for connection in connections.values():
                connection.sendall(_SIZE.pack(len(answer)) + answer)
    except (EOFError, OSError):
        for connection in connections.values():
            connection.close()


class Meeting:
    """One rank's connection. Every rank calls the same functions in the same order."""

    def __init__(self, name: bytes, count: int, rank: int) -> None:
        if not name.startswith(MARK):
            raise LibraryError("invalid_value", "the ncclUniqueId was not made by ncclGetUniqueId of this library")
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.connection.connect("\0" + name[len(MARK) :].rstrip(b"\0").decode())
        except OSError as error:
            message = f"the process that made the ncclUniqueId does not answer: {error}"
            raise LibraryError("internal_error", message) from None
        self._send(pickle.dumps((count, rank)))

    def _send(self, said: bytes) -> None:
        self.connection.sendall(_SIZE.pack(len(said)) + said)

    def say(self, value: Any) -> None:
        """Send this rank's value of the next gathering."""
        self._send(pickle.dumps(value))

    def hear(self) -> dict[int, Any]:
        """Every rank's value, once all have sent theirs.

        Raises:
            LibraryError: a rank has ended without leaving.
        """
        try:
            parts: dict[int, bytes] = pickle.loads(_message(self.connection))
        except (EOFError, OSError):
            message = "another rank's process has ended, or has destroyed its communicator"
            raise LibraryError("internal_error", message) from None
        return {rank: pickle.loads(part) for rank, part in sorted(parts.items())}

    def gather(self, value: Any) -> dict[int, Any]:
        """Every rank's value by rank."""
        self.say(value)
        return self.hear()

    def leave(self) -> None:
        """Tell the server and end."""
        with contextlib.suppress(OSError):
            self._send(b"")
        self.connection.close()
