"""Errors between source text and machine code, and their messages.

Every error of this package derives from :class:`ToolchainError`.  Compiler logs are kept verbatim; the location is added as source name, line number, the text
of that line, and a marker under the column.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from warpwright.errors import WarpwrightError

Diagnosed = TypeVar("Diagnosed", bound="_DiagnosedError")


class ToolchainError(WarpwrightError, RuntimeError):
    """Base of every error that this package raises."""


class MissingToolError(ToolchainError):
    """A compiler library is not installed; the message names the PyPI package that holds it."""


class SourceNotFoundError(ToolchainError, FileNotFoundError):
    """The path of a source, PTX or cubin names no file that can be read."""


class CubinError(ToolchainError):
    """A file is not a CUDA binary that can be read: the message names the file and what is wrong in it."""


class ArchitectureError(CubinError):
    """A cubin holds machine code that the chip cannot run."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of a compiler or linker, with its place in the source."""

    severity: str
    """``error``, ``warning`` or ``note``."""
    message: str
    source_name: str = ""
    line: int = 0
    """Line number, from 1; 0 if the tool gave no location."""
    column: int = 0
    """Column, from 1; 0 when the tool gave no column."""
    text: str = ""
    """The text of the line without its line end; empty if the source is not available."""

    def __str__(self) -> str:
        """``name:line:column: severity: message``, then the line and a ^ under the column."""
        place = self.source_name
        if self.line:
            place += f":{self.line}"
        if self.column:
            place += f":{self.column}"
        head = f"{place}: {self.severity}: {self.message}" if place else f"{self.severity}: {self.message}"
        if not self.text.strip():
            return head
        number = f"{self.line:5d}"
        shown = f"{head}\n{number} | {self.text}"
        if self.column:
            # Tabs before the marker are kept, so that the ^ is under its column for any tab width.
            lead = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
            shown += f"\n{' ' * len(number)} | {lead}^"
        return shown


class _DiagnosedError(ToolchainError):
    """An error with the tool's messages parsed."""

    def __init__(self, headline: str, diagnostics: Sequence[Diagnostic], log: str) -> None:
        self.diagnostics = tuple(diagnostics)
        """Every message of the tool, in order."""
        self.log = log
        """The tool's own log, word for word."""
        self._headline = headline
        shown = [str(d) for d in self.diagnostics] or [log.strip()]
        super().__init__("\n".join([headline, *(s for s in shown if s)]))

    def placed(self: Diagnosed, names: Container[str], lines: Sequence[tuple[str, int] | None]) -> Diagnosed:
        """The same error, with the files and lines from which those of the source come, as far as they are known.

        Args:
            names: names of the source in messages.
            lines: for each line of the source, the file and line from which it comes, or None.
        """
        moved = []
        for one in self.diagnostics:
            place = lines[one.line - 1] if one.source_name in names and 1 <= one.line <= len(lines) else None
            moved.append(replace(one, source_name=place[0], line=place[1]) if place else one)
        return type(self)(self._headline, moved, self.log)

    def __reduce__(self) -> tuple[type[_DiagnosedError], tuple[str, tuple[Diagnostic, ...], str]]:
        # Makes the error picklable with all its fields, for worker processes.
        return type(self), (self._headline, self.diagnostics, self.log)


class CompileError(_DiagnosedError):
    """CUDA C++ that does not compile: the message shows each error with its line and a ^ under the column."""


class LinkError(_DiagnosedError):
    """PTX or objects that cannot be assembled or linked: the message shows the line of PTX if one is named."""


_NVRTC = re.compile(
    r"^(?P<name>.+?)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning|note|remark)"
    r"(?: #[\w-]+)?: (?P<message>.*)$"
)
_NVRTC_BARE = re.compile(r"^(?:nvrtc: )?(?P<severity>error|warning)\s*: (?P<message>.*)$")
_PTXAS = re.compile(
    r"^(?:ptxas |nvlink )?(?P<name>[^,:]+?)?,? ?(?:line (?P<line>\d+);)? *"
    r"(?P<severity>fatal|error|warning|info) *: (?P<message>.*)$"
)


_MARGIN = 2
"""Blanks before a source line that NVRTC quotes."""


def _line_of(source: str, number: int) -> str:
    lines = source.splitlines()
    return lines[number - 1] if 1 <= number <= len(lines) else ""


def parse_nvrtc_log(log: str) -> list[Diagnostic]:
    """NVRTC's log as :class:`Diagnostic` records.

    NVRTC prints ``name(line): error: message``, then the line's text and a ^ line, both indented by two blanks, and then the template instantiations that led
    there.
    """
    found: list[Diagnostic] = []
    lines = log.splitlines()
    for i, text in enumerate(lines):
        match = _NVRTC.match(text)
        if match:
            number = int(match["line"])
            shown, column = "", 0
            message = [match["message"]]
            notes: list[str] = []
            for j in range(i + 1, len(lines)):
                if _NVRTC.match(lines[j]) or not lines[j].strip():
                    break
                if lines[j].strip() == "^" and j > i + 1 and not column:
                    shown = lines[j - 1][_MARGIN:]
                    column = max(1, len(lines[j]) - _MARGIN)
                    message.pop()
                elif column:
                    notes.append(lines[j].strip())
                else:
                    message.append(lines[j].strip())
            if not message:
                message = [match["message"]]
            severity = "error" if match["severity"] == "catastrophic error" else match["severity"]
            found.append(Diagnostic(severity, " ".join(message), match["name"], number, column, shown))
            found += [Diagnostic("note", note) for note in notes]
            continue
        bare = _NVRTC_BARE.match(text)
        if bare:
            found.append(Diagnostic(bare["severity"], bare["message"]))
    return found


def parse_ptxas_log(log: str, source_name: str, ptx: str) -> list[Diagnostic]:
    """The PTX assembler's log (``ptxas application ptx input, line 12; error : …``) as records."""
    found: list[Diagnostic] = []
    for text in log.splitlines():
        match = _PTXAS.match(text.strip())
        if match is None:
            continue
        severity = "error" if match["severity"] == "fatal" else match["severity"]
        number = int(match["line"] or 0)
        name = source_name if number else ""
        found.append(Diagnostic(severity, match["message"].strip(), name, number, 0, _line_of(ptx, number)))
    return found


_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s+\"([^\"]*)\"")


def explain_assembler_log(log: str, ptx: str, source: str, source_name: str) -> list[Diagnostic]:
    """The assembler's messages inside NVRTC's log, at the line of CUDA C++ that the PTX came from.

    PTX records its source lines in ``.loc``, so an error in inline assembly is shown at its asm statement.
    """
    if "ptxas" not in log:
        return []
    lines = ptx.splitlines()
    files = {m[1]: m[2] for m in map(_FILE.match, lines) if m}
    found = []
    for d in parse_ptxas_log("\n".join(t for t in log.splitlines() if t.startswith("ptxas")), "", ptx):
        if d.severity == "info":
            continue
        place = next((m for m in map(_LOC.match, reversed(lines[: d.line])) if m), None) if d.line else None
        if place is None:
            found.append(Diagnostic(d.severity, d.message))
            continue
        name, number = files.get(place[1], ""), int(place[2])
        own = name == source_name or name.endswith("/" + source_name)
        text = _line_of(source, number) if own else ""
        message = f"{d.message} (PTX: {d.text.strip()})"
        found.append(Diagnostic(d.severity, message, source_name if own else name, number, 0, text))
    return found
