"""Meanings of accesses to bindings of a graphics driver: fetches from resources, stores and atomics on random access
targets.

Fetches outside a resource return zeros; stores and atomics outside a target have no effect.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from warpwright.isa.ops import Access, Value
from warpwright.isa.r600.bindings import Bindings, Resource, Target
from warpwright.isa.r600.meaning import INSIDE, R600Emitter, launch_bytes, register_name
from warpwright.isa.r600.meaning_memory import RAT_ATOMICS, put_selected
from warpwright.isa.sass.meaning import UnsupportedInstruction

SIZE_AT, ELEMENTS_AT = 8, 12
"""Offsets in a record, after the address."""
FRACTION, INTEGER, NUMBER = range(3)
"""Number formats."""
FORMATS: dict[int, tuple[int, int, bool]] = {
    # bits per component, number of components, whether they are floats
    **{0x01: (8, 1, False), 0x07: (8, 2, False), 0x1A: (8, 4, False)},
    **{0x05: (16, 1, False), 0x0F: (16, 2, False), 0x1F: (16, 4, False)},
    **{0x06: (16, 1, True), 0x10: (16, 2, True), 0x20: (16, 4, True)},
    **{0x0D: (32, 1, False), 0x1D: (32, 2, False), 0x2F: (32, 3, False), 0x22: (32, 4, False)},
    **{0x0E: (32, 1, True), 0x1E: (32, 2, True), 0x30: (32, 3, True), 0x23: (32, 4, True)},
}
ZERO, ONE = 4, 5
"""Selects that mean a constant."""


# --- fetches ----------------------------------------------------------------------------------------------------
def bound_fetch(b: R600Emitter) -> None:
    """A fetch from a resource, of an atomic's old value, or of a resource's size.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    word, bindings = b.item.fetch, _bindings(b)
    assert word is not None
    f, name = word.fields, word.operation.name
    if f["src_rel"] or f.get("dst_rel") or f["buffer_index_mode"]:
        raise UnsupportedInstruction(f"{name} with an index has no meaning here")
    if f["buffer_id"] in bindings.returns:
        put_selected(b, f, [b.get(returned_name(bindings.returns[f["buffer_id"]]))])
        return
    resource = bindings.resources.get(f["buffer_id"])
    if resource is None:
        raise UnsupportedInstruction(f"{name}: no buffer is bound to resource {f['buffer_id']}")
    if name == "GET_BUFFER_RESINFO":
        put_selected(b, f, [launch_bytes(b, resource.at + ELEMENTS_AT, "i32")])
    elif name == "VFETCH":
        _load(b, resource)
    else:
        raise UnsupportedInstruction(f"{name} has no meaning here")


def _bindings(b: R600Emitter) -> Bindings:
    assert b.bindings is not None
    return b.bindings


def returned_name(target: int) -> str:
    """The register that holds the old value returned by an atomic on a target."""
    return f"RETURNED{target}"


def _load(b: R600Emitter, resource: Resource) -> None:
    """Load an element and select its channels."""
    word = b.item.fetch
    assert word is not None
    f = word.fields
    own = not f["use_const_fields"]
    number = f["data_format"] if own else resource.data_format
    kind = f["num_format_all"] if own else resource.number_format
    signed = bool(f["format_comp_all"]) if own else resource.signed
    if number not in FORMATS or f["endian_swap"]:
        raise UnsupportedInstruction(f"{word.operation.name} of format {number:#x} has no meaning here")
    bits, components, is_float = FORMATS[number]
    index = b.get(register_name(f["src_gpr"], "xyzw"[f["src_sel_x"]]))
    offset = b.add(b.mul(index, b.number(resource.stride_bytes)), b.number(f["offset"]))
    size = bits * components // 8
    inside = _within(b, offset, launch_bytes(b, resource.at + SIZE_AT, "i32"), size)
    if resource.stride_bytes:
        # The product of a large index and the stride may wrap.
        inside = b.and_(inside, b.icmp("ult", index, launch_bytes(b, resource.at + ELEMENTS_AT, "i32")))
    at = b.add(launch_bytes(b, resource.at, "i64"), b.zext(offset, "i64"))
    values = _components(b, at, inside, bits, components)
    converted = [_converted(b, x, bits, is_float, kind, signed) for x in values]
    one = b.number(1 if kind == INTEGER else 0x3F800000)
    if own:
        selected = converted + [b.number(0)] * (3 - len(converted)) + [one] * (len(converted) < 4)
    else:
        selected = [_channel(b, converted, select, one) for select in resource.selects]
    put_selected(b, f, selected)


def _channel(b: R600Emitter, values: list[Value], select: int, one: Value) -> Value:
    if select == ONE:
        return one
    return values[select] if select < len(values) else b.number(0)


def _within(b: R600Emitter, offset: Value, limit: Value, size: int) -> Value:
    """Whether ``bytes`` from an offset on are below a limit."""
    enough = b.icmp("uge", limit, b.number(size))
    return b.and_(enough, b.icmp("ule", offset, b.sub(limit, b.number(size))))


