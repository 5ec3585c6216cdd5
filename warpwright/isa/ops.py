"""The common operations: the small typed language to which every front end lowers.

One machine instruction becomes a short straight list of :class:`Op` in SSA form: a value
is the position of the operation that made it.  Both engines execute exactly this list
(LLVM for whole warps, NumPy as the reference), so each meaning is written once, in the
front end's ``meaning`` module, with a :class:`Builder`.

Conventions
-----------
* Every value has one of the types in ``TYPES`` and exists per lane.  A wave has 16, 32 or 64 lanes (``Program.lanes``), and a mask is an
  integer of as many bits (:func:`mask_type`).  The engine infers which values are uniform; meanings never state it,
  except through ops that are uniform by nature (``ballot``, ``active``).
* An instruction runs under ``exec = active lanes AND guard``.  ``set_*``, ``store``, ``atomic``
  and control operations act on ``exec`` lanes only; meanings never mask explicitly.
* Integer arithmetic wraps.  Shift amounts are unsigned; an amount >= the width gives 0
  (``shl``, ``lshr``) or the sign (``ashr``), never poison.
* Float operations are IEEE, no fast-math, subnormals kept; ``ftz`` flushes explicitly.
  NaN results are canonical where CUDA says so (0x7fffffff for f32), which meanings express
  with ``canonical_nan``.
* Memory addresses are i64 device addresses for ``global`` and ``generic``, i32 byte offsets for
  ``shared``, ``local``; constant offsets are i32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TYPES = ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "i32x2", "i32x4", "words", "void")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")

FIRST_CLUSTERS = 90
"""Compute capability times ten of the first chips with thread block clusters."""
SHARED_RANK_SHIFT = 24
"""From this architecture on, a shared address (i32, or the lower word of a generic one) contains the rank of its block
in the cluster."""

WARP_LANES = 32
"""Warp width for which tensor products, bulk copies, textures and driver functions are defined."""
WARP_ONLY = frozenset(("mma", "wgmma", "bulk", "texture", "service"))
"""Operations that exist only for that width."""


def mask_type(lanes: int) -> str:
    """Type of a mask with one bit per lane of a wave."""
    return f"i{lanes}"


Value = int
"""Position of the defining operation in the instruction's list."""


class Op(NamedTuple):
    """One operation: ``type`` is the result's type, ``args`` are values, ``attr`` depends on the operation."""

    name: str
    type: str
    args: tuple[Value, ...]
    attr: Any = None


class Signature(NamedTuple):
    """Types of an operation, as the verifier checks them."""

    args: str
    """One word per argument: a type, ``T`` (the result's type), ``M`` (a mask with one bit per lane), ``N`` (any
    integer), ``F`` (any float) or ``*`` (any); ``...`` stands for more arguments."""
    result: str
    """A type, ``T`` (given by the meaning), ``M`` or void."""
    effect: str
    """pure | state (reads or writes registers) | memory | warp (across lanes) | control."""
    meaning: str


