"""The CUDA Math API's functions as statements: names, types of results and operands (chapters 1 to 17 of its manual).

``nan`` and ``nanf``, which make one constant, are left out; so are reads and writes of memory (``__ldg``, ``__stcg`` …), warp functions and
atomics, which are no mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ROUNDINGS = ("rn", "rz", "ru", "rd")
SHORT = {
    **{"f": "float", "d": "double", "h": "__half", "H": "__half2", "b": "__nv_bfloat16", "B": "__nv_bfloat162"},
    **{"i": "int", "u": "unsigned", "l": "long long", "L": "unsigned long long", "s": "short", "S": "unsigned short"},
}
"""Letters of types in signatures: results, a colon, operands."""
BITS = {"f": 32, "d": 64, "h": 16, "H": 32, "b": 16, "B": 32, "i": 32, "u": 32, "l": 64, "L": 64, "s": 16, "S": 16}
FORMATS = {"f": (8, 23), "d": (11, 52), "h": (5, 10), "H": (5, 10), "b": (8, 7), "B": (8, 7)}
"""Exponent and fraction bits of the (halves of the) types with exponents."""

# fmt: off
UNARY = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs "
    "floor j0 j1 lgamma log log10 log1p log2 logb nearbyint normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1"
)
BINARY = "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder rhypot"
TERNARY = "fma norm3d rnorm3d"
HALF = "hceil hcos hexp hexp10 hexp2 hfloor hlog hlog10 hlog2 hrcp hrint hrsqrt hsin hsqrt htanh htrunc"
FAST = "__cosf __expf __exp10f __log10f __log2f __logf __sinf __tanf __saturatef __frsqrt_rn __fsqrt_rn __frcp_rn"
COMPARES = "eq ne le ge lt gt equ neu leu geu ltu gtu"
# fmt: on


@dataclass(frozen=True)
class Function:
    """One function: ``statement`` sets r, or r0 and r1, from a, b, c, d."""

    name: str
    signature: str
    statement: str = ""

    @property
    def results(self) -> str:
        return self.signature.split(":")[0]

    @property
    def operands(self) -> str:
        return self.signature.split(":")[1]

    @property
    def text(self) -> str:
        return self.statement or f"r = {self.name}({', '.join('abcd'[: len(self.operands)])});"


def plain(names: str, signature: str) -> Iterator[Function]:
    for name in names.split():
        yield Function(name, signature)


def of_floats() -> Iterator[Function]:
    """Chapters 4 to 9: f32, f64, and their intrinsic functions."""
    for arity, names in ((1, UNARY), (2, BINARY), (3, TERNARY)):
        for name in names.split():
            yield Function(f"{name}f", "f:" + "f" * arity)
            yield Function(name, "d:" + "d" * arity)
    yield from plain(FAST, "f:f")
    yield from plain("__fdividef __powf", "f:ff")
    yield from plain(HALF, "h:h")
    for t, end in (("f", "f"), ("d", "")):
        for name in ("ilogb", "lrint", "llrint", "lround", "llround"):
            yield Function(name + end, f"{'i' if name == 'ilogb' else 'l'}:{t}")
        for name in ("isfinite", "isinf", "isnan", "signbit"):
            yield Function(f"{name}_{SHORT[t]}", f"i:{t}", f"r = {name}(a) != 0;")
        yield Function("frexp" + end, f"{t}i:{t}", f"r0 = frexp{end}(a, &r1);")
        yield Function("modf" + end, f"{t}{t}:{t}", f"r0 = modf{end}(a, &r1);")
        yield Function("remquo" + end, f"{t}i:{t}{t}", f"r0 = remquo{end}(a, b, &r1);")
        yield Function("sincos" + end, f"{t}{t}:{t}", f"sincos{end}(a, &r0, &r1);")
        yield Function("sincospi" + end, f"{t}{t}:{t}", f"sincospi{end}(a, &r0, &r1);")
        yield Function("jn" + end, f"{t}:i{t}", f"r = jn{end}(a & 15, b);")
        yield Function("yn" + end, f"{t}:i{t}", f"r = yn{end}(a & 15, b);")
        yield Function("ldexp" + end, f"{t}:{t}i", f"r = ldexp{end}(a, b % 400);")
        yield Function("scalbn" + end, f"{t}:{t}i")
        yield Function("scalbln" + end, f"{t}:{t}l")
        for name in ("norm4d", "rnorm4d"):
            yield Function(name + end, f"{t}:{t}{t}{t}{t}")
        for name in ("norm", "rnorm"):
            yield Function(name + end, f"{t}:{t}{t}{t}{t}", f"{SHORT[t]} p[4] = {{a, b, c, d}}; r = {name}{end}(4, p);")
    yield Function("fdividef", "f:ff")
    yield Function("__sincosf", "ff:f", "__sincosf(a, &r0, &r1);")
    for mode in ROUNDINGS:
        for name in ("add", "sub", "mul", "div"):
            yield Function(f"__f{name}_{mode}", "f:ff")
            yield Function(f"__d{name}_{mode}", "d:dd")
        yield Function(f"__fmaf_{mode}", "f:fff")
        yield Function(f"__fmaf_ieee_{mode}", "f:fff")
        yield Function(f"__fma_{mode}", "d:ddd")
        for name in ("rcp", "sqrt"):
            yield Function(f"__d{name}_{mode}", "d:d")
            if mode != "rn":
                yield Function(f"__f{name}_{mode}", "f:f")


def casts() -> Iterator[Function]:
    """Chapter 12."""
    for mode in ROUNDINGS:
        yield Function(f"__double2float_{mode}", "f:d")
        for t, name in (("f", "float"), ("d", "double")):
            for to, integer in (("i", "int"), ("u", "uint"), ("l", "ll"), ("L", "ull")):
                yield Function(f"__{name}2{integer}_{mode}", f"{to}:{t}")
                if not (t == "d" and to in "iu"):
                    yield Function(f"__{integer}2{name}_{mode}", f"{t}:{to}")
    yield from plain("__int2double_rn", "d:i")
    yield from plain("__uint2double_rn", "d:u")
    yield from plain("__double2hiint __double2loint", "i:d")
    yield from plain("__hiloint2double", "d:ii")
    yield from plain("__float_as_int", "i:f")
    yield from plain("__float_as_uint", "u:f")
    yield from plain("__int_as_float", "f:i")
    yield from plain("__uint_as_float", "f:u")
    yield from plain("__double_as_longlong", "l:d")
    yield from plain("__longlong_as_double", "d:l")


def of_integers() -> Iterator[Function]:
    """Chapters 10, 11 and 13: integers and SIMD within a word."""
    yield from plain("__brev", "u:u")
    yield from plain("__brevll", "L:L")
    yield from plain("__clz __ffs", "i:i")
    yield from plain("__clzll __ffsll", "i:l")
    yield from plain("__popc", "i:u")
    yield from plain("__popcll", "i:L")
    yield from plain("__byte_perm __funnelshift_l __funnelshift_lc __funnelshift_r __funnelshift_rc __usad", "u:uuu")
    yield from plain("__hadd __mul24 __mulhi __rhadd", "i:ii")
    yield from plain("__uhadd __umul24 __umulhi __urhadd", "u:uu")
    yield from plain("__mul64hi", "l:ll")
    yield from plain("__umul64hi", "L:LL")
    yield Function("__sad", "u:iiu")
    yield Function("__fns", "u:uui", "r = __fns(a, b & 31, (c & 7) - 3);")
    for name in ("__dp4a", "__dp2a_lo", "__dp2a_hi"):
        yield Function(name, "i:iii")
        yield Function(f"{name}_unsigned", "u:uuu", f"r = {name}(a, b, c);")
    yield from plain("max min llmax llmin", "l:ll")
    yield from plain("umax umin", "u:uu")
    yield from plain("ullmax ullmin", "L:LL")
    for n in "24":
        yield from plain(f"__vabs{n} __vabsss{n} __vneg{n} __vnegss{n}", "u:u")
        both = "absdiffs absdiffu add addss addus avgs avgu haddu maxs maxu mins minu sads sadu sub subss subus"
        both += "".join(f" {kind}{compare}" for kind in ("cmp", "set") for compare in COMPARES_OF_LANES.split())
        yield from plain(" ".join(f"__v{name}{n}" for name in both.split()), "u:uu")
    for t, type in (("i", "s32"), ("u", "u32")):
        for name in ("max", "min"):
            yield from plain(f"__vi{name}3_{type} __viadd{name}_{type}", f"{t}:{t}{t}{t}")
            yield Function(f"__vib{name}_{type}", f"{t}i:{t}{t}", f"bool p; r0 = __vib{name}_{type}(a, b, &p); r1 = p;")
    for type in ("s16x2", "u16x2"):
        for name in ("max", "min"):
            yield from plain(f"__vi{name}3_{type} __viadd{name}_{type}", "u:uuu")
            text = f"bool p, q; r0 = __vib{name}_{type}(a, b, &p, &q); r1 = p + 2 * q;"
            yield Function(f"__vib{name}_{type}", "ui:uu", text)
    for t, type, operands in (("i", "s32", "iii"), ("u", "s16x2", "uuu")):
        for name in ("max", "min"):
            yield from plain(f"__vi{name}3_{type}_relu __viadd{name}_{type}_relu", f"{t}:{operands}")
            yield from plain(f"__vi{name}_{type}_relu", f"{t}:{operands[:2]}")


COMPARES_OF_LANES = "eq ges geu gts gtu les leu lts ltu ne"


def of_halves() -> Iterator[Function]:
    """Chapters 1 and 2: f16 and bf16, single and in pairs."""
    for one, two, name in (("h", "H", "half"), ("b", "B", "bfloat16")):

        def named(function: str, signature: str, text: str = "", name: str = name) -> Function:
            called = text or f"r = {function}({', '.join('abcd'[: len(signature.split(':')[1])])});"
            return Function(f"{function}_{name}", signature, called)

        for t, end in ((one, ""), (two, "2")):
            for function in ("__hadd", "__hsub", "__hmul"):
                for kind in ("", "_rn", "_sat"):
                    yield named(f"{function}{end}{kind}", f"{t}:{t}{t}")
            for kind in ("", "_sat", "_relu"):
                yield named(f"__hfma{end}{kind}", f"{t}:{t}{t}{t}")
            yield named("__h2div" if end else "__hdiv", f"{t}:{t}{t}")
            for function in ("__habs", "__hneg"):
                yield named(f"{function}{end}", f"{t}:{t}")
            for function in ("__hmax", "__hmin", "__hmax_nan", "__hmin_nan"):
                stem, _, tail = function[2:].partition("_")
                yield named(f"__{stem}{end}{'_' + tail if tail else ''}", f"{t}:{t}{t}")
            for compare in COMPARES.split():
                yield named(f"__h{compare}{end}", f"{t if end else 'i'}:{t}{t}")
                if end:
                    yield named(f"__hb{compare}2", f"i:{t}{t}")
                    yield named(f"__h{compare}2_mask", f"u:{t}{t}")
            yield named(f"__hisnan{end}", f"{t if end else 'i'}:{t}")
        yield named("__hisinf", f"i:{one}")
        yield named("__hcmadd", f"{two}:{two}{two}{two}")
        for function in HALF.split():
            if name == "bfloat16":
                yield named(function, f"{one}:{one}")
            yield named(f"h2{function[1:]}", f"{two}:{two}")
        yield named("htanh_approx", f"{one}:{one}")
        yield named("h2tanh_approx", f"{two}:{two}")
        yield from conversions(one, name)


def conversions(t: str, name: str) -> Iterator[Function]:
    """From and to f16 or bf16."""
    short = "half" if name == "half" else "bfloat16"
    for mode in ROUNDINGS:
        yield Function(f"__float2{short}_{mode}", f"{t}:f")
        for of, integer in (("i", "int"), ("u", "uint"), ("l", "ll"), ("L", "ull"), ("s", "short"), ("S", "ushort")):
            yield Function(f"__{short}2{integer}_{mode}", f"{of}:{t}")
            yield Function(f"__{integer}2{short}_{mode}", f"{t}:{of}")
    yield Function(f"__double2{short}", f"{t}:d")
    yield Function(f"__{short}2float", f"f:{t}")


def functions() -> list[Function]:
    """Every function, each name once."""
    found = [*of_floats(), *casts(), *of_integers(), *of_halves()]
    return list({f.name: f for f in found}.values())
