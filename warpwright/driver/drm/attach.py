"""Places the drop-in libraries on disk and attaches them, as ``driver/attach.py`` does with CUDA's, for chips that have graphics."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from warpwright.chips import load_chip
from warpwright.driver.attach import boot_of, leading, place_library
from warpwright.driver.drm.exports import LIBRARIES, prototype
from warpwright.driver.stubs import TABLE_SYMBOL, build_library
from warpwright.session import session
from warpwright.toolchain.cache import default_folder

_COMMON = {
    # One device, whatever else the machine has.
    "EGL_PLATFORM": "surfaceless",
    "LIBGL_DRI3_DISABLE": "1",
}
_NOUVEAU = {"MESA_LOADER_DRIVER_OVERRIDE": "nouveau"}
_RADEON = {
    "MESA_LOADER_DRIVER_OVERRIDE": "r600",
    # Descriptors and packets hold addresses, not numbers of relocations.
    "RADEON_VA": "1",
    # A program's thread may hold Python's lock while it waits for a thread that submits.
    "RADEON_THREAD": "0",
}
_kept: list[Any] = []


def has_graphics(chip: str | None) -> bool:
    """Whether a chip's graphics pipeline is modelled: Tesla's is."""
    return chip is not None and load_chip(chip).identity.architecture == "Tesla"


def serves_mesa(chip: str | None) -> bool:
    """Whether Mesa's driver finds the chip: for draws, or for AMD's chips compute shaders."""
    return has_graphics(chip) or (chip is not None and bool(load_chip(chip).identity.generation))


def environment(chip: str | None) -> dict[str, str]:
    """What makes Mesa's loader use its driver for this chip on our device."""
    if has_graphics(chip):
        return {**_COMMON, **_NOUVEAU}
    # Images are linear, so that copies to and from them need no draws.
    asked = [word for word in os.environ.get("R600_DEBUG", "").split(",") if word]
    words = [*asked, *["notiling"] * ("notiling" not in asked)]
    return {**_COMMON, **_RADEON, "R600_DEBUG": ",".join(words)}


@cache
def folder() -> Path:
    """The folder that holds the libraries, written when they are not there yet."""
    machine = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
        platform.machine(), ""
    )
    boot = boot_of("from warpwright.driver.drm.attach import attach; attach()")
    digest = hashlib.sha256(repr((machine, boot, [(name, list(table)) for name, table in LIBRARIES.items()])).encode())
    for source in ("elf_writer.py", "stubs.py"):
        digest.update((Path(__file__).parents[1] / source).read_bytes())
    for base in (default_folder(), Path(tempfile.gettempdir()) / f"warpwright-{os.getuid()}"):
        target = base / "drm" / digest.hexdigest()[:16]
        try:
            if not (target / "complete").is_file():
                target.mkdir(parents=True, exist_ok=True)
                for soname, table in LIBRARIES.items():
                    place_library(target / soname, build_library(machine, soname, list(table), boot))
                (target / "complete").touch()
            return target
        except OSError as reason:
            failure = reason
    raise failure


def preload(chip: str | None) -> None:
    """Load the libraries into this process, before Mesa's loader asks for them, and set its environment."""
    os.environ.update(environment(chip))
    for soname in LIBRARIES:
        _kept.append(ctypes.CDLL(str(folder() / soname), mode=ctypes.RTLD_GLOBAL))


def child_environment(chip: str | None) -> dict[str, str]:
    """Variables that make child processes find the device."""
    found = {**environment(chip), "LD_LIBRARY_PATH": leading(str(folder()), "LD_LIBRARY_PATH")}
    if session.record:
        found["WARPWRIGHT_RECORD"] = session.record
    if session.wants_frame_page:
        found["WARPWRIGHT_FRAME_PAGE"] = "1"
    return found


def attach() -> None:
    """Fill the tables of the libraries that this process has loaded."""
    from warpwright.driver.drm import libdrm_buffers, nodes, objects
    from warpwright.driver.drm.radeon import ioctls
    from warpwright.driver.drm.register import callbacks

    assert all((libdrm_buffers, nodes, objects, ioctls))
    no_load = 4
    filled = {}
    for soname, table in LIBRARIES.items():
        try:
            library = ctypes.CDLL(soname, mode=no_load | ctypes.DEFAULT_MODE)
            slots = (ctypes.c_uint64 * len(table)).in_dll(library, TABLE_SYMBOL)
        except (OSError, ValueError):
            continue
        functions = callbacks(soname)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(functions))
        slots[:] = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
        filled[soname] = slots
    if sys.orig_argv:
        atexit.register(_prepare_late_calls, filled)


def _prepare_late_calls(slots: dict[str, Any]) -> None:
    """At the end of a Python program: prepare for calls of destructors that run after the interpreter has begun to shut down.

    Programs that are not Python's keep their interpreter until the process ends.
    """
    from warpwright.driver.drm import late_calls, objects
    from warpwright.driver.drm.register import LATE

    for kept in (objects.lasting(), LATE):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    for soname, table in slots.items():
        letters = LIBRARIES[soname]
        LATE.update({name: prototype(name, letters[name])(late_calls.address(name)) for name in letters})
        late_calls.hand_over_at_exit(table, list(letters))