# fmt: off
OPS: dict[str, Signature] = {
    # registers: attr = register number.  RZ/URZ/PT are resolved by the Builder (constants; writes dropped)
    "get_reg":      Signature("", "i32", "state", "32-bit register R[attr]"),
    "set_reg":      Signature("i32", "void", "state", "R[attr] = value in exec lanes"),
    "get_reg64":    Signature("", "i64", "state", "register pair R[attr+1]:R[attr]"),
    "set_reg64":    Signature("i64", "void", "state", "pair"),
    "get_ureg":     Signature("", "i32", "state", "uniform register UR[attr]"),
    "set_ureg":     Signature("i32", "void", "state", "value of the lowest exec lane (uniform by construction)"),
    "get_ureg64":   Signature("", "i64", "state", "pair"),
    "set_ureg64":   Signature("i64", "void", "state", "pair"),
    "get_pred":     Signature("", "i1", "state", "predicate P[attr]"),
    "set_pred":     Signature("i1", "void", "state", "P[attr]"),
    "get_upred":    Signature("", "i1", "state", "UP[attr]"),
    "set_upred":    Signature("i1", "void", "state", "UP[attr]"),
    "get_barrier":  Signature("", "M", "state", "convergence barrier B[attr]: mask of participating lanes, per lane"),
    "set_barrier":  Signature("M", "void", "state", "B[attr]"),
    "special":      Signature("", "i32", "state", "attr: name from SPECIALS"),
    "special64":    Signature("", "i64", "state", "attr: 'clock' (cycles), 'globaltimer' (ns)"),
    "active":       Signature("", "M", "state", "mask of exec lanes (uniform)"),
    # constants and structure
    "const":        Signature("", "T", "pure", "attr: the bits as a Python int, unsigned"),
    "select":       Signature("i1 T T", "T", "pure", "args[1] where args[0] else args[2]"),
    "bitcast":      Signature("*", "T", "pure", "same width"),
    "trunc":        Signature("N", "T", "pure", "low bits"),
    "zext":         Signature("N", "T", "pure", "attr 'address': of a whole address in global memory"),
    "sext":         Signature("N", "T", "pure", ""),
    "pack64":       Signature("i32 i32", "i64", "pure", "args[1]:args[0] (low word first)"),
    "pack2":        Signature("i32 i32", "i32x2", "pure", ""),
    "pack4":        Signature("i32 i32 i32 i32", "i32x4", "pure", ""),
    "extract":      Signature("*", "i32", "pure", "word attr of an i32x2, i32x4, words or i64"),
    # integers
    "add":          Signature("T T", "T", "pure", ""),
    "sub":          Signature("T T", "T", "pure", ""),
    "mul":          Signature("T T", "T", "pure", "low half"),
    "umulhi":       Signature("T T", "T", "pure", "high half, unsigned"),
    "smulhi":       Signature("T T", "T", "pure", "high half, signed"),
    "and":          Signature("T T", "T", "pure", ""),
    "or":           Signature("T T", "T", "pure", ""),
    "xor":          Signature("T T", "T", "pure", ""),
    "not":          Signature("T", "T", "pure", ""),
    "shl":          Signature("T T", "T", "pure", "amount >= width gives 0"),
    "lshr":         Signature("T T", "T", "pure", "amount >= width gives 0"),
    "ashr":         Signature("T T", "T", "pure", "amount >= width gives the sign"),
    "umin":         Signature("T T", "T", "pure", ""),
    "umax":         Signature("T T", "T", "pure", ""),
    "smin":         Signature("T T", "T", "pure", ""),
    "smax":         Signature("T T", "T", "pure", ""),
    "icmp":         Signature("N N", "i1", "pure", "attr: eq ne ult ule ugt uge slt sle sgt sge"),
    "popcount":     Signature("T", "T", "pure", ""),
    "clz":          Signature("T", "T", "pure", "leading zeros; width for 0"),
    "bitreverse":   Signature("T", "T", "pure", ""),
    "lop3":         Signature("i32 i32 i32", "i32", "pure", "attr: 8-bit truth table, bit (a<<2|b<<1|c)"),
    "prmt":         Signature("i32 i32 i32", "i32", "pure", "attr mode 'idx': bytes of args[0] (0-3), args[2] (4-7) by selector args[1]"),
    # floats.  attr of arithmetic: rounding 'rn' 'rz' 'rm' 'rp'
    "fadd":         Signature("T T", "T", "pure", "attr: rounding"),
    "fmul":         Signature("T T", "T", "pure", "attr: rounding"),
    "fma":          Signature("T T T", "T", "pure", "attr: rounding; single rounding"),
    "fmad":         Signature("f32 f32 f32", "f32", "pure", "G80's multiply-add: the product, of any exponent, is cut to 24 bits unless args[2] is zero; the sum is rounded to nearest"),
    "fneg":         Signature("T", "T", "pure", "sign bit flipped, NaN payload kept"),
    "fabs":         Signature("T", "T", "pure", "sign bit cleared"),
    "ftz":          Signature("T", "T", "pure", "subnormal to zero of the same sign"),
    "canonical_nan": Signature("T", "T", "pure", "any NaN becomes CUDA's canonical NaN of the type"),
    "nan_of":       Signature("T T ...", "T", "pure", "f64: args[0] where it is a number, else the first of the others that is NaN, made quiet, else the canonical NaN"),
    "ftz_of":       Signature("T T T ...", "T", "pure", "ftz of args[0], the product (and sum) of the others; attr: rounding.  Tininess counts before the exponent's limit: what was rounded up to the smallest normal number at subnormal precision is flushed"),
    "fcmp":         Signature("F F", "i1", "pure", "attr: oeq one olt ole ogt oge ueq une ult ule ugt uge ord uno"),
    "fmin":         Signature("T T", "T", "pure", "attr: 'number' (the other operand if one is NaN) or 'nan'; -0 < +0"),
    "fmax":         Signature("T T", "T", "pure", "as fmin"),
    "fround":       Signature("T", "T", "pure", "attr: rn rz rm rp: to an integral value"),
    "fcvt":         Signature("F", "T", "pure", "float to float; attr: rounding (widening is exact)"),
    "f2i":          Signature("F", "T", "pure", "attr: (signed: bool, rounding); saturates; NaN gives 0 (32 bits and less) or the minimum (64)"),
    "i2f":          Signature("N", "T", "pure", "attr: (signed: bool, rounding)"),
    "mufu":         Signature("F", "T", "pure", "attr: rcp rsq sqrt ex2 lg2 sin cos tanh; sin and cos take turns: sin(2 pi x), as the machine does"),
    # across lanes
    "ballot":       Signature("i1", "M", "warp", "mask of exec lanes whose value is true (uniform)"),
    "shuffle":      Signature("i32 i32", "i32", "warp", "value args[0] of lane args[1] (0 .. lanes - 1); inactive source lanes give their register's current content (NVIDIA's shuffles: of executed)"),
    "executed":     Signature("i32", "i32", "warp", "args[0] in exec lanes, 0 in the others"),
    "match_any":    Signature("i32", "M", "warp", "mask of exec lanes with an equal value"),
    "redux":        Signature("i32", "i32", "warp", "attr: add umin umax smin smax and or xor over exec lanes (uniform)"),
    "first_lane":   Signature("T", "T", "warp", "value of the lowest exec lane (R2UR; uniform)"),
    "mma":          Signature("i32 ...", "i32x4", "warp", "attr: (shape 'm16n8k16', a/b type, c/d type, n_a, n_b, n_c registers, architecture): args a.. b.. c.. [metadata of a sparse shape, engine/matrix_fragments.py]; d in words"),
    "wgmma":        Signature("i32 ...", "words", "memory", "attr: GroupProduct: 16 rows of a warpgroup's product: the words of D; args: the warp's number in its group, A (4 words, or a descriptor's 2), B's descriptor (2), [metadata], C"),
    # memory.  attr: Access
    "load":         Signature("* ...", "T", "memory", "i8/i16/i32 for 1, 2, 4 bytes, i32x2 for 8, i32x4 for 16; lanes where the i1 args[1] is false (when given) access nothing and get 0"),
    "store":        Signature("* *", "void", "memory", "address, value (same types as load)"),
    "atomic":       Signature("* * ...", "T", "memory", "address, operand[, compare or place]: the old value; attr.operation"),
    "touch":        Signature("* ...", "void", "memory", "address[, condition as of load]: no effect; what observers see in place of the instruction's other memory operations"),
    "load_const":   Signature("i32", "T", "memory", "attr: (bank, bytes); unwritten space reads 0"),
    "fence":        Signature("", "void", "memory", "attr: cta | gpu | sys"),
    "gathers":      Signature("M", "void", "state", "the mask of a *_sync operation of chips that do not wait for its lanes: with tracing for the checks, who carries it out is recorded"),
    "access_policy": Signature("i32", "void", "state", "upper word of the access policy of the instruction's access (isa/sass/access_policy.py): with tracing it is recorded"),
    "aligned":      Signature("i32 i1", "void", "state", "an address in shared memory, for which lanes: a fault unless it is a multiple of the access's bytes"),
    "named":        Signature("M", "void", "state", "the mask of a *_sync operation, which should name the exec lanes: with tracing, who is not named is noted"),
    "async_commit": Signature("", "void", "memory", "attr: scoreboard (LDGDEPBAR); copies are complete at once in the functional engine"),
    "service":      Signature("...", "i64", "memory", "attr: a name of isa/services.py; arguments in words; the driver's function does its work for the exec lanes"),
    "texture":      Signature("i32 ...", "i32x4", "memory", "attr: TextureAccess of isa/texture_access.py, which says what the words are; a surface's store is one as well"),
    "bulk":         Signature("i32 ...", "void", "memory", "attr: isa/bulk.py's Bulk; arguments: its words"),
    # control: the last operation of an instruction
    "branch":       Signature("...", "void", "control", "exec lanes (where the i1 args[0] holds, when given) continue at attr (byte address), the rest fall through"),
    "branch_indirect": Signature("i64", "void", "control", "attr: tuple of possible byte addresses, or () when unknown"),
    "exit":         Signature("...", "void", "control", "exec lanes (where the i1 args[0] holds, when given) end"),
    "trap":         Signature("", "void", "control", "attr: name (BPT.TRAP, assertion)"),
    "bssy":         Signature("", "void", "control", "attr: (B number, target address): B = exec lanes"),
    "bsync":        Signature("", "void", "control", "attr: B number: wait until every lane of B arrived, left or exited"),
    "break":        Signature("...", "void", "control", "attr: B number: exec lanes (where the i1 args[0] holds, when given) leave B"),
    "warpsync":     Signature("M", "void", "control", "wait until all lanes of the mask have arrived"),
    "push":         Signature("", "void", "control", "attr: (kind ssy | brk | cnt | ret, target address): an entry of the reconvergence stack for exec lanes"),
    "pop":          Signature("...", "void", "control", "attr: kind: exec lanes (where the i1 args[0] holds, when given) go to the topmost entry of that kind"),
    "call":         Signature("", "void", "control", "attr: address: push 'ret' for the next instruction, then branch"),
    "yield":        Signature("", "void", "control", "a hint: another diverged group may run"),
    "nanosleep":    Signature("i32", "void", "control", "nanoseconds; attr: 'grid' of griddepcontrol, which means something in time alone"),
    "barrier":      Signature("i32 i32", "void", "control", "attr: sync | arrive; barrier number, thread count (0 = whole block); cluster_arrive | cluster_wait: both 0"),
    "barrier_red":  Signature("i32 i32 i1", "i32", "control", "attr: popc | and | or; as sync; result is available when the barrier completes"),
}
# fmt: on

