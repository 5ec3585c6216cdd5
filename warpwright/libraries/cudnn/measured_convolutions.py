"""The measured ratio of a convolution's class: type, result, order in memory, machine code of the kernel, and the nearest measured sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import log2

from warpwright.libraries.cublas.measured_products import FARTHEST
from warpwright.library_times import LibraryTime, measured_times

RESULTS = ("forward", "data", "filter")
"""By MODE of ``cuda/convolution.cu``."""
HALF, BFLOAT16 = 2, 9
"""cudnnDataType_t."""
KINDS = {HALF: "f16", BFLOAT16: "bf16"}
"""Types that were measured; of f32, no call says whether cuDNN may compute it in TF32."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution without groups and dilation."""

    type: int
    """cudnnDataType_t."""
    mode: int
    order: str
    """``nchw`` or ``nhwc``."""
    positions: int
    """Elements of a channel of the input, of all images."""
    in_channels: int
    out_channels: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """What is compared with measured sizes."""
        return self.positions, self.in_channels, self.out_channels


@cache
def _by_class(chip: str) -> dict[tuple[str, ...], list[tuple[tuple[int, int, int], float]]]:
    """Sizes and ratios by type, result, order in memory and the digest of the kernel's machine code."""
    found: dict[tuple[str, ...], list[tuple[tuple[int, int, int], float]]] = {}
    for row in measured_times().get(chip, {}).get("convolutions", ()):
        kind, order, result, _kernel, code, positions, in_channels, out_channels, own_us, nvidia_us = row
        sizes = (positions, in_channels, out_channels)
        found.setdefault((kind, result, order, code), []).append((sizes, nvidia_us / own_us))
    return found


def time_of(asked: Convolution | None, code: str, chip: str) -> LibraryTime:
    """The ratio for a convolution that machine code of a digest computes on a chip, by the nearest measured sizes of its class."""
    if asked is None or asked.type not in KINDS:
        return LibraryTime("cuDNN")
    kind, result = KINDS[asked.type], RESULTS[asked.mode]

    def distances(sizes: tuple[int, int, int]) -> list[float]:
        return [abs(log2(one / other)) for one, other in zip(sizes, asked.sizes, strict=True)]

    known = _by_class(chip).get((kind, result, asked.order, code), [])
    near = [one for one in known if max(distances(one[0])) <= log2(FARTHEST)]
    if not near:
        return LibraryTime("cuDNN")
    sizes, ratio = min(near, key=lambda one: sum(distances(one[0])))
    return LibraryTime(
        "cuDNN", ratio, f"{kind} {asked.order} {result}, {sizes[1]} to {sizes[2]} channels of {sizes[0]}"
    )
