"""The C function with which compiled code executes bulk copies, and its view of a block through BLOCK and WARP."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import BLOCK, BULK_WORDS, SHARED_WINDOW, WARP, FaultKind
from warpwright.engine.bulk import BulkFault, Transfer, perform, tell
from warpwright.engine.launch import LaunchContext
from warpwright.isa.bulk import WORDS, Bulk
from warpwright.isa.ops import SHARED_RANK_SHIFT

_FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    *(ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64),
)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


class _BlockMemory:
    """Memory as accessible to one block."""

    def __init__(self, copies: BulkCopies, block: int) -> None:
        self.copies, self.block = copies, block

    @property
    def rank(self) -> int:
        return _word(self.block + BLOCK["cluster_rank"])

    def shared(self, rank: int) -> npt.NDArray[np.uint8]:
        window = SHARED_WINDOW + (rank << SHARED_RANK_SHIFT)
        if rank >= self.copies.context["cluster_count"]:
            raise BulkFault(FaultKind.NO_SUCH_BLOCK, window, 0)
        block = _word(self.block + BLOCK["cluster_blocks"] + 8 * rank)
        if not block:
            raise BulkFault(FaultKind.BLOCK_HAS_EXITED, window, 0)
        return self.copies.bytes_at(_word(block + BLOCK["shared_base"]), _word(block + BLOCK["shared_bytes"]))

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        memory = self.copies.context.memory
        found = memory.find(address)
        if found is None or address + size > found.end:
            raise BulkFault(FaultKind.OUT_OF_BOUNDS, address, size)
        return self.copies.bytes_at(address + memory.host_minus_device, size)


class BulkCopies:
    """The bulk copies of one launch."""

    def __init__(self, context: LaunchContext) -> None:
        self.context = context
        self.failure: BaseException | None = None

    def bytes_at(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """The memory at a host address."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def native(self) -> Any:
        """The C function (``LAUNCH.bulk``)."""

        def call(warp: int, lanes: int, number: int, values: int, record: int, instruction: int) -> int:
            try:
                return self._run(warp, lanes, number, values, record, instruction)
            except BaseException as failure:
                self.failure = failure
                return 1

        return _FUNCTION(call)

    def _run(self, warp: int, lanes: int, number: int, values: int, record: int, instruction: int) -> int:
        if not lanes:
            return 0
        words = np.ctypeslib.as_array((ctypes.c_uint32 * (32 * WORDS)).from_address(values)).reshape(WORDS, 32)
        what = Bulk.of(number)
        block = _word(warp + WARP["block"])
        memory = _BlockMemory(self, block)
        for lane in range(32):
            if not lanes >> lane & 1:
                continue
            try:
                transfer = perform(what, [int(w) for w in words[:, lane]], memory)
                if record:
                    _describe(record, transfer, block)
                else:
                    tell(transfer, memory)
            except BulkFault as fault:
                fields = ctypes.cast(warp, ctypes.POINTER(ctypes.c_int64))
                values_of = {
                    "fault_kind": int(fault.kind),
                    "fault_address": fault.address,
                    "fault_lanes": 1 << lane,
                    "fault_bytes": fault.bytes,
                    "fault_instruction": instruction,
                }
                for name, value in values_of.items():
                    fields[WARP.slot(name)] = value
                return 1
        return 0


def _describe(record: int, transfer: Transfer, block: int) -> None:
    """Fill in the record of a copy after its first word, which the warp function writes (``engine/abi.py``)."""
    words = (ctypes.c_int64 * BULK_WORDS).from_address(record)
    pairs = [*transfer.rows, *[(1, 0)] * 4][:4]
    rest = (
        *(transfer.bytes, transfer.address, transfer.row_bytes),
        *(v for pair in pairs for v in pair),
        *(transfer.barrier, transfer.ranks, block),
        *(transfer.shared, transfer.targets | transfer.part << 32, transfer.source),
    )
    for n, value in enumerate(rest, 1):
        words[n] = value
