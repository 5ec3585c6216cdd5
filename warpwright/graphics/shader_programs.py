"""Vertex, geometry and pixel programs: NV50 machine code run on the project's engines.

A program is lowered once (``isa/nv50/lower_graphics.py``), compiled for blocks of one warp, and run over arrays: a vertex, a primitive
or a pixel is a thread.  Inputs and outputs are rows of 32-bit words in the engine's memory; the functions here copy them in and out.  Pixels come in quads of
four consecutive threads, helper pixels included, so that a warp has eight quads.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.execute import Cancelled
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreted_launch import InterpretedExecution
from warpwright.engine.interpreter import Kernel
from warpwright.engine.jit.codegen import CompiledKernel, compile_kernel
from warpwright.engine.kernels import Traced
from warpwright.engine.launch import LaunchContext, make_context
from warpwright.errors import ExecutionError, UnsupportedError
from warpwright.isa.nv50.lower_graphics import BadProgram, lower_graphics, make_program, reachable
from warpwright.isa.nv50.meaning import SIZES
from warpwright.isa.nv50.stage_words import BANKS, PARAMETERS, PIXEL_ROWS, SPACE_BYTES, STAGES, StageInterface
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Instruction, Kind, Program
from warpwright.isa.sass.meaning import UnsupportedInstruction

Words = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]
Constants = Mapping[int, bytes | npt.NDArray[np.uint8]]
"""Contents of the constant spaces ``c0[]`` to ``c15[]`` by number; what is absent or beyond the end reads 0."""
Engine = Literal["compiled", "interpreter"]

WARP = 32
TEXTURE_OPCODES = ("tex", "texsize")
MEMORY_BYTES = 1 << 30
RUN_BYTES = 1 << 26
"""Upper bound on the output of a group of primitives that run in a geometry program together."""
PLANE_WORDS = 4
MOST_SLOTS = 128
"""Words of a vertex that an ``o[]`` operand can name."""
MOST_SECONDS = 60.0
"""Limit on the host time of a run of a program with a loop, of at most 65,536 quads."""


class Textures(Protocol):
    """Provides a run's textures (``texture_unit.py``)."""

    def provide(self, context: LaunchContext) -> None: ...


@dataclass(slots=True)
class Emitted:
    """The output of a geometry program.

    Attributes:
        words: (primitives, most vertices, slots): the vertices' outputs; zero beyond ``counts``.
        counts: vertices of each primitive.
        cuts: (primitives, most vertices + 1): whether a new strip begins with the vertex of that number.
    """

    words: Words
    counts: npt.NDArray[np.int64]
    cuts: npt.NDArray[np.bool_]


@dataclass(slots=True)
class Pixels:
    """Inputs of a pixel program for n pixels of p primitives; n is a multiple of 4.

    Attributes:
        primitive: (n,): which primitive a pixel belongs to.
        x, y: (n,): distance of the sample from the origin of the primitive's planes, in pixels.
        planes: (p, slots, 4): of each ``v[]`` word the value at the origin, its change along x and along y, and the provoking vertex's word.
        facing: (p,): whether the primitive shows its front; None: all do.
        centroid_x, centroid_y: as ``x`` and ``y`` for ``interp cent``; None: as these.
    """

    primitive: npt.NDArray[np.int32]
    x: Floats
    y: Floats
    planes: Floats
    facing: npt.NDArray[np.bool_] | None = None
    centroid_x: Floats | None = None
    centroid_y: Floats | None = None


class Arena(Protocol):
    """Scratch memory for runs."""

    memory: DeviceMemory

    def words(self, count: int) -> tuple[int, Words]:
        """Device address and view of a number of words."""


