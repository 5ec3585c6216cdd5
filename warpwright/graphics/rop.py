"""Raster operations: depth, stencil and alpha tests, blending, logic operations and writes, in the order of the fragments.

Depth and stencil tests of a batch run before or after its pixel programs (``draw.py``), and colours are written after both. State is kept as numbers in arrays
for the compiled loops: :class:`DepthState` and :class:`BlendState` read them from registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled, compiled_part
from warpwright.graphics.formats import Format, load_colour, load_word, store_colour, store_word
from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.pushbuffer import CommandError
from warpwright.graphics.surface_layout import byte_offset

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Colours = npt.NDArray[np.float32]
NEVER, LESS, EQUAL, LEQUAL, GREATER, NOTEQUAL, GEQUAL, ALWAYS = range(8)
"""Comparisons: the low bits of OpenGL's numbers."""
_STENCIL_OPERATIONS = {0: 0, 0x150A: 1, 0x1E00: 2, 0x1E01: 3, 0x1E02: 4, 0x1E03: 5, 0x8507: 6, 0x8508: 7}
"""Zero, invert, keep, replace, increment, decrement, increment with wrap, decrement with wrap."""
_FACTORS = {
    0x4000: 0,
    0x4001: 1,
    0x4300: 2,
    0x4301: 3,
    0x4302: 4,
    0x4303: 5,
    0x4304: 6,
    0x4305: 7,
    0x4306: 8,
    0x4307: 9,
    0x4308: 10,
    0xC001: 11,
    0xC002: 12,
    0xC003: 13,
    0xC004: 14,
    0xC900: 15,
    0xC901: 16,
    0xC902: 17,
    0xC903: 18,
}
"""Zero, one, source colour, its complement, source alpha, its complement, destination alpha and colour with complements, saturated
source alpha, constant colour and alpha with complements, the second source's colour and alpha with complements."""
_EQUATIONS = {0x8006: 0, 0x8007: 1, 0x8008: 2, 0x800A: 3, 0x800B: 4}
"""Add, minimum, maximum, subtract, reverse subtract."""
UNLIMITED, UNSIGNED, SIGNED = range(3)
"""Colours are blended unclamped, clamped to [0, 1], or clamped to [-1, 1]."""


@compiled_part
def compares(function: int, a: float, b: float) -> bool:
    """Whether a comparison of ``a`` with ``b`` holds."""
    if function == 0:
        return False
    if function == 1:
        return a < b
    if function == 2:
        return a == b
    if function == 3:
        return a <= b
    if function == 4:
        return a > b
    if function == 5:
        return a != b
    if function == 6:
        return a >= b
    return True


@compiled_part
def _stencil(operation: int, before: int, reference: int) -> int:
    if operation == 0:
        return 0
    if operation == 1:
        return ~before & 255
    if operation == 2:
        return before
    if operation == 3:
        return reference
    if operation == 4:
        return min(before + 1, 255)
    if operation == 5:
        return max(before - 1, 0)
    return (before + (1 if operation == 6 else 255)) & 255


def _operation(engine: RegisterEngine, name: str) -> int:
    value = engine[name]
    if value not in _STENCIL_OPERATIONS:
        raise engine.refuse(name, value, "it is not an operation on stencils")
    return _STENCIL_OPERATIONS[value]


@dataclass(frozen=True, slots=True)
class DepthState:
    """Depth and stencil state: ``words`` as :func:`depth_stencil` takes them, and the bounds of the depth-bounds test."""

    words: Integers
    bounds: npt.NDArray[np.float64]
    writes: bool
    """Whether any test can fail or any value can be written."""

    @classmethod
    def of(cls, engine: RegisterEngine) -> DepthState:
        tests, stencils = bool(engine["DEPTH_TEST_ENABLE"]), bool(engine["STENCIL_ENABLE"])
        bounded = bool(engine["DEPTH_BOUNDS_EN"])
        words = [
            int(tests),
            engine["DEPTH_TEST_FUNC"] & 7,
            int(tests and engine["DEPTH_WRITE_ENABLE"] != 0),
            int(stencils),
        ]
        for side in ("FRONT", "BACK"):
            shown = side if engine["STENCIL_TWO_SIDE_ENABLE"] else "FRONT"
            if not stencils:
                words += [0] * 7
                continue
            words += [
                engine[f"STENCIL_{shown}_FUNC_FUNC"] & 7,
                engine[f"STENCIL_{shown}_FUNC_REF"] & 255,
                engine[f"STENCIL_{shown}_FUNC_MASK"] & 255,
                engine[f"STENCIL_{shown}_MASK"] & 255,
                _operation(engine, f"STENCIL_{shown}_OP_FAIL"),
                _operation(engine, f"STENCIL_{shown}_OP_ZFAIL"),
                _operation(engine, f"STENCIL_{shown}_OP_ZPASS"),
            ]
        words.append(int(bounded))
        bounds = np.array([engine.float_at("DEPTH_BOUNDS", 0), engine.float_at("DEPTH_BOUNDS", 1)])
        return cls(np.array(words, dtype=np.int64), bounds, tests or stencils or bounded)


