"""Address checks of memory accesses: one for a whole warp if the distances between its lanes are known.

Each access site of global or generic memory keeps the last allocation it hit (first byte, number of valid starting
places) in its thread's cache; an access that stays inside goes straight to memory.  Everything else, including partial
warps at an array's end, calls a shared function that checks every lane exactly, then refills the cache or records the
fault.  The check rotates the offset by the access size, so that a misaligned address fails it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from warpwright.engine.abi import WARP
from warpwright.engine.jit import slow_path
from warpwright.engine.jit.addressing import (
    Place,
    addresses_vector,
    shift_of,
)
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Masks, Val
from warpwright.engine.jit.load_windows import AccessGroup, Sum, Window
from warpwright.engine.jit.shapes import SCALAR_KIND, VECTOR_KIND, Shape

SITE_BYTES = 16
MOST_KEPT = 8
"""Maximum number of registers that a slow path appears to read."""
GROUP_LIMIT_BYTES = 1024
"""Maximum span in bytes of loads from one base that share a check, not counting multiples of a stride."""
GROUP_LIMIT_STRIDES = 1 << 10
STRIDE_LIMIT_BYTES = 1 << 48
"""Maximum stride for which a group's check succeeds: multiples of shorter strides cannot wrap around the address
space."""
MOST_ROOMS = 64
"""Number of copies of windows in the scratch memory of a warp function."""
STEP_LIMIT = 1 << 30
SPACES = {"global": 0, "generic": 1, "shared": 2, "local": 3}


def rotated(w: FunctionWriter, type: str, value: str, size: int) -> str:
    """Offset in units of the access size; misaligned offsets become huge."""
    if size == 1:
        return value
    vector = type.startswith("<")
    stem = "llvm.fshr." + (f"v{w.lanes}" + type.split(" x ")[1][:-1] if vector else type)
    amount = str(shift_of(size))
    if vector:
        element = type.split(" x ")[1][:-1]
        amount = w.literal_vector(element, (int(amount),) * w.lanes)
    w.declared[stem] = f"declare {type} @{stem}({type}, {type}, {type})"
    return w.op(f"call {type} @{stem}({type} {value}, {type} {value}, {type} {amount})")


def shared_limit(w: FunctionWriter, extent: int, size: int) -> str:
    """Number of valid starting positions for an extent in shared memory (computed once, at entry)."""
    return w.shared_limits.setdefault((extent, size), f"%shared_limit_{extent}_{size}")


def local_limit(w: FunctionWriter, size: int) -> str:
    return w.local_limits.setdefault(size, f"%local_limit_{size}")


def site_pointer(w: FunctionWriter, site: int) -> str:
    return w.op(f"getelementptr i8, ptr %sites, i64 {SITE_BYTES * site}")


def instruction_address(w: FunctionWriter) -> int:
    return w.program.instructions[w.index].address


def call_slow(w: FunctionWriter, name: str, place: Place, site: str, exec_bits: str, extra: str = "") -> str:
    """The exact path: lane by lane, in a shared function; branches to 'fault' if a lane faults."""
    w.emit(f"store {w.vec64} {addresses_vector(w, place)}, ptr %lane_addresses, align 64")
    w.declare(name, "i1", f"ptr, ptr, ptr, ptr, {w.mask_type}, i32, i32, i32, i64" + (", i32" if extra else ""))
    fault = w.op(
        f"call i1 @{name}(ptr %warp, ptr {site}, ptr %lane_addresses, ptr %lane_values, {w.mask_type} {exec_bits}, "
        f"i32 {place.size}, i32 {SPACES[place.access.space]}, i32 {place.extent}, i64 {instruction_address(w)}{extra})"
    )
    after = w.new_label("served")
    w.emit(f"br i1 {fault}, label %fault, label %{after}, !prof !2")
    w.label(after)
    return after


def describe(w: FunctionWriter, place: Place, site: int, offsets: list[int] | None) -> int:
    """Index of the access in the slow path's table; ``offsets`` from :meth:`Place.start`, or given addresses."""
    lanes = "null"
    if offsets is not None:
        lanes = w.table(("offsets", tuple(offsets)), "i32", offsets, w.lanes)
    extent = str(place.extent) if place.group is None else f"GROUPEXTENT{place.group.number}_"
    cache = SITE_BYTES * site if site >= 0 else -1
    w.accesses.append(
        slow_path.Entry(
            *(instruction_address(w), lanes, place.size, SPACES[place.access.space]),
            *(extent, cache, slow_path.scratch_of(w.lanes).window_at),
        )
    )
    return len(w.accesses) - 1


