"""Render targets and the depth buffer: from registers to layouts, and clears."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.formats import DepthFormat, Format, colour_format, depth_format, encode
from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.surface_layout import Layout, check, linear, read_elements, tiled, write_elements
from warpwright.graphics.video_memory import VideoMemory

SAMPLES = {0: (1, 1), 1: (2, 1), 2: (2, 2), 3: (4, 2), 8: (2, 2), 9: (2, 2), 10: (4, 2)}
"""Full samples of a pixel along x and y, by MULTISAMPLE_MODE; a multisampled surface is wider and higher by these factors. Modes from 8 on have coverage
samples too."""
_WITH_COVERAGE = {2: 9, 3: 10}
"""The modes with 16 samples in all that correspond to the modes of 4 and 8 samples."""
_COVERAGE_FORMAT = 0x18
"""The zeta format Z24_C8."""
_TRADED_FORMATS = (0x14, 0x15, 0x16)
"""Zeta formats of the same size, in which coverage replaces the stencil."""
_LINEAR = 1 << 31
_IS_3D = 1 << 16
_DEPTH, _STENCIL = 1, 2


class TargetEngine(RegisterEngine):
    """Registers of targets."""

    adds_coverage_samples = False
    """Whether surfaces of 4 and 8 samples get coverage samples, up to 16 in all, as drivers let users choose for programs that request only multisampling."""


@dataclass(frozen=True, slots=True)
class Target:
    """One surface: width and height in samples."""

    layout: Layout
    width: int
    height: int
    layer_stride: int
    """Bytes between the layers of an array; 0 for a volume, whose layers are slices."""

    def layer(self, number: int) -> tuple[Layout, int]:
        """The layout that holds a layer, and the slice in it."""
        if not self.layer_stride:
            return self.layout, number
        at = self.layout
        moved = Layout(
            at.address + number * self.layer_stride, at.pitch, at.height_log2, at.depth_log2, at.rows, at.slices
        )
        return moved, 0


@dataclass(frozen=True, slots=True)
class ColourTarget:
    """A surface for colours."""

    surface: Target
    form: Format


@dataclass(frozen=True, slots=True)
class DepthTarget:
    """A surface for depth and stencil."""

    surface: Target
    form: DepthFormat


def sample_mode(engine: TargetEngine) -> int:
    """MULTISAMPLE_MODE, including coverage samples if they were requested."""
    mode = engine["MULTISAMPLE_MODE"]
    return _WITH_COVERAGE.get(mode, mode) if engine.adds_coverage_samples else mode


def multisample(engine: TargetEngine) -> tuple[int, int]:
    """Full samples of a pixel along x and y.

    Raises:
        CommandError: the chip does not have the mode, or the depth format does not match it.
    """
    mode = sample_mode(engine)
    if mode not in SAMPLES:
        raise engine.refuse("MULTISAMPLE_MODE", mode, "modes 0 to 3 and 8 to 10 are")
    depth = depth_target(engine)
    if depth is not None and depth.form.has_coverage != (mode >= 8):
        what = "has no room for" if mode >= 8 else "is for"
        raise engine.refuse("ZETA_FORMAT", depth.form.number, f"{depth.form.name} {what} coverage samples")
    return SAMPLES[mode]


def colour_target(engine: TargetEngine, number: int) -> ColourTarget | None:
    """The colour surface with a given number; None if its format is 0 or it has no memory."""
    address = engine.address("RT_ADDRESS_HIGH", number)
    format_number = engine.at("RT_FORMAT", number)
    if not format_number or not address:
        return None
    form = colour_format(format_number, f"RT_FORMAT[{number}]")
    horizontal, height = engine.at("RT_HORIZ", number), engine.at("RT_VERT", number)
    mode = engine["RT_ARRAY_MODE"]
    if horizontal & _LINEAR:
        pitch = horizontal & ~_LINEAR
        return ColourTarget(Target(linear(address, pitch, height), pitch // form.size, height, 0), form)
    slices = max(1, mode & 0xFFFF) if mode & _IS_3D else 1
    layout = tiled(address, horizontal * form.size, engine.at("RT_TILE_MODE", number), height, slices)
    stride = 0 if mode & _IS_3D else engine.at("RT_LAYER_STRIDE", number) << 2
    return ColourTarget(Target(layout, horizontal, height, stride), form)


def depth_target(engine: TargetEngine) -> DepthTarget | None:
    """The depth surface, or None if there is none."""
    address = engine.address("ZETA_ADDRESS_HIGH")
    if not engine["ZETA_ENABLE"] or not address:
        return None
    number = engine["ZETA_FORMAT"]
    if engine.adds_coverage_samples and engine["MULTISAMPLE_MODE"] in _WITH_COVERAGE and number in _TRADED_FORMATS:
        if engine["STENCIL_ENABLE"]:
            raise engine.refuse("STENCIL_ENABLE", 1, "with coverage samples the depth surface has no stencil")
        number = _COVERAGE_FORMAT
    form = depth_format(number)
    width, height = engine["ZETA_HORIZ"], engine["ZETA_VERT"]
    layout = tiled(address, width * form.size, engine["ZETA_TILE_MODE"], height)
    return DepthTarget(Target(layout, width, height, engine["ZETA_LAYER_STRIDE"] << 2), form)


def clear_rectangle(engine: TargetEngine) -> tuple[int, int, int, int]:
    """Left, top, right and bottom in pixels of what a clear covers: the screen's scissor and the first viewport's rectangle."""
    horizontal, vertical = engine["SCREEN_SCISSOR_HORIZ"], engine["SCREEN_SCISSOR_VERT"]
    left, top = horizontal & 0xFFFF, vertical & 0xFFFF
    right, bottom = left + (horizontal >> 16), top + (vertical >> 16)
    horizontal, vertical = engine.at("VIEWPORT_HORIZ", 0), engine.at("VIEWPORT_VERT", 0)
    x, y = horizontal & 0xFFFF, vertical & 0xFFFF
    return max(left, x), max(top, y), min(right, x + (horizontal >> 16)), min(bottom, y + (vertical >> 16))


def clear(engine: TargetEngine, memory: VideoMemory, word: int) -> None:
    """CLEAR_BUFFERS: clear depth and stencil, and chosen channels of one target, in one layer."""
    across, down = multisample(engine)
    left, top, right, bottom = clear_rectangle(engine)
    layer, number = word >> 10 & 0x7FF, word >> 6 & 15
    if word >> 2 & 15:
        target = colour_target(engine, number)
        if target is not None:
            box = (left * across, top * down, right * across, bottom * down)
            _clear_colour(engine, memory, target, box, layer, word >> 2 & 15)
    depth = depth_target(engine)
    if word & (_DEPTH | _STENCIL) and depth is not None:
        _clear_depth(engine, memory, depth, (left * across, top * down, right * across, bottom * down), layer, word)


def cleared(
    engine: TargetEngine, word: int
) -> tuple[tuple[int, int, int, int], tuple[int, int], ColourTarget | None, DepthTarget | None, float | None]:
    """The effect of a clear: the rectangle in pixels, the samples, the targets, and the new depth."""
    colour = colour_target(engine, word >> 6 & 15) if word >> 2 & 15 else None
    depth = depth_target(engine) if word & (_DEPTH | _STENCIL) else None
    value = engine.float_at("CLEAR_DEPTH") if word & _DEPTH else None
    return clear_rectangle(engine), multisample(engine), colour, depth, value


def _fill(
    memory: VideoMemory,
    target: Target,
    box: tuple[int, int, int, int],
    layer: int,
    element: npt.NDArray[np.uint8],
    chosen: npt.NDArray[np.uint8],
) -> None:
    """Fill a box of samples with the chosen bits of an element."""
    left, top, right, bottom = box[0], box[1], min(box[2], target.width), min(box[3], target.height)
    if left >= right or top >= bottom:
        return
    layout, z = target.layer(layer)
    size = len(element)
    base = check(memory, layout, (left * size, right * size - 1), (top, bottom - 1), z, "a clear")
    offsets = layout.offsets(np.arange(left, right) * size, np.arange(top, bottom)[:, None], z)
    if (chosen == 255).all():
        elements = np.broadcast_to(element, (*offsets.shape, size))
    else:
        elements = read_elements(memory, base, offsets, size) & ~chosen | element & chosen
    write_elements(memory, base, offsets, elements)


def _clear_colour(
    engine: TargetEngine,
    memory: VideoMemory,
    target: ColourTarget,
    box: tuple[int, int, int, int],
    layer: int,
    mask: int,
) -> None:
    form = target.form
    colour = np.array([engine.at("CLEAR_COLOR", i) for i in range(4)], dtype=np.uint32).view(np.float32)
    element = encode(colour, form)
    chosen = np.zeros(form.size, dtype=np.uint8)
    for i, channel in enumerate(form.channels):
        if channel is not None and mask >> i & 1:
            field = (1 << channel.bits) - 1 << channel.shift << 32 * channel.word
            chosen |= np.frombuffer(field.to_bytes(form.size, "little"), dtype=np.uint8)
    _fill(memory, target.surface, box, layer, element, chosen)


def _clear_depth(
    engine: TargetEngine,
    memory: VideoMemory,
    target: DepthTarget,
    box: tuple[int, int, int, int],
    layer: int,
    word: int,
) -> None:
    form = target.form
    value = chosen = 0
    if word & _DEPTH:
        depth = engine.float_at("CLEAR_DEPTH")
        bits = (
            engine["CLEAR_DEPTH"]
            if form.is_float
            else int(min(max(depth, 0.0), 1.0) * ((1 << form.depth_bits) - 1) + 0.5)
        )
        value |= bits << form.depth_shift
        chosen |= (1 << form.depth_bits) - 1 << form.depth_shift
        if form.has_coverage:
            # A clear covers all samples.
            value |= 255 << 24
            chosen |= 255 << 24
    if word & _STENCIL and form.stencil_bits:
        shift = form.stencil_shift + 32 * form.stencil_word
        value |= (engine["CLEAR_STENCIL"] & 255) << shift
        chosen |= 255 << shift
    element = np.frombuffer(value.to_bytes(form.size, "little"), dtype=np.uint8)
    mask = np.frombuffer(chosen.to_bytes(form.size, "little"), dtype=np.uint8)
    _fill(memory, target.surface, box, layer, element, mask)
