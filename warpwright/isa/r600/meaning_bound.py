"""Meanings of accesses to bindings of a graphics driver: fetches from resources; loads, stores and atomics on random
access targets.

Fetches outside a resource and loads outside a target return zeros; stores and atomics outside a target have no effect.
"""

from __future__ import annotations

from warpwright.isa.ops import Access, Value
from warpwright.isa.r600.bindings import Bindings, BoundImage, Resource, Target
from warpwright.isa.r600.element_formats import (
    all_channels,
    checked,
    element_bytes,
    from_memory,
    load_element,
    selected,
    store_element,
    to_memory,
)
from warpwright.isa.r600.items import READ, STORE_TYPED
from warpwright.isa.r600.meaning import INSIDE, R600Emitter, launch_bytes, register_name
from warpwright.isa.r600.meaning_bound_image import (
    image_size,
    inside_image,
    inside_level,
    level_texel_address,
    texel_address,
)
from warpwright.isa.r600.meaning_filter import GRADIENTS, set_gradients
from warpwright.isa.r600.meaning_memory import RAT_ATOMICS, put_selected
from warpwright.isa.r600.tables_fetch import FetchKind
from warpwright.isa.sass.meaning import UnsupportedInstruction

SIZE_AT, ELEMENTS_AT = 8, 12
"""Offsets in a record, after the address."""


