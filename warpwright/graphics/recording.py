"""Recordings of the input of a graphics device: buffers, host writes and submissions. A replay needs no driver.

A file is a line ``warpwright command stream 1`` followed by a zlib stream of records: a letter and the fields listed in ``_FIELDS``. Before each submission,
the pages that the host may have written are compared, and those that changed are recorded. The digest after the last submission covers all buffers, so that a
replay can check that it did the same.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.errors import WarpwrightError
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.video_memory import PAGE_BYTES, Buffer

MAGIC = b"warpwright command stream 1\n"
_FIELDS = {
    b"D": struct.Struct("<QQQ"),  # device: bytes of local memory, TPCs, SMs of each
    b"O": struct.Struct("<QI"),  # object: handle, class
    b"A": struct.Struct("<QQQBII"),  # buffer: handle, address, size, local, storage type, tile mode
    b"F": struct.Struct("<Q"),  # buffer given back: handle
    b"W": struct.Struct("<QI"),  # host's write: address, length, and so many bytes
    b"S": struct.Struct("<I"),  # submission: number of segments, and address and length of each
    b"E": struct.Struct("<32s"),  # digest of all buffers so far
}
_SEGMENT = struct.Struct("<QQ")
_CHUNK_BYTES = 1 << 16


class RecordingError(WarpwrightError, ValueError):
    """A file is not a recording, or ends within a record."""


def digest_of(device: GraphicsDevice) -> bytes:
    """SHA-256 of the addresses, sizes and contents of all buffers."""
    digest = hashlib.sha256()
    for buffer in sorted(device.memory.buffers.values(), key=lambda b: b.address):
        digest.update(struct.pack("<QQ", buffer.address, buffer.size))
        digest.update(device.memory.view(buffer.address, buffer.size, "a recording").tobytes())
    return digest.digest()


class Recorder:
    """Writes a recording of a device while it is used."""

    def __init__(self, device: GraphicsDevice, path: Path) -> None:
        self._device = device
        self._file: BinaryIO = path.open("wb")
        self._file.write(MAGIC)
        self._packer = zlib.compressobj(6)
        self._buffers: dict[int, Buffer] = {}
        self._objects: dict[int, int] = {}
        self._seen: dict[int, npt.NDArray[np.uint8]] = {}
        self._put(b"D", device.memory.local_bytes, device.tpc_count, device.sms_per_tpc)
        device.on_submit = self._before
        device.after_submit = self._after

    def _put(self, kind: bytes, *fields: int | bytes, tail: bytes = b"") -> None:
        self._file.write(self._packer.compress(kind + _FIELDS[kind].pack(*fields) + tail))

    def _before(self, segments: list[tuple[int, int]]) -> None:
        """Record everything that has changed since the last submission, and then this one."""
        memory = self._device.memory
        for handle, number in self._device.classes_by_handle.items():
            if self._objects.get(handle) != number:
                self._objects[handle] = number
                self._put(b"O", handle, number)
        for handle in [h for h in self._buffers if h not in memory.buffers]:
            del self._buffers[handle]
            self._seen.pop(handle, None)
            self._put(b"F", handle)
        for handle, b in memory.buffers.items():
            if handle not in self._buffers:
                self._buffers[handle] = b
                self._put(b"A", handle, b.address, b.size, int(b.local), b.storage_type, b.tile_mode)
        for handle, buffer in self._device.host_buffers.items():
            self._put_changes(handle, buffer)
        pairs = b"".join(_SEGMENT.pack(*pair) for pair in segments)
        self._put(b"S", len(segments), tail=pairs)

    def _put_changes(self, handle: int, buffer: Buffer) -> None:
        now = self._device.memory.view(buffer.address, buffer.size, "a recording")
        seen = self._seen.get(handle)
        if seen is None:
            seen = self._seen[handle] = np.zeros(buffer.size, dtype=np.uint8)
        pages = np.flatnonzero((now != seen).reshape(-1, PAGE_BYTES).any(axis=1))
        for run in np.split(pages, np.flatnonzero(np.diff(pages) > 1) + 1):
            if len(run):
                first, end = int(run[0]) * PAGE_BYTES, int(run[-1] + 1) * PAGE_BYTES
                self._put(b"W", buffer.address + first, end - first, tail=now[first:end].tobytes())

    def _after(self) -> None:
        """Writes by the device need no record."""
        for handle, buffer in self._device.host_buffers.items():
            self._seen[handle] = self._device.memory.view(buffer.address, buffer.size, "a recording").copy()
        self._file.write(self._packer.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def finish(self) -> None:
        """Write the digest and close the file."""
        if not self._file.closed:
            # The recording excludes host writes after the last submission.
            self._before([])
            self._put(b"E", digest_of(self._device))
            self._file.write(self._packer.flush())
            self._file.close()


class _Reader:
    """Unpacks the bytes of a recording piece by piece."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("rb")
        except OSError as reason:
            raise RecordingError(f"{path}: {reason.strerror}") from None
        self._path = path
        if self._file.read(len(MAGIC)) != MAGIC:
            raise RecordingError(
                f"{path} is not a recording of a command stream: warpwright run --record FILE makes one"
            )
        self._unpacker = zlib.decompressobj()
        self._ready = b""

    def take(self, size: int, may_end: bool = False) -> bytes:
        """The next bytes; empty at the end of the file, if it may end here."""
        pieces, have = [self._ready], len(self._ready)
        while have < size:
            packed = self._file.read(_CHUNK_BYTES)
            if not packed:
                break
            try:
                pieces.append(self._unpacker.decompress(packed))
            except zlib.error as reason:
                raise RecordingError(f"{self._path} is damaged: {reason}") from None
            have += len(pieces[-1])
        whole = b"".join(pieces)
        if have < size and not (may_end and have == 0):
            raise RecordingError(f"{self._path} ends within a record")
        self._ready = whole[size:]
        return whole[:size]


