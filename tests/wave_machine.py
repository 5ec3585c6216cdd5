"""An instruction set of the tests' own, for waves of 16, 32 or 64 lanes: a front end of a few operations of the common language.

Programs are lines of text.  Registers ``r0`` to ``r30`` hold 32 bits, predicates ``p0`` to ``p6`` one; ``@p0`` and ``@!p0`` guard an
instruction; a word with a colon is a label.  The kernel's only parameter is the address of a buffer of words.

    LANE r              lane number              TID r      thread number in the block        SET r n     a constant
    ADD r a b           also SUB MUL AND XOR     SHL r a n                                    LESS p a b  unsigned
    LD r a   ST a b     word a of the buffer     LDS r a    STS a b   word a of shared memory INC r a b   atomic addition to word a
    VOTE r p            mask of lanes with p; of 64 lanes in r and the register after it      MATCH r a   mask of lanes with an equal value
    SHFL r a b          a of lane b              SUM r a    over the lanes                    BAR         block barrier
    BRA x               SPLIT b x  SYNC b: lanes that part meet at x, the SYNC                EXIT

The other way to meet again is a stack: MEET x pushes, JOIN pops (chips before Volta).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.chips import load_chip
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.execute import Counts
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter import Kernel, Launch, Outcome, run_grid
from warpwright.engine.interpreter.gather_scatter import global_memory
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.engine.kernels import Traced
from warpwright.engine.launch import LaunchContext, make_context
from warpwright.isa.ops import Access, Builder, Lowered, mask_type, verify
from warpwright.isa.program import Control, Instruction, Program
from warpwright.isa.schedule import Work
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import TimingResult
from warpwright.timing.simulate import simulate

WIDTHS = (16, 32, 64)
UNITS = {
    "alu": ("LANE", "TID", "SET", "ADD", "SUB", "MUL", "AND", "XOR", "SHL", "LESS", "VOTE"),
    "memory": ("LD", "ST", "LDS", "STS", "INC"),
    "match": ("MATCH",),
    "shuffle": ("SHFL",),
    "reduction": ("SUM",),
    "block_barrier": ("BAR",),
    "branch": ("BRA", "SPLIT", "MEET", "JOIN"),
    "join": ("SYNC",),
    "exit": ("EXIT",),
}
WORKS = {opcode: Work(unit) for unit, opcodes in UNITS.items() for opcode in opcodes}
PARAMETER = 0x160
BYTES = 16
Words = npt.NDArray[np.uint32]


@dataclass
class Machine:
    """A front end for waves of so many lanes."""

    lanes: int
    instructions: list[Instruction] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mask = mask_type(self.lanes)

    # --- operands --------------------------------------------------------------------------------------------------
    def _read(self, b: Builder, name: str) -> int:
        if name[0] == "p":
            return b.op("get_pred", "i1", attr=int(name[1:]))
        return b.op("get_reg", "i32", attr=int(name[1:])) if name[0] == "r" else b.const(int(name, 0))

    def _write(self, b: Builder, name: str, value: int) -> None:
        b.op("set_pred" if name[0] == "p" else "set_reg", "void", value, attr=int(name[1:]))

    def _write_mask(self, b: Builder, name: str, value: int) -> None:
        if self.lanes == 64:
            b.op("set_reg64", "void", value, attr=int(name[1:]))
        else:
            self._write(b, name, b.zext(value, "i32"))

    def _buffer(self, b: Builder, index: str) -> int:
        base = b.op("load_const", "i64", b.const(PARAMETER), attr=(0, 8))
        offset = b.shl(b.zext(self._read(b, index), "i64"), b.const(2, "i64"))
        return b.add(base, offset)

    def _shared(self, b: Builder, index: str) -> int:
        return b.shl(self._read(b, index), b.const(2))

    # --- meanings --------------------------------------------------------------------------------------------------
    def _meaning(self, name: str, a: list[str], labels: dict[str, int]) -> list[Any]:
        b = Builder()
        binary = {"ADD": "add", "SUB": "sub", "MUL": "mul", "AND": "and", "XOR": "xor", "SHL": "shl"}
        if name in ("LANE", "TID"):
            self._write(b, a[0], b.op("special", "i32", attr="laneid" if name == "LANE" else "tid.x"))
        elif name == "SET":
            self._write(b, a[0], b.const(int(a[1], 0)))
        elif name in binary:
            self._write(b, a[0], b.binary(binary[name], self._read(b, a[1]), self._read(b, a[2])))
        elif name == "LESS":
            self._write(b, a[0], b.icmp("ult", self._read(b, a[1]), self._read(b, a[2])))
        elif name == "LD":
            self._write(b, a[0], b.op("load", "i32", self._buffer(b, a[1]), attr=Access("global", 4)))
        elif name == "ST":
            b.op("store", "void", self._buffer(b, a[0]), self._read(b, a[1]), attr=Access("global", 4))
        elif name == "LDS":
            self._write(b, a[0], b.op("load", "i32", self._shared(b, a[1]), attr=Access("shared", 4)))
        elif name == "STS":
            b.op("store", "void", self._shared(b, a[0]), self._read(b, a[1]), attr=Access("shared", 4))
        elif name == "INC":
            access = Access("global", 4, True, "add")
            self._write(b, a[0], b.op("atomic", "i32", self._buffer(b, a[1]), self._read(b, a[2]), attr=access))
        elif name == "VOTE":
            self._write_mask(b, a[0], b.op("ballot", self.mask, self._read(b, a[1])))
        elif name == "MATCH":
            self._write_mask(b, a[0], b.op("match_any", self.mask, self._read(b, a[1])))
        elif name == "SHFL":
            self._write(b, a[0], b.op("shuffle", "i32", self._read(b, a[1]), self._read(b, a[2])))
        elif name == "SUM":
            self._write(b, a[0], b.op("redux", "i32", self._read(b, a[1]), attr="add"))
        elif name == "BAR":
            b.op("barrier", "void", b.const(0), b.const(0), attr="sync")
        elif name == "BRA":
            b.op("branch", "void", attr=labels[a[0]])
        elif name == "SPLIT":
            b.op("bssy", "void", attr=(int(a[0]), labels[a[1]]))
        elif name == "SYNC":
            b.op("bsync", "void", attr=int(a[0]))
        elif name == "MEET":
            b.op("push", "void", attr=("ssy", labels[a[0]]))
        elif name == "JOIN":
            b.op("pop", "void", attr="ssy")
        elif name == "EXIT":
            b.op("exit", "void")
        else:
            raise ValueError(f"the tests' machine has no instruction {name!r}")
        verify(b.ops, self.lanes)
        return b.ops

    def assemble(self, text: str, shared_bytes: int = 1024, local_bytes: int = 0) -> tuple[Program, list[Lowered]]:
        """A program and its common operations."""
        rows: list[tuple[tuple[str, int, bool] | None, str, list[str]]] = []
        labels: dict[str, int] = {}
        for line in text.strip().splitlines():
            words = line.split("#")[0].split()
            if words and words[0].endswith(":"):
                labels[words.pop(0)[:-1]] = BYTES * len(rows)
            if not words:
                continue
            guard = None
            if words[0][0] == "@":
                inverted = words[0][1] == "!"
                guard = ("pred", int(words.pop(0).lstrip("@!p")), inverted)
            rows.append((guard, words[0], words[1:]))
        instructions = [
            Instruction(BYTES * n, name, (), (), control=Control(stall_cycles=15))
            for n, (_, name, _) in enumerate(rows)
        ]
        lowered = [Lowered(self._meaning(name, operands, labels), guard) for guard, name, operands in rows]
        program = Program(
            "wave",
            70,
            instructions,
            parameter_base_bytes=PARAMETER,
            parameter_size_bytes=8,
            registers=32,
            shared_static_bytes=shared_bytes,
            local_bytes_per_thread=local_bytes,
            barriers=1,
            lanes=self.lanes,
            work=lambda i: WORKS[i.opcode],
            meaning=lowered,
        )
        return program, lowered


@dataclass
class Run:
    """A launch of a program of the tests' machine on a buffer of words."""

    lanes: int
    text: str
    words: Words
    threads: int = 0
    """Of a block; one wave without."""
    blocks: int = 1

    def __post_init__(self) -> None:
        self.threads = self.threads or self.lanes
        self.program, self.lowered = Machine(self.lanes).assemble(self.text)
        self.memory = DeviceMemory(1 << 24)
        self.buffer = self.memory.allocate(self.words.nbytes, "words")
        self.memory.copy_in(self.buffer.address, self.words)
        self.geometry = Geometry((self.blocks, 1, 1), (self.threads, 1, 1), lanes=self.lanes)
        parameters = bytearray(self.buffer.address.to_bytes(8, "little"))
        self.bank0 = constant_bank0(self.program, self.geometry, parameters)

    def context(self) -> LaunchContext:
        """The launch structure."""
        return make_context(self.program, self.geometry, self.memory, self.bank0, {}, 1)

    def result(self) -> Words:
        """The buffer's words now."""
        return self.memory.view(self.buffer.address, self.words.nbytes).view(np.uint32).copy()

    def interpreted(self) -> tuple[Words, Outcome]:
        """Run in the interpreter."""
        kernel = Kernel(self.program, self.lowered)
        launch = Launch(kernel, self.geometry, global_memory(self.memory), {0: self.bank0})
        outcome = run_grid(launch)
        return self.result(), outcome

    def compiled(self, **options: Any) -> tuple[Words, Counts]:
        """Run compiled code without time."""
        kernel = compile_kernel(self.program, self.lowered, self.geometry.block, trace=False, **options)
        counts = CompiledExecution(self.context(), kernel, 1, 1).run()
        return self.result(), counts

    def traced(self) -> Traced:
        """The kernel with trace records."""
        found = compile_kernel(self.program, self.lowered, self.geometry.block, trace=True)
        return Traced(
            found.warp_function, found.spill_bytes, found.trace_words, found.blocks, found.judged, found.saved_positions
        )

    def timed(self, chip: str = "h200") -> TimingResult:
        """Run with full timing."""
        return simulate(load_chip(chip), Grid(self.program, self.lowered, self.traced(), self.context()))