def note_exec(w: FunctionWriter) -> None:
    """Pass the executing lanes to slow paths."""
    if w.noted_exec != w.exec.bits:
        w.noted_exec = w.exec.bits
        w.emit(f"store {w.mask_type} {w.exec.bits}, ptr %noted_exec")


def lane_offsets(place: Place) -> list[int]:
    """Bytes from the lowest address to each lane's address."""
    return [p - place.low for p in place.pattern or (0,) * place.w.lanes]


def window_of_group(w: FunctionWriter, place: Place) -> str:
    """Pointer to the bytes of a load from a group: in a window that an earlier load requested, if it is inside one."""
    name = w.scalar(place.address)
    sum_ = w.sums.get(name, Sum(name))
    start = sum_.step + place.low
    site, fine, host = check_group(w, place)
    assert place.group is not None
    key = (place.group.number, w.exec.bits)
    window = None if place.access.strong else w.windows.get(key)
    if window is None or not _joins(w, window, start, sum_.times, place.extent):
        pointer, stride = checked_window(w, place, site, fine, host(), sum_.stride)
        w.windows[key] = Window({0: pointer}, stride, start, sum_.times, len(w.accesses) - 1)
        return pointer
    before = w.accesses[window.last]
    scratch = slow_path.scratch_of(w.lanes)
    if before.room == scratch.window_at:
        # The copy must remain valid while other windows are served.
        window.room = before.room = scratch.bytes + slow_path.WINDOW_BYTES * w.rooms
        w.rooms += window.rooms
        w.most_rooms = max(w.most_rooms, w.rooms)
    before.after = window.last = describe(w, place, site, lane_offsets(place))
    entry = w.accesses[window.last]
    entry.times = sum_.times - window.times
    entry.room, entry.at = window.room + slow_path.WINDOW_BYTES * entry.times, start - window.start
    return w.field(_pointer_at(w, window, entry.times), entry.at)


def _joins(w: FunctionWriter, window: Window, start: int, times: int, extent: int) -> bool:
    """Whether a load is inside a window, or inside one of those that follow it a stride apart, and there is room for
    their copies."""
    inside = 0 <= start - window.start <= slow_path.WINDOW_BYTES - extent and 0 <= times - window.times < window.rooms
    return inside and (window.room > 0 or w.rooms + window.rooms <= MOST_ROOMS)


def _pointer_at(w: FunctionWriter, window: Window, times: int) -> str:
    """Pointer to a window some strides after the first."""
    known = window.pointers
    if times not in known:
        before = _earlier(known, times)
        distance = window.stride if times - before == 1 else w.op(f"mul i64 {window.stride}, {times - before}")
        known[times] = w.op(f"getelementptr i8, ptr {known[before]}, i64 {distance}")
    return known[times]


def _earlier(known: Mapping[int, str], times: int) -> int:
    """Number of strides from the first pointer to the one from which the pointer ``times`` strides after it is
    computed.

    x86-64 addressing adds one, two, four or eight times a register to an address at no cost, so most pointers need no
    instruction if they are such a distance away from one of every three.
    """
    for scales, spacing in (((1, 2, 4, 8), 3), ((3, 6, 1, 2, 4, 8), 1)):
        for scale in scales:
            if times - scale in known and (times - scale) % spacing == 0:
                return times - scale
    return 0