def _records(reader: _Reader) -> Iterator[tuple[bytes, tuple[int, ...], bytes]]:
    """The letter, the fields and the trailing bytes of each record."""
    while kind := reader.take(1, may_end=True):
        form = _FIELDS.get(kind)
        if form is None:
            raise RecordingError(f"the recording has a record of the unknown kind {kind!r}")
        fields = form.unpack(reader.take(form.size))
        tail = b""
        if kind == b"W":
            tail = reader.take(fields[1])
        elif kind == b"S":
            tail = reader.take(fields[0] * _SEGMENT.size)
        yield kind, fields, tail


class Replay:
    """Replays a recording.

    Args:
        timed_on: the chip to simulate the cycles of; the contents of memory do not depend on it.
        balance: how its SM controllers choose (``GraphicsDevice.keep_time``).

    Attributes:
        device: the device that it created.
        submissions: number of submissions executed.
        is_same: whether memory ended as it did when the recording was made; None if its end was not recorded.
    """

    def __init__(self, path: Path, timed_on: Chip | None = None, balance: str = "dynamic") -> None:
        self._reader = _Reader(path)
        self._timed_on, self._balance = timed_on, balance
        self.device: GraphicsDevice | None = None
        self.submissions = 0
        self.is_same: bool | None = None
        self.on_device: Callable[[GraphicsDevice], None] = lambda device: None

    def run(self) -> None:
        """Execute all submissions.

        Raises:
            RecordingError: the file is damaged.
            WarpwrightError: a submission requests something that is not provided, or is invalid.
        """
        for kind, fields, tail in _records(self._reader):
            if kind == b"D":
                self.device = GraphicsDevice(*fields)
                if self._timed_on is not None:
                    self.device.keep_time(self._timed_on, self._balance).writes_reports = False
                keep_last_image(self.device)
                self.on_device(self.device)
                continue
            if self.device is None:
                raise RecordingError("the recording does not begin with its device")
            self._carry_out(self.device, kind, fields, tail)

    def _carry_out(self, device: GraphicsDevice, kind: bytes, fields: tuple[int, ...], tail: bytes) -> None:
        memory = device.memory
        if kind == b"O":
            device.add_object(fields[0], fields[1])
        elif kind == b"A":
            memory.place_buffer(Buffer(fields[0], fields[1], fields[2], bool(fields[3]), fields[4], fields[5]))
        elif kind == b"F":
            buffer = memory.buffers.get(fields[0])
            if buffer is None:
                raise RecordingError(f"the recording frees the buffer {fields[0]}, which does not exist")
            device.free(buffer)
        elif kind == b"W":
            memory.view(fields[0], fields[1], "the recorded host")[:] = np.frombuffer(tail, dtype=np.uint8)
        elif kind == b"S":
            segments = [(a, n) for a, n in _SEGMENT.iter_unpack(tail)]
            if segments:
                device.submit(segments)
                self.submissions += 1
        else:
            self.is_same = digest_of(device) == fields[0]  # type: ignore[comparison-overlap]


def keep_last_image(device: GraphicsDevice) -> None:
    """From now on, keep what was drawn last when its buffer is freed: programs free their targets before they end."""

    def keep(buffer: Buffer) -> None:
        target = device.three_d.last_target
        if target is not None and buffer.address <= target.surface.layer(0)[0].address < buffer.address + buffer.size:
            device.kept_image, device.three_d.last_target = last_image(device), None

    device.before_free = keep


def last_image(device: GraphicsDevice) -> npt.NDArray[np.uint8] | None:
    """The colours of the last target drawn to, as bytes (height, width, 4); None if there is none.

    The first row is the top row of an OpenGL framebuffer, which is the last one in memory.
    """
    from warpwright.graphics.formats import decode
    from warpwright.graphics.surface_layout import check, read_elements

    target = device.three_d.last_target
    if target is None:
        return device.kept_image
    surface, form = target.surface, target.form
    layout, z = surface.layer(0)
    size = form.size
    base = check(device.memory, layout, (0, surface.width * size - 1), (0, surface.height - 1), z, "an image")
    offsets = layout.offsets(np.arange(surface.width) * size, np.arange(surface.height)[:, None], z)
    colours = decode(read_elements(device.memory, base, offsets[::-1], size), form)
    with np.errstate(invalid="ignore"):
        return (np.clip(np.nan_to_num(colours), 0, 1) * 255 + 0.5).astype(np.uint8)


def png(image: npt.NDArray[np.uint8]) -> bytes:
    """An image (height, width, 4) as a PNG file (RFC 2083)."""
    height, width = image.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + chunk(b"IEND", b"")
