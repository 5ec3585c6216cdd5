"""Fatbins: several forms of one program (machine code for architectures, PTX) in one container.

The format was inferred from containers that nvcc 12 and 13 and NVRTC write: a header (magic, version, header size, size of all entries), then
entries, each with a header of its own: kind, header size, padded size, stored size, version of its text, architecture,
flags, unpacked size. Entries are packed as LZ4 blocks or Zstandard frames, according to their flags.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from warpwright.toolchain.compile_errors import CubinError, MissingToolError

MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _ELF = 1, 2
_LZ4, _ZSTANDARD = 0x2000, 0x8000


@dataclass(frozen=True, slots=True)
class FatbinEntry:
    """One form of the program."""

    is_ptx: bool
    arch: int
    """Compute capability times ten."""
    _packed: bytes
    _flags: int
    _size: int

    def contents(self) -> bytes:
        """The cubin's bytes or the PTX text, unpacked."""
        if self._flags & _LZ4:
            return unpack_lz4(self._packed, self._size)
        if self._flags & _ZSTANDARD:
            return _unpack_zstandard(self._packed, self._size)
        return self._packed


def fatbin_bytes(head: bytes) -> int:
    """Size of a container, from its first 16 bytes.

    Raises :class:`CubinError` when they are not those of a fatbin.
    """
    magic, _, header, size = _CONTAINER.unpack_from(head)
    if magic != MAGIC:
        raise CubinError("not a fatbin: it does not begin with its magic number.")
    return int(header + size)


def read_fatbin(data: bytes) -> Iterator[FatbinEntry]:
    """The entries of a container, in order.

    Raises :class:`CubinError` if it is not a fatbin or is truncated.
    """
    if len(data) < _CONTAINER.size or fatbin_bytes(data) > len(data):
        raise CubinError("the fatbin is cut short.")
    end = fatbin_bytes(data)
    at = _CONTAINER.unpack_from(data)[2]
    while at + _ENTRY.size <= end:
        kind, _, header, padded, stored, _, _, _, arch, _, _, flags, _, size = _ENTRY.unpack_from(data, at)
        if at + header + padded > end:
            raise CubinError("an entry of the fatbin is cut short.")
        payload = data[at + header : at + header + (stored or padded)]
        if kind in (_PTX, _ELF):
            yield FatbinEntry(kind == _PTX, arch, payload, flags, size)
        at += header + padded


def unpack_lz4(packed: bytes, size: int) -> bytes:
    """Unpack an LZ4 block (lz4_Block_format.md of its public specification).

    Raises :class:`CubinError` if it does not unpack to ``size`` bytes.
    """
    out = bytearray()
    at, end = 0, len(packed)
    try:
        while at < end:
            token = packed[at]
            at += 1
            literals = token >> 4
            if literals == 15:
                while True:
                    literals += packed[at]
                    at += 1
                    if packed[at - 1] != 255:
                        break
            out += packed[at : at + literals]
            at += literals
            if at >= end:
                break
            distance = packed[at] | packed[at + 1] << 8
            at += 2
            length = (token & 15) + 4
            if length == 19:
                while True:
                    length += packed[at]
                    at += 1
                    if packed[at - 1] != 255:
                        break
            start = len(out) - distance
            if distance == 0 or start < 0:
                raise CubinError("a packed entry of the fatbin is damaged.")
            if distance >= length:
                out += out[start : start + length]
            else:
                pattern = bytes(out[start:])
                out += (pattern * (length // distance + 1))[:length]
    except IndexError:
        raise CubinError("a packed entry of the fatbin is cut short.") from None
    if len(out) < size:
        raise CubinError(f"a packed entry of the fatbin gives {len(out)} bytes instead of {size}.")
    return bytes(out[:size])


def _unpack_zstandard(packed: bytes, size: int) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MissingToolError(
            "this program's device code is packed with Zstandard, which needs the package zstandard: "
            "pip install 'warpwright[native]', or build with nvcc --compress-mode=none"
        ) from None
    return zstandard.ZstdDecompressor().decompress(packed, max_output_size=max(size, 1))
