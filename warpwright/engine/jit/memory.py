"""Loads, stores and atomics: one check for a whole warp where the lanes' addresses are known to each other.

Each access site of global or generic memory keeps the last allocation it hit (first byte, number of valid starting
places) in its thread's cache; an access that stays inside goes straight to memory.  Everything else, partial warps
at an array's end included, takes a shared function that checks every lane exactly, then refills the cache or
records the fault.  The check rotates the offset by the access size, so that a misaligned address fails it too.

A load whose whole extent lies in one allocation reads it all, inactive lanes included; stores are masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from warpwright.engine.abi import LAUNCH
from warpwright.engine.jit import cold
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.function import AccessGroup, FunctionWriter, Masks, Val, vector_type
from warpwright.engine.jit.shapes import LANES, SCALAR_KIND, UNSET_KIND, VECTOR, VECTOR_KIND, Pattern, Shape
from warpwright.isa.ops import Access, Op

Reader = Callable[[FunctionWriter, "Place", str, int], list[str]]
SITE_BYTES = 16
WINDOW_LIMIT_BYTES = 512
"""Longest extent that a patterned load reads as one window."""
GROUP_LIMIT_BYTES = 1024
"""Loads from one base share a check when together they span no more."""
FEW_PLACES = 4
"""A patterned load of so few different places takes each of them once and spreads it."""
SPACES = {"global": 0, "generic": 1, "shared": 2, "local": 3}
VEC32, VEC64, VECPTR, VECBOOL = "<32 x i32>", "<32 x i64>", "<32 x ptr>", "<32 x i1>"


def is_uniform(value: Val) -> bool:
    return value.shape.kind != VECTOR_KIND and value.shape.pattern is None


def parts_of(type: str) -> int:
    return {"i32x2": 2, "i32x4": 4, "i64": 2}.get(type, 1)


class Place:
    """Address of one access: what is checked and how lanes spread from it."""

    def __init__(
        self, w: FunctionWriter, address: Val, access: Access, store: bool = False, exact: bool = False
    ) -> None:
        self.w = w
        self.address = address
        self.access = access
        self.size = access.bytes
        shape = address.shape
        self.wide = access.space in ("global", "generic")
        self.pattern: Pattern | None = shape.pattern if shape.kind == SCALAR_KIND else None
        self.scattered = shape.kind == VECTOR_KIND
        self.low = min(self.pattern) if self.pattern else 0
        self.extent = (max(self.pattern) - self.low if self.pattern else 0) + self.size
        self.offsets: list[int] | None = None
        self.runs: list[tuple[int, int]] = []
        """(first lane, lanes) of neighbouring words, where few of them make up a store."""
        self.group: AccessGroup | None = None
        self.proven = self._is_proven()
        """No lane can be at fault, whatever the launch."""
        if self.pattern is not None:
            offsets = [p - self.low for p in self.pattern]
            if self.extent > WINDOW_LIMIT_BYTES or any(o % self.size for o in offsets) or access.space == "local":
                self.scattered = True
            else:
                self.offsets = [o // self.size for o in offsets]
                length = self.extent // min(self.size, 4)
                readable = len(set(self.offsets)) <= FEW_PLACES or length & (length - 1) == 0
                if store and self.size <= 4 and not self.consecutive:
                    runs = runs_of(self.offsets)
                    self.runs = runs if len(runs) <= FEW_PLACES and len(set(self.offsets)) == LANES else []
                self.scattered = not (self.consecutive or self.runs if store else readable)
        elif not self.scattered and access.space == "generic":
            # A uniform generic address may be local memory, which differs from lane to lane.
            self.offsets = [0] * LANES
        if self.scattered or exact:
            self.extent = self.size

    def _is_proven(self) -> bool:
        """Whether static shared memory holds every address that the shape allows."""
        shape = self.address.shape
        if self.access.space != "shared" or shape.kind != SCALAR_KIND or shape.bound < 0 or shape.align % self.size:
            return False
        pattern = self.pattern or (0,)
        below = self.low < 0 and (shape.const is None or shape.const + self.low < 0)
        last = shape.bound + max(pattern) + self.size
        return not below and last <= self.w.program.shared_static_bytes and not any(p % self.size for p in pattern)

    @property
    def kind(self) -> str:
        return "i64" if self.wide else "i32"

    @property
    def consecutive(self) -> bool:
        return self.offsets is not None and self.offsets == list(range(LANES))

    def start(self) -> str:
        """Address of the lowest byte that any lane touches."""
        base = self.w.scalar(self.address)
        return base if not self.low else self.w.op(f"add {self.kind} {base}, {self.low}")


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    """(first lane, lanes) of each longest run of lanes whose offsets count up by one."""
    firsts = [n for n in range(LANES) if n == 0 or offsets[n] != offsets[n - 1] + 1]
    return [(a, b - a) for a, b in zip(firsts, [*firsts[1:], LANES], strict=True)]


def shift_of(size: int) -> int:
    return size.bit_length() - 1


def rotated(w: FunctionWriter, type: str, value: str, size: int) -> str:
    """Offset in units of the access size; misaligned offsets become huge."""
    if size == 1:
        return value
    vector = type.startswith("<")
    stem = "llvm.fshr." + ("v32" + type.split(" x ")[1][:-1] if vector else type)
    amount = str(shift_of(size))
    if vector:
        element = type.split(" x ")[1][:-1]
        amount = w.literal_vector(element, (int(amount),) * LANES)
    w.declared[stem] = f"declare {type} @{stem}({type}, {type}, {type})"
    return w.op(f"call {type} @{stem}({type} {value}, {type} {value}, {type} {amount})")


def shared_limit(w: FunctionWriter, extent: int, size: int) -> str:
    """Number of valid starting places of an extent in shared memory (made once, at entry)."""
    return w.shared_limits.setdefault((extent, size), f"%shared_limit_{extent}_{size}")


def local_limit(w: FunctionWriter, size: int) -> str:
    return w.local_limits.setdefault(size, f"%local_limit_{size}")


def site_pointer(w: FunctionWriter, site: int) -> str:
    return w.op(f"getelementptr i8, ptr %sites, i64 {SITE_BYTES * site}")


def instruction_address(w: FunctionWriter) -> int:
    return w.program.instructions[w.index].address


def addresses_vector(w: FunctionWriter, place: Place) -> str:
    """Every lane's address as <32 x i64>."""
    vector = w.vector(place.address)
    return vector if place.wide else w.op(f"zext {VEC32} {vector} to {VEC64}")