Surface = tuple[tuple[int, int, int, int], int, tuple[int, int, int, int], Integers]
"""A surface for compiled loops: its layout's key; bytes of an element; width and height in samples, and samples of a pixel along x and y; for each primitive,
the memory offset of its layer and the slice in it."""


@compiled
def sample_address(surface: Surface, quads: Integers, q: int, p: int, s: int) -> int:
    """Offset in memory of a sample of a quad's pixel, or -1 outside the surface."""
    key, size, extent, layers = surface
    width, height, across, down = extent
    x = (quads[q, 0] + (p & 1)) * across + sample_column(s, across)
    y = (quads[q, 1] + (p >> 1)) * down + sample_row(s, across)
    if x >= width or y >= height:
        return -1
    t = quads[q, 2]
    return layers[t, 0] + byte_offset(key, x * size, y, layers[t, 1])


@compiled_part
def _depth_words(z: float, stored: int, bits: int, is_float: int, scratch: Colours) -> tuple[int, float, float]:
    """A depth in the target's format, and the stored and the new depth as numbers that compare like their bits."""
    word = scratch.view(np.uint32)
    if is_float:
        scratch[0] = z
        new = int(word[0])
        word[0] = stored
        return new, float(scratch[0]), float(z)
    clamped = 0.0 if not z > 0.0 else min(float(z), 1.0)
    new = int(clamped * ((1 << bits) - 1) + 0.5)
    return new, float(stored), float(new)


@compiled_part
def _test_sample(
    memory: Bytes,
    at: int,
    form: tuple[int, int, int, int, int, int, int],
    z: float,
    state: Integers,
    side: int,
    bounds: npt.NDArray[np.float64],
    scratch: Colours,
) -> bool:
    """Test one sample and update it; ``side`` is the offset of its face's stencil state."""
    size, shift, bits, is_float, stencil_word, stencil_shift, stencil_bits = form
    top = (1 << bits) - 1
    word = load_word(memory, at, size)
    new, old_value, new_value = _depth_words(z, word >> shift & top, bits, is_float, scratch)
    if state[18]:
        seen = old_value if is_float else old_value / top
        if not bounds[0] <= seen <= bounds[1]:
            return False
    stencils = state[3] and stencil_bits
    passes_stencil, before = True, 0
    if stencils:
        other = word if stencil_word == 0 else load_word(memory, at + 4, 4)
        before = other >> stencil_shift & 255
        mask = state[side + 2]
        passes_stencil = compares(state[side], float(state[side + 1] & mask), float(before & mask))
    passes = passes_stencil and (not state[0] or compares(state[1], new_value, old_value))
    if stencils:
        operation = state[side + 6] if passes else (state[side + 5] if passes_stencil else state[side + 4])
        written = state[side + 3]
        after = before & ~written | _stencil(operation, before, state[side + 1]) & written
        if stencil_word == 0:
            word = word & ~(255 << stencil_shift) | after << stencil_shift
        elif after != before:
            store_word(memory, at + 4, 4, load_word(memory, at + 4, 4) & ~255 | after)
    if passes and state[2]:
        word = word & ~(top << shift) | new << shift
    if (passes and state[2]) or (stencils and stencil_word == 0):
        store_word(memory, at, size, word)
    return passes


