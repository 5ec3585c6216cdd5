"""Patching a cubin's code and data for the addresses that a loader chose.

Each relocation type says which bits of the address (plus addend) go where in the 128-bit instruction or the data word.
Type numbers and names are those of NVIDIA's own printer (cuobjdump -elf): ``ABS32_LO_32`` is the low 32 bits at bit 32,
``ABS47_34`` a code address at bit 34 (its two low bits are not stored), ``ABS55_16_34`` the same in two pieces, eight bits
at bit 16 and the others at bit 34.  ``ABS32_20`` is the target of a call in the 64-bit words of sm_60 to sm_62, and
``ABS32_LO_20`` and ``ABS32_HI_20`` are the halves of a variable's address there, in code that is compiled for separate linking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from warpwright.toolchain.compile_errors import CubinError
from warpwright.toolchain.cubin import Module, Relocation

_Fields = tuple[tuple[int, int, int], ...]

_WORD: _Fields = ((0, 32, 0),)
_DOUBLE: _Fields = ((0, 64, 0),)
_LOW: _Fields = ((0, 32, 32),)
_HIGH: _Fields = ((32, 32, 32),)

FIELDS: dict[int, tuple[str, _Fields]] = {
    # (first bit of the value, number of bits, first bit in the place)
    1: ("R_CUDA_32", _WORD),
    2: ("R_CUDA_64", _DOUBLE),
    3: ("R_CUDA_G32", _WORD),
    4: ("R_CUDA_G64", _DOUBLE),
    34: ("R_CUDA_FUNC_DESC_32", _WORD),
    35: ("R_CUDA_FUNC_DESC_64", _DOUBLE),
    42: ("R_CUDA_ABS32_20", ((0, 32, 20),)),
    43: ("R_CUDA_ABS32_LO_20", ((0, 32, 20),)),
    44: ("R_CUDA_ABS32_HI_20", ((32, 32, 20),)),
    55: ("R_CUDA_ABS32_32", _LOW),
    56: ("R_CUDA_ABS32_LO_32", _LOW),
    57: ("R_CUDA_ABS32_HI_32", _HIGH),
    58: ("R_CUDA_ABS47_34", ((2, 47, 34),)),
    59: ("R_CUDA_ABS16_32", ((0, 16, 32),)),
    60: ("R_CUDA_ABS24_32", ((0, 24, 32),)),
    61: ("R_CUDA_FUNC_DESC32_32", _LOW),
    62: ("R_CUDA_FUNC_DESC32_LO_32", _LOW),
    63: ("R_CUDA_FUNC_DESC32_HI_32", _HIGH),
    70: ("R_CUDA_32_LO", _WORD),
    71: ("R_CUDA_32_HI", ((32, 32, 0),)),
    74: ("R_CUDA_ABS24_40", ((0, 24, 40),)),
    75: ("R_CUDA_ABS55_16_34", ((2, 8, 16), (10, 47, 34))),
    **{76 + i: (f"R_CUDA_8_{8 * i}", ((8 * i, 8, 0),)) for i in range(8)},
    **{84 + i: (f"R_CUDA_G8_{8 * i}", ((8 * i, 8, 0),)) for i in range(8)},
    **{92 + i: (f"R_CUDA_FUNC_DESC_8_{8 * i}", ((8 * i, 8, 0),)) for i in range(8)},
    100: ("R_CUDA_ABS20_44", ((0, 20, 44),)),
    102: ("R_CUDA_UNIFIED", _DOUBLE),
    103: ("R_CUDA_UNIFIED_32", _WORD),
    **{104 + i: (f"R_CUDA_UNIFIED_8_{8 * i}", ((8 * i, 8, 0),)) for i in range(8)},
    112: ("R_CUDA_UNIFIED32_LO_32", _LOW),
    113: ("R_CUDA_UNIFIED32_HI_32", _HIGH),
    114: ("R_CUDA_ABS56_16_34", ((2, 8, 16), (10, 48, 34))),
}
"""Relocations that are patched, by type number."""

_CLEARS = {72: 4, 73: 8}
"""R_CUDA_UNUSED_CLEAR32 and 64: a reference to something that the linker dropped becomes zero."""

_LEFT = frozenset((68, 69))
"""R_CUDA_YIELD_OPCODE9_0 and R_CUDA_YIELD_CLEAR_PRED4_87: a linker may turn such a YIELD into a NOP; it stays here."""

_LAID_OUT_BY_LINKERS = {
    ".nv.shared": "shared memory",
    ".nv_debug.shared": "shared memory",
    ".nv.constant": "constant memory",
}
"""How sections begin whose variables get their places from a linker in code that is compiled for separate linking, a file's own and a function's."""

_IN_BANK = 59
"""R_CUDA_ABS16_32, which for a constant is its place in the bank (``c[0x3][R2+…]``), not a part of its address."""

CODE_ALIGNMENT = 128
"""Alignment in bytes of every code section."""


@dataclass(frozen=True, slots=True)
class Image:
    """Patched contents, by section name."""

    code: dict[str, bytes]
    data: dict[str, bytes]


def code_layout(module: Module, kernel: str | None = None, start: int = 0) -> dict[str, int]:
    """Code addresses, one section after the other from ``start``, each aligned to 128 bytes.

    With a kernel (a symbol), only the sections that it can reach, its own first; otherwise every section. Functions whose address is taken have the same
    address in all kernels' layouts (for the same ``start``), because one kernel may store it and another one call it.
    """
    if kernel is None:
        return _placed(module, module.code, start)
    wanted = module.reachable(kernel)
    shared = module.shared_code()
    if not any(s in shared for s in wanted):
        return _placed(module, wanted, start)
    # Each kernel ends where these functions begin.
    longest = max(_room(module, k.section) for k in module.kernels.values())
    own = wanted[0]
    first = -(-start // CODE_ALIGNMENT) * CODE_ALIGNMENT + longest
    functions = _placed(module, shared, first)
    behind = max(base + _room(module, s) for s, base in functions.items())
    rest = _placed(module, [s for s in wanted if s != own and s not in functions], behind)
    return {own: first - _room(module, own)} | {s: b for s, b in functions.items() if s in wanted} | rest


def _room(module: Module, section: str) -> int:
    return -(-len(module.code[section]) // CODE_ALIGNMENT) * CODE_ALIGNMENT


def _placed(module: Module, sections: Iterable[str], start: int) -> dict[str, int]:
    bases: dict[str, int] = {}
    at = -(-start // CODE_ALIGNMENT) * CODE_ALIGNMENT
    for section in sections:
        bases[section] = at
        at += _room(module, section)
    return bases


def relocate(
    module: Module,
    addresses: Mapping[str, int],
    code_bases: Mapping[str, int],
) -> Image:
    """Patch the code sections in ``code_bases`` and all data with their addresses.

    ``addresses`` gives device addresses: of variables by name, or of whole data sections (``.nv.global``,
    ``.nv.global.init``, ``.nv.constant3``: the variable's offset is added), and code addresses of functions that the
    module does not define (``vprintf``).  ``code_bases`` gives virtual code addresses of sections (``.text.NAME``;
    ``NAME`` will do).  A reference to a function without a base, from data that is not its own, is an error.

    Raises :class:`CubinError` that names the symbol without an address.
    """
    bases = {name if name in module.code else f".text.{name}": base for name, base in code_bases.items()}
    code = {name: bytearray(module.code[name]) for name in bases if name in module.code}
    # Contents without relocations, such as large arrays of zeros, are passed on as they are.
    patched = {r.section for r in module.relocations}
    data = {name: bytearray(contents) for name, contents in module.data.items() if name in patched}
    for r in module.relocations:
        place = code.get(r.section, data.get(r.section))
        if place is None:
            continue
        if r.type in _CLEARS:
            _check(module, r, place, _CLEARS[r.type])
            place[r.offset : r.offset + _CLEARS[r.type]] = bytes(_CLEARS[r.type])
            continue
        if r.type in _LEFT:
            continue
        kind = next((kind for start, kind in _LAID_OUT_BY_LINKERS.items() if r.target_section.startswith(start)), "")
        if kind == "shared memory" or (kind and r.type not in FIELDS):
            raise CubinError(
                f"{module.name}: {r.section.removeprefix('.text.')} uses a variable in {kind} ({r.symbol}), for which code that is compiled for separate linking "
                "(-rdc=true, -dc) must be linked first: omit the option, or build the program with nvcc, which links it."
            )
        if r.type not in FIELDS:
            raise CubinError(
                f"{module.name}: relocation type {r.type} of {r.symbol} in {r.section} at {r.offset:#x} is not known. "
                "Link the cubin completely (nvcc without -dc) or give PTX."
            )
        if r.type == _IN_BANK and r.target_section.startswith(".nv.constant"):
            value = r.target_offset + r.addend
        else:
            value = _address(module, r, addresses, bases) + r.addend
        _patch(module, r, place, value)
    return Image({n: bytes(c) for n, c in code.items()}, module.data | {n: bytes(c) for n, c in data.items()})


def _address(module: Module, r: Relocation, addresses: Mapping[str, int], bases: Mapping[str, int]) -> int:
    if r.target_section in bases:
        return bases[r.target_section] + r.target_offset
    if r.symbol in addresses:
        return addresses[r.symbol]
    if r.target_section in addresses:
        return addresses[r.target_section] + r.target_offset
    where = f"{r.section} at {r.offset:#x}"
    if r.target_section in module.code:
        raise CubinError(f"{module.name}: {where} names function {r.symbol}, but code_bases gives it no address.")
    if r.target_section:
        raise CubinError(f"{module.name}: {where} names variable {r.symbol}, but addresses gives it none.")
    raise CubinError(
        f"{module.name}: {where} names {r.symbol}, which the module does not define. "
        "Link it with the file that does, or give its address."
    )


def _check(module: Module, r: Relocation, place: bytearray, size: int) -> None:
    if r.offset + size > len(place):
        raise CubinError(
            f"{module.name} is damaged: a relocation at {r.offset:#x} is outside {r.section} ({len(place)} bytes)."
        )


def width_bytes(kind: int) -> int:
    """Number of bytes that a relocation changes, from its offset on."""
    if kind in _CLEARS:
        return _CLEARS[kind]
    return -(-max((first + bits for _, bits, first in FIELDS[kind][1]), default=0) // 8) if kind in FIELDS else 0


def _patch(module: Module, r: Relocation, place: bytearray, value: int) -> None:
    fields = FIELDS[r.type][1]
    size = width_bytes(r.type)
    _check(module, r, place, size)
    word = int.from_bytes(place[r.offset : r.offset + size], "little")
    for source, bits, first in fields:
        mask = (1 << bits) - 1
        word = word & ~(mask << first) | (value >> source & mask) << first
    place[r.offset : r.offset + size] = word.to_bytes(size, "little")
