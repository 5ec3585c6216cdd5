"""Units of the memory system alone: what a port of L2, a channel of DRAM or an atomic unit answers, for the tests of their rules."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.timing_synthetic import Synthetic
from warpwright.chips import load_chip
from warpwright.isa.ops import Access
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES, address_hash, atomics, dram, l2, read_coalescer
from warpwright.timing.reset import LaunchSizes, initial_state

GLOBAL2, GLOBAL4, GLOBAL8, GLOBAL16 = (Access("global", size) for size in (2, 4, 8, 16))
LINE, LANES = 128, range(32)
DATA = Path(__file__).parents[1] / "bench" / "data" / "h200"


@partial(entry, what="", sources=SOURCES)
def ask(state: Any, unit: int, line: int, sectors: int, held: int, time: int) -> int:
    """What a unit of the memory system answers: when it is done, or (``unit`` 4) which slice is a line's home."""
    m = words(state)
    if unit == 0:
        return l2.read(m, 0, address_hash.slice_of(m, line), line, sectors, time, False)
    if unit == 1:
        return l2.write(m, 0, address_hash.slice_of(m, line), line, sectors, held, time)
    if unit == 2:
        return dram.dram_read(m, 0, line, sectors, time)
    if unit == 3:
        return dram.dram_write(m, 0, line, sectors, time)
    if unit == 5:  # for an SM of the first GPC
        return read_coalescer.coalesced_read(m, 0, 0, address_hash.slice_of(m, line), line, sectors, time)
    if unit == 6:
        return atomics.atomic_change(m, 0, line, held == 1)
    if unit == 7:
        return atomics.atomic_cost(m, held, time == 1)
    if unit == 8:  # by an SM of the other partition
        return l2.write(m, 1, address_hash.slice_of(m, line), line, sectors, held, time)
    if unit == 9:  # an atomic's place at the home
        return l2.touch(m, address_hash.slice_of(m, line), line, time, False, 0)
    if unit == 10:
        return address_hash.bank_of(m, address_hash.bank_block(m, line))
    if unit == 11:
        return address_hash.channel_of(m, 0, line)
    return address_hash.slice_of(m, line)


def dram_bank(m: np.ndarray, line: int) -> int:
    return int(ask(m, 10, line, 0, 0, 0))


def dram_channel(m: np.ndarray, line: int) -> int:
    return int(ask(m, 11, line, 0, 0, 0))


def read(m: np.ndarray, line: int, sectors: int, time: int) -> int:
    return int(ask(m, 0, line, sectors, 0, time))


def write(m: np.ndarray, line: int, sectors: int, whole: int, time: int, partition: int = 0) -> int:
    held = sum((32 if (whole >> sector) & 1 else 4) << (16 * sector) for sector in range(4))
    return int(ask(m, 8 if partition else 1, line, sectors, held, time))


def dram_read(m: np.ndarray, line: int, sectors: int, time: int) -> int:
    return int(ask(m, 2, line, sectors, 0, time))


def dram_write(m: np.ndarray, line: int, sectors: int, time: int) -> int:
    return int(ask(m, 3, line, sectors, 0, time))


def idle(name: str = "h200", **what_if: int) -> np.ndarray:
    """State of a chip on which nothing has run."""
    return initial_state(load_chip(name, **what_if), LaunchSizes(100, 1, 1, 1)).words


def repeat(opcode: str, count: int, access: Access, kind: str, **options: object) -> Synthetic:
    """So many of one memory instruction, then EXIT."""
    kernel = Synthetic()
    for _ in range(count):
        kernel.add(opcode, reads=[0, 1], access=access, kind=kind, **options)
    return kernel.exit()


ADD4, ADD8, FADD4 = (Access("global", size, False, kind, t) for size, kind, t in
                     ((4, "add", "i32"), (8, "add", "i64"), (4, "fadd", "f32")))  # fmt: skip
