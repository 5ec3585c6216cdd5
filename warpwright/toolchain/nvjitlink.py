"""PTX to machine code with nvJitLink (wheel ``nvidia-nvjitlink-cu12``), through ctypes.

The library exports each function once for every version of its interface (``__nvJitLinkCreate_12_0`` …
``__nvJitLinkCreate_12_9``); the newest one present is used. Enumeration values come from its public header ``nvJitLink.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from warpwright.toolchain.compile_errors import LinkError, MissingToolError, parse_ptxas_log
from warpwright.toolchain.wheels import load_library
from warpwright.toolchain.within import within_compiler

PACKAGE = "nvidia-nvjitlink-cu12"


class InputKind(IntEnum):
    """The type of an input (``nvJitLinkInputType``)."""

    CUBIN = 1
    PTX = 2
    LTOIR = 3
    FATBIN = 4
    OBJECT = 5
    LIBRARY = 6


_RESULTS = {
    1: "unrecognised option",
    2: "missing -arch option",
    3: "invalid input",
    4: "PTX that does not compile",
    5: "intermediate code that does not compile",
    6: "internal error",
    7: "thread pool error",
    8: "unrecognised input",
    9: "finalize error",
}


@dataclass(frozen=True, slots=True)
class _Library:
    handle: ctypes.CDLL
    version: tuple[int, int]

    def call(self, function: str, *arguments: object) -> int:
        entry = getattr(self.handle, f"__nvJitLink{function}_{self.version[0]}_{self.version[1]}")
        with within_compiler():
            return int(entry(*arguments))

    def text(self, link: ctypes.c_void_p, what: str) -> bytes:
        """The contents of one of the link's buffers, whose size is queried first."""
        size = ctypes.c_size_t()
        if self.call(f"Get{what}Size", link, ctypes.byref(size)) or not size.value:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        return buffer.raw if self.call(f"Get{what}", link, buffer) == 0 else b""


@lru_cache(maxsize=1)
def _library() -> _Library:
    handle = load_library("nvjitlink", "libnvJitLink", PACKAGE, "turning PTX into machine code")
    for major in range(15, 11, -1):
        for minor in range(9, -1, -1):
            if hasattr(handle, f"__nvJitLinkCreate_{major}_{minor}"):
                return _Library(handle, (major, minor))
    raise MissingToolError(
        f"{handle._name} has no function __nvJitLinkCreate_12_0 or newer. "
        f"Install a current one with: pip install '{PACKAGE}>=12.9,<13'."
    )


def version() -> tuple[int, int]:
    """Version (major, minor) of the newest interface that the installed library has."""
    return _library().version


def link(
    inputs: Sequence[tuple[InputKind, bytes, str]],
    arch: str,
    options: Sequence[str] = (),
) -> bytes:
    """Link inputs (kind, contents, name) into one cubin for ``sm_<arch>`` and return its bytes.

    Line information is kept unless ``-lineinfo=false`` is among ``options``.  Raises :class:`LinkError`
    with the assembler's messages and the lines of PTX that they name.
    """
    library = _library()
    wanted = [o for o in options if o != "-lineinfo=false"]
    given = [f"-arch=sm_{arch}", *(["-lineinfo"] if len(wanted) == len(options) else []), *wanted]
    encoded = [o.encode() for o in given]
    handle = ctypes.c_void_p()
    what = ", ".join(name for _, _, name in inputs)
    result = library.call("Create", ctypes.byref(handle), len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
    if result:
        raise LinkError(
            f"{what} was not linked for sm_{arch}: {_RESULTS.get(result, f'result {result}')} "
            f"(options: {' '.join(given)})",
            (),
            "",
        )
    # Referenced until the end: the library keeps the pointers and writes the names into its messages.
    names = [name.encode() for _, _, name in inputs]
    try:
        for (kind, data, _), name in zip(inputs, names, strict=True):
            result = library.call("AddData", handle, int(kind), data, len(data), name)
            if result:
                break
        else:
            result = library.call("Complete", handle)
        if result:
            log = library.text(handle, "ErrorLog").rstrip(b"\0").decode(errors="replace")
            ptx = [(title, data) for kind, data, title in inputs if kind is InputKind.PTX]
            title, text = ptx[0] if len(ptx) == 1 else ("", b"")
            raise LinkError(
                f"{what} was not linked for sm_{arch}: {_RESULTS.get(result, f'result {result}')}",
                parse_ptxas_log(log, title, text.rstrip(b"\0").decode(errors="replace")),
                log,
            )
        return library.text(handle, "LinkedCubin")
    finally:
        library.call("Destroy", ctypes.byref(handle))
