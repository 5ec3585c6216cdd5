"""Executes the operation ``texture`` in a launch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import LAUNCH, WARP, FaultKind
from warpwright.engine.interpreter.gather_scatter import MemoryFault
from warpwright.engine.launch import LaunchContext
from warpwright.engine.textures.access_words import NO_LEVEL
from warpwright.engine.textures.sampling import Fetcher
from warpwright.engine.textures.surfaces import access_surface
from warpwright.engine.textures.table import INDEX_BITS, SURFACE, TEXTURE, read_row, table_of
from warpwright.isa.program import Program
from warpwright.isa.texture_access import (
    EXPLICIT,
    FETCH,
    GATHER,
    QUERY,
    SLOPES,
    TextureAccess,
)

Array = npt.NDArray[Any]


def uses_textures(program: Program) -> bool:
    """Whether the kernel has a texture or surface instruction; determined once per program."""
    if "textures" not in program.facts:
        program.facts["textures"] = any(
            i.opcode
            in (
                "TEX",
                "TLD",
                "TLD4",
                "TXD",
                "TXQ",
                "SULD",
                "SUST",
                "SURED",
                "tex",
                "tld4",
                "txq",
                "suld",
                "sust",
                "sured",
                "suq",
            )
            for i in program.instructions
        )
    return program.facts["textures"]


def lane_bits(mask: Array) -> int:
    return sum(1 << int(lane) for lane in np.flatnonzero(mask))


class LaunchTextures:
    """Textures as one launch sees them."""

    def __init__(self, context: LaunchContext) -> None:
        self.memory = context.memory
        self.table = table_of(context.memory)
        self.bytes = self.memory.view(self.memory.base, self.memory.span_bytes, read_only=True)
        self.rows: dict[int, dict[str, Any]] = {}
        self.failure: BaseException | None = None

    def row(self, handle: int, purpose: int) -> dict[str, Any] | None:
        """The row of a handle's object; None if the handle has no object of that kind."""
        if handle not in self.rows:
            index = handle & (1 << INDEX_BITS) - 1
            if not 0 < index < len(self.table.rows) or self.table.rows[index][0] != handle:
                return None
            self.rows[handle] = read_row(self.table.rows[index])
        found = self.rows[handle]
        return found if found["purpose"] == purpose else None

    def serve(self, access: TextureAccess, words: Sequence[Array], mask: Array) -> tuple[Array, Array]:
        """Results, uint32 (4, 32), and the address of each lane's first element, int64 (32,).

        Raises:
            MemoryFault: an access is out of bounds; nothing has been stored.
        """
        result = np.zeros((4, 32), np.uint32)
        first = np.zeros(32, np.int64)
        purpose = SURFACE if access.on_surface else TEXTURE
        for handle in np.unique(words[0][mask]):
            lanes = mask & (words[0] == handle)
            row = self.row(int(handle), purpose)
            if row is None and access.request == QUERY:
                row = self.row(int(handle), SURFACE)
            if row is None:
                raise MemoryFault(FaultKind.TEXTURE_HANDLE, int(handle), lane_bits(lanes), purpose)
            with np.errstate(all="ignore"):
                if purpose == SURFACE:
                    outcome = access_surface(row, self.bytes, self.memory.base, access, words[1:], lanes)
                    if outcome.outside.any():
                        lane = int(outcome.outside.argmax())
                        raise MemoryFault(
                            FaultKind.SURFACE_OUT_OF_BOUNDS,
                            outcome.place(lane),
                            lane_bits(outcome.outside),
                            access.size,
                        )
                    found, at = outcome.words, outcome.first
                else:
                    found, at = self._sample(row, access, words[1:], lanes)
            result[:, lanes] = found[:, lanes]
            first[lanes] = at[lanes]
        return result, first

    def _sample(
        self, row: dict[str, Any], access: TextureAccess, words: Sequence[Array], mask: Array
    ) -> tuple[Array, Array]:
        fetcher = Fetcher(row, self.bytes, self.memory.base, mask)
        if access.request == QUERY:
            return fetcher.query(words[0].astype(np.int64)), fetcher.first
        rest = list(words)
        number = np.zeros(32, np.int64)
        if access.layered:
            number = rest.pop(0).astype(np.int64) & 0xFFFF
        layer = fetcher.layer(number)
        places, rest = rest[: access.axes], rest[access.axes :]
        if access.offsets:
            # Four bits per axis, or six bits in a byte for a gather.
            packed = rest[access.level == EXPLICIT].view(np.int32).astype(np.int64)
            bits, step = (6, 8) if access.request == GATHER else (4, 4)
            fetcher.offsets = [(packed << (64 - bits - step * axis)) >> (64 - bits) for axis in range(3)]
        if access.request == FETCH:
            level = rest[0].view(np.int32).astype(np.int64) if access.level == EXPLICIT else np.zeros(32, np.int64)
            if (access.shape == "1D" and not row["buffer"]) or access.layered:
                # Coordinates are not clamped here; the texture units treat a one-dimensional array as two-dimensional.
                lacking = number >= row["layers"] if access.layered else np.ones(32, np.bool_)
                level = np.where(lacking, -1, level)
            found = fetcher.element([p.view(np.int32).astype(np.int64) for p in places], layer, level)
            return found, fetcher.first
        coordinates = [p.view(np.float32) for p in places]
        if access.request == GATHER:
            found = fetcher.gather(coordinates, layer, access.component)
        elif access.request == SLOPES:
            slopes = [s.view(np.float32) for s in rest[: 2 * access.axes]]
            found = fetcher.sample(coordinates, layer, fetcher.level_of_slopes(slopes[0::2], slopes[1::2]))
        else:
            level = rest[0].view(np.float32) if access.level == EXPLICIT else np.full(32, NO_LEVEL, np.float32)
            found = fetcher.sample(coordinates, layer, level)
        return found, fetcher.first

    def native(self) -> Any:
        """The C function that carries out in Python the accesses that compiled code does not handle (``engine/abi.py``, LAUNCH.texture_slow_path)."""

        def call(warp: int, lanes: int, request: int, values: int, addresses: int, instruction: int) -> None:
            try:
                table = np.ctypeslib.as_array((ctypes.c_uint32 * 512).from_address(values)).reshape(16, 32)
                first = np.ctypeslib.as_array((ctypes.c_int64 * 32).from_address(addresses))
                mask = (lanes >> np.arange(32, dtype=np.uint32) & 1).astype(np.bool_)
                try:
                    found, first[:] = self.serve(TextureAccess.of_word(request), list(table.copy()), mask)
                    table[:4] = found
                except MemoryFault as fault:
                    record_fault(warp, fault, instruction)
            except BaseException as failure:
                self.failure = failure

        return ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint32, *[ctypes.c_uint64] * 4)(call)

    def provide(self, context: LaunchContext) -> None:
        """Store the addresses of the functions and of the table in the launch, for compiled code."""
        # Imported here so that a program without textures does not wait for Numba.
        from warpwright.engine.textures import compiled_textures

        rare, rows = self.native(), self.table.rows
        for name, value in (
            ("texture", compiled_textures.serve.address),
            ("texture_slow_path", ctypes.cast(rare, ctypes.c_void_p).value or 0),
            ("textures", rows.ctypes.data),
            ("texture_count", len(rows)),
        ):
            context.words[LAUNCH.slot(name)] = value
        context.keep += [rare, rows]


def record_fault(warp: int, fault: MemoryFault, instruction: int) -> None:
    """Write a fault into a WARP unless it already holds one."""

    def field(name: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(warp + WARP[name])

    if field("fault_kind").value:
        return
    for name, value in (
        ("fault_kind", int(fault.kind)),
        ("fault_address", fault.address),
        ("fault_lanes", fault.lanes),
        ("fault_bytes", fault.bytes),
        ("fault_instruction", instruction),
    ):
        field(name).value = value
