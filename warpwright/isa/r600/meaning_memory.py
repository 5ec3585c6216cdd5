"""Meanings of accesses: local data share, fetches from buffers, random access targets.

A buffer begins at the first byte of device memory; code uses the lower 32 bits of addresses.  Buffer 3 holds the
launch's words, which LLVM's back end reads when it combines a choice between two words into one load.  From
``RETURNS_AT`` on, it holds the old values of atomics, one word per thread, which are modelled as a register.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpwright.isa.ops import Access, Value
from warpwright.isa.r600.decoded_program import AluWord
from warpwright.isa.r600.items import TWO_READS
from warpwright.isa.r600.launch_words import PARAMETERS_AT, launch_word_at
from warpwright.isa.r600.meaning import R600Emitter, source
from warpwright.isa.sass.meaning import UnsupportedInstruction

SECOND_ADDRESS = "LDS2"
"""The register of the second address of an access with two."""
WINDOW = 0x7F00
"""Upper word of the device's addresses (``engine/abi.py``, DEVICE_BASE)."""
GLOBAL_BUFFER, RETURN_BUFFER = 1, 3
RETURNS_AT = 1 << 30
"""Offset of the old values in their buffer."""
LDS_ATOMICS = {
    **{"ADD": "add", "INC": "inc", "DEC": "dec", "MIN_INT": "smin", "MAX_INT": "smax", "MIN_UINT": "umin"},
    **{
        "MAX_UINT": "umax",
        "AND": "and",
        "OR": "or",
        "XOR": "xor",
        "XCHG": "exch",
        "CMP_XCHG": "cas",
        "CMP_STORE": "cas",
    },
}
RAT_ATOMICS = {
    **{"ADD": "add", "XCHG": "exch", "XCHG_INT": "exch", "CMPXCHG_INT": "cas", "MIN_INT": "smin", "MIN_UINT": "umin"},
    **{
        "MAX_INT": "smax",
        "MAX_UINT": "umax",
        "AND": "and",
        "OR": "or",
        "XOR": "xor",
        "INC_UINT": "inc",
        "DEC_UINT": "dec",
    },
    **{"MSKOR": "mskor"},
}
LDS_WRITES = {"LDS_WRITE": 4, "LDS_SHORT_WRITE": 2, "LDS_BYTE_WRITE": 1}
LDS_READS = {
    **{"LDS_READ_RET": (4, False), "LDS_USHORT_READ_RET": (2, False), "LDS_UBYTE_READ_RET": (1, False)},
    **{"LDS_SHORT_READ_RET": (2, True), "LDS_BYTE_READ_RET": (1, True)},
}


def extended(b: R600Emitter, x: Value, signed: bool) -> Value:
    return b.sext(x, "i32") if signed else b.zext(x, "i32")


# --- local data share -----------------------------------------------------------------------------------------
def local_data_share(b: R600Emitter, word: AluWord) -> None:
    """An access by a bundle; its result is appended to the queue.

    Raises:
        UnsupportedInstruction: naming an operation without a meaning here.
    """
    name = word.operation.name
    if word.lds_offset:
        raise UnsupportedInstruction(f"{name} with an offset has no meaning here")
    address, *data = (source(b, word, s) for s in word.sources)
    if name in LDS_WRITES:
        size = LDS_WRITES[name]
        b.op("store", "void", address, b.trunc(data[0], f"i{8 * size}"), attr=Access("shared", size))
        return
    if name in LDS_READS or name == TWO_READS:
        size, signed = LDS_READS.get(name, (4, False))
        if name == TWO_READS:
            b.set(SECOND_ADDRESS, data[0])
        found = extended(b, b.op("load", f"i{8 * size}", address, attr=Access("shared", size)), signed)
    else:
        found = _lds_atomic(b, name, address, data)
    if b.item.fills:
        b.set(f"OQA{b.item.fills[0]}", found)


def second_read(b: R600Emitter) -> None:
    """The second of two values, which is appended to queue B."""
    found = b.op("load", "i32", b.get(SECOND_ADDRESS), attr=Access("shared", 4))
    b.set(f"OQB{b.item.fills[0]}", found)


def _lds_atomic(b: R600Emitter, name: str, address: Value, data: list[Value]) -> Value:
    operation = LDS_ATOMICS.get(name.removeprefix("LDS_").removesuffix("_RET"))
    if name.startswith("LDS_SUB"):
        operation, data = "add", [b.sub(b.number(0), data[0])]
    if operation is None:
        raise UnsupportedInstruction(f"{name} has no meaning here")
    if operation == "cas":
        # The expected value comes first.
        data = [data[1], data[0]]
    return b.op(
        "atomic",
        "i32",
        address,
        *data[:2] if operation == "cas" else data[:1],
        attr=Access("shared", 4, operation=operation),
    )


