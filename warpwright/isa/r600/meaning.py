"""Meanings of a bundle's operations: the table, readers of sources and writers of results.

Every register is a word of 32 bits: ``T5.Y``, the previous bundle's results ``PV.X`` to ``PV.W`` and ``PS``, the address register, the
values that local data share has returned.  Single precision flushes subnormal inputs and outputs; arithmetic returns
CUDA's canonical NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from warpwright.isa.ops import Builder, Value
from warpwright.isa.r600.bindings import LINE_BYTES, Bindings
from warpwright.isa.r600.decoded_program import LITERAL, AluWord, Source
from warpwright.isa.r600.items import (
    OUTPUT_QUEUE,
    OUTPUT_QUEUE_B,
    OUTPUT_QUEUE_B_POP,
    OUTPUT_QUEUE_POP,
    Item,
)
from warpwright.isa.r600.launch_words import ENGINE_PARAMETERS_AT, launch_word
from warpwright.isa.sass.meaning import UnsupportedInstruction

PREVIOUS, PREVIOUS_SCALAR = 254, 255
INLINE = {248: 0, 249: 0x3F800000, 250: 1, 251: 0xFFFFFFFF, 252: 0x3F000000}
INLINE_DOUBLES = {244: 0, 245: 0x3FF00000, 246: 0, 247: 0x3FE00000}
"""Upper words of 1.0 and 0.5 in double precision."""
TIME_HIGH, TIME_LOW = 227, 228
WAVE_NUMBER, ENGINE_NUMBER = 231, 233
SIGN, MAGNITUDE = 0x80000000, 0x7FFFFFFF
EXECUTES, PREDICATE, INSIDE = 1, 2, 3
"""Predicates of the common operations: whether a lane is in the execution mask, the predicate bit of bundles, and
whether a lane's random access is inside its target."""


@dataclass
class Names:
    """Numbers of a program's registers, assigned in order of first use."""

    numbers: dict[str, int] = field(default_factory=dict)
    highest: int = 0
    """The highest register that the program names: the limit of relative addressing."""

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


@dataclass(slots=True)
class R600Emitter(Builder):
    """A builder for one item."""

    names: Names = field(default_factory=Names)
    item: Item = field(default_factory=Item)
    bindings: Bindings | None = None
    images: Bindings | None = None
    """Images and samplers of texture fetches: those bindings, or assembly's own."""
    guarded: bool = False
    """Whether the whole bundle is predicated."""
    read_words: dict[str, Value] = field(default_factory=dict)
    """Values of registers before the item writes any."""

    def get(self, name: str) -> Value:
        if name not in self.read_words:
            self.read_words[name] = self.op("get_reg", "i32", attr=self.names.number(name))
        return self.read_words[name]

    def set(self, name: str, value: Value) -> None:
        self.op("set_reg", "void", value, attr=self.names.number(name))

    def number(self, bits: int) -> Value:
        return self.const(bits & 0xFFFFFFFF)

    def single(self, bits: int) -> Value:
        return self.const(bits, "f32")


Meaning = Callable[[R600Emitter, list[Value]], Value]
INTEGER_MEANINGS: dict[str, Meaning] = {}
"""Meanings of operations on words."""
FLOAT_MEANINGS: dict[str, Meaning] = {}
"""Meanings of operations on f32; output modifiers and clamping apply to them."""
TEST_MEANINGS: dict[str, Meaning] = {}
"""Comparisons of words or floats; they return an i1 (:func:`tested`)."""


