"""The whole kernel corpus in the interpreter, on three architectures: the results are the references'.

Every case runs twice, as lowered and with 64-bit pairs fused.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import pytest

from tests.kernels import Case, case, names
from warpwright.engine.abi import Status
from warpwright.engine.allocation import Allocation
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter import Environment, Kernel, Launch, run_grid
from warpwright.engine.interpreter.gather_scatter import global_memory
from warpwright.engine.launch import GRID_WORKSPACE_BYTES
from warpwright.engine.module import load_module
from warpwright.isa.sass.lower import fuse_pairs, lower
from warpwright.toolchain import CompiledModule, compile_source

ARCHITECTURES = (70, 80, 90)
INSTRUCTION_LIMIT = 4_000_000


@cache
def compiled(source: str, arch: int, options: tuple[str, ...]) -> CompiledModule:
    from tests.kernels import KERNELS

    return compile_source(KERNELS / source, arch, options=options)


def interpret(found: Case, arch: int, fused: bool) -> dict[int, np.ndarray]:
    """Run a case; its buffers afterwards, by index of argument."""
    memory = DeviceMemory(1 << 27)
    module = load_module(compiled(found.source.name, arch, found.options), memory)
    loaded = module.load(module.find(found.kernel))
    module.prepare(loaded)
    program = loaded.program
    lowered = lower(program)
    kernel = Kernel(program, fuse_pairs(lowered, program) if fused else lowered)
    for name, contents in found.device_globals.items():
        memory.copy_in(module.place(name).address, np.ascontiguousarray(contents))
    parameters = bytearray(program.parameter_size_bytes)
    buffers: dict[int, Allocation] = {}
    for parameter in program.parameters:
        argument = found.args[parameter.ordinal]
        raw = argument.tobytes()
        if isinstance(argument, np.ndarray):
            buffer = memory.allocate(argument.nbytes, f"argument {parameter.ordinal}")
            memory.copy_in(buffer.address, np.ascontiguousarray(argument))
            buffers[parameter.ordinal] = buffer
            raw = struct.pack("<Q", buffer.address)
        parameters[parameter.offset_bytes : parameter.offset_bytes + parameter.size_bytes] = raw
    workspace = memory.allocate(GRID_WORKSPACE_BYTES, "grid workspace")
    geometry = Geometry(found.grid, found.block, found.shared_bytes, loaded.kernel.shared_reserved_bytes)
    window = 0 if module.constants is None else module.constants.address
    bank0 = constant_bank0(program, geometry, parameters, window, workspace.address)
    launch = Launch(kernel, geometry, global_memory(memory), {**loaded.banks, 0: bank0}, Environment(80))
    outcome = run_grid(launch, instruction_limit=INSTRUCTION_LIMIT)
    assert outcome.status is Status.EXIT, (outcome.status, outcome.fault, outcome.waits)
    results = {}
    for index, buffer in buffers.items():
        results[index] = np.empty_like(np.asarray(found.args[index]), order="C")
        memory.copy_out(buffer.address, results[index])
    return results


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", names())
def test_interpreter_gives_the_reference(name: str, arch: int) -> None:
    found = case(name, "small")
    if found.min_arch > arch:
        pytest.skip(f"needs sm_{found.min_arch}")
    found.verify(interpret(found, arch, fused=False))
    found.verify(interpret(found, arch, fused=True))


SOME = (
    "stream_triad",
    "matmul_tiled",
    "mandelbrot",
    "reduce_sum",
    "lock_lanes",
    "recursion_fibonacci",
    "integer_divide_wide",
)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", SOME)
def test_interpreter_runs_the_common_patterns(name: str, arch: int) -> None:
    found = case(name, "small")
    found.verify(interpret(found, arch, fused=True))
