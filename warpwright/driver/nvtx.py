"""NVTX: ranges that a program names through NVIDIA's header (C, C++, PyTorch, CuPy, nvtx for Python).

At its first call, the header loads the library that ``NVTX_INJECTION64_PATH`` names, and passes it tables to be filled
with the functions that it will call. The interface is that of nvtx3 (``nvtxDetail/nvtxTypes.h``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from warpwright.driver import cmemory
from warpwright.driver.attach import FURTHER, FurtherLibrary, folder
from warpwright.ranges import open_ranges

SONAME = "libwarpwright-nvtx.so.1"
INJECTION = "NVTX_INJECTION64_PATH"
"""Environment variable that names the library."""
_ENTRY = "InitializeInjectionNvtx2"
_CALLBACKS = 1
"""NVTX_ETID_CALLBACKS, the table of functions that the header has."""
_CORE, _CORE_2 = 1, 5
"""NVTX_CB_MODULE_*."""
_TEXT, _WIDE, _REGISTERED = 1, 2, 3
"""nvtxMessageType_t."""
_MESSAGE_TYPE, _MESSAGE = 32, 40
"""Offsets in nvtxEventAttributes_t."""
_kept: list[Any] = []
_registered: dict[int, str] = {}
"""Strings that a domain has registered, by handle."""


def _text(place: int) -> str:
    return ctypes.string_at(place).decode(errors="replace") if place else ""


def _wide_text(place: int) -> str:
    return ctypes.wstring_at(place) if place else ""


def _message(attributes: int) -> str:
    """The message of an event."""
    if not attributes:
        return ""
    kind, place = cmemory.get32(attributes + _MESSAGE_TYPE), cmemory.get64(attributes + _MESSAGE)
    if kind == _REGISTERED:
        return _registered.get(place, "")
    return _text(place) if kind == _TEXT else _wide_text(place) if kind == _WIDE else ""


def _register(read: Callable[[int], str]) -> Callable[[int, int], int]:
    def register(_domain: int, place: int) -> int:
        handle = len(_registered) + 1
        _registered[handle] = read(place)
        return handle

    return register


def _end(number: int) -> None:
    open_ranges.end(number)


def _functions() -> dict[int, dict[int, tuple[Any, Callable[..., Any]]]]:
    """By module and number: C type and function."""
    word, number = ctypes.c_uint64, ctypes.c_int32
    push, start, pop = open_ranges.push, open_ranges.start, open_ranges.pop
    pushes, starts = ctypes.CFUNCTYPE(number, word), ctypes.CFUNCTYPE(word, word)
    return {
        _CORE: {
            4: (starts, lambda attributes: start(_message(attributes))),
            5: (starts, lambda place: start(_text(place))),
            6: (starts, lambda place: start(_wide_text(place))),
            7: (ctypes.CFUNCTYPE(None, word), _end),
            8: (pushes, lambda attributes: push(_message(attributes))),
            9: (pushes, lambda place: push(_text(place))),
            10: (pushes, lambda place: push(_wide_text(place))),
            11: (ctypes.CFUNCTYPE(number), pop),
        },
        # Ranges with a domain belong to libraries: they are operators, rather than parts of the program.
        _CORE_2: {
            2: (ctypes.CFUNCTYPE(word, word, word), lambda _, attributes: start(_message(attributes))),
            3: (ctypes.CFUNCTYPE(None, word, word), lambda _, one: _end(one)),
            4: (ctypes.CFUNCTYPE(number, word, word), lambda _, attributes: push(_message(attributes), True)),
            5: (ctypes.CFUNCTYPE(number, word), lambda _: pop()),
            10: (ctypes.CFUNCTYPE(word, word, word), _register(_text)),
            11: (ctypes.CFUNCTYPE(word, word, word), _register(_wide_text)),
        },
    }


def _initialize(get_table: int) -> int:
    """Store functions in a header's tables; returns 1 if they are accepted."""
    place = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32)(get_table)(_CALLBACKS)
    if not place:
        return 0
    get_module = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64)(
        cmemory.get64(place + 8)
    )
    for module, functions in _functions().items():
        table, size = ctypes.c_uint64(), ctypes.c_uint32()
        if not get_module(module, ctypes.addressof(table), ctypes.addressof(size)):
            continue
        for number, (kind, function) in functions.items():
            slot = cmemory.get64(table.value + 8 * number) if number < size.value else 0
            if slot:
                callback = kind(function)
                _kept.append(callback)
                cmemory.put64(slot, ctypes.cast(callback, ctypes.c_void_p).value or 0)
    return 1


def _callbacks() -> Sequence[Any]:
    return [ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64)(_initialize)]


def place() -> str:
    """Path of the library."""
    return str(folder() / SONAME)


def provide() -> None:
    """Place the library to which programs report their ranges in the driver's folder."""
    if all(one.soname != SONAME for one in FURTHER):
        FURTHER.append(FurtherLibrary(SONAME, "", {_ENTRY: "Q"}, "warpwright.driver.nvtx_provided", _callbacks))
