"""LLVM IR of loads, stores, atomics, launch values and control flow.

LLVM's back end cannot select atomics on global memory that return the old value.  It does select a typed store with a
four-channel register for the data and one for the address, so atomics are written as such stores: the number of their
target encodes the operation, which :mod:`finish` substitutes.  The old value returns through a buffer with one word per
thread.
"""

from __future__ import annotations

from warpwright.isa.bank0 import CONSTANT_WINDOW
from warpwright.isa.ops import Access, Op
from warpwright.isa.r600.compiler.writer import (
    GLOBAL,
    IR_TYPES,
    PRIVATE,
    RETURNED,
    SHARED,
    Writer,
    operation,
    refuse,
)
from warpwright.isa.r600.meaning_memory import RETURNS_AT

FRONT_END_MAJOR = 6
"""The compute capability whose meanings of PTX instructions are compiled."""
SHARED_HIGH, LOCAL_HIGH = 0x7E00, 0x7E01
"""Upper words of generic addresses of shared and local memory (``engine/abi.py``)."""
GLOBAL_ATOMICS = ("add", "exch", "cas", "umin", "umax", "smin", "smax", "and", "or", "xor", "inc", "dec")
"""Atomic operation by the number of the target that represents it."""
LDS_ATOMICS = {"exch": "xchg", "smin": "min", "smax": "max", "inc": "uinc_wrap", "dec": "udec_wrap"}


# --- launch values ---------------------------------------------------------------------------------------------
def linear_thread(w: Writer) -> str:
    """The thread's number in its block."""
    x, y, z = (w.call("i32", f"llvm.r600.read.tidig.{axis}") for axis in "xyz")
    nx, ny = (w.call("i32", f"llvm.r600.read.local.size.{axis}") for axis in "xy")
    rows = w.let(f"add i32 {w.let(f'mul i32 {z}, {ny}')}, {y}")
    return w.let(f"add i32 {w.let(f'mul i32 {rows}, {nx}')}, {x}")


def lane(w: Writer) -> str:
    return w.let(f"and i32 {linear_thread(w)}, 31")


INTRINSICS = {"tid": "tidig", "ctaid": "tgid", "ntid": "local.size", "nctaid": "ngroups"}
WINDOWS = {
    **{"shared_window_lo": 0, "shared_window_hi": SHARED_HIGH, "local_window_lo": 0, "local_window_hi": LOCAL_HIGH}
}


@operation("special")
def special(w: Writer, op: Op) -> str:
    name: str = op.attr
    stem, _, axis = name.partition(".")
    if stem in INTRINSICS:
        return w.call("i32", f"llvm.r600.read.{INTRINSICS[stem]}.{axis}")
    if name in WINDOWS:
        return str(WINDOWS[name])
    if name == "laneid":
        return lane(w)
    if name == "warpid":
        return w.let(f"lshr i32 {linear_thread(w)}, 5")
    if name.startswith("lanemask_"):
        return _lane_mask(w, name.removeprefix("lanemask_"))
    if name == "barrier_result":
        return w.let(f"load i32, ptr addrspace({PRIVATE}) %barrier_result")
    raise refuse(f"special register {name}")


def _lane_mask(w: Writer, relation: str) -> str:
    own = w.let(f"shl i32 1, {lane(w)}")
    if relation == "eq":
        return own
    below = w.let(f"add i32 {own}, -1")
    if relation == "lt":
        return below
    through = w.let(f"or i32 {own}, {below}")
    if relation == "le":
        return through
    return w.let(f"xor i32 {below if relation == 'ge' else through}, -1")


@operation("load_const")
def load_const(w: Writer, op: Op, address: int) -> str:
    bank, size = op.attr
    at = w.constant(address)
    if bank == 3:
        place = w.let(f"add i32 {w.values[address]}, {w.constants_address & 0xFFFFFFFF}")
        return _load(w, op.type, GLOBAL, place, "load")
    if bank != 0 or at is None:
        raise refuse("constants that are addressed by registers, other than __constant__ variables")
    if at == CONSTANT_WINDOW[FRONT_END_MAJOR] and size == 8:
        return str(w.constants_address)
    offset = at - w.parameter_base
    if offset < 0:
        raise refuse(f"the launch value at byte {at:#x} of constant bank 0")
    words = [f"%parameter{(offset + n) // 4}" for n in range(0, max(size, 4), 4)]
    if size < 4:
        moved = w.let(f"lshr i32 {words[0]}, {offset % 4 * 8}")
        return w.let(f"trunc i32 {moved} to {op.type}")
    if size == 4:
        return words[0]
    if op.type == "i64":
        high = w.let(f"shl i64 {w.let(f'zext i32 {words[1]} to i64')}, 32")
        return w.let(f"or i64 {high}, {w.let(f'zext i32 {words[0]} to i64')}")
    found = "poison"
    for n, word in enumerate(words):
        found = w.let(f"insertelement {IR_TYPES[op.type]} {found}, i32 {word}, i32 {n}")
    return found