class _OneRunArena:
    """Engine memory that successive runs reuse."""

    def __init__(self) -> None:
        self.memory = DeviceMemory(MEMORY_BYTES)
        self._room: Allocation | None = None

    def words(self, count: int) -> tuple[int, Words]:
        """Device address and view of a number of words; earlier contents are lost."""
        if self._room is None or self._room.size_bytes < 4 * count:
            if self._room is not None:
                self.memory.free(self._room)
            self._room = self.memory.allocate(4 * count + count // 4 * 4, "attributes of a graphics program")
        view = self.memory.view(self._room.address, 4 * count)
        return self._room.address, view.view(np.uint32)


@dataclass(slots=True)
class _Rows:
    """Location of one run's rows: row numbers of each part."""

    inputs: int
    outputs: int
    cuts: int = 0
    plane_words: int = 0


_arenas: list[_OneRunArena] = []


def _arena() -> _OneRunArena:
    if not _arenas:
        _arenas.append(_OneRunArena())
    return _arenas[0]


def _row_words(threads: int) -> int:
    return -(-threads // WARP) * WARP


@dataclass(slots=True)
class PlacedRun:
    """One run in progress: its memory, parameters and arrays."""

    threads: int
    base: int
    memory: DeviceMemory
    inputs: Words
    outputs: Words
    cuts: Words
    planes: Words
    parameters: dict[str, int] = field(default_factory=dict)


@dataclass
class ShaderProgram:
    """A program of the graphics pipeline.  Make it with :func:`load_program`."""

    stage: Literal["vertex", "geometry", "pixel"]
    name: str
    program: Program
    interface: StageInterface
    input_slots: int
    """Number of words of a vertex, or of ``v[]``, that operands use."""
    instructions: Sequence[Instruction]
    """The original code, by address."""

    @cached_property
    def lowered(self) -> list[Lowered]:
        """The meaning of the program.

        Raises:
            UnsupportedError: an instruction has none.
        """
        try:
            return lower_graphics(self.program, self.interface)
        except UnsupportedInstruction as error:
            raise UnsupportedError(str(error)) from None

    @cached_property
    def compiled(self) -> CompiledKernel:
        """The program compiled to host machine code, for one warp."""
        return compile_kernel(self.program, self.lowered, (WARP, 1, 1), trace=False, is_quick=not self.has_loops)

    @cached_property
    def traced(self) -> Traced:
        """The same for the timing model, with trace records."""
        made = compile_kernel(self.program, self.lowered, (WARP, 1, 1), trace=True, is_quick=True)
        return Traced(
            made.warp_function, made.spill_bytes, made.trace_words, made.blocks, made.judged, made.saved_positions
        )

    @cached_property
    def interpreted(self) -> Kernel:
        """The program for the NumPy interpreter."""
        return Kernel(self.program, self.lowered)

    @cached_property
    def has_loops(self) -> bool:
        """Whether an instruction branches backwards."""
        return any(o.kind is Kind.LABEL and o.value <= i.address for i in self.instructions for o in i.operands)

    @property
    def uses_textures(self) -> bool:
        return any(i.opcode in TEXTURE_OPCODES for i in self.instructions)

    def texture_numbers(self, letter: Literal["t", "s"]) -> set[int]:
        """Numbers of the texture units, or samplers, that the program uses."""
        named = (o for i in self.instructions if i.opcode in TEXTURE_OPCODES for o in i.operands)
        return {o.index for o in named if o.kind is Kind.SPECIAL and o.name[0] == letter}

    @property
    def output_slots(self) -> int:
        """Number of words of a vertex that the program writes, or of registers that a pixel program returns."""
        return self.interface.output_slots

    # --- the three kinds of run -----------------------------------------------------------------------
    def run_vertices(
        self, inputs: Words, constants: Constants, textures: Textures | None = None, engine: Engine = "compiled"
    ) -> Words:
        """Outputs (n, ``output_slots``) of n vertices, from ``inputs`` (n, slots).

        Raises:
            ExecutionError: a fault.
            UnsupportedError: an instruction has no meaning.
        """
        run = self.place_vertices(inputs, _arena())
        self._execute(run, constants, textures, engine)
        return run.outputs[: self.output_slots, : len(inputs)].T.copy()

    def place_vertices(self, inputs: Words, arena: Arena) -> PlacedRun:
        """The inputs of vertices (n, slots) in memory, before a run."""
        self._expect("vertex")
        threads, slots = inputs.shape
        held = max(self.input_slots, slots)
        run = self._prepare(threads, _Rows(held + 1, self.output_slots + 1), arena)
        run.inputs[:slots, :threads] = inputs.T
        run.parameters["input_slots"] = held
        return run

    def run_primitives(
        self,
        inputs: Words,
        primitive_ids: Words,
        most_vertices: int,
        constants: Constants,
        textures: Textures | None = None,
        engine: Engine = "compiled",
    ) -> Emitted:
        """The vertices that n primitives of v vertices emit, from ``inputs`` (n, v, slots).

        Args:
            primitive_ids: (n,), the primitive's number as the program reads it.
            most_vertices: how many vertices a primitive may emit; further ones are dropped.
        """
        self._expect("geometry")
        count = inputs.shape[0]
        words = np.zeros((count, most_vertices, self.output_slots), np.uint32)
        counts = np.zeros(count, np.int64)
        cuts = np.zeros((count, most_vertices + 1), np.bool_)
        each = 4 * (most_vertices + 1) * (self.output_slots + 1)
        step = max(WARP, RUN_BYTES // each // WARP * WARP)
        for at in range(0, count, step):
            part = slice(at, min(count, at + step))
            self._run_group(
                inputs[part], primitive_ids[part], constants, textures, engine, (words[part], counts[part], cuts[part])
            )
        return Emitted(words, counts, cuts)

    def _run_group(
        self,
        inputs: Words,
        primitive_ids: Words,
        constants: Constants,
        textures: Textures | None,
        engine: Engine,
        to: tuple[Words, npt.NDArray[np.int64], npt.NDArray[np.bool_]],
    ) -> None:
        words, counts, cuts = to
        threads, most = inputs.shape[0], words.shape[1]
        run = self.place_primitives(inputs, primitive_ids, most, _arena())
        self._execute(run, constants, textures, engine)
        made = run.outputs[: most * self.output_slots, :threads].reshape(most, self.output_slots, threads)
        words[:] = made.transpose(2, 0, 1)
        counts[:] = run.cuts[most + 1, :threads]
        cuts[:] = run.cuts[: most + 1, :threads].T != 0

    def place_primitives(self, inputs: Words, primitive_ids: Words, most_vertices: int, arena: Arena) -> PlacedRun:
        """The inputs of primitives (n, v, slots) in memory, before a run."""
        self._expect("geometry")
        threads, vertices, slots = inputs.shape
        held, most = max(self.input_slots, slots), most_vertices
        rows = _Rows(held * vertices + 2, (most + 1) * self.output_slots + 1, most + 2)
        run = self._prepare(threads, rows, arena)
        run.inputs[: slots * vertices, :threads] = inputs.transpose(2, 1, 0).reshape(slots * vertices, threads)
        run.inputs[held * vertices, :threads] = primitive_ids
        run.parameters.update(input_slots=held, vertices=vertices, most_vertices=most)
        return run

    def run_pixels(
        self, pixels: Pixels, constants: Constants, textures: Textures | None = None, engine: Engine = "compiled"
    ) -> tuple[Words, npt.NDArray[np.bool_]]:
        """The registers that the program returns (n, ``output_slots``), and which pixels it discarded (n,)."""
        run = self.place_pixels(pixels, _arena())
        self._execute(run, constants, textures, engine)
        threads = len(pixels.primitive)
        results = run.outputs[: self.output_slots, :threads].T.copy()
        return results, run.outputs[self.output_slots, :threads] != 0

    def place_pixels(self, pixels: Pixels, arena: Arena) -> PlacedRun:
        """The inputs of pixels in memory, before a run."""
        self._expect("pixel")
        threads = len(pixels.primitive)
        if threads % 4:
            raise ValueError(f"{self.name}: pixels come in quads: {threads} is not a multiple of 4")
        primitives, slots = pixels.planes.shape[:2]
        held = max(self.input_slots, slots)
        plane_row = (held + 1) * PLANE_WORDS
        rows = _Rows(len(PIXEL_ROWS), self.output_slots + 1, plane_words=primitives * plane_row)
        run = self._prepare(threads, rows, arena)
        planes = run.planes.reshape(primitives, held + 1, PLANE_WORDS)
        planes[:, :slots] = pixels.planes.view(np.uint32)
        planes[:, slots:held] = 0
        planes[:, held] = 0xFFFFFFFF if pixels.facing is None else np.where(pixels.facing, 0xFFFFFFFF, 0)[:, None]
        run.inputs[0, :threads] = pixels.primitive.view(np.uint32)
        centroid = (pixels.x if pixels.centroid_x is None else pixels.centroid_x,
                    pixels.y if pixels.centroid_y is None else pixels.centroid_y)  # fmt: skip
        for row, values in enumerate((pixels.x, pixels.y, *centroid), 1):
            run.inputs[row, :threads] = values.view(np.uint32)
        run.parameters.update(plane_row_bytes=4 * plane_row, facing=4 * held * PLANE_WORDS)
        return run

    # --- what they share ------------------------------------------------------------------------------
    def _expect(self, stage: str) -> None:
        if self.stage != stage:
            raise ValueError(f"{self.name} is a {self.stage} program and runs {stage} work nowhere")

    def _prepare(self, threads: int, rows: _Rows, arena: Arena) -> PlacedRun:
        """Memory for a run, all zeros."""
        width = _row_words(threads)
        sizes = (rows.inputs * width, rows.outputs * width, rows.cuts * width, rows.plane_words)
        starts = [sum(sizes[:n]) for n in range(5)]
        base, words = arena.words(starts[4])
        words[:] = 0
        inputs, outputs, cuts, planes = (words[a:b] for a, b in pairwise(starts))
        low = [(base + 4 * at) & 0xFFFFFFFF for at in starts]
        parameters = {
            "threads": threads,
            "inputs": low[0],
            "outputs": low[1],
            "cuts": low[2],
            "planes": low[3],
            "input_row_bytes": 4 * width,
            "output_row_bytes": 4 * width,
        }
        return PlacedRun(
            threads,
            base,
            arena.memory,
            inputs.reshape(-1, width),
            outputs.reshape(-1, width),
            cuts.reshape(-1, width),
            planes,
            parameters,
        )

    def _execute(self, run: PlacedRun, constants: Constants, textures: Textures | None, engine: Engine) -> None:
        if not run.threads:
            return
        context = self.context_of(run, constants, textures)
        run_of = CompiledExecution(context, self.compiled, 1, 1) if engine == "compiled" else None
        with self._time_limit(context):
            if run_of is not None:
                run_of.run()
            else:
                InterpretedExecution(context, self.interpreted, 1, False).run()

    @contextmanager
    def _time_limit(self, context: LaunchContext) -> Iterator[None]:
        """Stop a program whose loop does not end, as a driver stops a channel that hangs.

        Raises:
            ExecutionError: it was stopped.
        """
        if not self.has_loops:
            yield
            return
        timer = threading.Timer(MOST_SECONDS, context.cancel)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Cancelled as end:
            where = f"; {end.where}" if end.where else ""
            raise ExecutionError(
                f"GPU fault: the {self.name} has not ended after {MOST_SECONDS:g} s and was stopped: look for an endless loop{where}"
            ) from None
        finally:
            timer.cancel()

    def context_of(self, run: PlacedRun, constants: Constants, textures: Textures | None) -> LaunchContext:
        """The launch of a run.

        Raises:
            UnsupportedError: the program samples textures but was given none.
        """
        program = self.program
        geometry = Geometry((-(-run.threads // WARP), 1, 1), (WARP, 1, 1))
        words = struct.pack(f"<{len(PARAMETERS)}I", *(run.parameters.get(name, 0) for name in PARAMETERS))
        bank0 = constant_bank0(program, geometry, words)
        context = make_context(program, geometry, run.memory, bank0, self._banks(constants), 1)
        if self.uses_textures:
            if textures is None:
                raise UnsupportedError(f"{self.name} has texture instructions and was given no textures")
            textures.provide(context)
        return context

    def _banks(self, constants: Constants) -> dict[int, npt.NDArray[np.uint8]]:
        banks: dict[int, npt.NDArray[np.uint8]] = {}
        several = len(self.interface.spaces) > BANKS
        for space in self.interface.spaces:
            given = constants.get(space, b"")
            contents = np.frombuffer(given, np.uint8) if isinstance(given, bytes) else given.view(np.uint8)
            bank, at = self.interface.bank_of(space)
            if not several:
                banks[bank] = contents[:SPACE_BYTES]
                continue
            whole = banks.setdefault(bank, np.zeros(SPACE_BYTES * -(-len(self.interface.spaces) // BANKS), np.uint8))
            whole[at : at + min(len(contents), SPACE_BYTES)] = contents[:SPACE_BYTES]
        return {bank: np.ascontiguousarray(b) for bank, b in banks.items() if len(b)}


def _slots(instructions: Sequence[Instruction], name: str) -> int:
    """One more than the highest word of a space that is named by operands without an address register."""
    found = [
        o.value // 4
        for i in instructions
        for o in i.operands
        if o.kind is Kind.MEMORY and o.name == name and o.value < 4 * MOST_SLOTS
    ]
    return max(found, default=-1) + 1


def _local_bytes(instructions: Sequence[Instruction]) -> int:
    """Local memory that is accessed by operands without an address register; drivers round a thread's size down to 16 bytes."""
    ends = [
        o.value + max(SIZES.get(m, 4) for m in i.modifiers)
        for i in instructions
        if i.opcode in ("ld_l", "st_l")
        for o in i.operands
        if o.kind is Kind.MEMORY and o.base is None
    ]
    return max(ends, default=0)


def load_program(
    code: bytes,
    entry: int,
    stage: Literal["vertex", "geometry", "pixel"],
    *,
    results: int = 0,
    output_slots: int = 0,
    local_bytes: int = 0,
    name: str = "",
) -> ShaderProgram:
    """Read a program from a stage's code segment.

    Args:
        code: the segment's bytes.
        entry: where the program begins in it.
        results: registers that a pixel program returns, from ``$r0`` on.
        output_slots: words of a vertex, if the program may write more than its operands name.
        local_bytes: local memory of a thread.
        name: for messages.

    Raises:
        BadProgram: the code leaves the segment, or a word is not an instruction.
    """
    encoding = STAGES[stage]
    name = name or f"{stage} program at {entry:#x}"
    try:
        instructions = reachable(code, entry, encoding)
    except BadProgram as error:
        raise BadProgram(f"{name}: {error}") from None
    spaces = {o.index for i in instructions for o in i.operands if o.kind is Kind.CONSTANT}
    indirect = any(i.opcode == "st_o" and i.operands[0].base is not None for i in instructions)
    written = max(_slots(instructions, "o"), output_slots, MOST_SLOTS if indirect and not output_slots else 0)
    interface = StageInterface(
        encoding,
        tuple(sorted(spaces)),
        results if stage == "pixel" else written,
        any("cent" in i.modifiers for i in instructions),
    )
    program = make_program(instructions, entry, name, max(local_bytes, _local_bytes(instructions)))
    read = _slots(instructions, {"vertex": "a", "geometry": "p", "pixel": "v"}[stage])
    return ShaderProgram(stage, name, program, interface, read, instructions)


__all__ = ["BadProgram", "Emitted", "Pixels", "ShaderProgram", "Textures", "load_program"]
