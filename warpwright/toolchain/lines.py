"""Line tables of cubins: code offset to source file and line, through inlined calls.

The table is DWARF version 2 (``.debug_line``, sections 6.2.2 to 6.2.5 of the DWARF 2 standard) with two extended opcodes by NVIDIA: 0x90 marks the following
rows as inlined from the call in an earlier row (its number, counted from 1 within the sequence; 0 ends it), and 0x91 names a function.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from warpwright.toolchain.compile_errors import CubinError

_INLINED_CALL = 0x90
_MAX_INLINE_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Line:
    """The place in the source that the code from ``offset`` on comes from."""

    offset: int
    """Byte offset in the function's section."""
    file: str
    line: int
    inlined_at: tuple[tuple[str, int], ...] = ()
    """Call sites (file, line) from the innermost outwards, if the code was inlined."""


@dataclass(slots=True)
class LineTable:
    """The rows of one function's section, in ascending offset."""

    rows: list[Line] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)

    def at(self, offset: int) -> Line | None:
        """The row that covers a byte offset, or None before the first row."""
        if len(self._offsets) != len(self.rows):
            self._offsets = [r.offset for r in self.rows]
        i = bisect_right(self._offsets, offset)
        return self.rows[i - 1] if i else None

    def user_line(self, offset: int) -> tuple[str, int] | None:
        """The (file, line) of the innermost place that is not in a header of the toolkit."""
        row = self.at(offset)
        if row is None:
            return None
        for place in ((row.file, row.line), *row.inlined_at):
            if not is_toolkit_file(place[0]):
                return place
        return row.file, row.line

    def in_barriers(self) -> list[range]:
        """Offsets of the code that implements ``cuda::barrier``."""
        ends = [row.offset for row in self.rows[1:]] + [1 << 62]
        return [range(row.offset, end) for row, end in zip(self.rows, ends, strict=True) if _implements_barrier(row)]


def _implements_barrier(row: Line) -> bool:
    return any(_BARRIER.search(name) for name, _ in ((row.file, row.line), *row.inlined_at))


_BARRIER = re.compile(r"/cuda/(std/)?(__barrier/|barrier$)")
_TOOLKIT = re.compile(r"/nvidia/cu[^/]*/(.*/)?include/|/cuda(-[\d.]+)?/(bin/\.\./)?(targets/[^/]+/)?include/")


def is_toolkit_file(name: str) -> bool:
    """Whether a source name is a header of the CUDA toolkit (from its wheels or installed) rather than a file of the program."""
    return _TOOLKIT.search(name.replace("\\", "/")) is not None


def own_name(path: str, source_name: str, source_folder: str) -> str:
    """``source_name`` if ``path`` is the compiler's working folder followed by that name; ``path`` otherwise."""
    if not source_name or not source_folder:
        return path
    return source_name if os.path.normpath(path) == os.path.normpath(f"{source_folder}/{source_name}") else path


class _Reader:
    """A cursor over bytes that refuses to run past the end."""

    def __init__(self, data: bytes, at: int, end: int, where: str) -> None:
        self.data, self.at, self.end, self.where = data, at, end, where

    def _need(self, count: int) -> int:
        if self.at + count > self.end:
            raise CubinError(f"{self.where} is damaged: the line table ends inside an entry (byte {self.at}).")
        at = self.at
        self.at += count
        return at

    def byte(self) -> int:
        return self.data[self._need(1)]

    def unpack(self, form: str) -> int:
        value: int = struct.unpack_from("<" + form, self.data, self._need(struct.calcsize("<" + form)))[0]
        return value

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 70:
                raise CubinError(f"{self.where} is damaged: a number of the line table has no end (byte {self.at}).")

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def text(self) -> str:
        stop = self.data.find(b"\0", self.at, self.end)
        if stop < 0:
            raise CubinError(f"{self.where} is damaged: a name of the line table has no end (byte {self.at}).")
        value = self.data[self.at : stop].decode(errors="replace")
        self.at = stop + 1
        return value


@dataclass(slots=True)
class _Row:
    section: str
    offset: int
    file: str
    line: int
    context: int


def read_line_tables(
    data: bytes, sections_at: Mapping[int, str], where: str, source_name: str = "", source_folder: str = ""
) -> dict[str, LineTable]:
    """Line tables by section name.

    ``sections_at`` maps each byte position of an address operand in ``data`` to the code section that its relocation names; sequences without such a relocation
    are skipped. ``source_name`` is the name of the compiled source, and ``source_folder`` the compiler's working folder.
    """
    tables: dict[str, LineTable] = {}
    name_of = partial(own_name, source_name=source_name, source_folder=source_folder)
    at = 0
    while at + 4 <= len(data):
        length = struct.unpack_from("<I", data, at)[0]
        end = at + 4 + length
        if end > len(data):
            raise CubinError(f"{where} is damaged: a line table of {length} bytes runs past the end.")
        for rows in _read_unit(_Reader(data, at + 4, end, where), sections_at, name_of):
            _add_rows(rows, tables)
        at = end
    for table in tables.values():
        table.rows.sort(key=lambda r: r.offset)
    return tables


