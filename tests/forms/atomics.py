"""Atomics and reductions (PTX ISA 8.8, sections 9.7.13.5 and 9.7.13.6): every operation, type, order, scope and space.

What several threads leave in one place depends on their order for some operations; so each thread has places of its own,
and operations whose result does not depend on the order are done by all threads of a warp on one place as well.
"""

from __future__ import annotations

from tests.forms.form import Row

OPERATIONS = {
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"), "exch": ("b32", "b64"),
    "add": ("u32", "s32", "u64", "f32", "f64"), "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",), "dec": ("u32",),
}  # fmt: skip
COMMUTE = {"and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"), "add": ("u32", "s32", "u64"),
           "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"), "inc": ("u32",), "dec": ("u32",)}  # fmt: skip
ORDERS = ("", ".relaxed", ".acquire", ".release", ".acq_rel")
SCOPES = ("", ".cta", ".gpu", ".sys")
TILE = ".reg .b32 q; .shared .align 8 .b8 tile{n}_{v}[4096]; mov.u32 q, tile{n}_{v}; mad.lo.u32 q, %t, 8, q;"
ONE = ".reg .b32 q, z; .reg .pred first; .shared .align 8 .b8 tile{n}_{v}[64]; and.b32 z, %t, 31; setp.eq.u32 first, z, 0; shr.u32 q, %t, 5; shl.b32 q, q, 3; mov.u32 z, tile{n}_{v}; add.u32 q, q, z;"
WARP = ".reg .b64 q; .reg .b32 z; and.b32 z, %t, 31; mul.lo.u32 z, z, 128; cvt.u64.u32 q, z; sub.u64 q, %s, q;"
"""The scratch memory of the warp's first thread."""


def wide(type: str) -> str:
    return f"b{64 if type.endswith('64') else 32}"


def own(name: str, type: str, space: str = ".global", arch: int = 60) -> Row:
    """On a place of the thread's own that holds the second operand: the old value, and what is there afterwards."""
    kind = wide(type)
    if space == ".shared":
        text = f"{{ {TILE} st.shared.{kind} [q], %b; {{op}} %d, [q], %a; ld.shared.{kind} %d1, [q]; }}"
    else:
        text = f"{{ st.global.{kind} [%s], %b; {{op}} %d, [%s], %a; ld.global.{kind} %d1, [%s]; }}"
    return Row(name, f"{type} {type}: {type} {type}", arch, text=text)


def own_red(name: str, type: str, space: str = ".global", arch: int = 60) -> Row:
    kind = wide(type)
    if space == ".shared":
        text = f"{{ {TILE} st.shared.{kind} [q], %b; {{op}} [q], %a; ld.shared.{kind} %d, [q]; }}"
    else:
        text = f"{{ st.global.{kind} [%s], %b; {{op}} [%s], %a; ld.global.{kind} %d, [%s]; }}"
    return Row(name, f"{type}: {type} {type}", arch, text=text)


def together(name: str, type: str, space: str) -> Row:
    """All threads of a warp on one place; the sum, minimum … does not depend on the order."""
    kind = wide(type)
    if space == ".shared":
        text = f"{{ {ONE} @first st.shared.{kind} [q], %b; bar.warp.sync -1; {{op}} [q], %a; bar.warp.sync -1; ld.shared.{kind} %d, [q]; }}"
    else:
        text = f"{{ {WARP} bar.warp.sync -1; st.global.{kind} [q], 77; bar.warp.sync -1; {{op}} [q], %a; membar.gl; bar.warp.sync -1; ld.volatile.global.{kind} %d, [q]; }}"
    return Row(name, f"{type}: {type} {type}", text=text, plain=True, values=("", "=77"))


