"""Stack allocation by the program (PTX ISA, section 9.7.17): alloca, stacksave, stackrestore.

Memory is allocated downwards from the end of local memory, where no frame reaches.  One register, shared by all
functions, counts the allocated bytes; a function frees its own when it returns.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpwright.isa.ops import Access, Op
from warpwright.isa.ptx.control_flow import Step
from warpwright.isa.ptx.meaning import Emitter, meaning, only, only_types, unsupported
from warpwright.isa.ptx.stack_frames import Frame, LocalEnd
from warpwright.isa.ptx.syntax import Function, Immediate, Instruction

TAKEN = 2
"""The register that counts the allocated bytes."""
ROOM_BYTES = 1024
"""Size of the stack for all allocations of a thread: the driver's default (cudaLimitStackSize)."""
LEAST_ALIGNMENT = 8
OPCODES = ("alloca", "stacksave", "stackrestore")


def takes_stack(functions: Iterable[Function]) -> bool:
    statements = (s for function in functions for s in function.statements)
    return any(isinstance(s, Instruction) and s.opcode in OPCODES for s in statements)


def at_entry(function: Function, frame: Frame, stack: int | None) -> tuple[list[Step], list[Step]]:
    """Steps at a function's entry and before its return: a kernel starts with nothing allocated, other functions
    restore the count."""
    if function.is_kernel:
        return [Step([Op("const", "i32", (), 0), Op("set_reg", "void", (0,), TAKEN)], None, None, "stack")], []
    how = Access("local", 4)
    place = [
        Op("const", "i32", (), frame.take(4, 4)),
        Op("get_reg", "i32", (), stack),
        Op("add", "i32", (0, 1)),
    ]
    keep = [*place, Op("get_reg", "i32", (), TAKEN), Op("store", "void", (2, 3), how)]
    give_back = [*place, Op("load", "i32", (2,), how), Op("set_reg", "void", (3,), TAKEN)]
    return [Step(keep, None, None, "stack")], [Step(give_back, None, None, "stack")]


@meaning("alloca")
def alloca(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, "u32", "u64")
    d, size, *aligned = i.operands
    alignment = aligned[0].bits if aligned and isinstance(aligned[0], Immediate) else LEAST_ALIGNMENT
    if alignment & alignment - 1:
        raise unsupported(f"alignment {alignment}, which is not a power of two")
    end = b.op("const", "i32", attr=LocalEnd())
    wanted = b.trunc(b.source(size, type), "i32")
    below = b.sub(b.sub(end, b.op("get_reg", "i32", attr=TAKEN)), wanted)
    address = b.and_(below, b.const(-max(alignment, LEAST_ALIGNMENT)))
    b.op("set_reg", "void", b.sub(end, address), attr=TAKEN)
    b.result(d, b.zext(address, "i64") if type == "u64" else address)


@meaning("stacksave")
def stacksave(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, "u32", "u64")
    taken = b.op("get_reg", "i32", attr=TAKEN)
    b.result(i.operands[0], b.zext(taken, "i64") if type == "u64" else taken)


@meaning("stackrestore")
def stackrestore(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, "u32", "u64")
    b.op("set_reg", "void", b.trunc(b.source(i.operands[0], type), "i32"), attr=TAKEN)
