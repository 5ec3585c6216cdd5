"""Places in a kernel: source lines and functions of instructions, and the instructions that a breakpoint names."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from warpwright.engine.interpreter import Kernel
from warpwright.isa.program import Program
from warpwright.isa.sass import format_instruction
from warpwright.toolchain.demangle import plain_name


@dataclass(frozen=True, slots=True)
class Line:
    """A source line."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


class PlaceError(Exception):
    """A place that a kernel does not have, or text that names none."""


def line_of(program: Program, index: int) -> Line | None:
    """The source line of an instruction: for a kernel in a Python program's string, the line of the Python file."""
    line = program.instructions[index].line if 0 <= index < len(program.instructions) else None
    if line is None:
        return None
    return Line(*program.origin(*line))


@lru_cache(maxsize=64)
def _file(name: str) -> tuple[str, ...]:
    path = Path(name)
    return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines()) if path.is_file() else ()


def _lines(program: Program, file: str) -> Sequence[str]:
    """A file's lines: those that the kernel was compiled from, whatever a file of that name holds; other files' from disk."""
    if program.source is not None and file == program.source_name:
        return program.source.splitlines()
    return _file(file)


def text_of(program: Program, line: Line) -> str:
    """The text of a source line; empty where there is none."""
    lines = _lines(program, line.file)
    return lines[line.number - 1] if 1 <= line.number <= len(lines) else ""


def source_of(program: Program) -> str | None:
    """The text that a kernel was compiled from; for one of a compiled program, the file that its first line names."""
    line = next((i.line for i in program.instructions if i.line is not None), None)
    if program.source is not None or line is None:
        return program.source
    return "\n".join(_file(line[0])) or None


def last_line(program: Program, file: str) -> int:
    """How many lines a file has, as far as it is known."""
    return len(_lines(program, file))


def own_lines(program: Program) -> str:
    """``lines 5 to 9 of saxpy.cu``: where a breakpoint stops this kernel, in each of its files."""
    numbers: dict[str, list[int]] = {}
    for line in {line_of(program, n) for n in range(len(program.instructions))} - {None}:
        assert line is not None
        numbers.setdefault(line.file, []).append(line.number)
    spans = ((file, min(found), max(found)) for file, found in sorted(numbers.items()))
    told = [f"line{f' {a}' if a == b else f's {a} to {b}'} of {file.rpartition('/')[2]}" for file, a, b in spans]
    return " and ".join(told) or "no source lines"


def function_of(program: Program, index: int) -> int:
    """Number of the function that holds an instruction; 0 where functions are not known."""
    return bisect_right(program.functions, program.instructions[index].address) if program.functions else 0


def instruction_text(program: Program, index: int) -> str:
    """An instruction in the words of its architecture's disassembler."""
    instruction = program.instructions[index]
    if 50 <= program.arch < 70:
        from warpwright.isa.maxwell.text import format_instruction as maxwell

        return maxwell(instruction)
    if program.arch < 10:
        return instruction.operands[0].name or instruction.opcode
    if program.arch < 50:
        from warpwright.isa.nv50.text import format_instruction as nv50

        return nv50(instruction, program.arch)
    return format_instruction(instruction)


_FILE_LINE = re.compile(r"(?:(?P<file>.+):)?(?P<line>\d+)$")


@dataclass(frozen=True, slots=True)
class Place:
    """What ``break`` takes: ``FILE:LINE``, ``LINE``, ``KERNEL`` or ``*ADDRESS`` (bytes from the kernel's first instruction)."""

    text: str
    file: str = ""
    line: int = 0
    kernel: str = ""
    address: int = -1

    @classmethod
    def parse(cls, text: str, file: str = "") -> Place:
        """Read a place.

        Args:
            file: the file of a line without one.

        Raises:
            PlaceError: the text names no place.
        """
        text = text.strip()
        if text.startswith("*"):
            try:
                return cls(text, address=int(text[1:], 0))
            except ValueError:
                raise PlaceError(
                    f"{text[1:]!r} is not an address: give *0x90, bytes from the kernel's first instruction"
                ) from None
        found = _FILE_LINE.match(text)
        if found is not None:
            return cls(text, file=found["file"] or file, line=int(found["line"]))
        if not re.fullmatch(r"[\w:~<>, *&.]+", text):
            raise PlaceError(f"{text!r} is not a place: give FILE:LINE, LINE, a kernel's name or *ADDRESS")
        return cls(text, kernel=text)

    def instructions(self, kernel: Kernel) -> tuple[int, ...]:
        """Indices of the instructions of a kernel before which a warp stops; empty where the kernel does not have the place.

        A line stops a warp where it enters the line's first instruction of each basic block; a line without code
        stands for the next one of its file that has code.
        """
        program = kernel.program
        if self.address >= 0:
            return tuple(n for n, i in enumerate(program.instructions) if i.address == self.address)
        if self.kernel:
            return (0,) if self.kernel in (program.name, plain_name(program.name)) else ()
        line = self.nearest(program)
        if line is None:
            return ()
        firsts = []
        for block in kernel.blocks:
            own = (n for n in range(block.first, block.first + block.count) if line_of(program, n) == line)
            firsts += [n for n in [next(own, None)] if n is not None]
        return tuple(firsts)

    def nearest(self, program: Program) -> Line | None:
        """The line itself, or the next one of its file that has code."""
        lines = {line_of(program, n) for n in range(len(program.instructions))}
        after = (x for x in lines if x is not None and x.number >= self.line and self._is_file(x.file))
        return min(after, key=lambda x: x.number, default=None)

    def _is_file(self, name: str) -> bool:
        return not self.file or name == self.file or name.endswith("/" + self.file) or self.file.endswith("/" + name)