@compiled
def depth_stencil(
    memory: Bytes,
    surface: Surface,
    form: tuple[int, int, int, int, int, int, int],
    quads: Integers,
    coverage: npt.NDArray[np.uint32],
    depths: Colours,
    is_front: npt.NDArray[np.bool_],
    state: tuple[Integers, npt.NDArray[np.float64]],
) -> None:
    """Test and update samples; those that fail are removed from ``coverage``.

    Args:
        form: the format's numbers.
        quads: x, y and primitive of each.
        depths: (4 * quads, samples).
        state: words and bounds of a :class:`DepthState`.
    """
    words, bounds = state
    scratch = np.zeros(1, dtype=np.float32)
    for q in range(quads.shape[0]):
        side = 4 if is_front[quads[q, 2]] else 11
        for p in range(4):
            for s in range(depths.shape[1]):
                bit = 1 << 8 * p + s
                if not coverage[q] & bit:
                    continue
                at = sample_address(surface, quads, q, p, s)
                if at < 0 or not _test_sample(memory, at, form, depths[4 * q + p, s], words, side, bounds, scratch):
                    coverage[q] &= ~np.uint32(bit)


@compiled
def sample_column(sample: int, across: int) -> int:
    """Where a sample of a pixel is stored: samples 0 to 3 form a square of two by two, and 4 to 7 the square next to it."""
    return sample & 1 if across < 4 else (sample & 1) + (sample >> 2) * 2


@compiled
def sample_row(sample: int, across: int) -> int:
    return sample >> 1 & 1 if across > 1 else 0


def _chosen(engine: RegisterEngine, name: str, table: dict[int, int], what: str) -> int:
    value = engine[name]
    if value not in table:
        raise engine.refuse(name, value, f"it is no {what}")
    return table[value]


@dataclass(frozen=True, slots=True)
class BlendState:
    """Blending of one target: ``words`` as :func:`write_colours` takes them, and the constant colour."""

    words: Integers
    constant: Colours

    @property
    def uses_second_source(self) -> bool:
        return bool(self.words[0]) and bool((self.words[[2, 3, 5, 6]] >= 15).any())

    @classmethod
    def of(cls, engine: RegisterEngine, number: int, form: Format) -> BlendState:
        enabled = engine.at("BLEND_ENABLE", 0 if engine["BLEND_ENABLE_COMMON"] else number)
        blends = bool(enabled) and not form.is_integer
        words = [int(blends)]
        if blends:
            for part in ("RGB", "ALPHA"):
                words.append(_chosen(engine, f"BLEND_EQUATION_{part}", _EQUATIONS, "equation of blending"))
                words.append(_chosen(engine, f"BLEND_FUNC_SRC_{part}", _FACTORS, "factor of blending"))
                words.append(_chosen(engine, f"BLEND_FUNC_DST_{part}", _FACTORS, "factor of blending"))
        else:
            words += [0] * 6
        logic = engine["LOGIC_OP"] & 15 if engine["LOGIC_OP_ENABLE"] and form.is_unorm else -1
        mask = engine.at("COLOR_MASK", 0 if engine["COLOR_MASK_COMMON"] else number)
        channels = sum(1 << i for i in range(4) if mask >> 4 * i & 1)
        clamps = bool(engine["FRAG_COLOR_CLAMP_EN"] >> 4 * number & 1)
        words += [logic, channels, *cls._limits(form, clamps)]
        constant = np.array([engine.float_at("BLEND_COLOR", i) for i in range(4)], dtype=np.float32)
        return cls(np.array(words, dtype=np.int64), constant)

    @staticmethod
    def _limits(form: Format, clamps: bool) -> tuple[int, int]:
        """How colours and the constant are clamped before blending (OpenGL 3.3, section 4.1.7): to [0, 1], to [-1, 1] or not at all."""
        own = UNSIGNED if form.is_unorm else SIGNED if form.is_snorm else UNLIMITED
        return UNSIGNED if clamps and not form.is_integer else own, own


@compiled_part
def _factor(code: int, channel: int, source: Colours, second: Colours, target: Colours, constant: Colours) -> float:
    if code == 0:
        return 0.0
    if code == 1:
        return 1.0
    if code == 2:
        return source[channel]
    if code == 3:
        return 1.0 - source[channel]
    if code == 4:
        return source[3]
    if code == 5:
        return 1.0 - source[3]
    if code == 6:
        return target[3]
    if code == 7:
        return 1.0 - target[3]
    if code == 8:
        return target[channel]
    if code == 9:
        return 1.0 - target[channel]
    if code == 10:
        return 1.0 if channel == 3 else min(source[3], 1.0 - target[3])
    if code == 11:
        return constant[channel]
    if code == 12:
        return 1.0 - constant[channel]
    if code == 13:
        return constant[3]
    if code == 14:
        return 1.0 - constant[3]
    if code == 15:
        return second[channel]
    if code == 16:
        return 1.0 - second[channel]
    if code == 17:
        return second[3]
    return 1.0 - second[3]


