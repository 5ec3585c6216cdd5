"""Offsets in constant bank 0 that the front ends read, by major compute capability, as compiled code uses them.

The driver fills these words before a launch; ``engine/constant_bank0.py`` defines the rest of the layout.
"""

from __future__ import annotations

PARAMETER_BASE = {0: 0x140, 1: 0x140, 2: 0x140, 6: 0x140, 7: 0x160, 8: 0x160, 9: 0x210}
"""Where parameters start.  Code for sm_1x reads them from shared memory, which the engine fills from here; sm_20 has
sm_60's layout.  Key 0 is AMD's chips, whose code reads them from a constant buffer after nine words of extents."""
PARAMETER_WINDOW = {9: 0x198}
BANK_WINDOW = {7: (0x40, 0x114), 8: (0x40, 0x12C)}
"""The generic address of the kernel's parameters.  Before sm_90: the generic address of bank 0 itself, and the word
that holds the offset of the parameters' last byte."""
CONSTANT_WINDOW = {2: 0xD0, 6: 0xD0, 7: 0x50, 8: 0x50, 9: 0xD0}
"""The generic address of constant bank 3."""
ENVIRONMENT_BASE = {0: 0x30, 1: 0x30, 2: 0x30, 6: 0x30, 7: 0x88, 8: 0x88, 9: 0x40}
"""Offset of ``%envreg0``; the other 31 environment registers follow, 4 bytes each."""
ENVIRONMENT_COUNT = 32

CURRENT_GRAPH = {7: 0x120, 8: 0x130, 9: 0x190}
"""Offset of ``%current_graph_exec`` by the first digit of the architecture (read from CUDA 12.9's machine code)."""


def environment_register(arch: int, number: int) -> int:
    """Offset of ``%envreg<number>`` for an architecture (60, 70, 80, 90 and their minor versions)."""
    return ENVIRONMENT_BASE[arch // 10] + 4 * number


def grid_workspace(arch: int) -> tuple[int, int]:
    """Offsets of the upper and lower word of the address of the grid barrier's workspace (``%envreg1``,
    ``%envreg2``)."""
    return environment_register(arch, 1), environment_register(arch, 2)
