"""The units that execute PTX instructions, for a machine that runs PTX directly.

One row per opcode; the type selects among several units.  If machine code needs several instructions for a PTX
instruction, ``Work.instructions`` is the number that ptxas 12.9 generates for sm_80 and that execute for ordinary
operand values.  They depend on each other and are charged to the unit of most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from warpwright.isa.program import Instruction
from warpwright.isa.schedule import UnknownTiming, Work, warp_product

Modifiers = Sequence[str]
WORDS = {"b64": 2, "u64": 2, "s64": 2, "b128": 4}
HALF_TYPES = ("f16", "f16x2", "bf16", "bf16x2")
SPECIAL = (
    *(
        "%tid",
        "%ntid",
        "%ctaid",
        "%nctaid",
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%smid",
        "%nsmid",
        "%gridid",
        "%lanemask",
        "%clock",
    ),
    *(
        "%globaltimer",
        "%cluster",
        "%is_explicit_cluster",
        "%dynamic_smem_size",
        "%total_smem_size",
        "%aggr_smem_size",
        "%envreg",
        "%current_graph_exec",
        "%pm",
    ),
)
"""Name prefixes of special registers."""


def _types(m: Modifiers) -> list[str]:
    """Types among the modifiers, the result's first."""
    return [x for x in m if x.lstrip("sufb").replace("x2", "").isdigit() and x[0] in "sufb"]


def first_type(m: Modifiers) -> str:
    """The result's type; ``b32`` if the modifiers name none."""
    found = _types(m)
    return found[0] if found else "b32"


def _words(m: Modifiers) -> int:
    return WORDS.get(first_type(m), 1)


def _simple(m: Modifiers) -> Work:
    """Integer and logic operations: one instruction per 32 bits."""
    kind = first_type(m)
    if kind == "f64":
        return Work("alu", instructions=2)
    if kind in HALF_TYPES:
        return Work("half", frozenset(("bf16",)) if kind.startswith("bf16") else frozenset())
    return Work("alu", instructions=_words(m))


def _sum(m: Modifiers) -> Work:
    kind = first_type(m)
    if kind == "f32":
        return Work("fma")
    if kind == "f32x2":
        return Work("fma", instructions=2)
    return Work("fp64") if kind == "f64" else _simple(m)


def _product(m: Modifiers) -> Work:
    """mul and mad; for integers the lower half, the upper half, or the full product."""
    kind = first_type(m)
    if kind[0] == "f" or kind in HALF_TYPES:
        return _sum(m)
    if kind in WORDS:
        return Work("fma_heavy", frozenset(("wide",)), instructions=7 if "hi" in m else 4)
    wide = "hi" in m or ("wide" in m and kind[1:] != "16")
    return Work("fma_heavy", frozenset(("wide",)) if wide else frozenset())


def _extreme(m: Modifiers) -> Work:
    kind = first_type(m)
    if kind == "f64":
        return Work("fp64", instructions=8)
    return Work("alu", instructions={"f32": 1}.get(kind, 4 if kind in WORDS else 1))


def _compare(m: Modifiers) -> Work:
    kinds = _types(m)
    return Work("fp64") if kinds[-1:] == ["f64"] else _simple(kinds[-1:])


def _divide(m: Modifiers) -> Work:
    kind = first_type(m)
    if kind == "f64":
        return Work("fp64", instructions=16)
    if kind == "f32":
        return Work("fma", instructions=2 if "approx" in m else 3 if "full" in m else 10)
    if kind in WORDS:
        return Work("alu", instructions=80)
    return Work("alu", instructions=12 if kind[0] == "s" else 9)


def _remainder(m: Modifiers) -> Work:
    kind = first_type(m)
    if kind in WORDS:
        return Work("alu", instructions=75)
    return Work("alu", instructions=10 if kind[0] == "s" else 8)


def _root(m: Modifiers) -> Work:
    """rcp and sqrt: IEEE-rounded, or the approximation of the special-function unit."""
    if first_type(m) == "f64":
        return Work("fp64", instructions=1 if "approx" in m else 14)
    if "approx" in m:
        return Work("xu") if "ftz" in m else Work("xu", instructions=2)
    return Work("fma", instructions=10)


def _function(m: Modifiers) -> Work:
    return Work("xu")


def _scaled(m: Modifiers) -> Work:
    """lg2, rsqrt: without ``.ftz``, subnormal arguments are scaled before and after."""
    return Work("xu") if "ftz" in m or first_type(m) != "f32" else Work("xu", instructions=2)


