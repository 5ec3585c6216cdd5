"""The host's call stack: Python's frames, or those of a native program that has loaded Python.

A native program's frames are return addresses.  If the program has debug information (``-g``), ``addr2line`` of the system's binutils gives their lines;
otherwise the file's symbol table gives the function's name (gABI, "Symbol Table").
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sysconfig
import traceback
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from warpwright.toolchain.compile_errors import CubinError
from warpwright.toolchain.demangle import plain_name
from warpwright.toolchain.elf_reader import ElfFile
from warpwright.toolchain.lines import is_toolkit_file

PACKAGE = Path(__file__).parents[2]
LIBRARY, SCRIPTS = sysconfig.get_path("stdlib"), Path(sysconfig.get_path("scripts"))
MOST_FRAMES = 64
_OURS = re.compile(r"libpython|libffi|_ctypes|libcuda\.so|libcudart\.so")
"""Files whose frames lie between the program's call and this module."""
_STARTS = ("_start", "__libc_start_main", "__libc_start_call_main")
_WRAPPER = re.compile(r"cuda[A-Z]\w*$")
"""Functions that the toolkit's headers put before the runtime's: ``cudaMalloc(int **, size_t)``."""
_SYSTEM = re.compile(r"/(libc|libpthread|ld-linux[\w-]*)[.-]")
_EXECUTABLE, _FUNCTION = 2, 2
"""ET_EXEC (its addresses are not relative to a load address) and STT_FUNC."""


def user_stack() -> tuple[str, ...]:
    """Places of the program's own calls, outermost first: ``file:line``, or ``function+0x1c in file``."""
    return _python_stack() or _native_stack()


def _python_stack() -> tuple[str, ...]:
    # The texts of the lines are left out: this runs at every launch, and reading them would open files.
    frames = traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)[::-1]
    # The code of `warpwright run` that runs the program is not part of it.
    starts = [n for n, f in enumerate(frames) if f.filename == "<frozen runpy>"]
    own = frames[starts[-1] + 1 :] if starts else frames
    outside = [f for f in own if not Path(f.filename).is_relative_to(PACKAGE) and not f.filename.startswith("<")]
    # Calls inside an installed package are less useful than the program's line that led there.
    mine = [f for f in outside if "site-packages" not in f.filename and not _of_python(f.filename)]
    return tuple(f"{f.filename}:{f.lineno}" for f in mine or outside)


def _of_python(filename: str) -> bool:
    """Whether a file belongs to Python's library or is a script of an installed package, such as pytest's."""
    return Path(filename).is_relative_to(LIBRARY) or Path(filename).parent == SCRIPTS


class _Where(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _native_stack() -> tuple[str, ...]:
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "backtrace") or not hasattr(libc, "dladdr"):
        return ()
    libc.dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    addresses = (ctypes.c_void_p * MOST_FRAMES)()
    frames: list[tuple[str, int, int]] = []
    for address in addresses[: libc.backtrace(addresses, MOST_FRAMES)]:
        where = _Where()
        if address and libc.dladdr(address, ctypes.byref(where)) and where.file:
            frames.append((os.fsdecode(where.file), where.base or 0, address))
    last = max((n for n, (file, *_) in enumerate(frames) if _OURS.search(os.path.basename(file))), default=-1)
    return _said(tuple(frames[last + 1 :]))


@cache
def _said(frames: tuple[tuple[str, int, int], ...]) -> tuple[str, ...]:
    """Describe the places of frames, given innermost first."""
    # A return address points to the instruction after the call.
    called = [_Call(file, base, address - 1) for file, base, address in frames if not _SYSTEM.search(file)]
    places = [place for place in (call.place() for call in reversed(_own(called))) if place]
    # nvcc's generated file is named for functions that it has rewritten.
    return tuple([p for p in places if not is_toolkit_file(p) and ".cudafe1." not in p] or places)


def _own(called: list[_Call]) -> list[_Call]:
    """Remove the calls that nvcc inserts between ``<<<>>>``, or a runtime function, and the library; innermost first."""
    stubs = [n for n, call in enumerate(called) if "device_stub" in call.name]
    # On the host, a kernel's name is a function that calls the stub.
    first = stubs[-1] + 2 if stubs else 0
    while first + 1 < len(called) and _WRAPPER.match(plain_name(called[first].name)):
        first += 1
    return called[first:] or called


class _Call:
    """A frame of a native program: the function, and its file, that contain an address."""

    def __init__(self, file: str, base: int, address: int) -> None:
        kind, starts, names = _functions(file)
        self.file = file
        self.at = address if kind == _EXECUTABLE else address - base
        found = bisect_right(starts, self.at) - 1
        self.name = names[found] if found >= 0 else ""
        self.start = starts[found] if found >= 0 else 0

    def place(self) -> str:
        """``file:line``, or ``function+0x1c in file``; empty before ``main``."""
        if self.name in _STARTS:
            return ""
        line = _line(self.file, self.at)
        if line:
            return line
        where = f"{plain_name(self.name)}+{self.at - self.start:#x}" if self.name else f"{self.at:#x}"
        return f"{where} in {self.file}"


@cache
def _functions(file: str) -> tuple[int, Sequence[int], Sequence[str]]:
    """The type of an ELF file, the start addresses of its functions in ascending order, and their names."""
    try:
        parsed = ElfFile(Path(file).read_bytes(), file, machine=None)
    except (OSError, CubinError):
        return 0, (), ()
    found = sorted((s.value, s.name) for s in parsed.symbols if s.type == _FUNCTION and s.section)
    return parsed.type, [value for value, _ in found], [name for _, name in found]


def _line(file: str, address: int) -> str:
    """``file:line`` of an address, if there is debug information and a tool to read it."""
    tool = shutil.which("addr2line")
    if tool is None:
        return ""
    done = subprocess.run([tool, "-e", file, hex(address)], capture_output=True, text=True, check=False)
    place = re.sub(r" \(discriminator \d+\)", "", done.stdout.strip())
    return place if done.returncode == 0 and re.search(r":[1-9]\d*$", place) else ""