@dataclass(frozen=True, slots=True)
class _UnitHeader:
    """The header fields that a unit's line-number program needs."""

    minimum_length: int
    """Bytes of the smallest instruction."""
    line_base: int
    line_range: int
    opcode_base: int
    operand_counts: list[int]
    """Operand counts of the standard opcodes."""
    files: list[str]


def _read_header(reader: _Reader, name_of: Callable[[str], str]) -> _UnitHeader:
    """Read a unit's header, with files renamed by ``name_of``; the reader is then at the unit's program."""
    version = reader.unpack("H")
    if not 2 <= version <= 4:
        raise CubinError(f"{reader.where} has a line table of DWARF version {version}; versions 2 to 4 are read.")
    header_length = reader.unpack("I")
    program = reader.at + header_length
    minimum_length = reader.byte()
    if version >= 4:
        reader.byte()
    reader.byte()
    line_base, line_range, opcode_base = reader.unpack("b"), reader.byte(), reader.byte()
    if not line_range or not opcode_base:
        raise CubinError(f"{reader.where} is damaged: a line table with line range {line_range}.")
    operand_counts = [0, *(reader.byte() for _ in range(opcode_base - 1))]
    folders = [""]
    while name := reader.text():
        folders.append(name)
    files = [""]
    while name := reader.text():
        folder = reader.uleb()
        reader.uleb()
        reader.uleb()
        prefix = folders[folder] if 0 < folder < len(folders) else ""
        path = f"{prefix}/{name}" if prefix and not name.startswith("/") else name
        files.append(name_of(path))
    reader.at = program
    return _UnitHeader(minimum_length, line_base, line_range, opcode_base, operand_counts, files)


class _LineMachine:
    """The state machine of a line-number program: its registers and the sequences of rows so far."""

    def __init__(self, reader: _Reader, header: _UnitHeader, sections_at: Mapping[int, str]) -> None:
        self.reader, self.header, self.sections_at = reader, header, sections_at
        self.sequences: list[list[_Row]] = []
        self.rows: list[_Row] = []
        self.reset()

    def reset(self) -> None:
        self.section, self.address, self.file, self.line, self.context = "", 0, 1, 1, 0

    def emit(self) -> None:
        files = self.header.files
        name = files[self.file] if 0 < self.file < len(files) else ""
        self.rows.append(_Row(self.section, self.address, name, self.line, self.context))

    def advance(self, step: int) -> None:
        """Move the address as a special opcode does."""
        self.address += step // self.header.line_range * self.header.minimum_length

    def run(self) -> None:
        reader, header = self.reader, self.header
        while reader.at < reader.end:
            opcode = reader.byte()
            if opcode >= header.opcode_base:
                step = opcode - header.opcode_base
                self.advance(step)
                self.line += header.line_base + step % header.line_range
                self.emit()
            elif opcode == 0:
                self.extended(reader.uleb())
            else:
                self.standard(opcode)

    def standard(self, opcode: int) -> None:
        reader = self.reader
        if opcode == 1:
            self.emit()
        elif opcode == 2:
            self.address += reader.uleb() * self.header.minimum_length
        elif opcode == 3:
            self.line += reader.sleb()
        elif opcode == 4:
            self.file = reader.uleb()
        elif opcode == 8:
            self.advance(255 - self.header.opcode_base)
        elif opcode == 9:
            self.address += reader.unpack("H")
        else:
            for _ in range(self.header.operand_counts[opcode]):
                reader.uleb()

    def extended(self, length: int) -> None:
        if length == 0:
            # The assembler pads the header with empty extended opcodes.
            return
        reader = self.reader
        stop = reader.at + length
        opcode = reader.byte()
        if opcode == 1:
            self.sequences.append(self.rows)
            self.rows = []
            self.reset()
        elif opcode == 2:
            self.section = self.sections_at.get(reader.at, "")
            self.address = reader.unpack("Q")
        elif opcode == _INLINED_CALL:
            self.context = reader.uleb()
        if stop > reader.end:
            raise CubinError(f"{reader.where} is damaged: an entry of the line table runs past its end.")
        reader.at = stop


def _read_unit(reader: _Reader, sections_at: Mapping[int, str], name_of: Callable[[str], str]) -> list[list[_Row]]:
    """The sequences of one unit, each a list of rows."""
    machine = _LineMachine(reader, _read_header(reader, name_of), sections_at)
    machine.run()
    return machine.sequences


def _add_rows(rows: list[_Row], tables: dict[str, LineTable]) -> None:
    for row in rows:
        if not row.section:
            continue
        sites: list[tuple[str, int]] = []
        context = row.context
        while 0 < context <= len(rows) and len(sites) < _MAX_INLINE_DEPTH:
            site = rows[context - 1]
            sites.append((site.file, site.line))
            context = site.context
        table = tables.setdefault(row.section, LineTable())
        table.rows.append(Line(row.offset, row.file, row.line, tuple(sites)))
