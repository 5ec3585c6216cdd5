"""Completes compiled code with atomics that return the old value.

The compiler emits them as typed stores whose target's number encodes the operation (:mod:`memory_accesses`); here each
becomes that atomic on target 0.  If no old value is fetched, the atomics do not return one.
"""

from __future__ import annotations

import struct

from warpwright.isa.r600.compiler.memory_accesses import GLOBAL_ATOMICS
from warpwright.isa.r600.decode import decode_program
from warpwright.isa.r600.layouts import RAT
from warpwright.isa.r600.tables_control import RAT_OPERATIONS

AMD_NAMES = {
    **{"add": "ADD", "exch": "XCHG", "cas": "CMPXCHG_INT", "umin": "MIN_UINT", "umax": "MAX_UINT"},
    **{
        "smin": "MIN_INT",
        "smax": "MAX_INT",
        "and": "AND",
        "or": "OR",
        "xor": "XOR",
        "inc": "INC_UINT",
        "dec": "DEC_UINT",
    },
}
RETURN_BUFFER = 3
"""The buffer for loads from the address space of old values."""
_NUMBERS = {name: number for number, name in RAT_OPERATIONS.items()}


def finished(code: bytes, generation: str) -> bytes:
    """The code with atomics in place of their stores."""
    words = list(struct.unpack(f"<{len(code) // 8}Q", code))
    listing = decode_program(code, generation)
    fetches = [f for clause in listing.clauses.values() for f in clause.fetches]
    returns = "_RTN" if any(f.fields.get("buffer_id") == RETURN_BUFFER for f in fetches) else ""
    for control in listing.control:
        if control.rat_operation == "STORE_TYPED":
            name = GLOBAL_ATOMICS[control.fields["rat_id"]]
            number = _NUMBERS.get(f"{AMD_NAMES[name]}{returns}", _NUMBERS[f"{AMD_NAMES[name]}_RTN"])
            words[control.address] = RAT[generation].write(
                {**control.fields, "rat_id": 0, "rat_inst": number, "mark": 1}
            )
    return struct.pack(f"<{len(words)}Q", *words)