# --- loads and stores --------------------------------------------------------------------------------------------
SPACES = {"global": GLOBAL, "shared": SHARED, "local": PRIVATE}


def pointer(w: Writer, space: int, address: str) -> str:
    """A pointer to a byte address of 32 bits."""
    if space == PRIVATE:
        base = f"ptr addrspace({PRIVATE}) %local"
        return f"ptr addrspace({PRIVATE}) {w.let(f'getelementptr i8, {base}, i32 {address}')}"
    return f"ptr addrspace({space}) {w.let(f'inttoptr i32 {address} to ptr addrspace({space})')}"


def _align(type: str) -> int:
    return {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "i32x2": 8, "i32x4": 16}[type]


def _load(w: Writer, type: str, space: int, address: str, how: str) -> str:
    # Local memory is in registers: data stored in parts is read in parts.
    align = min(_align(type), 4) if space == PRIVATE else _align(type)
    return w.let(f"{how} {IR_TYPES[type]}, {pointer(w, space, address)}, align {align}")


def _spaces(w: Writer, access: Access) -> list[int]:
    """Spaces that an address may be in, the most likely last."""
    if access.space != "generic":
        if access.space not in SPACES:
            raise refuse(f"accesses to {access.space} memory")
        return [SPACES[access.space]]
    return [*([SHARED] if w.shared_pointers else []), *([PRIVATE] if w.local_pointers else []), GLOBAL]


def _by_space(w: Writer, access: Access, address: int) -> tuple[str, list[tuple[int, str]], str]:
    """Branch on an address's space: returns its lower word, a block for the access to each space, and the block after
    them."""
    low = w.word(w.values[address], w.type_of(address))
    spaces = _spaces(w, access)
    if len(spaces) == 1:
        return low, [(spaces[0], "")], ""
    high = w.word(w.let(f"lshr i64 {w.values[address]}, 32"), "i64")
    after = w.new_label("accessed")
    blocks = []
    for space in spaces:
        label = w.new_label("space")
        blocks.append((space, label))
        if space == GLOBAL:
            w.jump(label)
            break
        following = w.new_label("other")
        wanted = SHARED_HIGH if space == SHARED else LOCAL_HIGH
        w.branch(w.let(f"icmp eq i32 {high}, {wanted}"), label, following)
        w.label(following)
    return low, blocks, after


@operation("load")
def load(w: Writer, op: Op, address: int, *condition: int) -> str:
    if condition:
        raise refuse("loads of some lanes of an instruction")
    access: Access = op.attr
    how = "load volatile" if access.strong else "load"
    low, blocks, after = _by_space(w, access, address)
    if not after:
        return _load(w, op.type, blocks[0][0], low, how)
    found = []
    for space, label in blocks:
        w.label(label)
        found.append(f'[ {_load(w, op.type, space, low, how)}, %"{label}" ]')
        w.jump(after)
    w.label(after)
    return w.let(f"phi {IR_TYPES[op.type]} {', '.join(found)}")


@operation("store")
def store(w: Writer, op: Op, address: int, value: int) -> None:
    access: Access = op.attr
    how = "store volatile" if access.strong else "store"
    low, blocks, after = _by_space(w, access, address)
    type = w.ops[value].type
    for space, label in blocks:
        if after:
            w.label(label)
        align = min(_align(type), 4) if space == PRIVATE else _align(type)
        w.emit(f"{how} {w.typed(value)}, {pointer(w, space, low)}, align {align}")
        if after:
            w.jump(after)
    if after:
        w.label(after)


# --- atomics -----------------------------------------------------------------------------------------------------
@operation("atomic")
def atomic(w: Writer, op: Op, address: int, operand: int, *compare: int) -> str:
    access: Access = op.attr
    if access.bytes != 4 or access.type not in ("i32", "f32"):
        raise refuse(f"atomics on {8 * access.bytes} bits ({access.type})")
    if access.space == "generic" and (w.shared_pointers or w.local_pointers):
        raise refuse("atomics on generic addresses that may be of shared memory")
    low = w.word(w.values[address], w.type_of(address))
    space = SHARED if access.space == "shared" else GLOBAL
    value = _bits(w, operand)
    if access.type == "f32" and access.operation != "exch":
        if access.operation not in ("fadd", "fadd_ftz"):
            raise refuse(f"atomic {access.operation} of floats")
        old = _float_sum(w, space, low, w.let(f"bitcast i32 {value} to float"))
    else:
        old = _changed(w, space, low, access.operation, value, _bits(w, compare[0]) if compare else "")
    return w.let(f"bitcast i32 {old} to float") if op.type == "f32" else old


