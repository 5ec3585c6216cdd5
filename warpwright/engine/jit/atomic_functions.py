"""Functions for atomics, which process one lane at a time; generated on demand (``shared_code.py``)."""

from __future__ import annotations

from warpwright.engine.jit.arithmetic import emit_pure
from warpwright.engine.jit.exact_accesses import access_arguments, lane_loop
from warpwright.engine.jit.float_formats import INTEGER_OF
from warpwright.engine.jit.llvm_snippets import each_lane
from warpwright.engine.jit.llvm_text import Text, Val
from warpwright.engine.jit.shapes import SCALAR_KIND, Shape
from warpwright.engine.jit.wave import LLVM_TYPE, Wave
from warpwright.isa import mbarrier as mb
from warpwright.isa.ops import Op

SCALAR = Shape(SCALAR_KIND)
WORDS = {"i64": 2, "f64": 2, "i128": 4}
"""Number of 32-bit words of types that have more than one."""


def _floating(t: Text, name: str, type: str, old: str, operand: str) -> str:
    """New bits of a floating-point atomic on one value of ``type``."""
    integer = INTEGER_OF[type]

    def value(bits: str) -> Val:
        if LLVM_TYPE[type] == integer:
            return Val(type, SCALAR, scalar=bits)
        return Val(type, SCALAR, scalar=t.op(f"bitcast {integer} {bits} to {LLVM_TYPE[type]}"))

    flushes, quiets = name == "fadd_ftz", name == "fadd_quiet"
    name = "fadd" if flushes or quiets else name
    attr = "rn" if name == "fadd" else "number"
    inputs = [value(old), value(operand)]
    if flushes:
        inputs = [emit_pure(t, Op("ftz", type, (0,)), [x], SCALAR) for x in inputs]
    result = emit_pure(t, Op(name, type, (0, 1), attr), inputs, SCALAR)
    if name == "fadd" or type in ("f16", "bf16"):
        result = emit_pure(t, Op("canonical_nan", type, (0,)), [result], SCALAR)
    if flushes:
        result = emit_pure(t, Op("ftz", type, (0,)), [result], SCALAR)
    if name == "fadd" and type == "f64":
        # A NaN in the operand, or else in memory, is propagated; for additions, the one in memory takes precedence and is made quiet.
        for x in reversed(inputs) if quiets else inputs:
            single = t.scalar(x)
            nan = t.op(f"fcmp uno double {single}, {single}")
            if quiets:
                bits = t.op(f"or i64 {t.op(f'bitcast double {single} to i64')}, {1 << 51}")
                single = t.op(f"bitcast i64 {bits} to double")
            result = Val(type, SCALAR, scalar=t.op(f"select i1 {nan}, double {single}, double {t.scalar(result)}"))
    if LLVM_TYPE[type] == integer:
        return t.scalar(result)
    return t.op(f"bitcast {LLVM_TYPE[type]} {t.scalar(result)} to {integer}")


DIRECT = {
    "add": "add",
    "umin": "umin",
    "umax": "umax",
    "smin": "min",
    "smax": "max",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "exch": "xchg",
}
"""LLVM's names of the operations that ``atomicrmw`` supports."""
HALVES = ("cas_half", "fadd_half")
"""Operations on one half of a word, which the third operand selects."""
THREE_OPERANDS = (*HALVES, "mskor")


def atomic_function(name: str, wave: Wave) -> tuple[str, dict[str, str]]:
    """``ww_atomic_<operation>_<type>``: old values replace the operands in ``%values``.

    ``ww_at_…`` does the same given the lanes' host pointers, ``ww_own_…`` on words that no other thread can change
    meanwhile.
    """
    given = not name.startswith("ww_atomic_")
    stem = next(stem for stem in ("ww_own_", "ww_at_", "ww_atomic_") if name.startswith(stem))
    operation, kind = name.removeprefix(stem).rsplit("_", 1)
    t = Text(wave.lanes)
    t.emit("%low_p = getelementptr i32, ptr %values, i64 %n")
    # The words of a lane's value in local memory are not adjacent, and no other lane can access them.
    words = WORDS.get(kind, 1)
    apart = words > 1 and not given and operation != "cast"
    atomic = _Atomic(t, wave, operation, kind, _gathered(t, words) if apart else "%host")
    atomic.leave(atomic.exchange(own=name.startswith("ww_own_")))
    _scattered(t, words if apart else 0)
    body = "\n".join(t.lines)
    lane_bits = wave.mask_type
    declared = dict(t.declared)
    if given:
        declared[f"llvm.cttz.{lane_bits}"] = f"declare {lane_bits} @llvm.cttz.{lane_bits}({lane_bits}, i1)"
        host = "  %host_p = getelementptr ptr, ptr %pointers, i64 %n\n  %host = load ptr, ptr %host_p\n"
        loop = "\n  br label %next" + each_lane(wave, host + body)
        return (
            f"define void @{name}(ptr %pointers, ptr %values, {lane_bits} %exec) noinline {{{loop}\n  ret void\n}}\n",
            declared,
        )
    declared["ww_serve"] = f"declare i1 @ww_serve(ptr, ptr, ptr, ptr, ptr, {lane_bits}, i32, i32, i32, i64)"
    declared[f"llvm.cttz.{lane_bits}"] = f"declare {lane_bits} @llvm.cttz.{lane_bits}({lane_bits}, i1)"
    loop = lane_loop(wave, body, *TRIED) if operation == "cast" else lane_loop(wave, body)
    text = f"define i1 @{name}({access_arguments(wave)}) noinline {{" + loop + "\n  ret i1 false\n}\n"
    return text, declared


