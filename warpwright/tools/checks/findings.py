"""Findings of the checks, in the wording of NVIDIA's compute-sanitizer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from html import escape

from warpwright.engine.faults import source_line
from warpwright.isa.program import Program
from warpwright.isa.sass.text import format_instruction
from warpwright.toolchain.demangle import plain_name

Dim3 = tuple[int, int, int]
SEVERITIES = ("error", "warning", "info")
RULE = "========="
_FILE_LINE = re.compile(r".*?:\d+(?=: |$)")


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction of a kernel and the thread that was there."""

    what: str
    """``Write access``, ``Read access``, ``Atomic access``, or empty."""
    kernel: str
    instruction: str
    """The disassembled instruction; empty if the place is the whole kernel."""
    offset: int
    """Byte offset in the kernel."""
    line: str
    """``file.cu:5: text of the line``, or empty without line information."""
    block: Dim3
    thread: Dim3

    def at(self) -> str:
        """``kernel+0x70 in file.cu:5: text``, or ``kernel`` if no instruction is known."""
        if not self.instruction:
            return self.kernel
        return f"{self.kernel}+{self.offset:#x}" + (f" in {self.line}" if self.line else f" ({self.instruction})")

    def where(self) -> str:
        """The same without the line's text, for use within a sentence."""
        return replace(self, line=self.file_line()).at()

    def file_line(self) -> str:
        """``file.cu:5``, or empty without line information."""
        match = _FILE_LINE.match(self.line)
        return match[0] if match else self.line


def place(program: Program, index: int, what: str, block: Dim3, thread: Dim3) -> Place:
    """The place of the index-th instruction of a kernel."""
    instruction = program.instructions[index]
    return Place(
        what,
        plain_name(program.name),
        format_instruction(instruction),
        instruction.address,
        source_line(program, instruction.address) or "",
        block,
        thread,
    )


@dataclass(slots=True, repr=False)
class Finding:
    """One defect of a program, however often it occurred."""

    check: str
    """memcheck | racecheck | synccheck | initcheck | leakcheck | perfcheck | schedcheck."""
    severity: str
    """error | warning | info."""
    title: str
    """The first line: what is wrong."""
    places: tuple[Place, ...]
    """Places: the access itself, or for a race both accesses, the earlier one first."""
    details: tuple[str, ...] = ()
    """Further lines: address, allocation, what to do."""
    count: int = 1
    """Number of occurrences, counted in lanes."""
    address: int | None = None
    """Device address, or byte offset in shared memory, of the first occurrence."""
    launch: int = 0
    """Number of the launch, counted from 1."""
    host: tuple[str, ...] = field(default_factory=tuple)
    """The host's call stack of the launch, outermost call first."""
    of_call: bool = False
    """True for a host call that failed: the program gets the result and may handle it."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return f"<{self.check} {self.severity}: {self.sentence()}>"

    def sentence(self) -> str:
        """The title with the kernels and lines of its places, on one line."""
        places = dict.fromkeys(f"{p.kernel} ({p.file_line()})" if p.line else p.where() for p in self.places)
        return f"{self.title.removeprefix('Error: ')}{' at ' if places else ''}{' and '.join(places)}"

    def __str__(self) -> str:
        lines = [self.title]
        for n, one in enumerate(self.places):
            if one.what:
                lines.append(f"    {'and ' if n else ''}{one.what} at {one.at()}")
            else:
                lines.append(f"    at {one.at()}")
            lines.append(f"    by thread {_dim(one.thread)} in block {_dim(one.block)}")
        lines += [f"    {detail}" for detail in self.details]
        if self.count > 1:
            lines.append(f"    seen {self.count:,} times; this is the first")
        if self.host:
            lines.append(f"    Host: {' > '.join(self.host)}")
        return "\n".join(f"{RULE} {line}" for line in lines)


def _dim(index: Dim3) -> str:
    return "({},{},{})".format(*index)


ORDER_CHECKS = ("racecheck", "schedcheck")
"""Checks whose findings mean that results may depend on the order of threads."""
MAY_DIFFER = (
    f"{RULE} The order of threads decides results: they may differ between timing modes, chips and runs, and cycles "
    "between numbers of host threads"
)


def depends_on_order(findings: Iterable[Finding]) -> bool:
    """Whether the findings include a race, or an order of warps with different results."""
    return any(f.check in ORDER_CHECKS and f.severity != "info" for f in findings)


def summary(findings: Iterable[Finding], checked: bool = True) -> str:
    """The last line of a report; ``checked``: whether any launch was checked."""
    severities = [f.severity for f in findings]
    counts = {severity: severities.count(severity) for severity in SEVERITIES}
    words = [f"{n} {what}{'s' if n != 1 and what != 'info' else ''}" for what, n in counts.items() if n]
    none = "no findings" if checked else "no launch was checked"
    return f"{RULE} CHECK SUMMARY: {', '.join(words) if words else none}"