@compiled_part
def _logic(operation: int, source: int, target: int) -> int:
    """The sixteen logic operations: bit ``3 - (2 * s + t)`` of their table's number gives the result for bits s and t."""
    result = 0
    if operation & 1:
        result |= source & target
    if operation & 2:
        result |= source & ~target
    if operation & 4:
        result |= ~source & target
    if operation & 8:
        result |= ~source & ~target
    return result


@compiled_part
def _blend(
    source: Colours, second: Colours, target: Colours, constant: Colours, state: Integers, result: Colours
) -> None:
    """Blend one colour with the target's."""
    for i in range(4):
        base = 4 if i == 3 else 1
        equation = state[base]
        if equation == 1:
            result[i] = min(source[i], target[i])
            continue
        if equation == 2:
            result[i] = max(source[i], target[i])
            continue
        a = source[i] * np.float32(_factor(state[base + 1], i, source, second, target, constant))
        b = target[i] * np.float32(_factor(state[base + 2], i, source, second, target, constant))
        if equation == 0:
            result[i] = a + b
        elif equation == 3:
            result[i] = a - b
        else:
            result[i] = b - a


@compiled_part
def _combine_bits(memory: Bytes, at: int, size: int, operation: int, element: Bytes) -> None:
    """Replace an element by a logic operation of it and the element in memory."""
    for first in range(0, size, 4):
        left = size - first
        combined = _logic(operation, load_word(element, first, left), load_word(memory, at + first, left))
        store_word(element, first, left, combined)


@compiled_part
def _clamped(values: Colours, limits: int, out: Colours) -> None:
    out[:] = values
    if limits:
        low = np.float32(0.0 if limits == UNSIGNED else -1.0)
        for i in range(4):
            out[i] = low if not values[i] > low else min(values[i], np.float32(1.0))


@compiled
def write_colours(
    memory: Bytes,
    surface: Surface,
    table: Integers,
    quads: Integers,
    coverage: npt.NDArray[np.uint32],
    colours: Colours,
    seconds: Colours,
    state: tuple[Integers, Colours],
) -> None:
    """Blend and write the colours of covered samples.

    Args:
        table: the channels of the target's format.
        quads: x, y and primitive of each.
        colours: (4 * quads, 4); ``seconds`` are those of the second source.
        state: words and constant colour of a :class:`BlendState`.
    """
    words, constant = state
    blends, logic, mask = words[0], words[7], words[8]
    limits = words[9]
    size = surface[1]
    target, source, second = np.zeros(4, dtype=np.float32), np.zeros(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    result, fixed = np.zeros(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    _clamped(constant, words[10], fixed)
    element = np.zeros(16, dtype=np.uint8)
    for q in range(quads.shape[0]):
        for p in range(4):
            if not coverage[q] >> 8 * p & 255:
                continue
            _clamped(colours[4 * q + p], limits, source)
            _clamped(seconds[4 * q + p], limits, second)
            for s in range(8):
                if not coverage[q] >> 8 * p + s & 1:
                    continue
                at = sample_address(surface, quads, q, p, s)
                if at < 0:
                    continue
                if logic >= 0:
                    store_colour(element, 0, size, table, source, 15)
                    _combine_bits(memory, at, size, logic, element)
                    load_colour(element, 0, size, table, result)
                    store_colour(memory, at, size, table, result, mask)
                elif blends:
                    load_colour(memory, at, size, table, target)
                    _blend(source, second, target, fixed, words, result)
                    store_colour(memory, at, size, table, result, mask)
                else:
                    store_colour(memory, at, size, table, source, mask)


def alpha_passes(engine: RegisterEngine, alpha: Colours) -> npt.NDArray[np.bool_]:
    """The alpha test on the first target's alpha.

    Raises:
        CommandError: the comparison is unknown.
    """
    function, reference = engine["ALPHA_TEST_FUNC"] & 7, np.float32(engine.float_at("ALPHA_TEST_REF"))
    tests = {
        NEVER: np.zeros(alpha.shape, dtype=bool),
        LESS: alpha < reference,
        EQUAL: alpha == reference,
        LEQUAL: alpha <= reference,
        GREATER: alpha > reference,
        NOTEQUAL: alpha != reference,
        GEQUAL: alpha >= reference,
        ALWAYS: np.ones(alpha.shape, dtype=bool),
    }
    if function not in tests:
        raise CommandError(f"{engine.table.label}: ALPHA_TEST_FUNC = {function} is unknown")
    return tests[function]
