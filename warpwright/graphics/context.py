"""The command stream of the graphics pipeline as Python, for programs without OpenGL.

A :class:`Context` is a channel of a simulated chip: it writes methods of the 3D class 0x8297, as a driver does, and the device executes them. Programs are NV50
machine code, as text or as bytes. What a context submits can be recorded, and replays as any recording does (``recording.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.graphics import methods_3d
from warpwright.graphics.context_names import COMPARISONS, EQUATIONS, FACTORS, FORMATS, INITIAL, PRIMITIVES, number_of
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.formats import DepthFormat, Format, decode
from warpwright.graphics.recording import Recorder, png
from warpwright.graphics.shader_programs import ShaderProgram, load_program
from warpwright.graphics.surface_layout import LARGEST_SURFACE, Layout, read_elements, tiled
from warpwright.graphics.timed.frame import FrameTime, frame_of
from warpwright.graphics.video_memory import Buffer
from warpwright.isa.nv50.assembler.from_text import assemble
from warpwright.isa.nv50.stage_words import STAGES

Stage = Literal["vertex", "pixel"]
_SUBCHANNEL, _HANDLE = 3, 0xBEEF_8297
_TILED_KIND, _ALL_CHANNELS = 0x70, 0x3C
"""The storage type of tiled memory, and the bits of CLEAR_BUFFERS for the four channels of a colour."""
_MOST_WORDS = 2047
"""Words after one method header."""
_STREAM_BYTES = 1 << 20
_PREFIXES = {"vertex": "VP", "pixel": "FP"}
_FLOATS = {1: 0x12, 2: 0x04, 3: 0x02, 4: 0x01}
"""Codes of VERTEX_ARRAY_ATTRIB for so many 32-bit floats."""
_FLOAT_TYPE, _FETCHES = 7 << 25, 1 << 29
_MULTIPLE_RESULTS, _DISCARDS = 1, 1 << 20
_ONE_OVER_W = 1 << 27
"""Bit of FP_INTERPOLANT_CTRL: the pixel program's first input is 1/w."""
_POSITION_WORDS = 4
_TARGETS = frozenset({"RT_ADDRESS_HIGH", "ZETA_ADDRESS_HIGH", "STRMOUT_ENABLE"})
"""Methods that say where draws write."""
_FIRST_CONSTANT_BUFFER = {"vertex": 0, "pixel": 16}
_PROGRAM_OF_CONSTANTS = {"vertex": 0, "pixel": 3}


class SimulatedGpu(Protocol):
    """What a context needs of a ``ww.GPU``."""

    chip: Chip
    timing: str


@dataclass(frozen=True, slots=True)
class VertexArray:
    """An attribute of vertices in memory: ``count`` rows of ``components`` 32-bit floats."""

    buffer: Buffer
    count: int
    components: int


@dataclass(frozen=True, slots=True)
class Image:
    """A surface for colours, or for depth and stencil, tiled as the chip stores it; sizes are in pixels."""

    buffer: Buffer
    width: int
    height: int
    form: Format | DepthFormat
    layout: Layout
    tile_mode: int


@dataclass(frozen=True, slots=True)
class Program:
    """A program in the device's memory."""

    stage: Stage
    code: ShaderProgram
    buffer: Buffer
    entry: int