SPECIALS = (
    "barrier_result",  # result of this warp's last reducing barrier
    *("tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z", "ctaid.x", "ctaid.y", "ctaid.z"),
    *("nctaid.x", "nctaid.y", "nctaid.z", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid"),
    *("lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"),
    *("clock_lo", "clock_hi", "shared_window_hi", "shared_window_lo", "local_window_hi", "local_window_lo"),
    *("cluster_ctaid", "cluster_nctaid", "is_explicit_cluster"),  # rank and number of blocks in the cluster
    *(f"{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid") for axis in "xyz"),
    *("dynamic_smem_size", "total_smem_size", "globaltimer_lo", "globaltimer_hi"),
)


ATTRIBUTES = "ATTRIBUTES"
"""``Access.cache`` of accesses that stand for on-chip inputs and outputs of graphics programs: not memory accesses, and
not recorded."""


class Access(NamedTuple):
    """Attribute of ``load``, ``store`` and ``atomic``."""

    space: str
    """global | generic | shared | local; for ``touch`` also constant (addresses are offsets in the bank) and value
    (addresses are the values that the lanes compare)."""
    bytes: int
    """Bytes per lane: 1, 2, 4, 8, 16."""
    strong: bool = False
    """Volatile, relaxed, acquire or release: a stop point with timing enabled, and a yield point in loops."""
    operation: str = ""
    """Operation of an atomic: add umin umax smin smax inc dec and or xor exch cas mskor (old & ~third | operand)
    fadd (f32/f64), fadd_ftz (f32), fadd_f16x2, fadd_bf16x2, fmin, fmax; fadd_quiet (f64): a sum by arithmetic
    instructions,
    whose NaNs are quiet.  For one half of a word, whose first bit (0 or 16) is the third source: fadd_half (f16, bf16),
    cas_half (i32; the operand holds the new half and, above it, the expected one).  cast (i32, i64): a compare-and-swap
    that
    only the lowest lane on each bank of shared memory tries (with 8 bytes: in each half-warp); returns 1 where it was
    done.
    mbarrier (i64): a change of sm_90's barrier objects (``isa/mbarrier.py``).  For loads: phase, a test of such an
    object."""
    type: str = "i32"
    """Type of an atomic: i32 i64 i128 (exch and cas of an i32x4) f32 f64 f16x2 bf16x2; for half words f16 bf16."""
    cache: str = ""
    """Cache operator as printed (EF, EL, LU, CONSTANT, BYPASS …); only timing uses it."""
    scope: str = ""
    """Scope of a strong load: ``block`` if only threads of its block may have written the data, so that L1 may serve
    it; "" for wider scopes."""


