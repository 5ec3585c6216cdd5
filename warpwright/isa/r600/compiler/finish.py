"""Completes compiled code with atomics that return the old value.

The compiler emits them as typed stores whose target's number encodes the operation (:mod:`memory_accesses`); here each
becomes that atomic on target 0.  If no old value is fetched, the atomics do not return one.  Texture fetches of OpenCL C are numbers in
the first offset of TEX_SAMPLE (:mod:`opencl_image_functions`), and reads of images that a kernel writes are typed stores with the highest numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from warpwright.isa.r600.compiler.memory_accesses import GLOBAL_ATOMICS
from warpwright.isa.r600.compiler.opencl_image_functions import FETCHES
from warpwright.isa.r600.compiler.opencl_images import FIRST_READ
from warpwright.isa.r600.decode import decode_program
from warpwright.isa.r600.items import READ
from warpwright.isa.r600.layouts import EVERGREEN, RAT, TEXTURE, VERTEX
from warpwright.isa.r600.tables_control import RAT_OPERATIONS
from warpwright.isa.r600.tables_fetch import TEXTURE_OPERATIONS

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
BUFFER, RETURNED = FETCHES[3:]
NO_INDEX_OFFSET, LARGEST_TEXEL_BYTES = 2, 16
_OPCODES = {row.name: row.opcode for row in TEXTURE_OPERATIONS.values()}
_NUMBERS = {name: number for number, name in RAT_OPERATIONS.items()}


def finished(
    code: bytes, generation: str, operations: Sequence[str] = GLOBAL_ATOMICS, read_targets: Sequence[int] = ()
) -> bytes:
    """The code with atomics in place of their stores, and texture fetches in place of TEX_SAMPLE.

    Args:
        operations: the atomic by the number of a typed store's target; stores with higher numbers write images, the first one to target 1.
        read_targets: targets that the kernel also reads.
    """
    words = list(struct.unpack(f"<{len(code) // 8}Q", code))
    listing = decode_program(code, generation)
    fetches = [f for clause in listing.clauses.values() for f in clause.fetches]
    returns = "_RTN" if any(f.fields.get("buffer_id") == RETURN_BUFFER for f in fetches) else ""
    for control in listing.control:
        if control.rat_operation == "STORE_TYPED":
            target = 1 + FIRST_READ - control.fields["rat_id"]
            if target in read_targets:
                changed = {**control.fields, "rat_id": target, "rat_inst": _NUMBERS[READ], "mark": 1}
            else:
                changed = _store(control.fields, operations, returns)
            words[control.address] = RAT[generation].write(changed)
    for fetch in fetches:
        if fetch.operation.name == "SAMPLE":
            word = _fetch(fetch.fields, generation)
            words[fetch.address : fetch.address + 2] = [word & (1 << 64) - 1, word >> 64]
    return struct.pack(f"<{len(words)}Q", *words)


def _store(fields: Mapping[str, int], operations: Sequence[str], returns: str) -> dict[str, int]:
    """Fields of the random access that a typed store stands for."""
    number = fields["rat_id"]
    if number >= len(operations):
        return {**fields, "rat_id": 1 + number - len(operations)}
    name = AMD_NAMES[operations[number]]
    return {**fields, "rat_id": 0, "rat_inst": _NUMBERS.get(f"{name}{returns}", _NUMBERS[f"{name}_RTN"]), "mark": 1}


def _fetch(fields: Mapping[str, int], generation: str) -> int:
    """The fetch that TEX_SAMPLE stands for."""
    name = FETCHES[fields["offset_x"]]
    if name in (BUFFER, RETURNED):
        return VERTEX[generation].write(_buffer_fetch(fields, generation))
    opcode = _OPCODES[name]
    return TEXTURE.write({**fields, "inst": opcode & 31, "inst_mod": opcode >> 8, "offset_x": 0})


def _buffer_fetch(fields: Mapping[str, int], generation: str) -> dict[str, int]:
    """Fields of a fetch from a buffer whose resource says the format."""
    shared = ("src_gpr", "src_rel", "src_sel_x", "dst_gpr", "dst_rel", *(f"dst_sel_{c}" for c in "xyzw"))
    evergreen = {"mega_fetch": 1, "mega_fetch_count": LARGEST_TEXEL_BYTES - 1} if generation == EVERGREEN else {}
    return {
        **{name: fields[name] for name in shared},
        **{"fetch_type": NO_INDEX_OFFSET, "buffer_id": fields["resource_id"], "use_const_fields": 1, **evergreen},
    }