class _Atomic:
    """The text of one lane's atomic on the value at ``host``; operands are rows of words at ``%low_p``."""

    def __init__(self, t: Text, wave: Wave, operation: str, kind: str, host: str) -> None:
        self.t, self.wave, self.operation, self.kind, self.host = t, wave, operation, kind, host
        self.words = WORDS.get(kind, 1)
        self.type = f"i{32 * self.words}"
        self.size = 4 * self.words
        self.operand = self.read(0)
        self.third = self.read(1) if operation in THREE_OPERANDS else ""

    def word(self, row: int) -> str:
        return self.t.op(f"load i32, ptr {self.t.field('%low_p', self.wave.row_bytes * row)}")

    def read(self, position: int) -> str:
        """An operand, by its position."""
        t, type = self.t, self.type
        value = self.word(self.words * position)
        for n in range(1, self.words):
            value = value if n > 1 else t.op(f"zext i32 {value} to {type}")
            upper = t.op(f"zext i32 {self.word(self.words * position + n)} to {type}")
            value = t.op(f"or {type} {value}, {t.op(f'shl {type} {upper}, {32 * n}')}")
        return value

    def exchange(self, own: bool) -> str:
        """Change the value in memory and return the old one.  ``own``: no other thread can change it meanwhile."""
        t, type, host, size = self.t, self.type, self.host, self.size
        if own and self.kind != "i128":
            old = t.op(f"load {type}, ptr {host}, align {size}")
            new = self.new(old)
            t.emit(f"store {type} {new}, ptr {host}, align {size}")
            return old
        if self.kind == "i128":
            # Kernels with these atomics run on one host thread, so no 16-byte atomic instruction is needed.
            old, operand = t.op(f"load i128, ptr {host}, align {size}"), self.operand
            if self.operation == "cas":
                equal = t.op(f"icmp eq i128 {old}, {self.read(1)}")
                operand = t.op(f"select i1 {equal}, i128 {operand}, i128 {old}")
            t.emit(f"store i128 {operand}, ptr {host}, align {size}")
            return old
        if self.operation == "cas":
            pair = t.op(
                f"cmpxchg ptr {host}, {type} {self.read(1)}, {type} {self.operand} seq_cst seq_cst, align {size}"
            )
            return t.op(f"extractvalue {{ {type}, i1 }} {pair}, 0")
        if self.operation == "cast":
            return _cast(t, type, size, self.read(1), self.operand)
        if self.operation in DIRECT:
            return t.op(f"atomicrmw {DIRECT[self.operation]} ptr {host}, {type} {self.operand} seq_cst, align {size}")
        return self.retried()

    def new(self, old: str) -> str:
        """The value that replaces an old one."""
        t, type = self.t, self.type
        if self.operation in DIRECT:
            return _changed(t, self.operation, type, old, self.operand)
        if self.operation == "cas":
            return t.op(
                f"select i1 {t.op(f'icmp eq {type} {old}, {self.read(1)}')}, {type} {self.operand}, {type} {old}"
            )
        if self.operation == "mskor":
            kept = t.op(f"and {type} {old}, {t.op(f'xor {type} {self.third}, -1')}")
            return t.op(f"or {type} {kept}, {self.operand}")
        if self.operation in HALVES:
            return _changed_half(t, self.operation, self.kind, old, self.operand, self.third)
        return _combined(t, self.operation, self.kind, type, old, self.operand)

    def retried(self) -> str:
        """A compare-and-swap loop, for operations without a host instruction."""
        t, type, host, size = self.t, self.type, self.host, self.size
        first = t.op(f"load atomic {type}, ptr {host} monotonic, align {size}")
        t.emit("br label %try")
        t.label("try")
        t.emit(f"%seen = phi {type} [ {first}, %lane ], [ %found, %try ]")
        new = self.new("%seen")
        t.emit(f"%pair = cmpxchg ptr {host}, {type} %seen, {type} {new} seq_cst seq_cst, align {size}")
        t.emit(f"%found = extractvalue {{ {type}, i1 }} %pair, 0")
        t.emit(f"%won = extractvalue {{ {type}, i1 }} %pair, 1")
        t.emit("br i1 %won, label %swapped, label %try")
        t.label("swapped")
        return "%seen"

    def leave(self, old: str) -> None:
        """Store the old value in place of the operand."""
        t = self.t
        for n in range(self.words):
            part = t.op(f"lshr {self.type} {old}, {32 * n}") if n else old
            part = part if self.words == 1 else t.op(f"trunc {self.type} {part} to i32")
            t.emit(f"store i32 {part}, ptr {t.field('%low_p', self.wave.row_bytes * n) if n else '%low_p'}")