class GroupProduct(NamedTuple):
    """Attribute of ``wgmma``: operands from shared memory, 32 bytes deep (64 bytes for B of a sparse product)."""

    n: int
    """Number of columns, a multiple of 8."""
    element: str
    """Element type of A and B: f16 bf16 tf32 e4m3 e5m2 s8 u8 b1, or the types of both (``e4m3e5m2``, ``s8u8``)."""
    accumulator: str
    """Type of the accumulator: f16 f32 s32."""
    arch: int
    shared_a: bool
    """A comes from shared memory too."""
    transposed: tuple[bool, bool] = (False, False)
    """For A and B: consecutive elements in memory follow m or n, not k."""
    negated: tuple[bool, bool] = (False, False)
    selector: int = -1
    """For a sparse product: the lanes that hold the metadata (PTX's selector)."""

    @property
    def tile(self) -> tuple[str, str, str, int, int, int, int]:
        """Attribute of the ``mma`` for one group of 8 columns."""
        width = {"f16": 16, "bf16": 16, "tf32": 32, "b1": 1}.get(self.element, 8)
        sparse = self.selector >= 0
        shape = f"m16n8k{256 // width * (2 if sparse else 1)}" + (f".sp{self.selector}" if sparse else "")
        n_c = 2 if self.accumulator == "f16" else 4
        return shape, self.element, self.accumulator, 4, 4 if sparse else 2, n_c, self.arch

    @property
    def sign_bits(self) -> int:
        """The sign bits of all elements of a word."""
        return {"f16": 0x80008000, "bf16": 0x80008000, "tf32": 0x80000000}.get(self.element, 0x80808080)