def checked_window(
    w: FunctionWriter, place: Place, site: int, fine: str, host: str, stride: str = ""
) -> tuple[str, str]:
    """Pointer to the bytes of a load: in memory itself if the access is ``fine``, else in a copy (zeros after a fault).

    With a ``stride`` (an LLVM value), bytes at multiples of it may be read as well, at multiples of the returned
    stride: loads described as further accesses of this one (``slow_path.ACCESS``).
    """
    number = describe(w, place, site, lane_offsets(place))
    note_exec(w)
    if stride:
        w.store_field("%needs", slow_path.NEEDS["stride"][0], stride)
    w.unsettled = True
    if w.calls.keeps_registers:
        width = w.op(f"zext i1 {fine} to i32")
        if not stride:
            return w.op(slow_path.checked_window(host, width, number)), ""
        both = w.op(slow_path.checked_windows(host, width, stride, number))
        return w.op(f"extractvalue {{ ptr, i64 }} {both}, 0"), w.op(f"extractvalue {{ ptr, i64 }} {both}, 1")
    before, join, slow = w.new_label("checked"), w.new_label("window"), w.new_label("slow")
    w.emit(f"br label %{before}")
    w.label(before)
    w.emit(f"br i1 {fine}, label %{join}, label %{slow}, !prof !0")
    w.label(slow)
    w.declare("ww_served_window", "i64", "ptr, i64, i32")
    given = w.op(f"ptrtoint ptr {host} to i64")
    served = w.op(f"inttoptr i64 {w.op(slow_path.ordinary_call('window', given, number))} to ptr")
    w.emit(f"br label %{join}")
    w.label(join)
    pointer = w.op(f"phi ptr [ {host}, %{before} ], [ {served}, %{slow} ]")
    if stride:
        stride = w.op(f"phi i64 [ {stride}, %{before} ], [ {slow_path.WINDOW_BYTES}, %{slow} ]")
    return pointer, stride


def settle_faults(w: FunctionWriter) -> None:
    """Branch to 'fault' if a load of this block faulted: before any visible effect, and at the block's end."""
    if not w.unsettled:
        return
    w.unsettled = False
    kind = w.load_field("%warp", WARP["fault_kind"])
    go = w.new_label("settled")
    w.emit(f"br i1 {w.op(f'icmp ne i64 {kind}, 0')}, label %fault, label %{go}, !prof !2")
    w.label(go)


def call_slow_path(w: FunctionWriter, name: str, place: Place, site: int) -> tuple[str, str]:
    """(address of the served values, label after the call); branches to 'fault' if a lane faults."""
    if place.scattered or place.address.shape.kind == VECTOR_KIND:
        w.emit(f"store {w.vec64} {addresses_vector(w, place)}, ptr %lane_addresses, align 64")
        start, offsets = "0", None
    else:
        start = place.start()
        if not place.wide:
            start = w.op(f"zext i32 {start} to i64")
        offsets = lane_offsets(place)
    number = describe(w, place, site, offsets)
    if w.noted_exec != w.exec.bits:
        note_exec(w)
        w.noted_exec = ""  # only on this path
    if w.calls.keeps_registers:
        served = w.op(slow_path.call(name, start, number, _kept(w)))
    else:
        w.declare(f"ww_served_{name}", "i64", "ptr, i64, i32")
        served = w.op(slow_path.ordinary_call(name, start, number))
    fault = w.op(f"icmp eq i64 {served}, 0")
    after = w.new_label("served")
    w.emit(f"br i1 {fault}, label %fault, label %{after}, !prof !2")
    w.label(after)
    return w.op(f"inttoptr i64 {served} to ptr"), after


def _kept(w: FunctionWriter) -> list[str]:
    """Results since the last access, as operands as wide as a register."""
    width = w.calls.lanes
    if not width or len(w.fresh) * w.lanes // width > MOST_KEPT:
        return []
    kept = []
    for name in w.fresh:
        for first in range(0, w.lanes, width):
            lanes = ", ".join(f"i32 {n}" for n in range(first, first + width))
            part = w.op(f"shufflevector {w.vec32} {name}, {w.vec32} poison, <{width} x i32> <{lanes}>")
            kept.append(f"<{width} x i32> {part}")
    return kept


