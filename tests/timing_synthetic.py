"""Kernels made by hand for tests of the timing model: instructions with their control bits, and the records of every warp.

A ``Synthetic`` collects instructions and what each executed block touches; ``run`` drives the real core with a small
native function that hands out the prepared records, so that no engine is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numba import cfunc, types

import warpwright.native.by_numba  # noqa: F401  Numba learns what `peek` and `poke` are
from warpwright.chips import Chip, load_chip
from warpwright.engine.abi import (
    BLOCK,
    DEVICE_BASE,
    LAUNCH,
    SHARED_WINDOW,
    TAG_AFFINE,
    TAG_BLOCK,
    TAG_GATHER,
    WARP,
    Status,
)
from warpwright.engine.blocks import BasicBlock, basic_blocks
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.geometry import Geometry
from warpwright.engine.host_mappings import SMALLEST_MAPPING_BYTES
from warpwright.isa.ops import Access, Builder, Lowered
from warpwright.isa.program import Control, Instruction, Kind, Operand, Program
from warpwright.native import by_numba  # noqa: F401  (Numba learns the intrinsics' types from it)
from warpwright.native.intrinsics import peek, poke
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import Supervision, TimingResult
from warpwright.timing.simulate import simulate

FULL = 0xFFFFFFFF
_WARP_BLOCK, _WARP_IN_BLOCK, _WARP_LAUNCH = WARP["block"], WARP["warp_in_block"], WARP["launch"]
import_module("warpwright.native.by_numba")  # teaches Numba the intrinsics
_RESUME, _LANES, _EXITED = WARP["resume"], WARP["lanes"], WARP["exited"]
_TRACE, _USED = WARP["trace_base"], WARP["trace_used"]
_BAR_LANES = WARP["barrier_lanes"]
_LINEAR, _COUNT = BLOCK["linear_index"], BLOCK["warp_count"]
_TABLE = LAUNCH.size_bytes  # behind the structure: pointers to segment starts and to words
_ONE_SM = np.zeros(1, np.int64)  # the %smid that all blocks have
_EXIT = int(Status.EXIT)
_BARRIER = int(Status.BARRIER)
_SLEEP = int(Status.SLEEP)
_SLEEP_NS = WARP["sleep_ns"]


@cache
def player() -> Any:
    """``int32 f(WARP *)``: the next prepared segment of the warp's records."""

    @cfunc(types.int32(types.int64))
    def play(warp: int) -> int:
        block = peek(warp + _WARP_BLOCK)
        index = peek(block + _LINEAR) * peek(block + _COUNT) + peek(warp + _WARP_IN_BLOCK)
        launch = peek(warp + _WARP_LAUNCH)
        starts, words = peek(launch + _TABLE), peek(launch + _TABLE + 8)
        at = peek(warp + _RESUME)
        if at == 0:
            at = peek(starts + index * 8)
        status = peek(words + at * 8)
        count = peek(words + at * 8 + 8)
        trace = peek(warp + _TRACE)
        for i in range(count):
            poke(trace + i * 8, peek(words + (at + 2 + i) * 8))
        poke(warp + _USED, count)
        poke(warp + _RESUME, at + 2 + count)
        if status == _EXIT:
            poke(warp + _EXITED, peek(warp + _LANES))
        if status == _BARRIER:
            poke(warp + _BAR_LANES, peek(warp + _LANES))
        if status == _SLEEP:
            poke(warp + _SLEEP_NS, peek(launch + _TABLE + 16))
        return status

    return play


def affine(address: int, stride: int = 4, mask: int = FULL) -> list[int]:
    """The record of lanes at address + lane * stride."""
    return [TAG_AFFINE << 60 | (stride & 0xFFFFFF) << 32 | mask, address]


def gather(addresses: Sequence[int], mask: int = FULL) -> list[int]:
    """The record of 32 single addresses."""
    return [TAG_GATHER << 60 | mask, *addresses]


def shared(offset: int) -> int:
    """Address of a byte of shared memory as records show it."""
    return SHARED_WINDOW + offset


def device(offset: int) -> int:
    """Address of a byte of device memory."""
    return DEVICE_BASE + offset


@dataclass
class Synthetic:
    """Instructions of a kernel; ``trace(block, warp)`` gives what a warp executes: (basic block, its memory records)."""

    arch: int = 90
    registers: int = 32
    instructions: list[Instruction] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)

    def add(
        self,
        opcode: str,
        *modifiers: str,
        writes: Sequence[int] = (),
        reads: Sequence[int] = (),
        reuse: Sequence[int] = (),
        stall: int = 1,
        wait: Sequence[int] = (),
        write_barrier: int = 7,
        read_barrier: int = 7,
        yields: bool = False,
        operands: Sequence[Operand] = (),
        access: Access | None = None,
        kind: str = "load",
        control_op: str = "",
        target: int = 0,
    ) -> Synthetic:
        """One instruction with its control bits; ``access`` makes it a memory instruction of ``kind``."""
        b = Builder()
        for register in reads:
            b.op("get_reg", "i32", attr=register)
        if access is not None:
            address = b.const(0, "i32" if access.space in ("shared", "local") else "i64")
            value = b.const(0)
            b.op(
                kind,
                "void" if kind == "store" else "i32",
                *((address,) if kind == "load" else (address, value)),
                attr=access,
            )
        for register in writes:
            b.op("set_reg", "void", b.const(0), attr=register)
        if control_op == "barrier":
            b.op("barrier", "void", b.const(0), b.const(0), attr="sync")
        elif control_op == "branch":
            b.op("branch", "void", attr=target * 16)
        elif control_op:
            b.op(control_op, "void", attr=None)
        named = [Operand(Kind.REGISTER, index=r) for r in writes]
        named += [Operand(Kind.REGISTER, index=r, reuse=r in reuse) for r in reads]
        control = Control(stall, yields, write_barrier, read_barrier, sum(1 << n for n in wait), 0)
        address = 16 * len(self.instructions)
        self.instructions.append(Instruction(address, opcode, modifiers, (*named, *operands), control=control))
        self.lowered.append(Lowered(b.ops))
        return self

    def exit(self) -> Synthetic:
        """EXIT."""
        return self.add("EXIT", control_op="exit", stall=5)

    def program(self, shared_bytes: int = 0) -> Program:
        """The kernel as a program."""
        return Program(
            "synthetic",
            self.arch,
            self.instructions,
            registers=self.registers,
            shared_static_bytes=shared_bytes,
            barriers=1,
        )


