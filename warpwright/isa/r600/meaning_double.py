"""Meanings of double-precision operations, which occupy several slots of a bundle.

A double is two words.  The first slot of a pair (x, or z) reads the upper words of the sources and writes the lower word of the result; the second one (y, or
w) reads the lower words and writes the upper one.  A product takes all four slots: x, y and z read upper words, w reads lower ones.  A reciprocal or a root takes
x, y and z, each with the upper and the lower word of its only source.  These places are those of Mesa's ``r600`` compiler, which emits such operations for
Cayman.  Subnormals are kept.  AMD publishes no accuracy of reciprocals and roots; here their error is below one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from warpwright.isa.ops import Value
from warpwright.isa.r600.decoded_program import AluWord, Bundle
from warpwright.isa.r600.meaning import MAGNITUDE, SIGN, R600Emitter, as_float, rounded, source, truth
from warpwright.isa.sass.meaning import UnsupportedInstruction

Operation = Callable[[R600Emitter, list[Value]], Value]
ONE, INFINITY = 0x3FF0000000000000, 0x7FF0000000000000
ALL_ONES = 0xFFFFFFFF
NEWTON_STEPS = 2
"""Steps from the 20 bits of the unit's first value to more than 53."""


class DoubleResults(NamedTuple):
    """What the double-precision operations of a bundle return."""

    words: dict[str, Value]
    """Words by slot."""
    tests: dict[str, Value]
    """Outcomes of comparisons that set the predicate, by slot."""


def _double(b: R600Emitter, bits: int) -> Value:
    return b.const(bits, "f64")


def _arithmetic(name: str) -> Operation:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.op("canonical_nan", "f64", b.op(name, "f64", *x, attr="rn"))

    return mean


def _extreme(name: str) -> Operation:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.op("canonical_nan", "f64", b.op(name, "f64", *x, attr="number"))

    return mean


def _fraction(b: R600Emitter, x: list[Value]) -> Value:
    whole = b.op("fround", "f64", x[0], attr="rm")
    return b.op("canonical_nan", "f64", b.op("fadd", "f64", x[0], b.op("fneg", "f64", whole), attr="rn"))


def _chosen(b: R600Emitter, x: list[Value]) -> Value:
    return b.select(b.fcmp("une", x[0], _double(b, 0)), x[1], x[2])


ARITHMETIC: dict[str, Operation] = {
    **{"ADD_64": _arithmetic("fadd"), "MIN_64": _extreme("fmin"), "MAX_64": _extreme("fmax")},
    **{"FRACT_64": _fraction, "CNDNE_64": _chosen},
}
"""Operations of a pair of slots."""
PRODUCTS: dict[str, Operation] = {"MUL_64": _arithmetic("fmul"), "FMA_64": _arithmetic("fma")}
"""Operations of four slots."""
RELATIONS = {"E": "oeq", "NE": "une", "GT": "ogt", "GE": "oge"}
COMPARISONS = {f"{prefix}SET{name}_64": relation for prefix in ("", "PRED_") for name, relation in RELATIONS.items()}
"""Comparisons of a pair of slots; all ones where they hold."""


# --- reciprocals and roots --------------------------------------------------------------------------------------
def _negated(b: R600Emitter, x: Value) -> Value:
    return b.op("fneg", "f64", x)


def _fma(b: R600Emitter, x: Value, y: Value, z: Value) -> Value:
    return b.op("fma", "f64", x, y, z, attr="rn")


def _refined(b: R600Emitter, first: Value, better: Value) -> Value:
    """The refined value, or the unit's own where that is not a finite number other than zero."""
    size = b.op("fabs", "f64", first)
    ordinary = b.and_(b.fcmp("ogt", size, _double(b, 0)), b.fcmp("olt", size, _double(b, INFINITY)))
    return b.op("canonical_nan", "f64", b.select(ordinary, better, first))


def _reciprocal(b: R600Emitter, x: Value) -> Value:
    first = found = b.op("mufu", "f64", x, attr="rcp")
    for _ in range(NEWTON_STEPS + 1):
        found = _fma(b, found, _fma(b, _negated(b, x), found, _double(b, ONE)), found)
    return _refined(b, first, found)


def _reciprocal_root(b: R600Emitter, x: Value) -> Value:
    first = found = b.op("mufu", "f64", x, attr="rsq")
    half = _double(b, 0x3FE0000000000000)
    for _ in range(NEWTON_STEPS + 1):
        square = b.op("fmul", "f64", found, found, attr="rn")
        error = _fma(b, _negated(b, x), square, _double(b, ONE))
        found = _fma(b, b.op("fmul", "f64", found, half, attr="rn"), error, found)
    return _refined(b, first, found)


def _root(b: R600Emitter, x: Value) -> Value:
    inverse = _reciprocal_root(b, x)
    found = b.op("fmul", "f64", x, inverse, attr="rn")
    half = b.op("fmul", "f64", inverse, _double(b, 0x3FE0000000000000), attr="rn")
    found = _fma(b, half, _fma(b, _negated(b, found), found, x), found)
    ordinary = b.and_(b.fcmp("ogt", x, _double(b, 0)), b.fcmp("olt", x, _double(b, INFINITY)))
    # Zeros and infinity are their own roots; below zero, the reciprocal's NaN.
    other = b.select(b.fcmp("olt", x, _double(b, 0)), inverse, x)
    return b.op("canonical_nan", "f64", b.select(ordinary, found, other))


