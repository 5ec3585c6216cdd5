"""What a launch writes to the start of a block's shared memory and to ``$r0``.

The layout is that of CUDA on sm_1x: sixteen bytes of extents and numbers as 16-bit words, then the kernel's parameters;
``$r0`` holds the thread's position, x in 16 bits, y in 10 and z in 6.  A grid has two dimensions.
"""

from __future__ import annotations

from warpwright.isa.ops import Builder, Value

WORDS = {0x2: "ntid.x", 0x4: "ntid.y", 0x6: "ntid.z", 0x8: "nctaid.x", 0xA: "nctaid.y", 0xC: "ctaid.x", 0xE: "ctaid.y"}
"""16-bit words by address; word 0 is the grid's number, which no program reads."""
PARAMETERS_AT = 0x10
"""Offset of the parameters."""
Y_SHIFT, Z_SHIFT = 16, 26
X_MASK, Y_MASK = 0xFFFF, 0x3FF


def header_bytes(parameter_bytes: int) -> int:
    """Bytes of shared memory before the kernel's own: a multiple of 16."""
    return -(-(PARAMETERS_AT + parameter_bytes) // 16) * 16


def read_launch_word(b: Builder, at: int, size: int, parameter_bytes: int, base: int) -> Value | None:
    """The value of ``size`` bytes at a fixed address, or None if the address is in the kernel's own memory.

    Args:
        base: offset of the parameters in constant bank 0 of the engine.
    """
    if at >= PARAMETERS_AT and at + size <= PARAMETERS_AT + parameter_bytes:
        return b.op("load_const", f"i{8 * size}", b.const(base + at - PARAMETERS_AT), attr=(0, size))
    if at >= PARAMETERS_AT:
        return None
    names = [WORDS.get(at - at % 2), WORDS.get(at - at % 2 + 2) if size == 4 else None]
    words = [b.const(0) if n is None else b.op("special", "i32", attr=n) for n in names]
    value = b.or_(b.and_(words[0], b.const(0xFFFF)), b.shl(words[1], b.const(16)))
    if at % 2:
        value = b.lshr(value, b.const(8))
    return value if size == 4 else b.trunc(value, f"i{8 * size}")


def thread_position(b: Builder) -> Value:
    """Initial value of ``$r0``."""
    x, y, z = (b.op("special", "i32", attr=f"tid.{axis}") for axis in "xyz")
    return b.add(b.add(x, b.shl(y, b.const(Y_SHIFT))), b.shl(z, b.const(Z_SHIFT)))
