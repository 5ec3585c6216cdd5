"""The ELF64 container of a cubin: sections, symbols and relocations, every offset checked.

Names and layouts follow the System V ABI (chapters 4 and 5).  Cubins come from anywhere, so each field is checked against the file before it is used; damage of
any kind raises :class:`CubinError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from warpwright.toolchain.compile_errors import CubinError

EM_CUDA = 190
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 4, 8, 9
STT_OBJECT, STT_FUNC, STT_SECTION = 1, 2, 3
STO_CUDA_ENTRY = 0x10
"""Bit of ``st_other``: the function is a kernel."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REL = struct.Struct("<QQ")
_RELA = struct.Struct("<QQq")


@dataclass(frozen=True, slots=True)
class Section:
    """One section with its contents (empty if it takes no space in the file)."""

    index: int
    name: str
    type: int
    flags: int
    info: int
    link: int
    size: int
    alignment: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol; ``section`` is an index, 0 when it is defined elsewhere."""

    index: int
    name: str
    type: int
    binding: int
    other: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class ElfRelocation:
    """One relocation of section ``target`` (an index); ``addend`` is None in a table without them."""

    target: int
    offset: int
    type: int
    symbol: int
    addend: int | None


class ElfFile:
    """A parsed ELF64 file of machine ``EM_CUDA`` (or ``machine``, None for any); :class:`CubinError` for anything else."""

    def __init__(self, data: bytes, name: str, machine: int | None = EM_CUDA) -> None:
        self.name = name
        self._data = data
        if data[:4] != b"\x7fELF":
            raise CubinError(
                f"{name} is not a cubin: it does not begin with the ELF magic number. "
                "Give CUDA C++, PTX, or a cubin (nvcc -cubin)."
            )
        if len(data) < _HEADER.size:
            raise CubinError(f"{name} is cut short: {len(data)} bytes, less than an ELF header.")
        ident, self.type, found, self.version, _, programs, table, self.flags, _, size, parts, entry, count, names = (
            _HEADER.unpack_from(data)
        )
        if ident[4] != 2 or ident[5] != 1:
            raise CubinError(f"{name} is not a 64-bit little-endian ELF file, so it holds no code for these chips.")
        if machine is not None and found != machine:
            raise CubinError(
                f"{name} is an ELF file for machine {found}, not CUDA ({EM_CUDA}): "
                "it is host code. Pass the cubin that it contains (cuobjdump -xelf all)."
            )
        self.os_abi, self.abi_version = ident[7], ident[8]
        if entry != _SECTION.size:
            raise CubinError(f"{name} is damaged: section headers of {entry} bytes instead of {_SECTION.size}.")
        if programs + parts * size > len(data):
            raise CubinError(
                f"{name} is cut short: its program headers end at byte {programs + parts * size}, "
                f"the file has {len(data)} bytes."
            )
        if table + count * entry > len(data):
            raise CubinError(
                f"{name} is cut short: its section table ends at byte {table + count * entry}, "
                f"the file has {len(data)} bytes."
            )
        raw = [_SECTION.unpack_from(data, table + i * entry) for i in range(count)]
        if names >= count:
            raise CubinError(f"{name} is damaged: section {names} should hold the names, but there are {count}.")
        strings = self._slice(raw[names][4], raw[names][5], "the section names")
        stored = sum(size for _, kind, _, _, _, size, *_ in raw if kind not in (SHT_NOBITS, 0))
        if stored > 4 * len(data):
            raise CubinError(f"{name} is damaged: its sections claim {stored} bytes, the file has {len(data)}.")
        self.sections: list[Section] = []
        for i, (at, kind, flags, _, offset, size, link, info, alignment, _) in enumerate(raw):
            text = self._string(strings, at)
            contents = b"" if kind in (SHT_NOBITS, 0) else self._slice(offset, size, f"section {text or i}")
            self.sections.append(Section(i, text, kind, flags, info, link, size, alignment, contents))
        self.by_name = {s.name: s for s in self.sections}
        self.symbols = self._read_symbols()
        self.relocations = list(self._read_relocations())

    def _slice(self, offset: int, size: int, what: str) -> bytes:
        if offset + size > len(self._data):
            raise CubinError(
                f"{self.name} is cut short: {what} ends at byte {offset + size}, the file has {len(self._data)} bytes."
            )
        return self._data[offset : offset + size]

    def _string(self, strings: bytes, at: int) -> str:
        end = strings.find(b"\0", at)
        if at >= len(strings) or end < 0:
            raise CubinError(f"{self.name} is damaged: a name is outside its string table (offset {at}).")
        return strings[at:end].decode(errors="replace")

    def _read_symbols(self) -> list[Symbol]:
        found: list[Symbol] = []
        for section in self.sections:
            if section.type != SHT_SYMTAB:
                continue
            if section.link >= len(self.sections):
                raise CubinError(f"{self.name} is damaged: the symbol table names string table {section.link}.")
            strings = self.sections[section.link].data
            for i in range(len(section.data) // _SYMBOL.size):
                at, info, other, home, value, size = _SYMBOL.unpack_from(section.data, i * _SYMBOL.size)
                found.append(Symbol(i, self._string(strings, at), info & 15, info >> 4, other, home, value, size))
            break
        return found

    def _read_relocations(self) -> Iterator[ElfRelocation]:
        for section in self.sections:
            if section.type not in (SHT_REL, SHT_RELA):
                continue
            if section.info >= len(self.sections):
                raise CubinError(f"{self.name} is damaged: {section.name} relocates section {section.info}.")
            layout = _REL if section.type == SHT_REL else _RELA
            for i in range(len(section.data) // layout.size):
                fields = layout.unpack_from(section.data, i * layout.size)
                symbol, kind = fields[1] >> 32, fields[1] & 0xFFFFFFFF
                if symbol >= len(self.symbols):
                    raise CubinError(f"{self.name} is damaged: {section.name} names symbol {symbol}.")
                addend = fields[2] if len(fields) == 3 else None
                yield ElfRelocation(section.info, fields[0], kind, symbol, addend)