def meaning(table: dict[str, Meaning], *names: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the meaning of operations."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            if name in table:
                raise ValueError(f"{name} has two meanings")
            table[name] = function
        return function

    return register


# --- registers ------------------------------------------------------------------------------------------------
def register_name(number: int, channel: str) -> str:
    return f"T{number}.{channel}"


def relative(b: R600Emitter, first: int, channel: str) -> Value:
    """The register ``first`` + AR, limited to the program's registers."""
    index = b.get("AR")
    found = b.get(register_name(first, channel))
    for n in range(first + 1, b.names.highest + 1):
        here = b.icmp("eq", index, b.number(n - first))
        found = b.select(here, b.get(register_name(n, channel)), found)
    return found


def set_relative(b: R600Emitter, first: int, channel: str, value: Value) -> None:
    index = b.get("AR")
    for n in range(first, b.names.highest + 1):
        name = register_name(n, channel)
        b.set(name, b.select(b.icmp("eq", index, b.number(n - first)), value, b.get(name)))


# --- sources --------------------------------------------------------------------------------------------------
def source(b: R600Emitter, word: AluWord, s: Source) -> Value:
    """A source as a word, with its modifiers applied."""
    value = _plain(b, word, s)
    if s.absolute:
        value = b.and_(value, b.number(MAGNITUDE))
    return b.xor(value, b.number(SIGN)) if s.negate else value


def _plain(b: R600Emitter, word: AluWord, s: Source) -> Value:
    select, channel = s.select, "xyzw"[s.channel]
    if select < 128:
        if s.relative:
            if word.fields["index_mode"] != 0:
                raise UnsupportedInstruction("registers addressed by the loop index have no meaning here")
            return relative(b, select, channel)
        return b.get(register_name(select, channel))
    if select in INLINE:
        return b.number(INLINE[select])
    if select in INLINE_DOUBLES:
        return b.number(INLINE_DOUBLES[select])
    if select == LITERAL:
        assert b.item.bundle is not None
        return b.number(b.item.bundle.literals[s.channel])
    if select == PREVIOUS:
        return b.get(f"PV.{channel}")
    if select == PREVIOUS_SCALAR:
        return b.get("PS")
    if select in (OUTPUT_QUEUE, OUTPUT_QUEUE_POP):
        return b.get(f"OQA{b.item.reads[0]}")
    if select in (OUTPUT_QUEUE_B, OUTPUT_QUEUE_B_POP):
        return b.get(f"OQB{b.item.reads[0]}")
    if select in (TIME_LOW, TIME_HIGH):
        return b.op("special", "i32", attr="clock_lo" if select == TIME_LOW else "clock_hi")
    if select == WAVE_NUMBER:
        return b.op("special", "i32", attr="warpid")
    if select == ENGINE_NUMBER:
        return b.number(0)
    if 128 <= select < 192 and not s.relative:
        return _constant(b, (select - 128) // 32, (select - 128) % 32, s.channel)
    raise UnsupportedInstruction(f"source {select} has no meaning in a compute program")


CACHE_LINE_CONSTANTS = LINE_BYTES // 16


def _constant(b: R600Emitter, bank: int, index: int, channel: int) -> Value:
    """A constant that the clause has locked in the constant cache."""
    assert b.item.clause is not None
    f = b.item.clause.fields
    if not f[f"kcache_mode{bank}"]:
        raise UnsupportedInstruction(f"the clause locks nothing in constant cache {bank}, which it reads")
    number = f[f"kcache_addr{bank}"] * CACHE_LINE_CONSTANTS + index
    if b.bindings is not None:
        line, within = divmod(number, CACHE_LINE_CONSTANTS)
        at = b.bindings.lines[f[f"kcache_bank{bank}"], line] + 16 * within + 4 * channel
        return launch_bytes(b, at, "i32")
    if f[f"kcache_bank{bank}"]:
        raise UnsupportedInstruction(f"constant buffer {f[f'kcache_bank{bank}']}: a launch fills buffer 0 alone")
    return launch_word(b, 16 * number + 4 * channel)


def launch_bytes(b: R600Emitter, at: int, type: str) -> Value:
    """One or two words of a launch with bindings."""
    return b.op("load_const", type, b.const(ENGINE_PARAMETERS_AT + at), attr=(0, 8 if type == "i64" else 4))


def as_float(b: R600Emitter, x: Value) -> Value:
    """A word as f32, subnormals flushed."""
    return b.op("ftz", "f32", b.bitcast(x, "f32"))


def rounded(b: R600Emitter, x: Value) -> Value:
    """Apply the chip's rules to an exact result: one NaN, no subnormals."""
    return b.op("ftz", "f32", b.op("canonical_nan", "f32", x))


def truth(b: R600Emitter, test: Value, yes: int, no: int = 0) -> Value:
    return b.select(test, b.number(yes), b.number(no))
