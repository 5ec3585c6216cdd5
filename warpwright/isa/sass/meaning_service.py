"""SERVICE: stands at the address of a function that the driver provides, and returns to the caller.

No chip has this opcode: the loader appends one to the code for each driver function that a kernel calls.
"""

from __future__ import annotations

from warpwright.isa.program import Instruction
from warpwright.isa.sass.meaning import Emitter, meaning
from warpwright.isa.services import ENDING, FIRST_REGISTER, RESULT_BYTES, RETURN_REGISTER, argument_registers


def serve(name: str, b: Emitter) -> bool:
    """Read the arguments from registers, run the service, write its result to registers; returns whether it returns to
    the caller."""
    words = [b.op("get_reg", "i32", attr=r) for r in argument_registers(name)]
    result = b.op("service", "i64", *words, attr=name)
    if name in ENDING:
        b.op("trap", "void", attr=name)
        return False
    for word in range(RESULT_BYTES.get(name, 0) // 4):
        b.op("set_reg", "void", b.op("extract", "i32", result, attr=word), attr=FIRST_REGISTER + word)
    return True


@meaning("SERVICE")
def SERVICE(i: Instruction, b: Emitter) -> None:
    if serve(i.modifiers[0], b):
        b.op("branch_indirect", "void", b.op("get_reg64", "i64", attr=RETURN_REGISTER), attr=())
