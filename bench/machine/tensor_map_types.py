"""What TMA loads by maps of each 32-bit float type: f32, f32.ftz, tf32, tf32.ftz.

``python -m bench.machine.tensor_map_types --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` runs it on a card.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.device import Device
from bench.machine.card_program import measure_cubin
from warpwright.engine.tensor_map import ELEMENT_TYPES, TensorMap

TYPES = ("f32", "f32.ftz", "tf32", "tf32.ftz")
_BOX, _BOXES = 256, 4
_EDGES = (
    *(0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3000, 0x7FEFFF, 0x7FF000, 0x7FFFFF, 0x800000),
    *(0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F802FFF, 0x3F803000, 0x7F7FEFFF, 0x7F7FF000, 0x7F7FFFFF),
    *(0x7F800000, 0x7F800001, 0x7F800FFF, 0x7F801000, 0x7FC00000, 0x7FFFFFFF),
)
"""Zero, denormal numbers, ties, the largest number, infinity, NaNs."""


def patterns() -> npt.NDArray[np.uint32]:
    """Bits of floats: edges of either sign, denormal numbers, and any."""
    made = np.random.default_rng(1).integers(0, 2**32, _BOX * _BOXES, dtype=np.uint32)
    made[: 2 * len(_EDGES)] = [sign | edge for sign in (0, 1 << 31) for edge in _EDGES]
    made[-_BOX:] &= 0x807FFFFF
    return made


def measure(device: Device, cubin: bytes) -> dict[str, list[int]]:
    """By the map's type, what arrives for :func:`patterns`."""
    module = device.load(cubin)
    given = device.upload(patterns())
    found = {}
    for name in TYPES:
        made = TensorMap(given.address, ELEMENT_TYPES.index(name), (_BOX * _BOXES,), (), (_BOX,), (1,))
        made.check()
        out = device.upload(np.zeros(_BOX * _BOXES, np.uint32))
        module.launch("loaded", _BOXES, 32, [np.void(made.encode()), out])
        found[name] = out.read(np.uint32, _BOX * _BOXES).tolist()
        out.free()
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