# --- buffers --------------------------------------------------------------------------------------------------
FORMATS = {1: (1, 1), 5: (2, 1), 0x0D: (4, 1), 0x0E: (4, 1), 0x1D: (8, 2), 0x1E: (8, 2), 0x22: (16, 4), 0x23: (16, 4)}
"""Bytes and components of the data formats for plain memory: 8- to 128-bit integers, and floats with 32-bit
components."""
ZERO_SELECT, ONE_SELECT, NOTHING_SELECT = 4, 5, 7


def device_address(b: R600Emitter, low: Value) -> Value:
    return b.op("pack64", "i64", low, b.number(WINDOW))


def fetch(b: R600Emitter) -> None:
    """A fetch from a buffer, with channel selection.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    word = b.item.fetch
    assert word is not None
    f, name = word.fields, word.operation.name
    if name != "VFETCH":
        raise UnsupportedInstruction(f"{name} has no meaning here")
    if f["buffer_id"] == RETURN_BUFFER and not f.get("lds_req", 0):
        at = b.get(f"T{f['src_gpr']}.{'xyzw'[f['src_sel_x']]}")
        at = b.add(at, b.number(f["offset"])) if f["offset"] else at
        old = b.icmp("uge", at, b.number(RETURNS_AT))
        # The lane of an old value also reads some word of the launch.
        launched = launch_word_at(b, b.select(old, b.number(PARAMETERS_AT), at))
        put_selected(b, f, [b.select(old, b.get("RETURNED"), launched)])
        return
    if f["buffer_id"] != GLOBAL_BUFFER or f["data_format"] not in FORMATS or f["src_rel"] or f["dst_rel"]:
        raise UnsupportedInstruction(
            f"{name} from buffer {f['buffer_id']} in format {f['data_format']} has no meaning here"
        )
    size, components = FORMATS[f["data_format"]]
    low = b.get(f"T{f['src_gpr']}.{'xyzw'[f['src_sel_x']]}")
    if f["offset"]:
        low = b.add(low, b.number(f["offset"]))
    at = device_address(b, low)
    how = Access("global", size)
    if components == 1:
        found = extended(b, b.op("load", f"i{8 * size}", at, attr=how), bool(f["format_comp_all"]) and size < 4)
        if f.get("lds_req", 0):
            into_local_data_share(b, f, found, 4)
        else:
            put_selected(b, f, [found])
        return
    words = b.op("load", f"i32x{components}", at, attr=how)
    if f.get("lds_req", 0):
        into_local_data_share(b, f, words, size)
        return
    put_selected(b, f, [b.op("extract", "i32", words, attr=n) for n in range(components)])


def into_local_data_share(b: R600Emitter, fields: Mapping[str, int], words: Value, size: int) -> None:
    """Write what Cayman fetched to local data share instead of registers.

    The address is the second source channel, which only such fetches and those of structures have.  That the bit exists is published (``LDS_REQ``
    of ``VTX_WORD0``); where the address comes from is this model's reading.
    """
    to = b.get(f"T{fields['src_gpr']}.{'xyzw'[fields['src_sel_y']]}")
    b.op("store", "void", to, words, attr=Access("shared", size))


def put_selected(b: R600Emitter, fields: Mapping[str, int], values: list[Value]) -> None:
    """Write the channels of a fetch's result that its destination selects."""
    for channel in "xyzw":
        select = fields[f"dst_sel_{channel}"]
        if select == NOTHING_SELECT:
            continue
        if select == ZERO_SELECT:
            value = b.number(0)
        elif select == ONE_SELECT:
            value = b.number(1)
        else:
            value = values[select] if select < len(values) else b.number(0)
        b.set(f"T{fields['dst_gpr']}.{channel}", value)


# --- random access targets ------------------------------------------------------------------------------------
STORED_WORDS = {1: 1, 3: 2, 15: 4}
"""Components that a store writes, by mask."""


def random_access(b: R600Emitter, generation: str) -> None:
    """A store or an atomic on global memory; the address is a word index.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    word = b.item.control
    assert word is not None
    f, name = word.fields, word.rat_operation
    low = b.shl(b.get(f"T{f['index_gpr']}.x"), b.number(2))
    data = [b.get(f"T{f['rw_gpr']}.{channel}") for channel in "xyzw"]
    at = device_address(b, low)
    if name in ("STORE_RAW", "STORE_DWORD"):
        count = STORED_WORDS.get(f["comp_mask"])
        if count is None:
            raise UnsupportedInstruction(f"{name} of components {f['comp_mask']:04b} has no meaning here")
        value = data[0] if count == 1 else b.op(f"pack{count}", f"i32x{count}", *data[:count])
        b.op("store", "void", at, value, attr=Access("global", 4 * count))
        return
    operation = RAT_ATOMICS.get(name.removesuffix("_RTN"))
    if operation is None:
        raise UnsupportedInstruction(f"{name} has no meaning here")
    operands = [data[0]]
    if operation == "cas":
        operands.append(data[3 if generation == "evergreen" else 2])
    elif operation == "mskor":
        operands.append(data[3])
    old = b.op("atomic", "i32", at, *operands, attr=Access("global", 4, operation != "mskor", operation))
    if name.endswith("_RTN"):
        b.set("RETURNED", old)