def host_pointer(w: FunctionWriter, root: str, step: int, shared: bool = False) -> str:
    """Host address of root + step bytes; the root's address is computed once per block.

    In shared memory the sum must be known to be in range: as a signed number, the root then is the sum minus the step.
    """
    key = ("host", root, shared)
    known = w.numbered.get(key)
    if known is None:
        if shared and root.lstrip("-").isdigit():
            name = w.field("%shared_base", int(root))
        elif shared:
            name = w.op(f"getelementptr i8, ptr %shared_base, i64 {w.op(f'sext i32 {root} to i64')}")
        else:
            name = w.op(f"inttoptr i64 {w.op(f'add i64 {root}, %host_minus_device')} to ptr")
        known = w.numbered[key] = Val("i64", Shape(SCALAR_KIND), scalar=name)
    return w.field(known.scalar, step)


def check(w: FunctionWriter, place: Place, site: str) -> tuple[str, str]:
    """(i1 whether the whole extent is valid, host pointer of its start) for addresses with a scalar part."""
    if place.proven:
        root, step = w.offsets_of.get(base := w.scalar(place.address), (base, 0))
        if abs(step) >= STEP_LIMIT:
            root, step = base, 0
        return "true", host_pointer(w, root, step + place.low, shared=True)
    start = place.start()
    if place.wide:
        first = w.op(f"load i64, ptr {site}")
        count = w.op(f"load i64, ptr {w.field(site, 8)}")
        offset = w.op(f"sub i64 {start}, {first}")
        fine = w.op(f"icmp ult i64 {rotated(w, 'i64', offset, place.size)}, {count}")
        host = w.op(f"inttoptr i64 {w.op(f'add i64 {start}, %host_minus_device')} to ptr")
        return fine, host
    if place.access.space == "shared":
        limit = shared_limit(w, place.extent, place.size)
        fine = w.op(f"icmp ult i32 {rotated(w, 'i32', start, place.size)}, {limit}")
        return fine, w.op(f"getelementptr i8, ptr %shared_base, i64 {w.op(f'zext i32 {start} to i64')}")
    limit = local_limit(w, place.size)
    fine = w.op(f"icmp ult i32 {rotated(w, 'i32', start, place.size)}, {limit}")
    word = w.op(f"lshr i32 {start}, 2")
    row = w.op(f"shl i64 {w.op(f'zext i32 {word} to i64')}, {shift_of(w.row_bytes)}")
    return fine, w.op(f"getelementptr i8, ptr %local_base, i64 {row}")


def check_group(w: FunctionWriter, place: Place) -> tuple[int, str, Callable[[], str]]:
    """(allocation cache, whether all loads of this block from the same base are valid, writer of this one's host
    pointer).

    Addresses of a group are ``base + times * stride + step`` with constant steps in ``low .. high`` and times in
    ``least .. most``.  A range that begins and ends in an allocation is entirely inside it, so that only two positions
    are checked, the first and the last multiple of the stride.  If a group's check fails, each of its loads takes the
    exact path separately.
    """
    name = w.scalar(place.address)
    sum_ = w.sums.get(name, Sum(name))
    low = sum_.step + place.low
    high = low + place.extent
    # Under a guard, the whole group may be out of range: only strides that all lanes execute are checked together.
    lanes = w.exec.bits if sum_.stride else ""
    key = (w.block, sum_.root, sum_.stride, lanes, place.size, low % place.size)
    group = w.open_groups.get(key)
    if (
        group is None
        or max(high, group.high) - min(low, group.low) > GROUP_LIMIT_BYTES
        or sum_.times - group.least > GROUP_LIMIT_STRIDES
    ):
        group = w.open_groups[key] = AccessGroup(len(w.groups), w.block, sum_.stride, low, high, sum_.times, sum_.times)
        w.groups.append(group)
        group.site = w.add_site()
        pointer = site_pointer(w, group.site)
        first = w.op(f"load i64, ptr {pointer}")
        count = w.op(f"load i64, ptr {w.field(pointer, 8)}")

        def fits(base: str) -> str:
            offset = w.op(f"sub i64 {w.op(f'add i64 {base}, GROUPLOW{group.number}_')}, {first}")
            return w.op(f"icmp ult i64 {rotated(w, 'i64', offset, place.size)}, {count}")

        if not sum_.stride:
            group.fine = fits(sum_.root)
        else:
            ends = [
                fits(w.op(f"add i64 {sum_.root}, {w.op(f'mul i64 {sum_.stride}, GROUP{end}{group.number}_')}"))
                for end in ("LEAST", "MOST")
            ]
            shifted = rotated(w, "i64", w.op(f"add i64 {sum_.stride}, {STRIDE_LIMIT_BYTES}"), place.size)
            short = w.op(f"icmp ult i64 {shifted}, {2 * STRIDE_LIMIT_BYTES // place.size}")
            group.fine = w.op(f"and i1 {w.op(f'and i1 {ends[0]}, {ends[1]}')}, {short}")
    group.low, group.high = min(low, group.low), max(high, group.high)
    group.least, group.most = min(sum_.times, group.least), max(sum_.times, group.most)
    place.group = group
    root, step = (name, 0) if sum_.stride else (sum_.root, sum_.step)
    return group.site, group.fine, lambda: host_pointer(w, root, step + place.low)