FUNCTIONS: dict[str, Callable[[R600Emitter, Value], Value]] = {
    "RECIP_64": _reciprocal,
    "RECIPSQRT_64": _reciprocal_root,
    "SQRT_64": _root,
}
"""Operations of one source in three slots."""


# --- bundles ----------------------------------------------------------------------------------------------------
def double_results(b: R600Emitter, bundle: Bundle) -> DoubleResults:
    """Execute a bundle's double-precision operations.

    Raises:
        UnsupportedInstruction: naming an operation without a meaning here, or slots that do not belong together.
    """
    found = DoubleResults({}, {})
    at = {word.slot: word for word in bundle.words}
    for word in bundle.words:
        name = word.operation.name
        if word.slot in found.words or not is_double(name):
            continue
        if name in PRODUCTS:
            _put_product(b, name, at, found)
        elif name in FUNCTIONS:
            _put_function(b, word, at, found)
        else:
            _put_pair(b, word, at, found)
    return found


def is_double(name: str) -> bool:
    """Whether an operation has operands or a result of 64 bits."""
    return name.endswith("_64") or name in ("FLT64_TO_FLT32", "FLT32_TO_FLT64")


def _group(name: str, slots: str, at: dict[str, AluWord]) -> list[AluWord]:
    """The words of an operation in the slots that it needs."""
    words = [at[slot] for slot in slots if slot in at and at[slot].operation.name == name]
    if len(words) < len(slots):
        raise UnsupportedInstruction(
            f"{name} without its part in each of the slots {', '.join(slots)} has no meaning here"
        )
    return words


def _joined(b: R600Emitter, upper: AluWord, lower: AluWord, n: int) -> Value:
    """A source as f64: modifiers are those of its upper word."""
    low = replace(lower.sources[n], negate=False, absolute=False)
    return b.bitcast(b.op("pack64", "i64", source(b, lower, low), source(b, upper, upper.sources[n])), "f64")


def _put(b: R600Emitter, word: AluWord, slots: str, value: Value, found: DoubleResults) -> None:
    """Store a double in the slots of its pairs, lower word first."""
    if word.fields.get("omod", 0):
        raise UnsupportedInstruction(f"{word.operation.name} with an output modifier has no meaning here")
    if word.fields["clamp"]:
        value = b.op("fmax", "f64", value, _double(b, 0), attr="number")
        value = b.op("fmin", "f64", value, _double(b, ONE), attr="number")
    bits = b.bitcast(value, "i64")
    halves = [b.op("extract", "i32", bits, attr=n) for n in range(2)]
    found.words.update({slot: halves[n % 2] for n, slot in enumerate(slots)})


def _put_product(b: R600Emitter, name: str, at: dict[str, AluWord], found: DoubleResults) -> None:
    words = _group(name, "xyzw", at)
    values = [_joined(b, words[0], words[3], n) for n in range(words[0].operation.source_count)]
    _put(b, words[0], "xyzw", PRODUCTS[name](b, values), found)


def _put_function(b: R600Emitter, word: AluWord, at: dict[str, AluWord], found: DoubleResults) -> None:
    name = word.operation.name
    if word.slot == "t":
        raise UnsupportedInstruction(f"{name} of Cypress' fifth slot, whose one result is a word, has no meaning here")
    first = _group(name, "xyz", at)[0]
    upper, lower = (replace(s, negate=False, absolute=False) for s in first.sources)
    high, low = source(b, first, upper), source(b, first, lower)
    # Mesa sets the modifiers of the second source, the lower word, and means the number.
    if any(s.absolute for s in first.sources):
        high = b.and_(high, b.number(MAGNITUDE))
    if any(s.negate for s in first.sources):
        high = b.xor(high, b.number(SIGN))
    value = b.bitcast(b.op("pack64", "i64", low, high), "f64")
    _put(b, first, "xyz", FUNCTIONS[name](b, value), found)


def _put_pair(b: R600Emitter, word: AluWord, at: dict[str, AluWord], found: DoubleResults) -> None:
    name, slots = word.operation.name, "xy" if word.slot in "xy" else "zw"
    upper, lower = _group(name, slots, at)
    if name == "FLT32_TO_FLT64":
        single = as_float(b, source(b, upper, upper.sources[0]))
        _put(b, upper, slots, b.op("canonical_nan", "f64", b.op("fcvt", "f64", single, attr="rn")), found)
        return
    if name not in (*ARITHMETIC, *COMPARISONS, "FLT64_TO_FLT32"):
        raise UnsupportedInstruction(f"{name} has no meaning here")
    values = [_joined(b, upper, lower, n) for n in range(upper.operation.source_count)]
    if name in COMPARISONS:
        test = b.fcmp(COMPARISONS[name], *values)
        found.words.update(dict.fromkeys(slots, truth(b, test, ALL_ONES)))
        found.tests[slots[0]] = test
    elif name == "FLT64_TO_FLT32":
        single = rounded(b, b.op("fcvt", "f32", values[0], attr="rn"))
        found.words.update({slots[0]: b.bitcast(single, "i32"), slots[1]: b.number(0)})
    else:
        _put(b, upper, slots, ARITHMETIC[name](b, values), found)