def settle(w: FunctionWriter, address: Val) -> None:
    """Give an address its LLVM name before control flow splits."""
    if address.shape.kind == VECTOR_KIND:
        w.vector(address)
    elif address.shape.const is None:
        w.scalar(address)


def call_slow(w: FunctionWriter, name: str, place: Place, site: str, exec_bits: str, extra: str = "") -> str:
    """The exact way: lanes one by one, in a shared function; leaves through 'fault' when a lane is at fault."""
    w.emit(f"store {VEC64} {addresses_vector(w, place)}, ptr %lane_addresses, align 64")
    w.declare(name, "i1", "ptr, ptr, ptr, ptr, i32, i32, i32, i32, i64" + (", i32" if extra else ""))
    fault = w.op(
        f"call i1 @{name}(ptr %warp, ptr {site}, ptr %lane_addresses, ptr %lane_values, i32 {exec_bits}, "
        f"i32 {place.size}, i32 {SPACES[place.access.space]}, i32 {place.extent}, i64 {instruction_address(w)}{extra})"
    )
    after = w.new_label("served")
    w.emit(f"br i1 {fault}, label %fault, label %{after}, !prof !2")
    w.label(after)
    return after


def describe(w: FunctionWriter, place: Place, offsets: list[int] | None) -> str:
    """The constant that tells the rare way about an access; ``offsets`` from :meth:`Place.start`, or addresses given."""
    lanes = "null"
    if offsets is not None:
        lanes = w.table(("offsets", tuple(offsets)), "i32", offsets, LANES)
    name = f"@access{len(w.globals)}"
    extent = str(place.extent) if place.group is None else f"GROUPEXTENT{place.group.number}_"
    values = f"i64 {instruction_address(w)}, ptr {lanes}, i32 {place.size}, i32 {SPACES[place.access.space]}"
    w.globals.append(
        f"{name} = private unnamed_addr constant {{ i64, ptr, i32, i32, i32 }} {{ {values}, i32 {extent} }}"
    )
    return name


