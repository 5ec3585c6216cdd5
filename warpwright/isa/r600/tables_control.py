"""Control-flow words and the operations of memory exports."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from warpwright.isa.r600.layouts import CAYMAN, EVERGREEN


class Role(Enum):
    """The kind of a control-flow word; decides its layout and its text."""

    PLAIN = "plain"
    JUMP = "jump"
    """Has an address and pops the stack."""
    LOOP = "loop"
    FETCH_CLAUSE = "fetch clause"
    ALU_CLAUSE = "ALU clause"
    ALU_EXTENDED = "ALU extended"
    """Constant banks 2 and 3 of the ALU clause in the next word."""
    EXPORT = "export"
    MEMORY_EXPORT = "memory export"
    RAT = "RAT"
    """Store or atomic on a random access target: a buffer of global memory."""


class ControlOperation(NamedTuple):
    """A row of the table."""

    opcode: int
    name: str
    role: Role
    generations: tuple[str, ...] = (EVERGREEN, CAYMAN)


def run(
    first: int, role: Role, names: str, generations: tuple[str, ...] = (EVERGREEN, CAYMAN)
) -> tuple[ControlOperation, ...]:
    """Consecutive opcodes from ``first`` on; ``-`` where an opcode is free."""
    return tuple(
        ControlOperation(first + i, name, role, generations) for i, name in enumerate(names.split()) if name != "-"
    )


CONTROL: tuple[ControlOperation, ...] = (
    *run(0x00, Role.PLAIN, "NOP"),
    *run(0x01, Role.FETCH_CLAUSE, "TEX"),
    *run(0x02, Role.FETCH_CLAUSE, "VTX", (EVERGREEN,)),
    *run(0x03, Role.FETCH_CLAUSE, "GDS"),
    *run(0x04, Role.LOOP, "LOOP_START LOOP_END LOOP_START_DX10 LOOP_START_NO_AL LOOP_CONTINUE LOOP_BREAK"),
    *run(0x0A, Role.JUMP, "JUMP PUSH - ELSE POP"),
    *run(0x12, Role.JUMP, "CALL CALL_FS"),
    *run(0x14, Role.PLAIN, "RET EMIT_VERTEX EMIT_CUT_VERTEX CUT_VERTEX KILL - WAIT_ACK"),
    *run(0x1B, Role.FETCH_CLAUSE, "TEX_ACK"),
    *run(0x1C, Role.FETCH_CLAUSE, "VTX_ACK", (EVERGREEN,)),
    *run(0x1D, Role.JUMP, "JUMPTABLE"),
    *run(0x1E, Role.PLAIN, "WAVE_SYNC HALT"),
    *run(0x20, Role.PLAIN, "CF_END LDS_DEALLOC", (CAYMAN,)),
    *run(0x22, Role.JUMP, "PUSH_WQM POP_WQM ELSE_WQM JUMP_ANY", (CAYMAN,)),
    *run(0x26, Role.PLAIN, "REACTIVATE REACTIVATE_WQM INTERRUPT INTERRUPT_AND_SLEEP SET_PRIORITY", (CAYMAN,)),
    *run(0x40, Role.MEMORY_EXPORT, "MEM_STREAM0_BUF0 MEM_STREAM0_BUF1 MEM_STREAM0_BUF2 MEM_STREAM0_BUF3"),
    *run(0x44, Role.MEMORY_EXPORT, "MEM_STREAM1_BUF0 MEM_STREAM1_BUF1 MEM_STREAM1_BUF2 MEM_STREAM1_BUF3"),
    *run(0x48, Role.MEMORY_EXPORT, "MEM_STREAM2_BUF0 MEM_STREAM2_BUF1 MEM_STREAM2_BUF2 MEM_STREAM2_BUF3"),
    *run(0x4C, Role.MEMORY_EXPORT, "MEM_STREAM3_BUF0 MEM_STREAM3_BUF1 MEM_STREAM3_BUF2 MEM_STREAM3_BUF3"),
    *run(0x50, Role.MEMORY_EXPORT, "MEM_SCRATCH - MEM_RING"),
    *run(0x53, Role.EXPORT, "EXPORT EXPORT_DONE"),
    *run(0x55, Role.MEMORY_EXPORT, "MEM_EXPORT"),
    *run(0x56, Role.RAT, "MEM_RAT MEM_RAT_CACHELESS"),
    *run(0x58, Role.MEMORY_EXPORT, "MEM_RING1 MEM_RING2 MEM_RING3 MEM_EXPORT_COMBINED"),
    *run(0x5C, Role.RAT, "MEM_RAT_COMBINED_CACHELESS"),
)

ALU_CLAUSES: tuple[ControlOperation, ...] = (
    *run(0x8, Role.ALU_CLAUSE, "ALU ALU_PUSH_BEFORE ALU_POP_AFTER ALU_POP2_AFTER"),
    *run(0xC, Role.ALU_EXTENDED, "ALU_EXTENDED"),
    *run(0xD, Role.ALU_CLAUSE, "ALU_CONTINUE ALU_BREAK", (EVERGREEN,)),
    *run(0xF, Role.ALU_CLAUSE, "ALU_ELSE_AFTER"),
)
"""Words whose opcode has four bits, the highest set."""


def _numbered(first: int, names: str) -> dict[int, str]:
    return dict(enumerate(names.split(), first))


RAT_OPERATIONS: dict[int, str] = {
    **_numbered(0, "NOP STORE_TYPED STORE_RAW STORE_RAW_FDENORM CMPXCHG_INT CMPXCHG_FLT CMPXCHG_FDENORM ADD SUB RSUB"),
    **_numbered(10, "MIN_INT MIN_UINT MAX_INT MAX_UINT AND OR XOR MSKOR INC_UINT DEC_UINT"),
    **_numbered(20, "STORE_DWORD STORE_SHORT STORE_BYTE"),
    **_numbered(32, "NOP_RTN"),
    **_numbered(34, "XCHG_RTN XCHG_FDENORM_RTN CMPXCHG_INT_RTN CMPXCHG_FLT_RTN CMPXCHG_FDENORM_RTN"),
    **_numbered(
        39, "ADD_RTN SUB_RTN RSUB_RTN MIN_INT_RTN MIN_UINT_RTN MAX_INT_RTN MAX_UINT_RTN AND_RTN OR_RTN XOR_RTN"
    ),
    **_numbered(49, "MSKOR_RTN INC_UINT_RTN DEC_UINT_RTN"),
}
"""``rat_inst``; operations whose names end in RTN also write the old value to memory."""


def _index(rows: tuple[ControlOperation, ...], generation: str) -> dict[int, ControlOperation]:
    return {row.opcode: row for row in rows if generation in row.generations}


CONTROL_OF = {g: _index(CONTROL, g) for g in (EVERGREEN, CAYMAN)}
ALU_CLAUSES_OF = {g: _index(ALU_CLAUSES, g) for g in (EVERGREEN, CAYMAN)}