def _convert(m: Modifiers) -> Work:
    kinds = _types(m)
    if len(kinds) < 2 or {"pack"} & set(m):
        return Work("xu")
    to, of = kinds[0], kinds[-1]
    integer_to, integer_of = to[0] in "sub", of[0] in "sub"
    if integer_to and integer_of:
        return Work("alu")
    if to == of == "f32" and not {"rni", "rzi", "rmi", "rpi"} & set(m):
        return Work("fma")  # saturates or flushes
    if of in HALF_TYPES and to == "f32":
        return Work("half")
    wide = "f64" in (to, of) if integer_to else of == "f64" or (integer_of and of in WORDS)
    return Work("xu", frozenset(("wide_source",)) if wide else frozenset())


def _field(m: Modifiers) -> Work:
    return Work("alu", instructions=2 * _words(m))


def _count(m: Modifiers) -> Work:
    return Work("xu", instructions=_words(m))


def _simd(count: int) -> Callable[[Modifiers], Work]:
    return lambda m: Work("alu", instructions=count)


def _always(unit: str, *traits: str) -> Callable[[Modifiers], Work]:
    work = Work(unit, frozenset(traits))
    return lambda m: work


def _shape(m: Modifiers) -> tuple[int, int, int]:
    """M, N and K from ``m16n8k16``."""
    shape = next((x for x in m if x.startswith("m") and "n" in x and "k" in x and x[1].isdigit()), "m16n8k16")
    rows, rest = shape[1:].split("n")
    columns, depth = rest.split("k")
    return int(rows), int(columns), int(depth)


FACTOR_BITS = {
    **dict.fromkeys(("f64",), 64),
    **dict.fromkeys(("tf32",), 32),
    **dict.fromkeys(("s8", "u8", "e4m3", "e5m2"), 8),
    **dict.fromkeys(("s4", "u4"), 4),
    "b1": 1,
}
"""Width of a product's elements by the first type that is named; otherwise 16."""


def _tensor(m: Modifiers) -> Work:
    bits = next((FACTOR_BITS[t] for t in m if t in FACTOR_BITS), 16)
    return warp_product(*_shape(m), bits, "sp" in m or "sp::ordered_metadata" in m)


def _wmma(m: Modifiers) -> Work:
    return _tensor(m) if "mma" in m else _memory(m)


def _wgmma(m: Modifiers) -> Work:
    if "wait_group" in m:
        return Work("products_done")
    if "mma_async" not in m:
        return Work("branch")  # fence and commit_group: WARPGROUP
    return Work("group_product", frozenset(("sparse",)) if "sp" in m else frozenset(), _shape(m)[1])


def _memory(m: Modifiers) -> Work:
    return Work("memory", frozenset(("device_scope",)) if {"gpu", "cluster"} & {*m} else frozenset())


def _atomic(m: Modifiers) -> Work:
    return _memory(m)


def _reduce(m: Modifiers) -> Work:
    return Work("memory", _memory(m).traits | {"no_result"})


def _copy(m: Modifiers) -> Work:
    """cp: single copies of cp.async, their groups, and bulk copies."""
    if "commit_group" in m:
        return Work("copies_done")
    if {"wait_group", "wait_all"} & {*m}:
        return Work("counter_wait")
    if "mbarrier" in m:
        return Work("mbarrier")
    if "bulk" in m:
        return Work("memory")
    return Work("memory", frozenset(("async_copy", "l2_only") if "cg" in m else ("async_copy",)))


def _fence(m: Modifiers) -> Work:
    if "proxy" in m or "mbarrier_init" in m:
        return Work("alu")
    traits = ("block",) if "cta" in m else ("system",) if {"sys"} & {*m} else ()
    return Work("fence", frozenset(traits))


def _barrier(m: Modifiers) -> Work:
    if "warp" in m:
        return Work("branch")
    return Work("cluster_barrier") if "cluster" in m else Work("block_barrier")


def _mbarrier(m: Modifiers) -> Work:
    return Work("mbarrier", frozenset(("try_wait",)) if "try_wait" in m else frozenset())


def _match(m: Modifiers) -> Work:
    traits = [t for t, holds in (("any", "any" in m), ("wide", "b64" in m)) if holds]
    return Work("match", frozenset(traits))


def _move_matrix(m: Modifiers) -> Work:
    return Work("alu")  # MOVM, for which there are no measurements