def call_rare(w: FunctionWriter, name: str, place: Place, site: str, exec_bits: str) -> tuple[str, str]:
    """(address of the served values, label behind the call); leaves through 'fault' when a lane is at fault."""
    if place.scattered or place.address.shape.kind == VECTOR_KIND:
        w.emit(f"store {VEC64} {addresses_vector(w, place)}, ptr %lane_addresses, align 64")
        start, offsets = "0", None
    else:
        start = place.start()
        if not place.wide:
            start = w.op(f"zext i32 {start} to i64")
        offsets = [p - place.low for p in place.pattern or (0,) * LANES]
    w.declare(f"ww_rare_{name}", "ptr", "ptr, ptr, i64, i32, ptr, ptr")
    arguments = ["%warp", site, start, exec_bits, describe(w, place, offsets), "%lane_addresses"]
    served = w.op(cold.call(name, ", ".join(arguments)))
    fault = w.op(f"icmp eq ptr {served}, null")
    after = w.new_label("served")
    w.emit(f"br i1 {fault}, label %fault, label %{after}, !prof !2")
    w.label(after)
    return served, after


def check(w: FunctionWriter, place: Place, site: str) -> tuple[str, str]:
    """(i1 whether the whole extent is fine, host pointer of its start) for addresses with a scalar part."""
    start = place.start()
    if place.wide:
        first = w.op(f"load i64, ptr {site}")
        count = w.op(f"load i64, ptr {w.field(site, 8)}")
        offset = w.op(f"sub i64 {start}, {first}")
        fine = w.op(f"icmp ult i64 {rotated(w, 'i64', offset, place.size)}, {count}")
        host = w.op(f"inttoptr i64 {w.op(f'add i64 {start}, %host_minus_device')} to ptr")
        return fine, host
    if place.access.space == "shared":
        fine = "true"
        if not place.proven:
            limit = shared_limit(w, place.extent, place.size)
            fine = w.op(f"icmp ult i32 {rotated(w, 'i32', start, place.size)}, {limit}")
        return fine, w.op(f"getelementptr i8, ptr %shared_base, i64 {w.op(f'zext i32 {start} to i64')}")
    limit = local_limit(w, place.size)
    fine = w.op(f"icmp ult i32 {rotated(w, 'i32', start, place.size)}, {limit}")
    word = w.op(f"lshr i32 {start}, 2")
    row = w.op(f"shl i64 {w.op(f'zext i32 {word} to i64')}, 7")
    return fine, w.op(f"getelementptr i8, ptr %local_base, i64 {row}")


def check_group(w: FunctionWriter, place: Place) -> tuple[str, str, str]:
    """(allocation cache, whether all loads of this block from the same base are fine, host pointer of this one).

    When the group's check fails, each of its loads takes the exact way for itself.
    """
    name = w.scalar(place.address)
    root, step = w.sums.get(name, (name, 0))
    low = step + place.low
    high = low + place.extent
    key = (w.block, root, place.size, low % place.size)
    group = w.open_groups.get(key)
    if group is None or max(high, group.high) - min(low, group.low) > GROUP_LIMIT_BYTES:
        group = w.open_groups[key] = AccessGroup(len(w.groups), low, high)
        w.groups.append(group)
        group.site = site_pointer(w, w.add_site())
        first = w.op(f"load i64, ptr {group.site}")
        count = w.op(f"load i64, ptr {w.field(group.site, 8)}")
        offset = w.op(f"sub i64 {w.op(f'add i64 {root}, GROUPLOW{group.number}_')}, {first}")
        group.fine = w.op(f"icmp ult i64 {rotated(w, 'i64', offset, place.size)}, {count}")
    group.low, group.high = min(low, group.low), max(high, group.high)
    place.group = group
    host = w.op(f"inttoptr i64 {w.op(f'add i64 {place.start()}, %host_minus_device')} to ptr")
    return group.site, group.fine, host


def finish_groups(w: FunctionWriter, text: str) -> str:
    """A module's text with the extents of all groups of loads."""
    text = re.sub(r"GROUPLOW(\d+)_", lambda m: str(w.groups[int(m.group(1))].low), text)
    return re.sub(r"GROUPEXTENT(\d+)_", lambda m: str((g := w.groups[int(m.group(1))]).high - g.low), text)


