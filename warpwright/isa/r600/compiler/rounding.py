"""LLVM IR of sums and products that are rounded down, up or towards zero: the chip rounds to nearest, and the sign of
the error tells in which direction to correct.

The errors are those of two-sum (Knuth) and of a fused product: each is a float, unless there is under- or overflow.
"""

from __future__ import annotations

from warpwright.isa.r600.compiler.writer import Writer


def fused(w: Writer, a: str, b: str, c: str) -> str:
    return w.call("float", "llvm.fma.f32", f"float {a}", f"float {b}", f"float {c}")


def _sum(w: Writer, a: str, b: str) -> str:
    return w.let(f"fadd float {a}, {b}")


def _difference(w: Writer, a: str, b: str) -> str:
    return w.let(f"fsub float {a}, {b}")


def sum_error(w: Writer, a: str, b: str, total: str) -> str:
    """The exact sum minus ``total``, its nearest float."""
    second = _difference(w, total, a)
    first = _difference(w, total, second)
    return _sum(w, _difference(w, a, first), _difference(w, b, second))


def product_error(w: Writer, a: str, b: str, product: str) -> str:
    """The exact product minus ``product``, its nearest float."""
    return fused(w, a, b, w.let(f"fneg float {product}"))


def fused_error(w: Writer, a: str, b: str, c: str, nearest: str) -> str:
    """A float with the sign of the exact value (product plus sum) minus ``nearest``."""
    product = w.let(f"fmul float {a}, {b}")
    low = product_error(w, a, b, product)
    total = _sum(w, product, c)
    rest = sum_error(w, product, c, total)
    # The exact value is total + rest + low; total and nearest are so close that their difference is exact.
    apart = _difference(w, total, nearest)
    small = _sum(w, rest, low)
    least = sum_error(w, rest, low, small)
    error = _sum(w, apart, small)
    more = _sum(w, sum_error(w, apart, small, error), least)
    is_zero = w.let(f"fcmp oeq float {error}, 0.0")
    return w.let(f"select i1 {is_zero}, float {more}, float {error}")


def directed(w: Writer, rounding: str, nearest: str, error: str) -> str:
    """The neighbour of ``nearest`` in the required direction if the error demands it; ``error`` is the exact value
    minus ``nearest``."""
    bits = w.let(f"bitcast float {nearest} to i32")
    positive = w.let(f"fcmp ogt float {nearest}, 0.0")
    negative = w.let(f"fcmp olt float {nearest}, 0.0")
    below = w.let(f"fcmp olt float {error}, 0.0")
    above = w.let(f"fcmp ogt float {error}, 0.0")
    # Incrementing the bits moves away from zero.
    if rounding == "rz":
        chosen_in, chosen_out = _either(w, _both(w, positive, below), _both(w, negative, above)), "false"
    elif rounding == "rm":
        chosen_in, chosen_out = _both(w, positive, below), _both(w, negative, below)
    else:
        chosen_in, chosen_out = _both(w, negative, above), _both(w, positive, above)
    step = w.let(f"select i1 {chosen_out}, i32 1, i32 0")
    step = w.let(f"select i1 {chosen_in}, i32 -1, i32 {step}")
    return w.let(f"bitcast i32 {w.let(f'add i32 {bits}, {step}')} to float")


def _both(w: Writer, x: str, y: str) -> str:
    return w.let(f"and i1 {x}, {y}")


def _either(w: Writer, x: str, y: str) -> str:
    return w.let(f"or i1 {x}, {y}")