# --- fetches ----------------------------------------------------------------------------------------------------
def bound_fetch(b: R600Emitter) -> None:
    """A fetch from a resource, of a random access's returned value, or of a resource's size.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    word, bindings = b.item.fetch, _bindings(b)
    assert word is not None
    f, name = word.fields, word.operation.name
    if word.operation.kind is FetchKind.TEXTURE:
        texture_fetch(b)
        return
    if f.get("lds_req", 0):
        raise UnsupportedInstruction(f"{name} into local data share has no meaning in a program with bound resources")
    if f["src_rel"] or f.get("dst_rel") or f["buffer_index_mode"]:
        raise UnsupportedInstruction(f"{name} with an index has no meaning here")
    if f["buffer_id"] in bindings.returns:
        _put_returned(b, bindings.returns[f["buffer_id"]])
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
    assert b.images is not None
    return b.images


def is_bound(b: R600Emitter) -> bool:
    """Whether a fetch from a buffer names a bound one."""
    if b.images is None or b.item.fetch is None:
        return False
    number = b.item.fetch.fields.get("buffer_id")
    return number in b.images.resources or number in b.images.returns


def texture_fetch(b: R600Emitter) -> None:
    """A fetch of a texel or of an image's size.

    Raises:
        UnsupportedInstruction: it has offsets, indices or no meaning here.
    """
    word = b.item.fetch
    assert word is not None
    f, name = word.fields, word.operation.name
    if name in GRADIENTS:
        set_gradients(b)
        return
    image = b.images.textures.get(f["resource_id"]) if b.images is not None else None
    if image is None:
        raise UnsupportedInstruction(f"{name}: no image is bound to resource {f['resource_id']}")
    if any(f.get(key) for key in ("src_rel", "dst_rel", "resource_index_mode", "sampler_index_mode")):
        raise UnsupportedInstruction(f"{name} with an index has no meaning here")
    if name == "GET_TEXTURE_RESINFO":
        put_selected(b, f, image_size(b, image, _coordinate(b, f["src_gpr"], f["src_sel_x"])))
    elif name == "LD" and not any(f[f"offset_{c}"] for c in "xyz"):
        source = [_coordinate(b, f["src_gpr"], f[f"src_sel_{c}"]) for c in "xyz"]
        level = _coordinate(b, f["src_gpr"], f["src_sel_w"])
        size = element_bytes(checked(image.data_format, name))
        inside = inside_level(b, image, source, level)
        # Outside, any record will do.
        known = b.select(inside, level, b.number(0))
        words = load_element(b, level_texel_address(b, image, source, size, known), inside, size)
        values = from_memory(b, words, image.data_format, image.number_format, image.signed)
        put_selected(b, f, selected(b, values, image.selects, image.number_format))
    else:
        raise UnsupportedInstruction(f"{name} has no meaning in a compute program here")


def _coordinate(b: R600Emitter, register: int, select: int) -> Value:
    """A coordinate: a channel of a register, or zero."""
    return b.get(register_name(register, "xyzw"[select])) if select < 4 else b.number(0)


def returned_name(target: int, word: int = 0) -> str:
    """The register that holds a word returned by a random access on a target."""
    return f"RETURNED{target}.{'xyzw'[word]}"


def _put_returned(b: R600Emitter, target: int) -> None:
    """The value returned by a random access, in the fetch's format or in that of the target."""
    assert b.item.fetch is not None
    f = b.item.fetch.fields
    bound = _bindings(b).targets[target] if f["use_const_fields"] else None
    if bound is not None:
        number, kind, signed = bound.data_format, bound.number_format, bound.signed
    else:
        number, kind, signed = _own_format(b)
    words = [b.get(returned_name(target, n)) for n in range(max(1, element_bytes(number) // 4))]
    values = from_memory(b, words, number, kind, signed)
    put_selected(b, f, all_channels(b, values, kind) if bound is None else selected(b, values, bound.selects, kind))


def _own_format(b: R600Emitter) -> tuple[int, int, bool]:
    """The data format and number format in a fetch's own fields, and whether it is signed."""
    word = b.item.fetch
    assert word is not None
    f = word.fields
    return checked(f["data_format"], word.operation.name), f["num_format_all"], bool(f["format_comp_all"])


def _load(b: R600Emitter, resource: Resource) -> None:
    """Load an element and select its channels."""
    word = b.item.fetch
    assert word is not None
    f = word.fields
    own = not f["use_const_fields"]
    if own:
        number, kind, signed = _own_format(b)
    else:
        number, kind, signed = resource.data_format, resource.number_format, resource.signed
    size = element_bytes(checked(number, word.operation.name))
    if f["endian_swap"]:
        raise UnsupportedInstruction(f"{word.operation.name} with its bytes swapped has no meaning here")
    index = b.get(register_name(f["src_gpr"], "xyzw"[f["src_sel_x"]]))
    offset = b.add(b.mul(index, b.number(resource.stride_bytes)), b.number(f["offset"]))
    inside = _within(b, offset, launch_bytes(b, resource.at + SIZE_AT, "i32"), size)
    if resource.stride_bytes:
        # The product of a large index and the stride may wrap.
        inside = b.and_(inside, b.icmp("ult", index, launch_bytes(b, resource.at + ELEMENTS_AT, "i32")))
    at = b.add(launch_bytes(b, resource.at, "i64"), b.zext(offset, "i64"))
    values = from_memory(b, load_element(b, at, inside, size), number, kind, signed)
    chosen = all_channels(b, values, kind) if own else selected(b, values, resource.selects, kind)
    put_selected(b, f, chosen)


def _within(b: R600Emitter, offset: Value, limit: Value, size: int) -> Value:
    """Whether ``size`` bytes from an offset on are below a limit."""
    enough = b.icmp("uge", limit, b.number(size))
    return b.and_(enough, b.icmp("ule", offset, b.sub(limit, b.number(size))))


# --- random access targets --------------------------------------------------------------------------------------
def _target(b: R600Emitter) -> Target | BoundImage:
    word, bindings = b.item.control, _bindings(b)
    assert word is not None
    f = word.fields
    if f["rat_index_mode"] or f["rw_rel"] or f["burst_count"]:
        raise UnsupportedInstruction(f"{word.rat_operation} with an index or of several registers has no meaning here")
    target = bindings.targets.get(f["rat_id"])
    if target is None:
        raise UnsupportedInstruction(f"{word.rat_operation}: nothing is bound to random access target {f['rat_id']}")
    checked(target.data_format, f"random access target {f['rat_id']}")
    return target


def _indices(b: R600Emitter) -> list[Value]:
    assert b.item.control is not None
    return [b.get(register_name(b.item.control.fields["index_gpr"], channel)) for channel in "xyz"]


def _offset(b: R600Emitter, target: Target) -> Value:
    """Byte offset of the element that the index register selects."""
    return b.mul(_indices(b)[0], b.number(element_bytes(target.data_format)))


def test_bounds(b: R600Emitter) -> None:
    """Determine which lanes of the following access are inside its target.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    target, word = _target(b), b.item.control
    assert word is not None
    size = element_bytes(target.data_format)
    if isinstance(target, BoundImage):
        inside = inside_image(b, target, _indices(b))
    else:
        few = b.icmp("ult", _indices(b)[0], launch_bytes(b, target.at + ELEMENTS_AT, "i32"))
        limit = launch_bytes(b, target.at + SIZE_AT, "i32")
        inside = b.and_(few, _within(b, _offset(b, target), limit, size))
    b.op("set_pred", "void", inside, attr=INSIDE)
    if word.rat_operation == READ:
        # Lanes outside the target do not execute the access itself.
        for n in range(max(1, size // 4)):
            b.set(returned_name(word.fields["rat_id"], n), b.number(0))


def access_target(b: R600Emitter, generation: str) -> None:
    """A load, a store or an atomic on a target, for the lanes inside it.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    word, target = b.item.control, _target(b)
    assert word is not None
    f, name = word.fields, word.rat_operation
    size = element_bytes(target.data_format)
    if isinstance(target, BoundImage):
        at = texel_address(b, target, _indices(b), size)
    else:
        at = b.add(launch_bytes(b, target.at, "i64"), b.zext(_offset(b, target), "i64"))
    if name == READ:
        for n, found in enumerate(load_element(b, at, None, size)):
            b.set(returned_name(f["rat_id"], n), found)
        return
    data = [b.get(register_name(f["rw_gpr"], channel)) for channel in "xyzw"]
    data = [data[target.selects.index(n)] if n in target.selects else data[n] for n in range(4)]
    if name in (STORE_TYPED, "STORE_RAW", "STORE_DWORD"):
        store_element(b, at, to_memory(b, data, target.data_format, target.number_format, target.signed), size)
        return
    operation = RAT_ATOMICS.get(name.removesuffix("_RTN"))
    if operation in (None, "mskor") or size != 4:
        raise UnsupportedInstruction(f"{name} on elements of {size} bytes has no meaning here")
    operands = [data[0]]
    if operation == "cas":
        operands.append(data[3 if generation == "evergreen" else 2])
    old = b.op("atomic", "i32", at, *operands, attr=Access("global", 4, True, operation))
    if name.endswith("_RTN"):
        b.set(returned_name(f["rat_id"]), old)