def _gathered(t: Text, words: int) -> str:
    """Address of a value: its own, or that of a copy if its words are not adjacent."""
    t.emit("%apart = icmp ne i64 %step, 4")
    t.emit("%copy = alloca i128, align 16")
    for n in range(words):
        word = t.op(f"load i32, ptr {_word_apart(t, n)}")
        t.emit(f"store i32 {word}, ptr {t.field('%copy', 4 * n)}")
    t.emit("%place = select i1 %apart, ptr %copy, ptr %host")
    return "%place"


def _scattered(t: Text, words: int) -> None:
    """Write back the copy, if there is one (of no words otherwise); ends the lane."""
    if not words:
        t.emit("br label %lane_done")
        return
    t.emit("br i1 %apart, label %scatter, label %lane_done")
    t.label("scatter")
    for n in range(words):
        word = t.op(f"load i32, ptr {t.field('%copy', 4 * n)}")
        t.emit(f"store i32 {word}, ptr {_word_apart(t, n)}")
    t.emit("br label %lane_done")


def _word_apart(t: Text, n: int) -> str:
    return t.op(f"getelementptr i8, ptr %host, i64 {t.op(f'mul i64 %step, {n}')}")


def _changed(t: Text, operation: str, type: str, old: str, operand: str) -> str:
    """The result of a single-instruction integer operation, or of a comparison."""
    if operation == "exch":
        return operand
    if operation in ("add", "and", "or", "xor"):
        return t.op(f"{operation} {type} {old}, {operand}")
    less = {"umin": "ult", "umax": "ugt", "smin": "slt", "smax": "sgt"}[operation]
    return t.op(f"select i1 {t.op(f'icmp {less} {type} {old}, {operand}')}, {type} {old}, {type} {operand}")


TRIED = ("  %tried = phi i32 [ 0, %0 ], [ %tried_after, %lane_done ]", "  %tried_after = or i32 %tried, %bank_bit")
"""The banks that lanes of a ``cast`` have already used."""


def _cast(t: Text, type: str, size: int, compare: str, operand: str) -> str:
    """A compare-and-swap that a lane performs only if no lower lane has used its bank; returns 1 where it was done.

    bench.micro ``tries`` on an H200: 32 lanes on 32 words of one bank take 32 tries, as on one word; words of 8 bytes
    take 16, because each half-warp proceeds separately.
    """
    at = t.op("load i64, ptr " + t.op("getelementptr i64, ptr %addresses, i64 %n"))
    place = t.op(f"trunc i64 {t.op(f'lshr i64 {at}, {size.bit_length() - 1}')} to i32")
    bank = t.op(f"and i32 {place}, {128 // size - 1}")
    if size == 8:
        bank = t.op(f"or i32 {bank}, {t.op('and i32 %number, 16')}")
    t.emit(f"%bank_bit = shl i32 1, {bank}")
    free = t.op(f"icmp eq i32 {t.op('and i32 %tried, %bank_bit')}, 0")
    written = t.op(f"select i1 {free}, {type} {operand}, {type} {compare}")
    pair = t.op(f"cmpxchg ptr %host, {type} {compare}, {type} {written} seq_cst seq_cst, align {size}")
    done = t.op(f"and i1 {free}, {t.op(f'extractvalue {{ {type}, i1 }} {pair}, 1')}")
    return t.op(f"zext i1 {done} to {type}")


