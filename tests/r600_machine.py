"""Runs machine code of Cypress and Cayman in both engines, without PTX before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter import Kernel, Launch, run_grid
from warpwright.engine.interpreter.gather_scatter import global_memory
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.engine.launch import make_context
from warpwright.isa.r600.load import R600Program, program_from_code
from warpwright.isa.r600.lower import lower

Words = npt.NDArray[np.uint32]


@dataclass
class Run:
    """A launch of a program whose first parameter is the address of a buffer of words, and whose others are words."""

    code: bytes
    generation: str
    words: Words
    parameters: Sequence[int] = ()
    threads: int = 64
    blocks: int = 1
    shared_bytes: int = 4096
    registers: int = 16
    program: R600Program = field(init=False)

    def __post_init__(self) -> None:
        self.program = program_from_code(self.code, self.generation, "f")
        self.program.shared_static_bytes = self.shared_bytes
        self.program.registers = self.registers
        self.program.barriers = 1
        self.program.parameter_size_bytes = 4 + 4 * len(self.parameters)
        self.lowered = lower(self.program)
        self.memory = DeviceMemory(1 << 24)
        self.buffer = self.memory.allocate(self.words.nbytes, "words")
        self.memory.copy_in(self.buffer.address, self.words)
        self.geometry = Geometry((self.blocks, 1, 1), (self.threads, 1, 1), lanes=64)
        given = [self.buffer.address & 0xFFFFFFFF, *self.parameters]
        parameters = bytearray(b"".join((w & 0xFFFFFFFF).to_bytes(4, "little") for w in given))
        self.bank0 = constant_bank0(self.program, self.geometry, parameters)

    def result(self) -> Words:
        return self.memory.view(self.buffer.address, self.words.nbytes).view(np.uint32).copy()

    def interpreted(self) -> Words:
        kernel = Kernel(self.program, self.lowered)
        run_grid(Launch(kernel, self.geometry, global_memory(self.memory), {0: self.bank0}))
        return self.result()

    def compiled(self) -> Words:
        kernel = compile_kernel(self.program, self.lowered, self.geometry.block, trace=False)
        context = make_context(self.program, self.geometry, self.memory, self.bank0, {}, 1)
        CompiledExecution(context, kernel, 1, 1).run()
        return self.result()