def _components(b: R600Emitter, at: Value, inside: Value, bits: int, components: int) -> list[Value]:
    """The components of an element, as words."""
    if components == 1:
        loaded = b.op("load", f"i{bits}", at, inside, attr=Access("global", bits // 8))
        return [loaded if bits == 32 else b.zext(loaded, "i32")]
    size = bits * components // 8
    if size == 12:
        places = [b.add(at, b.const(4 * n, "i64")) for n in range(3)]
        return [b.op("load", "i32", place, inside, attr=Access("global", 4)) for place in places]
    if size < 4:
        whole = [b.zext(b.op("load", f"i{8 * size}", at, inside, attr=Access("global", size)), "i32")]
    elif size == 4:
        whole = [b.op("load", "i32", at, inside, attr=Access("global", 4))]
    else:
        loaded = b.op("load", f"i32x{size // 4}", at, inside, attr=Access("global", size))
        whole = [b.op("extract", "i32", loaded, attr=n) for n in range(size // 4)]
    if bits == 32:
        return whole
    each = 32 // bits
    return [
        b.and_(b.lshr(whole[n // each], b.number(bits * (n % each))), b.number((1 << bits) - 1))
        for n in range(components)
    ]


def _converted(b: R600Emitter, x: Value, bits: int, is_float: bool, kind: int, signed: bool) -> Value:
    """A component in register form: an integer, or a float of its number or fraction."""
    if is_float:
        if bits == 32:
            return x
        return b.bitcast(b.op("fcvt", "f32", b.bitcast(b.trunc(x, "i16"), "f16"), attr="rn"), "i32")
    if signed and bits < 32:
        x = b.ashr(b.shl(x, b.number(32 - bits)), b.number(32 - bits))
    if kind == INTEGER or bits == 32:
        # A 32-bit number is already a float.
        return x
    value = b.op("i2f", "f32", x, attr=(signed, "rn"))
    if kind == FRACTION:
        largest = (1 << bits - signed) - 1
        (scale,) = struct.unpack("<I", struct.pack("<f", 1 / largest))
        value = b.op("fmul", "f32", value, b.single(scale), attr="rn")
        if signed:
            value = b.op("fmax", "f32", value, b.single(0xBF800000), attr="number")
    return b.bitcast(value, "i32")


# --- random access targets --------------------------------------------------------------------------------------
def _target(b: R600Emitter) -> Target:
    word, bindings = b.item.control, _bindings(b)
    assert word is not None
    f = word.fields
    if f["rat_index_mode"] or f["rw_rel"] or f["burst_count"]:
        raise UnsupportedInstruction(f"{word.rat_operation} with an index or of several registers has no meaning here")
    target = bindings.targets.get(f["rat_id"])
    if target is None:
        raise UnsupportedInstruction(f"{word.rat_operation}: no buffer is bound to random access target {f['rat_id']}")
    return target


def _offset(b: R600Emitter, target: Target) -> Value:
    """Byte offset of the element that the index register selects."""
    assert b.item.control is not None
    index = b.get(register_name(b.item.control.fields["index_gpr"], "x"))
    return b.mul(index, b.number(target.element_bytes))


def test_bounds(b: R600Emitter) -> None:
    """Determine which lanes of the following access are inside its target.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    target = _target(b)
    assert b.item.control is not None
    index = b.get(register_name(b.item.control.fields["index_gpr"], "x"))
    few = b.icmp("ult", index, launch_bytes(b, target.at + ELEMENTS_AT, "i32"))
    limit = launch_bytes(b, target.at + SIZE_AT, "i32")
    b.op("set_pred", "void", b.and_(few, _within(b, _offset(b, target), limit, target.element_bytes)), attr=INSIDE)


def access_target(b: R600Emitter, generation: str) -> None:
    """A store or an atomic on a target, for the lanes inside it.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    word, target = b.item.control, _target(b)
    assert word is not None
    f, name = word.fields, word.rat_operation
    at = b.add(launch_bytes(b, target.at, "i64"), b.zext(_offset(b, target), "i64"))
    data = [b.get(register_name(f["rw_gpr"], channel)) for channel in "xyzw"]
    if name in ("STORE_TYPED", "STORE_RAW", "STORE_DWORD"):
        _store(b, at, data, target)
        return
    operation = RAT_ATOMICS.get(name.removesuffix("_RTN"))
    if operation in (None, "mskor") or target.element_bytes != 4:
        raise UnsupportedInstruction(f"{name} on elements of {target.element_bytes} bytes has no meaning here")
    operands = [data[0]]
    if operation == "cas":
        operands.append(data[3 if generation == "evergreen" else 2])
    old = b.op("atomic", "i32", at, *operands, attr=Access("global", 4, True, operation))
    if name.endswith("_RTN"):
        b.set(returned_name(f["rat_id"]), old)


_STORES: dict[int, Callable[[R600Emitter, list[Value]], Value]] = {
    1: lambda b, x: b.trunc(x[0], "i8"),
    2: lambda b, x: b.trunc(x[0], "i16"),
    4: lambda b, x: x[0],
    8: lambda b, x: b.op("pack2", "i32x2", *x[:2]),
    16: lambda b, x: b.op("pack4", "i32x4", *x),
}


def _store(b: R600Emitter, at: Value, data: list[Value], target: Target) -> None:
    """The words of an element, stored without conversion."""
    value = _STORES[target.element_bytes](b, data)
    b.op("store", "void", at, value, attr=Access("global", target.element_bytes))