@dataclass(slots=True)
class Lowered:
    """One instruction as operations.  ``guard`` is the predicate (kind 'pred' | 'upred', number, inverted) or None."""

    ops: list[Op]
    guard: tuple[str, int, bool] | None = None


@dataclass(slots=True)
class Builder:
    """Collects the operations of one instruction; every method returns the new value.

    ``b.op("add", "i32", x, y)`` appends any operation; the helpers below cover the most common ones.
    """

    ops: list[Op] = field(default_factory=list)

    def op(self, name: str, type: str, *args: Value, attr: Any = None) -> Value:
        if name not in OPS:
            raise ValueError(f"no common operation is called {name!r}")
        self.ops.append(Op(name, type, args, attr))
        return len(self.ops) - 1

    def type_of(self, value: Value) -> str:
        return self.ops[value].type

    def const(self, bits: int, type: str = "i32") -> Value:
        width = {"i1": 1, "i8": 8, "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}[type]
        return self.op("const", type, attr=bits & ((1 << width) - 1))

    def binary(self, name: str, x: Value, y: Value, attr: Any = None) -> Value:
        return self.op(name, self.type_of(x), x, y, attr=attr)

    def add(self, x: Value, y: Value) -> Value:
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.binary("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.binary("mul", x, y)

    def and_(self, x: Value, y: Value) -> Value:
        return self.binary("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self.binary("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        return self.binary("xor", x, y)

    def not_(self, x: Value) -> Value:
        return self.op("not", self.type_of(x), x)

    def shl(self, x: Value, y: Value) -> Value:
        return self.binary("shl", x, y)

    def lshr(self, x: Value, y: Value) -> Value:
        return self.binary("lshr", x, y)

    def ashr(self, x: Value, y: Value) -> Value:
        return self.binary("ashr", x, y)

    def icmp(self, relation: str, x: Value, y: Value) -> Value:
        return self.op("icmp", "i1", x, y, attr=relation)

    def fcmp(self, relation: str, x: Value, y: Value) -> Value:
        return self.op("fcmp", "i1", x, y, attr=relation)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return self.op("select", self.type_of(x), condition, x, y)

    def bitcast(self, x: Value, type: str) -> Value:
        return x if self.type_of(x) == type else self.op("bitcast", type, x)

    def trunc(self, x: Value, type: str) -> Value:
        return x if self.type_of(x) == type else self.op("trunc", type, x)

    def zext(self, x: Value, type: str) -> Value:
        return x if self.type_of(x) == type else self.op("zext", type, x)

    def sext(self, x: Value, type: str) -> Value:
        return x if self.type_of(x) == type else self.op("sext", type, x)


def verify(ops: Sequence[Op], lanes: int = 32) -> None:
    """Check names, arity, argument types and order, for waves of ``lanes`` lanes.

    Raises:
        ValueError: naming the operation and what is wrong with it.
    """
    mask = mask_type(lanes)
    for position, op in enumerate(ops):
        signature = OPS.get(op.name)
        if signature is None:
            raise ValueError(f"operation {position}: no common operation is called {op.name!r}")
        wanted = signature.args.split()
        open_ended = bool(wanted) and wanted[-1] == "..."
        if open_ended:
            wanted = wanted[:-1]
        if len(op.args) < len(wanted) or (len(op.args) > len(wanted) and not open_ended):
            raise ValueError(f"operation {position}: {op.name} takes {len(wanted)} values, not {len(op.args)}")
        if op.type not in TYPES or (
            signature.result != "T"
            and op.name != "mma"
            and op.type != (mask if signature.result == "M" else signature.result)
        ):
            raise ValueError(f"operation {position}: {op.name} does not give {op.type}")
        for want, value in zip(wanted, op.args, strict=False):
            if not 0 <= value < position:
                raise ValueError(f"operation {position}: {op.name} uses value {value} before it is made")
            have = ops[value].type
            fits = {
                "*": have != "void",
                "T": have == op.type,
                "M": have == mask,
                "N": have in INTEGERS,
                "F": have in FLOATS,
            }.get(want, have == want)
            if not fits:
                raise ValueError(f"operation {position}: {op.name} wants {want}, not {have}")
        if signature.effect == "control" and op.name != "barrier_red" and position != len(ops) - 1:
            raise ValueError(f"operation {position}: {op.name} must be the last of its instruction")