def check_lanes(w: FunctionWriter, place: Place, site: str, exec_: Masks) -> tuple[str, str]:
    """(i1 whether every executing lane is fine, <32 x ptr>) for scattered addresses."""
    vector = w.vector(place.address)
    if place.wide:
        first = w.splat("i64", w.op(f"load i64, ptr {site}"))
        # The cache counts places for this site's extent, which may be longer than one lane's access.
        count = w.splat("i64", w.op(f"load i64, ptr {w.field(site, 8)}"))
        offset = w.op(f"sub {VEC64} {vector}, {first}")
        inside = w.op(f"icmp ult {VEC64} {rotated(w, VEC64, offset, place.size)}, {count}")
        base = w.splat("i64", "%host_minus_device")
        pointers = w.op(f"inttoptr {VEC64} {w.op(f'add {VEC64} {vector}, {base}')} to {VECPTR}")
    elif place.proven:
        return "true", w.op(f"getelementptr i8, ptr %shared_base, {VEC32} {vector}")
    else:
        local = place.access.space == "local"
        limit = local_limit(w, place.size) if local else shared_limit(w, place.size, place.size)
        inside = w.op(f"icmp ult {VEC32} {rotated(w, VEC32, vector, place.size)}, {w.splat('i32', limit)}")
        if local:
            rows = w.op(f"shl {VEC32} {vector}, {w.literal_vector('i32', (5,) * LANES)}")
            rows = w.op(f"and {VEC32} {rows}, {w.literal_vector('i32', (0xFFFFFF80,) * LANES)}")
            vector = w.op(f"or {VEC32} {rows}, {w.literal_vector('i32', [4 * n for n in range(LANES)])}")
        base_name = "%local_base" if local else "%shared_base"
        pointers = w.op(f"getelementptr i8, ptr {base_name}, {VEC32} {vector}")
    outside = w.op(f"xor {VECBOOL} {inside}, {w.literal_vector('i1', (1,) * LANES)}")
    zero = w.literal_vector("i1", (0,) * LANES)
    wrong = w.op(f"select {VECBOOL} {w.mask_vector(exec_)}, {VECBOOL} {outside}, {VECBOOL} {zero}")
    return w.op(f"icmp eq i32 {w.bits_of(wrong)}, 0"), pointers


def part_pointer(w: FunctionWriter, place: Place, pointer: str, part: int) -> str:
    """Pointer of a further word: next to it, or a row below in local memory."""
    if part == 0:
        return pointer
    step = 128 * part if place.access.space == "local" else 4 * part
    return w.op(f"getelementptr i8, {VECPTR} {pointer}, i64 {step}")


def vector_offset_pointer(w: FunctionWriter, pointer: str, step: int) -> str:
    return pointer if step == 0 else w.op(f"getelementptr i8, ptr {pointer}, i64 {step}")


def gather(w: FunctionWriter, pointers: str, mask: str) -> str:
    w.declared["llvm.masked.gather.v32i32.v32p0"] = (
        f"declare {VEC32} @llvm.masked.gather.v32i32.v32p0({VECPTR}, i32, {VECBOOL}, {VEC32})"
    )
    return w.op(
        f"call {VEC32} @llvm.masked.gather.v32i32.v32p0({VECPTR} {pointers}, i32 4, {VECBOOL} {mask}, {VEC32} zeroinitializer)"
    )


def scatter(w: FunctionWriter, value: str, pointers: str, mask: str) -> None:
    w.declared["llvm.masked.scatter.v32i32.v32p0"] = (
        f"declare void @llvm.masked.scatter.v32i32.v32p0({VEC32}, {VECPTR}, i32, {VECBOOL})"
    )
    w.emit(
        f"call void @llvm.masked.scatter.v32i32.v32p0({VEC32} {value}, {VECPTR} {pointers}, i32 4, {VECBOOL} {mask})"
    )


def masked_store(w: FunctionWriter, type: str, count: int, value: str, pointer: str, mask: str, align: int) -> None:
    vec = f"<{count} x {type}>"
    name = f"llvm.masked.store.v{count}{type}.p0"
    w.declared[name] = f"declare void @{name}({vec}, ptr, i32, <{count} x i1>)"
    w.emit(f"call void @{name}({vec} {value}, ptr {pointer}, i32 {align}, <{count} x i1> {mask})")


def mask_literal(indices: list[int]) -> str:
    return "<" + ", ".join(f"i32 {i}" for i in indices) + ">"