@dataclass
class _Context:
    program: Program
    geometry: Geometry
    words: Any
    memory: DeviceMemory = field(default_factory=lambda: DeviceMemory(SMALLEST_MAPPING_BYTES))
    window: None = None
    set_aside_bytes: int = 0

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    def __getitem__(self, name: str) -> int:
        return int(self.words[LAUNCH.slot(name)])


@dataclass
class _Kernel:
    address: int
    blocks: Sequence[BasicBlock]
    spill_bytes: int = 0
    trace_words: int = 1 << 12
    judged: bool = False
    has_policies: bool = False


Visit = tuple[int, list[list[int]]]
"""A basic block's number and the records of its memory instructions."""


STOPS = {"strong": Status.STRONG, "clock": Status.CLOCK}


def segments(
    visits: Sequence[Visit],
    barriers: frozenset[int],
    stops: Sequence[str] = (),
    sleeps: frozenset[int] = frozenset(),
    limit: int = 200,
) -> list[int]:
    """A warp's records cut where its function would return: full buffers, barriers, sleeps, and before the blocks that ``stops`` names."""
    result: list[int] = []
    words: list[int] = []
    for place, (number, records) in enumerate(visits):
        if stops and stops[number]:
            result += [int(STOPS[stops[number]]), len(words), *words]
            words = []
        words.append(TAG_BLOCK << 60 | number << 32 | FULL)
        for record in records:
            words += record
        last = place == len(visits) - 1
        if last or number in barriers or number in sleeps or len(words) > limit:
            inner = Status.BARRIER if number in barriers else Status.SLEEP if number in sleeps else Status.TRACE_FULL
            status = Status.EXIT if last else inner
            result += [int(status), len(words), *words]
            words = []
    return result


def run(
    kernel: Synthetic,
    trace: Callable[[int, int], Sequence[Visit]] | None = None,
    *,
    chip: str | Chip = "h200",
    grid: int = 1,
    block: int = 32,
    shared_bytes: int = 0,
    local_bytes: int = 0,
    stopping: bool = False,
    sleep_ns: int = 0,
    threads: int = 1,
    **options: Any,
) -> TimingResult:
    """Simulate; without ``trace`` every warp executes each basic block once.

    ``stopping``: warps stop before strong accesses and clock reads, as the engine's do; ``sleep_ns``: what every NANOSLEEP asks for.
    """
    program = kernel.program(shared_bytes)
    blocks = basic_blocks(program, kernel.lowered)
    barriers = frozenset(b.number for b in blocks if kernel.instructions[b.first + b.count - 1].opcode == "BAR")
    sleeps = frozenset(b.number for b in blocks if kernel.instructions[b.first + b.count - 1].opcode == "NANOSLEEP")
    stops = [b.stop for b in blocks] if stopping else []
    warps = -(-block // 32)
    words: list[int] = [0]
    starts: list[int] = []
    before: Sequence[Visit] | None = None
    everything: Sequence[Visit] = [(b.number, []) for b in blocks]
    for number in range(grid):
        for warp in range(warps):
            visits = everything if trace is None else trace(number, warp)
            if visits == before:  # warps that do the same share one copy: a large grid must not take gigabytes
                starts.append(starts[-1])
                continue
            before = visits
            starts.append(len(words))
            words += segments(visits, barriers, stops, sleeps)
    table = np.array(words, np.uint64).view(np.int64)
    first = np.array(starts, np.int64)
    launch = np.zeros(LAUNCH.size_bytes // 8 + 3, np.int64)
    launch[-3:] = first.ctypes.data, table.ctypes.data, sleep_ns
    launch[LAUNCH.slot("local_bytes_per_thread")] = local_bytes
    launch[LAUNCH.slot("taking_sms")], launch[LAUNCH.slot("taking_sm_count")] = _ONE_SM.ctypes.data, 1
    context = _Context(program, Geometry((grid, 1, 1), (block, 1, 1)), launch)
    record = chip if isinstance(chip, Chip) else load_chip(chip)
    grid_of = Grid(program, kernel.lowered, _Kernel(player().address, blocks), context)
    return simulate(record, grid_of, Supervision(threads=threads), **options)


def loop_cycles(kernel: Synthetic, records: Sequence[list[int]] = (), iterations: int = 20, **options: Any) -> float:
    """Cycles of one more turn through the kernel's only basic block, caches warm."""

    def turns(count: int) -> int:
        return run(kernel, lambda block, warp: [(0, list(records))] * count, **options).cycles

    return (turns(2 * iterations) - turns(iterations)) / iterations


def each(build: Callable[[int], Synthetic], count: int = 32, record: list[int] | None = None, **options: Any) -> float:
    """Cycles that each further of ``count`` instructions adds to a loop's turn; ``record``: what each touches."""
    few, many = build(count), build(2 * count)
    small = [record] * count if record is not None else []
    large = [record] * 2 * count if record is not None else []
    return (loop_cycles(many, large, **options) - loop_cycles(few, small, **options)) / count
