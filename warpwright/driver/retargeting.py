"""Assembles PTX of a newer architecture for the chip, without the kernels that need what the chip lacks.

Version and target are lowered; the assembler refuses features that the older ones do not have, so accepted code has the
same meaning. Refused kernels are omitted, so that the others of their module run: CUB and Thrust compile several
kernels for one algorithm, and only some use an architecture's own features.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpwright.driver import results
from warpwright.driver.cuda_error import CudaError, say
from warpwright.toolchain import CompiledModule, CompilerInput, LinkError
from warpwright.toolchain import load as load_source

NEWEST_PTX = (8, 8)
"""Language version of the assembler of CUDA 12.9."""
_VERSION = re.compile(r"^(\s*\.version\s+)(\d+)\.(\d+)", re.MULTILINE)
_TARGET = re.compile(r"^(\s*\.target\s+sm_)(\d+)([af]?)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINITION = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\s*(?:\([^()]*\)\s*)?([\w$%.]+)", re.MULTILINE
)
_DEPENDENT_LAUNCH = re.compile(r"\bgriddepcontrol\s*\.\s*(?:wait|launch_dependents)\s*;")
_FIRST_WITH_DEPENDENT_LAUNCH = 90


@dataclass(frozen=True, slots=True)
class _Definition:
    """A kernel or function of a PTX text."""

    is_kernel: bool
    symbol: str
    start: int
    end: int
    """Its range of characters in the text."""


def target_of(text: str) -> tuple[int, str]:
    """Architecture of a PTX text and its suffix: ``(90, "a")``; 0 without a target."""
    found = _TARGET.search(text)
    return (int(found[2]), found[3]) if found else (0, "")


def lowered_ptx(text: str, arch: int) -> str:
    """PTX with its version and target lowered to what the assembler and the chip support."""
    version = _VERSION.search(text)
    if version and (int(version[2]), int(version[3])) > NEWEST_PTX:
        text = _VERSION.sub(rf"\g<1>{NEWEST_PTX[0]}.{NEWEST_PTX[1]}", text, count=1)
    target, suffix = target_of(text)
    if target > arch:
        say(f"PTX for sm_{target}{suffix} is assembled for sm_{arch}")
        text = _TARGET.sub(rf"\g<1>{arch}", text, count=1)
        if arch < _FIRST_WITH_DEPENDENT_LAUNCH <= target:
            # Without programmatic dependent launch, a grid starts after its predecessors: there is nothing to wait for.
            text = _DEPENDENT_LAUNCH.sub("", text)
    return text


def assembled(text: str, arch: int, chip: str, name: str, options: tuple[str, ...]) -> CompiledModule:
    """Machine code of a PTX text; kernels that need features which the chip lacks are in ``refused``.

    Raises:
        CudaError: CUDA_ERROR_INVALID_PTX: no kernel of a newer architecture's PTX is left.
        LinkError: what the assembler refuses otherwise.
    """
    target, suffix = target_of(text)
    lowered, refused = lowered_ptx(text, arch), dict[str, str]()
    made = None
    while made is None:
        try:
            made = load_source(lowered, arch, CompilerInput(options), name=f"{name}.ptx", chip=chip)
        except LinkError as error:
            found = _with_errors(lowered, error) if target > arch else {}
            if not found:
                raise
            for definition, message in found.items():
                lowered = _blanked(lowered, definition)
                if definition.is_kernel:
                    refused[definition.symbol] = (
                        f"the kernel {definition.symbol} of {name} is PTX for sm_{target}{suffix} and uses what {chip} (sm_{arch}) does "
                        f"not have ({message}): {advice(arch)}"
                    )
            if not any(definition.is_kernel for definition in _definitions(lowered)):
                raise CudaError(
                    results.INVALID_PTX,
                    f"every kernel of {name} is PTX for sm_{target}{suffix} and uses what {chip} (sm_{arch}) does not have: "
                    f"{advice(arch)}\n{error}",
                ) from None
    # Programs (CUB's tuning policies) choose by the architecture for which the PTX was generated, not by the assembler's.
    made.module.virtual_arch = target
    made.refused.update(refused)
    if refused:
        kernels = len(refused) + len(made.kernels)
        say(f"{len(refused)} of {kernels} kernels of {name} use what {chip} does not have; launches of them fail")
    return made


def advice(arch: int) -> str:
    """How to build for a chip, or what to do about a library that somebody else has built."""
    return (
        f"build with -gencode arch=compute_{arch},code=sm_{arch} as well, or take a release of the package that has it"
    )


def _with_errors(text: str, error: LinkError) -> dict[_Definition, str]:
    """The definitions that contain the assembler's errors, last first, each with its first message; empty if an error
    is elsewhere."""
    lines = {d.line: d.message for d in reversed(error.diagnostics) if d.line and d.severity != "warning"}
    found = dict[_Definition, str]()
    for definition in reversed(_definitions(text)):
        first = text.count("\n", 0, definition.start) + 1
        last = first + text.count("\n", definition.start, definition.end)
        own = sorted(line for line in lines if first <= line <= last)
        if own:
            found[definition] = lines[own[0]]
            for line in own:
                del lines[line]
    return {} if lines else found


def _definitions(text: str) -> list[_Definition]:
    plain = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = []
    end = 0
    for match in _DEFINITION.finditer(plain):
        body = re.compile(r"[{;]").search(plain, match.end())
        if match.start() < end or body is None or body[0] == ";":
            continue
        depth = 0
        for brace in re.compile(r"[{}]").finditer(plain, body.start()):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = brace.end()
                found.append(_Definition(match[1] == "entry", match[2], match.start(), end))
                break
    return found


def _blanked(text: str, definition: _Definition) -> str:
    """The text with a definition blanked out; line numbers do not change."""
    lines = text.count("\n", definition.start, definition.end)
    return text[: definition.start] + "\n" * lines + text[definition.end :]