ALU = (
    *(
        "abs",
        "and",
        "cnot",
        "mov",
        "neg",
        "not",
        "or",
        "xor",
        "selp",
        "slct",
        "shf",
        "lop3",
        "prmt",
        "bmsk",
        "szext",
        "testp",
    ),
    *(
        "copysign",
        "cvta",
        "isspacep",
        "mapa",
        "getctarank",
        "activemask",
        "vote",
        "addc",
        "subc",
        "set",
        "alloca",
        "stacksave",
    ),
    *("stackrestore", "createpolicy", "shl", "shr"),
)
WORKS: dict[str, Callable[[Modifiers], Work]] = {
    **dict.fromkeys(ALU, _simple),
    **dict.fromkeys(("add", "sub", "fma"), _sum),
    **dict.fromkeys(("mul", "mad", "madc"), _product),
    **dict.fromkeys(("mul24", "mad24"), lambda m: Work("fma_heavy", instructions=4 if "hi" in m else 2)),
    **dict.fromkeys(("dp2a", "dp4a"), _always("fma_heavy")),
    **dict.fromkeys(("min", "max"), _extreme),
    "setp": _compare,
    "div": _divide,
    "rem": _remainder,
    **dict.fromkeys(("rcp", "sqrt"), _root),
    **dict.fromkeys(("lg2", "rsqrt"), _scaled),
    **dict.fromkeys(("sin", "cos"), lambda m: Work("xu", instructions=2)),
    **dict.fromkeys(("ex2", "tanh"), _function),
    "cvt": _convert,
    **dict.fromkeys(("bfe", "bfi"), _field),
    **dict.fromkeys(("popc", "clz", "brev", "bfind"), _count),
    "fns": _simd(34),
    "sad": _simd(1),
    **dict.fromkeys(("vadd", "vsub", "vmin", "vmax", "vshl", "vshr", "vmad"), _simd(2)),
    "vabsdiff": _simd(5),
    "vset": _simd(8),
    **dict.fromkeys(("vadd2", "vsub2", "vmin2", "vmax2", "vabsdiff2", "vavrg2", "vset2"), _simd(17)),
    **dict.fromkeys(("vadd4", "vsub4"), _simd(29)),
    **dict.fromkeys(("vmin4", "vmax4", "vabsdiff4", "vavrg4", "vset4"), _simd(40)),
    **dict.fromkeys(("ld", "ldu", "st", "suld", "sust", "sured"), _memory),
    **dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard"), _always("memory", "no_result")),
    "ldmatrix": _always("memory", "matrix_rows"),
    "stmatrix": _always("memory"),
    "atom": _atomic,
    "red": _reduce,
    "cp": _copy,
    "mbarrier": _mbarrier,
    "tensormap": _always("memory"),
    **dict.fromkeys(("tex", "txq", "suq"), _always("texture")),
    "tld4": _always("texture"),
    "shfl": _always("shuffle"),
    "redux": _always("reduction"),
    "match": _match,
    "elect": _always("branch"),
    "mma": _tensor,
    "wmma": _wmma,
    "wgmma": _wgmma,
    "movmatrix": _move_matrix,
    **dict.fromkeys(("bar", "barrier"), _barrier),
    **dict.fromkeys(("membar", "fence"), _fence),
    **dict.fromkeys(("bra", "call", "ret", "trap"), _always("branch")),
    "brx": _always("indirect_branch"),
    "exit": _always("exit"),
    "nanosleep": _always("sleep"),
    "griddepcontrol": lambda m: Work("grid_wait" if "wait" in m else "launch_dependents"),
    **dict.fromkeys(("nop", "pmevent", "brkpt", "setmaxnreg"), _always("none")),
}
STEPS: dict[str, Work] = {
    "bssy": Work("convergence"),
    "bsync": Work("join"),
    "bclear": Work("none"),
    "warpsync": Work("branch"),
    "yield": Work("yield"),
    **dict.fromkeys(("argument", "parameter", "result", "save", "restore"), Work("memory")),
    **dict.fromkeys(("called", "stack"), Work("alu")),
}
"""Steps that the front end adds: reconvergence points, call arguments and results, saved registers."""


WAITS = ("copies_done", "counter_wait", "fence", "products_done")


def takes_time(opcode: str, modifiers: Modifiers) -> bool:
    """Whether an instruction that computes nothing here is kept because others wait for it in simulated time."""
    return opcode in WORKS and WORKS[opcode](modifiers).unit in WAITS


def work_of(i: Instruction) -> Work:
    """The unit that executes a step of a PTX kernel.

    Raises:
        UnknownTiming: the table has no row for its opcode.
    """
    return find_work(i, WORKS)


def find_work(i: Instruction, works: Mapping[str, Callable[[Modifiers], Work]]) -> Work:
    """The row of a chip's table for a step; errors as in ``work_of``."""
    name = i.opcode.lower()
    if name in STEPS:
        return STEPS[name]
    text = i.operands[0].name if i.operands else name
    known = works.get(name)
    if known is None:
        raise UnknownTiming(f"opcode {name} has no timing row: {text} at {i.address:#06x}; use timing='off'")
    if name == "mov" and any(special in text for special in SPECIAL):
        return Work("special")
    if name in ("ld", "ldu") and {"param"} & {*i.modifiers}:
        return Work("alu", instructions=_words(i.modifiers))  # a constant operand, as in machine code
    if name == "ld" and "const" in i.modifiers:
        return Work("constant")
    return known(i.modifiers)