def _bits(w: Writer, position: int) -> str:
    """A 32-bit value as an integer, because atomics on floats take words as well as floats."""
    return w.let(f"bitcast {w.typed(position)} to i32") if w.type_of(position) == "float" else w.values[position]


def _changed(w: Writer, space: int, low: str, name: str, value: str, compare: str) -> str:
    """The new value of a word after an integer operation."""
    if space == SHARED:
        at = pointer(w, SHARED, low)
        if name == "cas":
            pair = w.let(f"cmpxchg {at}, i32 {compare}, i32 {value} seq_cst seq_cst")
            return w.let(f"extractvalue {{i32, i1}} {pair}, 0")
        return w.let(f"atomicrmw {LDS_ATOMICS.get(name, name)} {at}, i32 {value} seq_cst")
    if name not in GLOBAL_ATOMICS:
        raise refuse(f"atomic {name}")
    slot = w.let("load i32, ptr addrspace(5) %return_slot")
    data = [value, slot, compare or "0", compare or "0"]
    found = "poison"
    for n, word in enumerate(data):
        found = w.let(f"insertelement <4 x i32> {found}, i32 {word}, i32 {n}")
    index = w.let(f"insertelement <4 x i32> poison, i32 {w.let(f'lshr i32 {low}, 2')}, i32 0")
    arguments = (f"<4 x i32> {found}", f"<4 x i32> {index}", f"i32 {GLOBAL_ATOMICS.index(name)}")
    w.call("void", "llvm.r600.rat.store.typed", *arguments)
    place = w.let(f"or disjoint i32 {w.let(f'shl i32 {slot}, 2')}, {RETURNS_AT}")
    return w.let(f"load i32, {pointer(w, RETURNED, place)}")


def _float_sum(w: Writer, space: int, low: str, value: str) -> str:
    """The old word of a float sum, by a compare-and-swap loop: the chip's atomics are integer only."""
    before, again, done = (w.new_label(stem) for stem in ("before", "try", "summed"))
    how = pointer(w, space, low)
    first = w.let(f"load volatile i32, {how}, align 4")
    w.jump(before)
    w.label(before)
    w.jump(again)
    w.label(again)
    seen, found = w.new("seen"), w.new("found")
    w.emit(f'{seen} = phi i32 [ {first}, %"{before}" ], [ {found}, %"{again}" ]')
    total = w.let(f"fadd float {w.let(f'bitcast i32 {seen} to float')}, {value}")
    old = _changed(w, space, low, "cas", w.let(f"bitcast float {total} to i32"), seen)
    w.emit(f"{found} = or i32 {old}, 0")
    w.branch(w.let(f"icmp eq i32 {found}, {seen}"), done, again)
    w.label(done)
    return found


@operation("fence")
def fence(w: Writer, op: Op) -> None:
    """A compiler fence: nothing moves across it, and the chip keeps a thread's accesses in order."""
    w.call("void", "ww.fence")


# --- control -----------------------------------------------------------------------------------------------------
@operation("barrier")
def barrier(w: Writer, op: Op, number: int, count: int) -> None:
    if op.attr != "sync" or w.constant(count) != 0 or w.constant(number) is None:
        raise refuse("barriers for some threads of a block: the chip has one barrier for all of them")
    w.call("void", "llvm.r600.group.barrier", attributes="convergent")


def _refused(why: str, *names: str) -> None:
    def refused(w: Writer, op: Op, *args: int) -> None:
        raise refuse(why)

    operation(*names)(refused)


_refused("clocks of 64 bits", "special64")
_refused("matrix products need compute capability 7.0", "mma", "wgmma")
_refused("textures have no compiler yet", "texture")
_refused("functions of the driver (printf, malloc, assert)", "service")
_refused("asynchronous copies need compute capability 8.0", "async_commit", "bulk")
_refused("reductions of a warp need compute capability 8.0", "redux")
_refused("trap: the chip cannot report one", "trap")


@operation("exit")
def exit_(w: Writer, op: Op, *condition: int) -> None:
    """The kernel's end; :mod:`from_ptx` generates the branch around it."""
    w.jump("end")