def finish_groups(w: FunctionWriter, text: str) -> str:
    """Insert the extents of all groups of loads into a module's text."""
    values = {
        "LOW": lambda g: g.low,
        "EXTENT": lambda g: g.high - g.low,
        "LEAST": lambda g: g.least,
        "MOST": lambda g: g.most,
    }
    return re.sub(
        r"GROUP(LOW|EXTENT|LEAST|MOST)(\d+)_", lambda m: str(values[m.group(1)](w.groups[int(m.group(2))])), text
    )


def check_lanes(w: FunctionWriter, place: Place, site: str, exec_: Masks) -> tuple[str, str]:
    """(i1 whether every executing lane is valid, <32 x ptr>) for scattered addresses."""
    vector = w.vector(place.address)
    if place.wide:
        first = w.splat("i64", w.op(f"load i64, ptr {site}"))
        # The cache counts positions for this site's extent, which may be longer than one lane's access.
        count = w.splat("i64", w.op(f"load i64, ptr {w.field(site, 8)}"))
        offset = w.op(f"sub {w.vec64} {vector}, {first}")
        inside = w.op(f"icmp ult {w.vec64} {rotated(w, w.vec64, offset, place.size)}, {count}")
        base = w.splat("i64", "%host_minus_device")
        pointers = w.op(f"inttoptr {w.vec64} {w.op(f'add {w.vec64} {vector}, {base}')} to {w.vecptr}")
    elif place.proven:
        return "true", w.op(f"getelementptr i8, ptr %shared_base, {w.vec32} {vector}")
    else:
        local = place.access.space == "local"
        limit = local_limit(w, place.size) if local else shared_limit(w, place.size, place.size)
        inside = w.op(f"icmp ult {w.vec32} {rotated(w, w.vec32, vector, place.size)}, {w.splat('i32', limit)}")
        if local:
            rows = w.op(f"shl {w.vec32} {vector}, {w.literal_vector('i32', (shift_of(w.lanes),) * w.lanes)}")
            rows = w.op(f"and {w.vec32} {rows}, {w.literal_vector('i32', ((1 << 32) - w.row_bytes,) * w.lanes)}")
            vector = w.op(f"or {w.vec32} {rows}, {w.literal_vector('i32', [4 * n for n in range(w.lanes)])}")
        base_name = "%local_base" if local else "%shared_base"
        pointers = w.op(f"getelementptr i8, ptr {base_name}, {w.vec32} {vector}")
    outside = w.op(f"xor {w.vecbool} {inside}, {w.literal_vector('i1', (1,) * w.lanes)}")
    zero = w.literal_vector("i1", (0,) * w.lanes)
    wrong = w.op(f"select {w.vecbool} {w.mask_vector(exec_)}, {w.vecbool} {outside}, {w.vecbool} {zero}")
    return w.op(f"icmp eq {w.mask_type} {w.bits_of(wrong)}, 0"), pointers