def _mbarrier(t: Text, old: str, by: str) -> str:
    """``isa/mbarrier.py``: the object after a change."""

    def field(word: str, low: int, mask: int) -> str:
        return t.op(f"and i64 {t.op(f'lshr i64 {word}, {low}') if low else word}, {mask}")

    def missing(count: str) -> str:
        """2**20 minus a count, or 0 for a count of 0."""
        return t.op(f"and i64 {t.op(f'sub i64 {1 << mb.COUNT_BITS}, {count}')}, {mb.COUNT_MASK}")

    arrivals = field(by, 0, mb.COUNT_MASK)
    pending = missing(field(old, mb.PENDING_AT, mb.COUNT_MASK))
    pending = t.op(f"and i64 {t.op(f'sub i64 {pending}, {arrivals}')}, {mb.COUNT_MASK}")
    more = field(by, mb.OPERAND_BYTES_AT, mb.BYTES_MASK)
    outstanding = t.op(f"and i64 {t.op(f'add i64 {field(old, mb.BYTES_AT, mb.BYTES_MASK)}, {more}')}, {mb.BYTES_MASK}")
    leaves = t.op(f"mul i64 {arrivals}, {field(by, mb.OPERAND_LEAVES_AT, 1)}")
    expected = t.op(
        f"and i64 {t.op(f'add i64 {field(old, mb.EXPECTED_AT, mb.COUNT_MASK)}, {leaves}')}, {mb.COUNT_MASK}"
    )
    over = t.op(f"icmp eq i64 {t.op(f'or i64 {pending}, {outstanding}')}, 0")
    kept = t.op(f"select i1 {over}, i64 {expected}, i64 {missing(pending)}")
    flip = t.op(f"select i1 {over}, i64 {mb.PHASE - (1 << 64)}, i64 0")
    phase = t.op(f"xor i64 {t.op(f'and i64 {old}, {mb.PHASE - (1 << 64)}')}, {flip}")
    places = ((kept, mb.PENDING_AT), (outstanding, mb.BYTES_AT), (expected, mb.EXPECTED_AT))
    for value, low in places:
        phase = t.op(f"or i64 {phase}, {t.op(f'shl i64 {value}, {low}')}")
    return phase


def _changed_half(t: Text, operation: str, kind: str, old: str, operand: str, place: str) -> str:
    """One half of a word: ``place`` is its first bit; the other half does not change."""
    before = t.op(f"trunc i32 {t.op(f'lshr i32 {old}, {place}')} to i16")
    after = t.op(f"trunc i32 {operand} to i16")
    if operation == "cas_half":
        wanted = t.op(f"trunc i32 {t.op(f'lshr i32 {operand}, 16')} to i16")
        after = t.op(f"select i1 {t.op(f'icmp eq i16 {before}, {wanted}')}, i16 {after}, i16 {before}")
    else:
        after = _floating(t, "fadd", kind, before, after)
    mask = t.op(f"xor i32 {t.op(f'shl i32 65535, {place}')}, -1")
    kept = t.op(f"and i32 {old}, {mask}")
    word = t.op(f"zext i16 {after} to i32")
    return t.op(f"or i32 {kept}, {t.op(f'shl i32 {word}, {place}')}")


def _combined(t: Text, operation: str, kind: str, type: str, old: str, operand: str) -> str:
    if operation == "mbarrier":
        return _mbarrier(t, old, operand)
    if operation == "inc":
        above = t.op(f"icmp uge {type} {old}, {operand}")
        return t.op(f"select i1 {above}, {type} 0, {type} {t.op(f'add {type} {old}, 1')}")
    if operation == "dec":
        zero = t.op(f"icmp eq {type} {old}, 0")
        above = t.op(f"icmp ugt {type} {old}, {operand}")
        reset = t.op(f"or i1 {zero}, {above}")
        return t.op(f"select i1 {reset}, {type} {operand}, {type} {t.op(f'sub {type} {old}, 1')}")
    if kind in ("f16x2", "bf16x2"):
        element = kind[:-2]
        halves = []
        for shift in (0, 16):
            old_word = t.op(f"lshr i32 {old}, {shift}")
            operand_word = t.op(f"lshr i32 {operand}, {shift}")
            a = t.op(f"trunc i32 {old_word} to i16")
            b = t.op(f"trunc i32 {operand_word} to i16")
            halves.append(t.op(f"zext i16 {_floating(t, operation, element, a, b)} to i32"))
        return t.op(f"or i32 {halves[0]}, {t.op(f'shl i32 {halves[1]}, 16')}")
    return _floating(t, operation, kind, old, operand)