class Context:
    """A channel with the 3D class, and helpers that write its methods.

    Args:
        gpu: a GPU of a chip with Tesla's graphics pipeline; with its timing, draws have cycles (:meth:`frame`).
        record: a file to record the context's submissions to; :meth:`close` completes it.

    Raises:
        UnsupportedError: the chip's graphics pipeline is not modelled.
    """

    def __init__(self, gpu: SimulatedGpu, record: str | Path | None = None) -> None:
        self.device = GraphicsDevice.of(gpu.chip)
        self._recorder = None if record is None else Recorder(self.device, Path(record))
        if gpu.timing != "off":
            self.device.keep_time(gpu.chip)
        self.device.add_object(_HANDLE, methods_3d.CLASS)
        self._stream = self._allocate(_STREAM_BYTES, local=False)
        self._words: list[int] = [_header(1, 0), _HANDLE]
        self._has_target = False
        for name, value in INITIAL:
            self.method(name, value)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Submit what is left, and complete the recording."""
        self.submit()
        if self._recorder is not None:
            self._recorder.finish()

    # --- the command stream -----------------------------------------------------------------------------
    def method(self, name: str, *values: int | float, index: int = 0) -> None:
        """Write values to a method of the 3D class and those after it; a float is written as its bits.

        Args:
            name: the method's name in ``methods_3d.py``.
            index: which of an array of methods.

        Raises:
            ArgumentError: the class has no such method.
        """
        table = methods_3d.TABLE
        if name not in table.offsets or not 0 <= index < table.counts[name]:
            raise ArgumentError(f"{table.label} has no method {name}[{index}]: see warpwright/graphics/methods_3d.py")
        words = [_bits(value) for value in values]
        self._has_target |= name in _TARGETS
        self._words += [_header(len(words), table.offsets[name] + table.strides[name] * index), *words]

    def submit(self) -> None:
        """Execute the methods written so far.

        Raises:
            WarpwrightError: a method requests an unsupported feature or accesses memory outside the buffers; the remaining methods are dropped.
        """
        words, self._words = self._words, []
        if not words:
            return
        if 4 * len(words) > self._stream.size:
            self.device.free(self._stream)
            self._stream = self._allocate(4 * len(words), local=False)
        self.device.memory.words(self._stream.address, len(words), "a context")[:] = words
        self.device.submit([(self._stream.address, 4 * len(words))])

    # --- memory -----------------------------------------------------------------------------------------
    def _allocate(self, size: int, local: bool = True, tile_mode: int = 0) -> Buffer:
        made = self.device.memory.allocate(size, 256, local, _TILED_KIND if tile_mode else 0, tile_mode)
        self.device.host_writes(made)
        return made

    def buffer(self, data: npt.ArrayLike | int) -> Buffer:
        """Return a buffer in video memory with an array's bytes, or of a size in bytes, filled with zeros.

        Raises:
            OutOfMemoryError: the chip's memory has no room.
        """
        if isinstance(data, int):
            return self._allocate(data)
        contents = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        made = self._allocate(max(1, len(contents)))
        self.device.memory.view(made.address, len(contents), "a context")[:] = contents
        return made

    def vertices(self, values: npt.ArrayLike) -> VertexArray:
        """Return a vertex attribute from an array of shape (n, 1 to 4), stored as 32-bit floats.

        Raises:
            ArgumentError: the array has another shape.
        """
        rows = np.asarray(values, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] not in _FLOATS:
            raise ArgumentError(f"an attribute is an array (n, 1 to 4), not {rows.shape}")
        return VertexArray(self.buffer(rows), len(rows), rows.shape[1])

    def image(self, width: int, height: int, form: str = "RGBA8_UNORM") -> Image:
        """Return a surface of zeros.

        Args:
            width: size in pixels, from 1 to 8,192.
            height: size in pixels, from 1 to 8,192.
            form: a format's name in ``formats.py``, such as ``RGBA16_FLOAT`` or ``Z24_S8_UNORM``.

        Raises:
            ArgumentError: the format or a size is not supported.
        """
        found = FORMATS.get(form)
        if found is None:
            raise ArgumentError(f"there is no format {form!r}: use {', '.join(FORMATS)}")
        if not (0 < width <= LARGEST_SURFACE and 0 < height <= LARGEST_SURFACE):
            raise ArgumentError(f"a surface has 1 to {LARGEST_SURFACE} pixels along each side, not {width} x {height}")
        # Blocks of up to 16 GOBs of four rows.
        tile_mode = min(4, max(0, (height - 1) // 4).bit_length()) << 4
        size = tiled(0, width * found.size, tile_mode, height).size
        made = self._allocate(size, tile_mode=tile_mode)
        layout = tiled(made.address, width * found.size, tile_mode, height)
        return Image(made, width, height, found, layout, tile_mode)

    def read(self, image: Image) -> npt.NDArray[np.float32]:
        """Submit, then return a surface as float32: (height, width, 4) colours or (height, width) depths, the row with the largest y first."""
        self.submit()
        rows = np.arange(image.height)[::-1, None]
        offsets = image.layout.offsets(np.arange(image.width) * image.form.size, rows, 0)
        base = self.device.memory.place(image.layout.address, image.layout.size, "a context")
        elements = read_elements(self.device.memory, base, offsets, image.form.size)
        if isinstance(image.form, Format):
            return decode(elements, image.form).astype(np.float32)
        words = np.ascontiguousarray(elements).view(f"<u{min(4, image.form.size)}")[..., 0].astype(np.uint32)
        if image.form.is_float:
            return words.view(np.float32)
        most = (1 << image.form.depth_bits) - 1
        return ((words >> image.form.depth_shift & most) / most).astype(np.float32)

    def png(self, path: str | Path, image: Image) -> None:
        """Submit, then write a surface's colours, clamped to [0, 1], to a PNG file with 8 bits per channel."""
        with np.errstate(invalid="ignore"):
            colours = np.clip(np.nan_to_num(self.read(image)), 0, 1) * 255 + 0.5
        Path(path).write_bytes(png(colours.astype(np.uint8)))

    # --- programs -----------------------------------------------------------------------------------------
    def program(self, stage: Stage, code: str | bytes, *, results: int = 4, entry: int = 0) -> Program:
        """A vertex or pixel program.

        Args:
            code: NV50 machine code: its text, as ``isa.nv50.text`` prints it, or its bytes (of a recording, for example).
            results: number of registers that a pixel program returns, from ``$r0`` on; four per colour.
            entry: offset in bytes at which the program begins.

        Raises:
            AssemblyError: a line of the text is no instruction.
            BadProgram: a word of the bytes is no instruction, or the code does not end.
        """
        if stage not in _PREFIXES:
            raise ArgumentError(f"a program is for vertex or pixel, not {stage!r}")
        words = assemble(code, STAGES[stage]) if isinstance(code, str) else code
        made = load_program(words, entry, stage, results=results if stage == "pixel" else 0)
        return Program(stage, made, self.buffer(np.frombuffer(words, np.uint8)), entry)

    def constants(self, stage: Stage, values: npt.ArrayLike, space: int = 0) -> None:
        """Set a stage's constants ``c{space}[]`` (``c0[]`` to ``c15[]``) to 32-bit values; arrays of other widths become 32-bit floats."""
        contents = np.ascontiguousarray(values)
        if contents.dtype.itemsize != 4:
            contents = contents.astype(np.float32)
        made = self.buffer(contents)
        number = _FIRST_CONSTANT_BUFFER[stage] + space
        self.method("CB_DEF_ADDRESS_HIGH", made.address >> 32, made.address, number << 16 | contents.nbytes & 0xFFFF)
        self.method("SET_PROGRAM_CB", number << 12 | space << 8 | _PROGRAM_OF_CONSTANTS[stage] << 4 | 1)

    # --- state --------------------------------------------------------------------------------------------
    def target(self, colour: Image, depth: Image | None = None) -> None:
        """Draw to a surface, with all of it as the viewport, and optionally use a depth surface."""
        width, height = colour.width, colour.height
        at = colour.layout.address
        self.method("RT_ADDRESS_HIGH", at >> 32, at, colour.form.number, colour.tile_mode, 0)
        self.method("RT_HORIZ", width, height)
        self.method("RT_CONTROL", 1)
        self.method("RT_ARRAY_MODE", 1)
        self.method("ZETA_ENABLE", int(depth is not None))
        if depth is not None:
            at = depth.layout.address
            self.method("ZETA_ADDRESS_HIGH", at >> 32, at, depth.form.number, depth.tile_mode, 0)
            self.method("ZETA_HORIZ", depth.width, depth.height, 1 << 16 | 1)
        self.method("SCREEN_SCISSOR_HORIZ", width << 16, height << 16)
        self.method("VIEWPORT_HORIZ", width << 16, height << 16)
        self.method("VIEWPORT_SCALE_X", width / 2, height / 2, 0.5, width / 2, height / 2, 0.5)

    def clear(self, colour: Sequence[float] | None = None, depth: float | None = None) -> None:
        """Clear the target's colours, its depths, or both; None leaves them unchanged.

        Raises:
            ArgumentError: there is no target.
        """
        self._needs_target("clear")
        word = 0
        if colour is not None:
            self.method("CLEAR_COLOR", *(float(c) for c in colour))
            word |= _ALL_CHANNELS
        if depth is not None:
            self.method("CLEAR_DEPTH", float(depth))
            word |= 1
        self.method("CLEAR_BUFFERS", word)

    def depth_test(self, comparison: str | None, write: bool = True) -> None:
        """Draw where the new depth passes a comparison with the stored one (``less`` …); None: everywhere."""
        self.method("DEPTH_TEST_ENABLE", int(comparison is not None))
        self.method("DEPTH_WRITE_ENABLE", int(write))
        if comparison is not None:
            self.method("DEPTH_TEST_FUNC", number_of(COMPARISONS, comparison, "comparison"))

    def blend(self, source: str | None, destination: str = "zero", equation: str = "add") -> None:
        """Blend colours and alphas by factors (``src_alpha`` …); None as source: do not blend."""
        self.method("BLEND_ENABLE", int(source is not None))
        if source is None:
            return
        number = number_of(EQUATIONS, equation, "equation")
        first, second = (number_of(FACTORS, name, "factor") for name in (source, destination))
        self.method("BLEND_EQUATION_RGB", number, first, second, number, first)
        self.method("BLEND_FUNC_DST_ALPHA", second)

    # --- draws --------------------------------------------------------------------------------------------
    def draw(
        self,
        kind: str,
        vertex: Program,
        pixel: Program,
        attributes: Sequence[VertexArray],
        indices: npt.ArrayLike | None = None,
    ) -> None:
        """Draw primitives.

        Args:
            kind: ``points``, ``lines``, ``triangles``, ``triangle_strip`` ….
            vertex: its ``a[]`` are the attributes' components one after the other; ``o[0x0]`` to ``o[0xc]`` are the position, and what follows is interpolated.
            pixel: its ``v[0x0]`` is 1/w, and ``v[0x4]`` on are the vertex program's outputs from ``o[0x10]`` on, divided by w.
            indices: which vertices, in order; None: all of them.

        Raises:
            ArgumentError: unknown primitives, programs in the wrong places, attributes of different lengths, or no target.
        """
        self._needs_target("draw")
        number = number_of(PRIMITIVES, kind, "kind of primitives")
        if vertex.stage != "vertex" or pixel.stage != "pixel":
            raise ArgumentError(f"a draw has a vertex and a pixel program, not {vertex.stage} and {pixel.stage}")
        counts = {array.count for array in attributes}
        if len(counts) != 1:
            raise ArgumentError(f"all attributes of a draw have the same number of vertices, not {sorted(counts)}")
        self._link(vertex, pixel)
        self._arrays(attributes)
        self.method("VERTEX_BEGIN_GL", number)
        if indices is None:
            self.method("VERTEX_BUFFER_FIRST", 0, counts.pop())
        else:
            words = np.asarray(indices, dtype=np.uint32).reshape(-1).tolist()
            at = methods_3d.TABLE.offsets["VB_ELEMENT_U32"]
            for n in range(0, len(words), _MOST_WORDS):
                part = words[n : n + _MOST_WORDS]
                self._words += [0x4000_0000 | len(part) << 18 | _SUBCHANNEL << 13 | at, *part]
        self.method("VERTEX_END_GL", 0)

    def _needs_target(self, what: str) -> None:
        if not self._has_target:
            raise ArgumentError(f"there is nothing to {what} to: call target(image) first")

    def _link(self, vertex: Program, pixel: Program) -> None:
        """Bind both programs; the vertex program's outputs keep their order."""
        for program in (vertex, pixel):
            prefix, at = _PREFIXES[program.stage], program.buffer.address
            self.method(f"{prefix}_ADDRESS_HIGH", at >> 32, at)
            self.method(f"{prefix}_START_ID", program.entry)
        outputs = max(_POSITION_WORDS, vertex.code.output_slots)
        words = -(-outputs // 4)
        self.method("VP_REG_ALLOC_RESULT", outputs)
        self.method("VP_RESULT_MAP_SIZE", outputs)
        order = [min(n, outputs - 1) for n in range(4 * words)]
        self.method("VP_RESULT_MAP", *struct.unpack(f"<{words}I", bytes(order)))
        given = outputs - _POSITION_WORDS
        self.method("FP_INTERPOLANT_CTRL", _ONE_OVER_W | given << 16 | _POSITION_WORDS << 8 | given)
        results = pixel.code.output_slots
        discards = any(i.opcode == "discard" for i in pixel.code.instructions)
        self.method("FP_RESULT_COUNT", results)
        self.method("FP_CONTROL", (_MULTIPLE_RESULTS if results > 4 else 0) | (_DISCARDS if discards else 0))

    def _arrays(self, attributes: Sequence[VertexArray]) -> None:
        enabled = 0
        for n, array in enumerate(attributes):
            at, stride = array.buffer.address, 4 * array.components
            enabled |= (1 << array.components) - 1 << 4 * n
            self.method("VERTEX_ARRAY_ATTRIB", _FLOAT_TYPE | _FLOATS[array.components] << 19 | n, index=n)
            self.method("VERTEX_ARRAY_FETCH", _FETCHES | stride, at >> 32, at, index=n)
            end = at + stride * array.count - 1
            self.method("VERTEX_ARRAY_LIMIT_HIGH", end >> 32, end, index=n)
        self.method("VP_ATTR_EN", enabled & 0xFFFF_FFFF, enabled >> 32)

    # --- time ---------------------------------------------------------------------------------------------
    def frame(self) -> FrameTime:
        """Submit, then return the time of all draws, by draw and stage.

        Raises:
            UnsupportedError: the GPU was made with ``timing="off"``.
            ArgumentError: the context has drawn and cleared nothing.
        """
        self.submit()
        if self.device.timer is None:
            raise UnsupportedError('draws have no cycles: make the GPU with timing="full"')
        found = frame_of(self.device.timer)
        if not found.cycles:
            raise ArgumentError("there is no time to report: nothing was drawn or cleared")
        return found


def _header(count: int, offset: int) -> int:
    """The word before so many words for a method and those after it."""
    return count << 18 | _SUBCHANNEL << 13 | offset


def _bits(value: int | float) -> int:
    if isinstance(value, int):
        return value & 0xFFFF_FFFF
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