# --- loads ----------------------------------------------------------------------------------------
def emit_load(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """A load; lanes where its condition (when given) is false access nothing and get 0."""
    if len(args) == 1:
        return _load(w, op, args[0])
    whole = w.exec
    w.exec = w.and_mask(whole, args[1])
    inside = w.mask_vector(w.exec)
    value = _load(w, op, args[0])
    w.exec = whole
    parts = []
    for part in value.parts or (value,):
        kind = vector_type(part.type)
        name = w.op(f"select {VECBOOL} {inside}, {kind} {w.vector(part)}, {kind} zeroinitializer")
        parts.append(Val(part.type, VECTOR, vector=name))
    return parts[0] if len(parts) == 1 else Val(value.type, VECTOR, parts=tuple(parts))


def _load(w: FunctionWriter, op: Op, address: Val) -> Val:
    """A load; 8 and 16 bytes give a value with parts, 1 and 2 bytes an i8 or i16."""
    access: Access = op.attr
    place = Place(w, address, access)
    tr.record_access(w, place.address, access)
    count = max(1, access.bytes // 4)
    if address.shape.kind == UNSET_KIND:
        address = place.address = w.constant(place.kind, 0)
    if is_uniform(address) and access.space not in ("local", "generic"):
        names = _window(w, place, count, _load_uniform)
        shape = Shape(SCALAR_KIND)
        values = [Val("i32" if access.bytes >= 4 else op.type, shape, scalar=n) for n in names]
    else:
        if is_uniform(address) and access.space == "local":
            names = _diamond(w, place, count, _load_local_rows)
        elif place.scattered:
            names = _diamond(w, place, count, _load_scattered)
        else:
            names = _window(w, place, count, _load_window)
        values = [Val("i32" if access.bytes >= 4 else op.type, VECTOR, vector=n) for n in names]
    if count == 1:
        return values[0]
    return Val(op.type, VECTOR, parts=tuple(values))


def _window(w: FunctionWriter, place: Place, count: int, read: Reader) -> list[str]:
    """A load of neighbouring bytes: from memory itself, or from the copy that the exact path makes."""
    settle(w, place.address)
    if place.wide:
        site, fine, host = check_group(w, place)
    else:
        site = "null"
        fine, host = check(w, place, site)
    if place.proven:
        return read(w, place, host, count)
    before, join, slow = w.new_label("checked"), w.new_label("window"), w.new_label("slow")
    w.emit(f"br label %{before}")
    w.label(before)
    w.emit(f"br i1 {fine}, label %{join}, label %{slow}, !prof !0")
    w.label(slow)
    served, slow_from = call_rare(w, "window", place, site, w.exec.bits)
    w.emit(f"br label %{join}")
    w.label(join)
    pointer = w.op(f"phi ptr [ {host}, %{before} ], [ {served}, %{slow_from} ]")
    return read(w, place, pointer, count)


def _diamond(w: FunctionWriter, place: Place, count: int, fast_path: Reader) -> list[str]:
    """Fast path and exact path of a load, joined."""
    bytes_ = place.size
    site = site_pointer(w, w.add_site()) if place.wide else "null"
    exec_bits = w.exec.bits
    settle(w, place.address)
    only_slow = bytes_ < 4 and (place.scattered or place.access.space == "local")
    join = w.new_label("loaded")
    fast_names: list[str] = []
    fast_from = ""
    if not only_slow:
        fast, slow = w.new_label("fast"), w.new_label("slow")
        if place.scattered:
            fine, pointer = check_lanes(w, place, site, w.exec)
            w.mask_vector(w.exec)
        else:
            fine, pointer = check(w, place, site)
        if place.proven:
            return fast_path(w, place, pointer, count)
        w.emit(f"br i1 {fine}, label %{fast}, label %{slow}, !prof !0")
        w.label(fast)
        saved = w.exec.vector
        fast_names = fast_path(w, place, pointer, count)
        w.exec.vector = saved
        fast_from = fast
        w.emit(f"br label %{join}")
        w.label(slow)
    address = Val(place.address.type, place.address.shape, place.address.scalar, place.address.vector)
    slow_place = Place(w, address, place.access)
    served, slow_from = call_rare(w, "load", slow_place, site, exec_bits)
    slow_names = []
    for part in range(count):
        pointer = vector_offset_pointer(w, served, 128 * part)
        name = w.op(f"load {VEC32}, ptr {pointer}, align 64")
        if bytes_ < 4:
            name = w.op(f"trunc {VEC32} {name} to <32 x i{8 * bytes_}>")
        slow_names.append(name)
    if only_slow:
        return slow_names
    w.emit(f"br label %{join}")
    w.label(join)
    kind = f"<32 x i{8 * min(bytes_, 4)}>"
    return [
        w.op(f"phi {kind} [ {a}, %{fast_from} ], [ {b}, %{slow_from} ]")
        for a, b in zip(fast_names, slow_names, strict=True)
    ]


def _load_uniform(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    if place.size < 4:
        return [w.op(f"load i{8 * place.size}, ptr {pointer}, align {place.size}")]
    return [w.op(f"load i32, ptr {vector_offset_pointer(w, pointer, 4 * n)}, align 4") for n in range(count)]


def _load_window(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    """All bytes between the lowest and the highest lane, then each lane's part of them."""
    assert place.offsets is not None
    element = f"i{8 * min(place.size, 4)}"
    length = place.extent // min(place.size, 4)
    distinct = sorted(set(place.offsets))
    if len(distinct) <= FEW_PLACES:
        return [_load_few(w, place, pointer, element, distinct, count, part) for part in range(count)]
    vec = f"<{length} x {element}>"
    window = w.op(f"load {vec}, ptr {pointer}, align {min(place.size, 4)}")
    if place.consecutive and count == 1:
        return [window]
    return [
        w.op(
            f"shufflevector {vec} {window}, {vec} poison, <32 x i32> "
            + mask_literal([count * o + part for o in place.offsets])
        )
        for part in range(count)
    ]


def _load_few(
    w: FunctionWriter, place: Place, pointer: str, element: str, distinct: list[int], count: int, part: int
) -> str:
    """A few scalars, each spread over the lanes that read it."""
    assert place.offsets is not None
    size = min(place.size, 4)
    result = ""
    for offset in distinct:
        at = vector_offset_pointer(w, pointer, size * (count * offset + part))
        spread = w.splat(element, w.op(f"load {element}, ptr {at}, align {size}"))
        if not result:
            result = spread
            continue
        lanes = w.literal_vector("i1", [int(o == offset) for o in place.offsets])
        kind = f"<32 x {element}>"
        result = w.op(f"select {VECBOOL} {lanes}, {kind} {spread}, {kind} {result}")
    return result


def _load_local_rows(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    return [w.op(f"load {VEC32}, ptr {vector_offset_pointer(w, pointer, 128 * n)}, align 4") for n in range(count)]


def _load_scattered(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    mask = w.mask_vector(w.exec)
    return [gather(w, part_pointer(w, place, pointer, n), mask) for n in range(count)]


# --- stores ---------------------------------------------------------------------------------------
def emit_store(w: FunctionWriter, op: Op, address: Val, value: Val) -> None:
    """A store by the executing lanes; of lanes with the same address the highest wins."""
    access: Access = op.attr
    place = Place(w, address, access, store=True)
    tr.record_access(w, place.address, access)
    if address.shape.kind == UNSET_KIND:
        address = place.address = w.constant(place.kind, 0)
    if w.exec.bits == "0":
        return
    count = max(1, access.bytes // 4)
    words = list(value.parts) if value.parts else [value]
    uniform = is_uniform(address) and access.space != "generic"
    uniform_words = all(is_uniform(v) for v in words)
    local = access.space == "local"
    only_slow = (access.bytes < 4 and (place.scattered or local)) or (
        not (local or place.scattered or place.consecutive or place.runs) and not (uniform and uniform_words)
    )
    vectors = [w.vector(v) for v in words] if not (uniform and uniform_words and not local) else []
    settle(w, address)
    site = site_pointer(w, w.add_site()) if place.wide else "null"
    end = w.new_label("stored")
    exec_vector = w.mask_vector(w.exec)
    if not only_slow:
        fast, slow = w.new_label("fast"), w.new_label("slow")
        if place.scattered:
            fine, pointer = check_lanes(w, place, site, w.exec)
        else:
            fine, pointer = check(w, place, site)
        if uniform and not local:
            some = w.op(f"icmp ne i32 {w.exec.bits}, 0")
            fine = w.op(f"and i1 {fine}, {some}")
        always = fine == "true"
        if not always:
            w.emit(f"br i1 {fine}, label %{fast}, label %{slow}, !prof !0")
            w.label(fast)
        if place.scattered:
            for n, name in enumerate(vectors):
                scatter(w, name, part_pointer(w, place, pointer, n), exec_vector)
        elif local:
            for n, name in enumerate(vectors):
                masked_store(w, "i32", 32, name, vector_offset_pointer(w, pointer, 128 * n), exec_vector, 4)
        elif uniform:
            for n, word in enumerate(words):
                type = f"i{8 * min(access.bytes, 4)}"
                w.emit(
                    f"store {type} {w.scalar(word)}, ptr {vector_offset_pointer(w, pointer, 4 * n)}, align {min(access.bytes, 4)}"
                )
        else:
            _store_consecutive(w, place, pointer, vectors, count, exec_vector)
        if always:
            return
        w.emit(f"br label %{end}")
        w.label(slow)
    for n, word in enumerate(words):
        name = vectors[n] if vectors else w.vector(Val(word.type, word.shape, word.scalar))
        if access.bytes < 4:
            name = w.op(f"zext <32 x i{8 * access.bytes}> {name} to {VEC32}")
        w.emit(f"store {VEC32} {name}, ptr {vector_offset_pointer(w, '%lane_values', 128 * n)}, align 64")
    slow_address = Val(address.type, address.shape, address.scalar, address.vector)
    call_rare(w, "store", Place(w, slow_address, access, store=True), site, w.exec.bits)
    w.emit(f"br label %{end}")
    w.label(end)


def _store_consecutive(
    w: FunctionWriter, place: Place, pointer: str, vectors: list[str], count: int, mask: str
) -> None:
    if place.runs:
        element = f"i{8 * place.size}"
        for first, lanes in place.runs:
            assert place.offsets is not None
            order = mask_literal(list(range(first, first + lanes)))
            vec = f"<{LANES} x {element}>"
            part = w.op(f"shufflevector {vec} {vectors[0]}, {vec} poison, <{lanes} x i32> {order}")
            at = vector_offset_pointer(w, pointer, place.size * place.offsets[first])
            if w.exec.bits == "-1":
                w.emit(f"store <{lanes} x {element}> {part}, ptr {at}, align {place.size}")
                continue
            inside = w.op(f"shufflevector {VECBOOL} {mask}, {VECBOOL} poison, <{lanes} x i32> {order}")
            masked_store(w, element, lanes, part, at, inside, place.size)
        return
    if count == 1:
        element = f"i{8 * min(place.size, 4)}"
        if w.exec.bits == "-1":
            w.emit(f"store <32 x {element}> {vectors[0]}, ptr {pointer}, align {min(place.size, 4)}")
        else:
            masked_store(w, element, 32, vectors[0], pointer, mask, min(place.size, 4))
        return
    total = 32 * count
    spread = mask_literal([n // count for n in range(total)])
    joined = vectors[0]
    width = 32
    # Join pairs of words, then pairs of pairs, so that one shuffle can interleave them.
    pieces = vectors
    while len(pieces) > 1:
        order = mask_literal(list(range(2 * width)))
        pieces = [
            w.op(
                f"shufflevector <{width} x i32> {pieces[n]}, <{width} x i32> {pieces[n + 1]}, <{2 * width} x i32> {order}"
            )
            for n in range(0, len(pieces), 2)
        ]
        width *= 2
    joined = pieces[0]
    order = mask_literal([32 * (n % count) + n // count for n in range(total)])
    mixed = w.op(f"shufflevector <{total} x i32> {joined}, <{total} x i32> poison, <{total} x i32> {order}")
    wide_mask = w.op(f"shufflevector {VECBOOL} {mask}, {VECBOOL} poison, <{total} x i32> {spread}")
    masked_store(w, "i32", total, mixed, pointer, wide_mask, 4)


# --- atomics --------------------------------------------------------------------------------------
ATOMIC_CODES = (
    *("add", "umin", "umax", "smin", "smax", "inc", "dec", "and", "or", "xor", "exch", "cas"),
    *("fadd", "fmin", "fmax", "fadd_f16x2", "fadd_bf16x2", "fmin_f16x2", "fmax_f16x2", "fmin_bf16x2", "fmax_bf16x2"),
)


def atomic_name(access: Access) -> str:
    """Operation and type of an atomic, as the shared function is called."""
    name = access.operation
    if name in ("fmin", "fmax") and access.type in ("f16x2", "bf16x2"):
        name = f"{name}_{access.type}"
    kind = {4: "i32", 8: "i64"}[access.bytes] if access.type in ("i32", "i64") else access.type
    return name if "x2" in name else f"{name}_{kind}"


def emit_atomic(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """Lane after lane, lowest first, each one atomically."""
    access: Access = op.attr
    place = Place(w, args[0], access, exact=True)
    tr.record_access(w, place.address, access)
    if args[0].shape.kind == UNSET_KIND:
        place.address = w.constant(place.kind, 0)
    words = access.bytes // 4
    for position, value in enumerate(args[1:]):
        for n, word in enumerate(w.words_of(value, words)):
            row = 128 * (position * 2 + n)
            w.emit(f"store {VEC32} {w.vector(word)}, ptr {vector_offset_pointer(w, '%lane_values', row)}, align 64")
    site = site_pointer(w, w.add_site()) if place.wide else "null"
    call_slow(w, f"ww_atomic_{atomic_name(access)}", place, site, w.exec.bits)
    parts = tuple(
        Val(
            "i32",
            VECTOR,
            vector=w.op(f"load {VEC32}, ptr {vector_offset_pointer(w, '%lane_values', 128 * n)}, align 64"),
        )
        for n in range(words)
    )
    return parts[0] if words == 1 else Val(op.type, VECTOR, parts=parts)


# --- constant banks -------------------------------------------------------------------------------
def emit_load_const(w: FunctionWriter, op: Op, offset: Val, shape: object) -> Val:
    """A constant load; bytes beyond what the launch provides read as 0."""
    bank, size = op.attr
    base = LAUNCH["constant_banks"] + 8 * bank
    count = parts_of(op.type) if op.type != "i64" else 1
    type = op.type if op.type not in ("i32x2", "i32x4") else "i32"
    if is_uniform(offset):
        llvm = {"f32": "i32", "f64": "i64"}.get(type, type)
        known = offset.shape.const
        pointer = w.op(f"load ptr, ptr {w.field('%launch', base)}, !invariant.load !1")
        values = []
        inside = ""
        if known is None or known + size > w.known_bank_bytes.get(bank, 0):
            limit = w.load_field("%launch", LAUNCH["constant_bytes"] + 8 * bank)
            place = w.op(f"zext i32 {w.scalar(offset)} to i64")
            inside = w.op(f"icmp ule i64 {w.op(f'add i64 {place}, {size}')}, {limit}")
            place = w.op(f"select i1 {inside}, i64 {place}, i64 0")
            zero = w.op(f"select i1 {inside}, ptr {pointer}, ptr @zeros")
            w.tables.setdefault("zeros", "@zeros")
            pointer = w.op(f"getelementptr i8, ptr {zero}, i64 {place}")
        else:
            pointer = w.field(pointer, known)
        for n in range(count):
            at = vector_offset_pointer(w, pointer, 4 * n)
            align = min(size, 4)
            name = w.op(f"load {llvm}, ptr {at}, align {align}, !invariant.load !1")
            if llvm != type:
                name = w.op(f"bitcast {llvm} {name} to {'float' if type == 'f32' else 'double'}")
            values.append(Val(type, Shape(SCALAR_KIND), scalar=name))
        return values[0] if count == 1 else Val(op.type, VECTOR, parts=tuple(values))
    w.declare("ww_load_constant", "void", "ptr, ptr, ptr, i32, i32, i32")
    w.emit(f"store {VEC32} {w.vector(offset)}, ptr %lane_addresses, align 64")
    w.emit(
        f"call void @ww_load_constant(ptr %launch, ptr %lane_addresses, ptr %lane_values, i32 {w.exec.bits}, i32 {bank}, i32 {size})"
    )
    loaded = [
        w.op(f"load {VEC32}, ptr {vector_offset_pointer(w, '%lane_values', 128 * n)}, align 64")
        for n in range(max(1, size // 4))
    ]
    if op.type in ("i8", "i16"):
        return Val(op.type, VECTOR, vector=w.op(f"trunc {VEC32} {loaded[0]} to {vector_type(op.type)}"))
    if op.type == "f32":
        return Val("f32", VECTOR, vector=w.op(f"bitcast {VEC32} {loaded[0]} to {vector_type('f32')}"))
    parts = tuple(Val("i32", VECTOR, vector=n) for n in loaded)
    if op.type == "f64":
        wide = w.vector(Val("i64", VECTOR, parts=parts))
        return Val("f64", VECTOR, vector=w.op(f"bitcast {VEC64} {wide} to {vector_type('f64')}"))
    return parts[0] if len(parts) == 1 else Val(op.type, VECTOR, parts=parts)
