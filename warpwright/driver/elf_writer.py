"""Shared objects written in pure Python: enough of an ELF file for a dynamic linker, and nothing more.

Facts: the System V ABI's ELF-64 (gabi, chapters 4 and 5), its supplements for x86-64 and AArch64 (relocation types), and the
GNU extensions for symbol versions.  A file has three loaded segments: headers, dynamic tables and code (read, execute),
data (read, write), and a second piece of code.  There is no lazy binding: every relocation is in ``DT_RELA``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PAGE_BYTES = 0x10000
"""Segments begin on pages of 64 KiB, the largest that AArch64 kernels use."""
MACHINES = {"x86_64": 62, "aarch64": 183}
"""EM_X86_64 and EM_AARCH64."""
RELATIVE = {"x86_64": 8, "aarch64": 1027}
GLOBAL_DATA = {"x86_64": 6, "aarch64": 1025}
_HEADER_BYTES, _SEGMENT_BYTES, _SYMBOL_BYTES, _RELA_BYTES = 64, 56, 24, 24
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Virtual addresses of the three pieces, known before their contents."""

    text: int
    data: int
    tail: int


def sysv_hash(name: bytes) -> int:
    """The hash of ``DT_HASH`` and of symbol versions (gabi, figure 5-13)."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        top = value & 0xF000_0000
        value = (value ^ (top >> 24)) & ~top & 0xFFFF_FFFF
    return value


class _Strings:
    """A string table that stores each string once."""

    def __init__(self) -> None:
        self.blob = bytearray(b"\0")
        self._places: dict[bytes, int] = {}

    def add(self, text: str) -> int:
        raw = text.encode()
        if raw not in self._places:
            self._places[raw] = len(self.blob)
            self.blob += raw + b"\0"
        return self._places[raw]


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


class SharedObject:
    """A library under construction: names first, then the layout, then its contents.

    Args:
        machine: ``x86_64`` or ``aarch64``.
        soname: the name by which programs ask for it.
        functions: exported functions, in the order of their symbols.
        objects: exported data.
        imports: functions of the C library whose addresses go into data.
        needed: libraries that hold the imports.
        version: symbol version of every export, empty for none.
    """

    def __init__(
        self,
        machine: str,
        soname: str,
        functions: Sequence[str],
        objects: Sequence[str],
        imports: Sequence[str],
        needed: Sequence[str],
        version: str = "",
    ) -> None:
        self.machine = machine
        self.exports = [*functions, *objects]
        self.functions = set(functions)
        self.imports = list(imports)
        self.version = version
        strings = _Strings()
        self._soname = strings.add(soname)
        self._needed = [strings.add(n) for n in needed]
        self._symbol_names = [strings.add(n) for n in (*self.imports, *self.exports)]
        self._version_names = [strings.add(n) for n in (soname, version)] if version else []
        self._strings = bytes(strings.blob)
        self._soname_text = soname
        self._relocation_count = self._tail_bytes = 0

    def layout(self, relocations: int, text_bytes: int, data_bytes: int) -> Layout:
        """Where the pieces go, for pieces of these sizes and ``relocations`` pointers in data."""
        self._relocation_count = relocations + len(self.imports)
        tables = self._tables_at()
        text = _up(tables["end"], 64)
        data = _up(text + text_bytes, PAGE_BYTES)
        dynamic_bytes = 16 * 20
        return Layout(text, data, _up(data + data_bytes + dynamic_bytes, PAGE_BYTES))

    def _tables_at(self) -> dict[str, int]:
        """Offsets of the dynamic linker's tables, which follow the headers."""
        count = 1 + len(self.imports) + len(self.exports)
        at, place = _HEADER_BYTES + 5 * _SEGMENT_BYTES, {}
        for name, size in (
            ("symbols", _SYMBOL_BYTES * count),
            ("strings", len(self._strings)),
            ("hash", 4 * (2 + self._buckets() + count)),
            ("versions", 2 * count if self.version else 0),
            ("definitions", 2 * 28 if self.version else 0),
            ("relocations", _RELA_BYTES * self._relocation_count),
        ):
            at = _up(at, 8)
            place[name] = at
            at += size
        place["end"] = at
        return place

    def _buckets(self) -> int:
        return max(1, len(self.exports) // 2 * 2 + 1)

    def write(
        self,
        where: Layout,
        text: bytes,
        data: bytes,
        tail: bytes,
        symbols: Mapping[str, int],
        pointers: Mapping[int, int],
        imported: Mapping[int, str],
    ) -> bytes:
        """The file's bytes.

        Args:
            symbols: virtual address of each export.
            pointers: address of a word of data to the address that it holds once loaded.
            imported: address of a word of data to the import whose address it holds once loaded.
        """
        place = self._tables_at()
        dynamic_at = _up(where.data + len(data), 16)
        dynamic = self._dynamic(place)
        data_end = dynamic_at + len(dynamic)
        file = bytearray(where.tail + len(tail))
        self._tail_bytes = len(tail)

        def put(at: int, contents: bytes) -> None:
            file[at : at + len(contents)] = contents

        segments = (
            (_LOAD, _READ | _EXECUTE, 0, where.text + len(text), PAGE_BYTES),
            (_LOAD, _READ | _WRITE, where.data, data_end - where.data, PAGE_BYTES),
            (_LOAD, _READ | _EXECUTE, where.tail, len(tail), PAGE_BYTES),
            (_DYNAMIC, _READ | _WRITE, dynamic_at, len(dynamic), 8),
            (_STACK, _READ | _WRITE, 0, 0, 16),
        )
        for number, (kind, flags, at, size, align) in enumerate(segments):
            row = struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align)
            put(_HEADER_BYTES + number * _SEGMENT_BYTES, row)
        put(place["symbols"], self._symbols(symbols))
        put(place["strings"], self._strings)
        put(place["hash"], self._hash())
        if self.version:
            count = 1 + len(self.imports) + len(self.exports)
            put(
                place["versions"], struct.pack(f"<{count}H", *([0] * (1 + len(self.imports)) + [2] * len(self.exports)))
            )
            put(place["definitions"], self._definitions())
        put(place["relocations"], self._relocations(pointers, imported))
        put(where.text, text)
        put(where.data, data)
        put(dynamic_at, dynamic)
        put(where.tail, tail)
        file += bytes(-len(file) % 8)
        sections, names = self._sections(place, where, len(text), len(data), dynamic_at, len(dynamic))
        put(0, self._header(len(file) + len(names), len(sections)))
        return bytes(file) + names + b"".join(sections)

    def _relocations(self, pointers: Mapping[int, int], imported: Mapping[int, str]) -> bytes:
        rela = [(at, RELATIVE[self.machine], target) for at, target in pointers.items()]
        rela += [
            (at, (1 + self.imports.index(name)) << 32 | GLOBAL_DATA[self.machine], 0) for at, name in imported.items()
        ]
        if len(rela) != self._relocation_count:
            raise ValueError(f"{len(rela)} relocations, but the layout was made for {self._relocation_count}")
        return b"".join(struct.pack("<QQq", *row) for row in rela)

    def _header(self, sections_at: int, count: int) -> bytes:
        identification = b"\x7fELF\x02\x01\x01" + bytes(9)
        fields = (
            3,
            MACHINES[self.machine],
            1,
            0,
            _HEADER_BYTES,
            sections_at,
            0,
            64,
            _SEGMENT_BYTES,
            5,
            64,
            count,
            count - 1,
        )
        return identification + struct.pack("<HHIQQQIHHHHHH", *fields)

    def _sections(
        self, place: Mapping[str, int], where: Layout, text: int, data: int, dynamic_at: int, dynamic: int
    ) -> tuple[list[bytes], bytes]:
        """Section headers with their names, for linkers; the dynamic linker does not use them."""
        symbols = 1 + len(self.imports) + len(self.exports)
        # name, type, flags, address, size, link, info, entry size
        rows: list[tuple[str, int, int, int, int, int, int, int]] = [
            ("", 0, 0, 0, 0, 0, 0, 0),
            (".text", 1, 6, where.text, text, 0, 0, 0),
            (".data", 1, 3, where.data, data, 0, 0, 0),
            (".dynsym", 11, 2, place["symbols"], _SYMBOL_BYTES * symbols, 4, 1, _SYMBOL_BYTES),
            (".dynstr", 3, 2, place["strings"], len(self._strings), 0, 0, 0),
            (".hash", 5, 2, place["hash"], 4 * (2 + self._buckets() + symbols), 3, 0, 4),
            (".rela.dyn", 4, 2, place["relocations"], _RELA_BYTES * self._relocation_count, 3, 0, _RELA_BYTES),
            (".dynamic", 6, 3, dynamic_at, dynamic, 4, 0, 16),
        ]
        if self.version:
            rows.append((".gnu.version", 0x6FFFFFFF, 2, place["versions"], 2 * symbols, 3, 0, 2))
            rows.append((".gnu.version_d", 0x6FFFFFFD, 2, place["definitions"], 2 * 28, 4, 2, 0))
        names = b"\0" + b"".join(row[0].encode() + b"\0" for row in rows[1:]) + b".shstrtab\0"
        names += bytes(-len(names) % 8)
        names_at = _up(where.tail + self._tail_bytes, 8)
        rows.append((".shstrtab", 3, 0, names_at, len(names), 0, 0, 0))
        headers = []
        for name, kind, flags, at, size, link, info, entry in rows:
            address = 0 if name == ".shstrtab" else at
            offset = names.find(name.encode() + b"\0") if name else 0
            headers.append(struct.pack("<IIQQQQIIQQ", offset, kind, flags, address, at, size, link, info, 8, entry))
        return headers, names

    def _symbols(self, addresses: Mapping[str, int]) -> bytes:
        rows = [bytes(_SYMBOL_BYTES)]
        names = iter(self._symbol_names)
        for _ in self.imports:
            rows.append(struct.pack("<IBBHQQ", next(names), 1 << 4 | 2, 0, 0, 0, 0))
        for name in self.exports:
            kind = 2 if name in self.functions else 1
            section = 1 if name in self.functions else 2
            rows.append(struct.pack("<IBBHQQ", next(names), 1 << 4 | kind, 0, section, addresses[name], 8))
        return b"".join(rows)

    def _hash(self) -> bytes:
        names = [*self.imports, *self.exports]
        count, buckets = 1 + len(names), self._buckets()
        first, following = [0] * buckets, [0] * count
        for index, name in enumerate(names, 1):
            bucket = sysv_hash(name.encode()) % buckets
            following[index] = first[bucket]
            first[bucket] = index
        return struct.pack(f"<{2 + buckets + count}I", buckets, count, *first, *following)

    def _definitions(self) -> bytes:
        """Two version definitions: the file itself, and the version of every export."""
        rows = b""
        for number, (text, offset) in enumerate(
            zip((self._soname_text, self.version), self._version_names, strict=True), 1
        ):
            following = 28 if number == 1 else 0
            rows += struct.pack(
                "<HHHHIII", 1, 1 if number == 1 else 0, number, 1, sysv_hash(text.encode()), 20, following
            )
            rows += struct.pack("<II", offset, 0)
        return rows

    def _dynamic(self, place: Mapping[str, int]) -> bytes:
        rows = [(1, offset) for offset in self._needed]
        rows += [(14, self._soname), (4, place["hash"]), (5, place["strings"]), (6, place["symbols"])]
        rows += [(10, len(self._strings)), (11, _SYMBOL_BYTES)]
        rows += [(7, place["relocations"]), (8, _RELA_BYTES * self._relocation_count), (9, _RELA_BYTES)]
        if self.version:
            rows += [(0x6FFFFFF0, place["versions"]), (0x6FFFFFFC, place["definitions"]), (0x6FFFFFFD, 2)]
        rows += [(24, 0), (0, 0)]
        return b"".join(struct.pack("<QQ", *row) for row in rows)