# fmt: off
ROWS = (
    *(own(f"atom{space}.{op}.{t}", t, space) for space in ("", ".global", ".shared") for op, types in OPERATIONS.items() for t in types),
    *(own_red(f"red{space}.{op}.{t}", t, space) for space in ("", ".global", ".shared") for op, types in OPERATIONS.items() if op != "exch" for t in types),
    *(together(f"red{space}.{op}.{t}", t, space) for space in (".global", ".shared") for op, types in COMMUTE.items() for t in types),
    *(own(f"atom{order}{scope}{space}.{op}.{t}", t, space) for order in ORDERS[1:] for scope in SCOPES for space in (".global", ".shared") for op, t in (("add", "u32"), ("exch", "b64"), ("min", "s32"), ("add", "f32"))),
    *(own(f"atom.cluster{space}.add.u32", "u32", space, 90) for space in (".global", ".shared")),
    *(own_red(f"red{order}{scope}{space}.{op}.{t}", t, space) for order in ("", ".relaxed", ".release") for scope in SCOPES[1:] for space in (".global", ".shared") for op, t in (("add", "u32"), ("max", "s64"), ("xor", "b32"))),
    # compare and swap: half of the threads compare with what is there
    *(Row(f"atom{order}{scope}{space}.cas.{t}", f"{t} {t}: {t} {t} {t} pred",
          text=("{ .reg .KIND want; selp.KIND want, %b, %c, %e; " + (f"{TILE} st.shared.KIND [q], %b; {{op}} %d, [q], want, %a; ld.shared.KIND %d1, [q]; }}" if space == ".shared"
                else "st.global.KIND [%s], %b; {op} %d, [%s], want, %a; ld.global.KIND %d1, [%s]; }")).replace("KIND", t))
      for order, scope in (("", ""), (".relaxed", ".cta"), (".acquire", ".gpu"), (".acq_rel", ".sys")) for space in ("", ".global", ".shared") for t in ("b16", "b32", "b64")),
    *(Row(f"atom{space}.cas.b128", "b64 b64: b64 b64", 90, plain=True,
          text="{ .reg .b128 x, y, z; mov.b128 x, {%a, %b}; st.global.v2.b64 [%s], {%a, %b}; mov.b128 y, {%b, %a}; {op} z, [%s], x, y; mov.b128 {%d, %d1}, z; }") for space in ("", ".global")),
    Row("atom{,.global}.exch.b128", "b64 b64: b64 b64", 90, plain=True, text="{ .reg .b128 x, z; mov.b128 x, {%a, %b}; {op} z, [%s], x; mov.b128 {%d, %d1}, z; }"),
    # halves
    *(own(f"atom{space}.add.noftz.{t}", t, space, a) for space in ("", ".global", ".shared") for t, a in (("f16x2", 60), ("bf16x2", 90))),
    *(own_red(f"red{space}.add.noftz.{t}", t, space, a) for space in ("", ".global", ".shared") for t, a in (("f16x2", 60), ("bf16x2", 90))),
    *(Row(f"atom{space}.add.noftz.{t}", f"{t} {t}: {t} {t}", a,
          text=f"{{ {TILE} st.shared.b16 [q], %b; {{op}} %d, [q], %a; ld.shared.b16 %d1, [q]; }}" if space == ".shared" else "{ st.global.b16 [%s], %b; {op} %d, [%s], %a; ld.global.b16 %d1, [%s]; }")
      for space in ("", ".global", ".shared") for t, a in (("f16", 70), ("bf16", 90))),
    *(Row(f"red{space}.add.noftz.{t}", f"{t}: {t} {t}", a,
          text=f"{{ {TILE} st.shared.b16 [q], %b; {{op}} [q], %a; ld.shared.b16 %d, [q]; }}" if space == ".shared" else "{ st.global.b16 [%s+2], %b; {op} [%s+2], %a; ld.global.b16 %d, [%s+2]; }")
      for space in ("", ".global", ".shared") for t, a in (("f16", 70), ("bf16", 90))),
    # vectors of sm_90
    Row("atom.global.add.v2.f32", "f32 f32: f32 f32", 90, plain=True, text="{op} {%d, %d1}, [%s], {%a, %b};"),
    Row("atom.global.add.v4.f32", "f32 f32 f32 f32: f32 f32 f32 f32", 90, plain=True, text="{op} {%d, %d1, %d2, %d3}, [%s], {%a, %b, %c, %e};"),
    *(Row(f"atom.global.{op}.noftz.v2.{t}", f"{t} {t}: {t} {t}", 90, plain=True, text="{op} {%d, %d1}, [%s], {%a, %b};") for op in ("add", "min", "max") for t in ("f16", "bf16", "f16x2", "bf16x2")),
    *(Row(f"atom.global.{op}.noftz.v4.{t}", f"{t} {t} {t} {t}: {t} {t} {t} {t}", 90, plain=True, text="{op} {%d, %d1, %d2, %d3}, [%s], {%a, %b, %c, %e};") for op in ("add", "min", "max") for t in ("f16", "bf16", "f16x2", "bf16x2")),
    *(Row(f"atom.global.{op}.noftz.v8.{t}", f"{t} {t} {t} {t}: {t} {t} {t} {t}", 90, plain=True,
          text="{ .reg .b16 x<4>; {op} {%d, %d1, %d2, %d3, x0, x1, x2, x3}, [%s], {%a, %b, %c, %e, %a, %b, %c, %e}; }") for op in ("add", "min", "max") for t in ("f16", "bf16")),
    Row("red.global.add.v2.f32", ": f32 f32", 90, plain=True, text="{op} [%s], {%a, %b};"), Row("red.global.add.v4.f32", ": f32 f32 f32 f32", 90, plain=True, text="{op} [%s], {%a, %b, %c, %e};"),
    *(Row(f"red.global.{op}.noftz.v2.{t}", f": {t} {t}", 90, plain=True, text="{op} [%s], {%a, %b};") for op in ("add", "min", "max") for t in ("f16", "bf16", "f16x2", "bf16x2")),
    *(Row(f"red.global.{op}.noftz.v4.{t}", f": {t} {t} {t} {t}", 90, plain=True, text="{op} [%s], {%a, %b, %c, %e};") for op in ("add", "min", "max") for t in ("f16", "bf16", "f16x2", "bf16x2")),
    *(Row(f"red.global.{op}.noftz.v8.{t}", f": {t} {t} {t} {t}", 90, plain=True, text="{op} [%s], {%a, %b, %c, %e, %e, %c, %b, %a};") for op in ("add", "min", "max") for t in ("f16", "bf16")),
    *(Row(f"{name}.global.add.L2::cache_hint.u32", "u32: u32" if name == "atom" else ": u32", 80, plain=True,
          text="{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0; {op} " + ("%d, " if name == "atom" else "") + "[%s], %a, policy; }") for name in ("atom", "red")),
)
# fmt: on
