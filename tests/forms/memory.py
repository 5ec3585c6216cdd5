"""Loads, stores, prefetches, asynchronous copies (PTX ISA 8.8, section 9.7.9): all spaces, widths, vectors, cache operators, scopes."""

from __future__ import annotations

from typing import Any

from tests.forms.form import Row

TYPES = ("b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64")
WIDE = {"b8": 16, "u8": 16, "s8": 16}
LOAD_CACHE = (".ca", ".cg", ".cs", ".lu", ".cv")
STORE_CACHE = (".wb", ".cg", ".cs", ".wt")
SCOPES = (".cta", ".cluster", ".gpu", ".sys")


def bits(type: str) -> int:
    return int(type[1:])


def load(
    name: str, type: str, address: str = "%s", arch: int = 60, before: str = "", vector: int = 1, **more: Any
) -> Row:
    """A load of one value or a vector, each element a result; narrow ones go to wider registers."""
    wide = f"b{max(32, bits(type))}"
    registers = ", ".join(f"r{n}" for n in range(vector))
    target = f"{{{registers}}}" if vector > 1 else registers
    outs = " ".join([wide] * vector)
    moves = " ".join(f"mov.{wide} %d{n or ''}, r{n};" for n in range(vector))
    return Row(
        name,
        f"{outs}:",
        arch,
        text=f"{{ .reg .{wide} {registers}; {before} {{op}} {target}, [{address}]; {moves} }}",
        plain=True,
        **more,
    )


def store(
    name: str,
    type: str,
    address: str = "%s",
    arch: int = 60,
    before: str = "",
    after: str = "",
    vector: int = 1,
    **more: str,
) -> Row:
    inputs = " ".join([f"b{bits(type)}" if bits(type) > 8 else "b16"] * vector)
    names = ["%a", "%b", "%c", "%e", "%x4", "%x5", "%x6", "%x7"][:vector]
    source = f"{{{', '.join(names)}}}" if vector > 1 else names[0]
    return Row(
        name, f": {inputs}", arch, text=f"{{ {before} {{op}} [{address}], {source}; {after} }}", plain=True, **more
    )


SHARED = ".reg .b32 q, w; .shared .align 16 .b8 tile{n}_{v}[8192]; mov.u32 q, tile{n}_{v}; mad.lo.u32 q, %t, 32, q;"
FILL = (
    SHARED
    + " ld.global.b32 w, [%s]; st.shared.b32 [q], w; ld.global.b32 w, [%s+4]; st.shared.b32 [q+4], w; ld.global.b32 w, [%s+8]; st.shared.b32 [q+8], w; ld.global.b32 w, [%s+12]; st.shared.b32 [q+12], w;"
)
DRAIN = " ".join(f"ld.shared.b32 w, [q+{4 * k}]; st.global.b32 [%s+{64 + 4 * k}], w;" for k in range(4))
LOCAL = ".reg .b32 w; .local .align 16 .b8 mine[64]; " + " ".join(
    f"ld.global.b32 w, [%s+{4 * k}]; st.local.b32 [mine+{4 * k}], w;" for k in range(4)
)
SPILL = " ".join(f"ld.local.b32 w, [mine+{4 * k}]; st.global.b32 [%s+{64 + 4 * k}], w;" for k in range(4))
CLEAR = ".reg .b32 w; .local .align 16 .b8 mine[64]; " + " ".join(
    f"st.local.b32 [mine+{4 * k}], {k};" for k in range(4)
)
CONSTANTS = ".const .align 16 .b32 table{n}[8] = {1, -1, 0x12345678, 0x80000000, 0x7fffffff, 0xdeadbeef, 7, 0};"
POLICY = ".reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
ZERO_SHARED = SHARED + " " + " ".join(f"st.shared.b32 [q+{4 * k}], {k};" for k in range(4))


def vectors(type: str) -> tuple[int, ...]:
    return tuple(n for n in (1, 2, 4) if n * bits(type) <= 128)


def vector_name(n: int) -> str:
    return f".v{n}" if n > 1 else ""


# fmt: off
LOADS = (
    *(load(f"ld{space}{vector_name(n)}.{t}", t, vector=n) for space in ("", ".global") for t in TYPES for n in vectors(t)),
    *(load(f"ld.global.nc{vector_name(n)}.{t}", t, vector=n, unordered="") for t in TYPES for n in vectors(t)),
    *(load(f"ld.shared{vector_name(n)}.{t}", t, "q", before=FILL, vector=n) for t in TYPES for n in vectors(t)),
    *(load(f"ld.local{vector_name(n)}.{t}", t, "mine", before=LOCAL, vector=n) for t in TYPES for n in vectors(t)),
    *(load(f"ld.const{vector_name(n)}.{t}", t, "table{n}", declare=CONSTANTS, vector=n) for t in TYPES for n in vectors(t)),
    *(load(f"ld.const.{t}", t, "q", declare=CONSTANTS, before=".reg .b64 q; .reg .b32 w; mov.u64 q, table{n}; and.b32 w, %t, 3; mad.wide.u32 q, w, 8, q;") for t in TYPES),
    Row("ld.param.{u8,s8,u16,s16,b16}", "b32: b64", text="{ .reg .b32 r0; {op} r0, [p0]; mov.b32 %d, r0; }", plain=True),
    *(load(f"ld.global{c}.{t}", t) for c in LOAD_CACHE for t in ("u8", "b32", "f64")),
    *(load(f"ld.global{c}.v4.b32", "b32", vector=4) for c in LOAD_CACHE),
    *(load(f"ld.global.nc{c}.b32", "b32") for c in (".ca", ".cg", ".cs", ".L1::evict_last", ".L1::no_allocate", ".L2::128B")),
    *(load(f"ld.volatile{s}.{t}", t, a, before=before) for s, a, before in (("", "%s", ""), (".global", "%s", ""), (".shared", "q", FILL)) for t in ("u8", "s16", "b32", "b64")),
    *(load(f"ld.{sem}{scope}{s}.{t}", t, a, arch=90 if scope == ".cluster" else 70, before=before) for sem in ("relaxed", "acquire") for scope in SCOPES
      for s, a, before in (("", "%s", ""), (".global", "%s", ""), (".shared", "q", FILL)) for t in ("u16", "b32", "u64")),
    *(load(f"ld.mmio.relaxed.sys.global.{t}", t) for t in ("b32", "b64")),
    *(load(f"ld.weak.global{h}.b32", "b32", arch=a) for h, a in ((".L1::evict_normal", 70), (".L1::evict_unchanged", 70), (".L1::evict_first", 70), (".L1::evict_last", 70), (".L1::no_allocate", 70),
      (".L2::64B", 75), (".L2::128B", 75), (".L2::256B", 80))),
    Row("ld.global.L2::cache_hint.{b32,b64}", "T:", 80, text="{ " + POLICY + " {op} %d, [%s], policy; }", plain=True),
    Row("ld.global.b128", "b64 b64:", 70, text="{ .reg .b128 q; {op} q, [%s]; mov.b128 {%d, %d1}, q; }", plain=True),
    Row("ldu.global.{b8,b16,b32,b64,u32,s16,f32,f64}", "T:", text="{ .reg .b64 q; ld.param.u64 q, [scratch]; {op} %d, [q]; }", plain=True),
)
STORES = (
    *(store(f"st{space}{vector_name(n)}.{t}", t, vector=n) for space in ("", ".global") for t in TYPES for n in vectors(t)),
    *(store(f"st.shared{vector_name(n)}.{t}", t, "q", before=ZERO_SHARED, after=DRAIN, vector=n) for t in TYPES for n in vectors(t)),
    *(store(f"st.local{vector_name(n)}.{t}", t, "mine", before=CLEAR, after=SPILL, vector=n) for t in TYPES for n in vectors(t)),
    *(store(f"st.global{c}.{t}", t) for c in STORE_CACHE for t in ("u8", "b32", "f64")), *(store(f"st.global{c}.v4.b32", "b32", vector=4) for c in STORE_CACHE),
    *(store(f"st.volatile{s}.{t}", t, a, before=before, after=after) for s, a, before, after in (("", "%s", "", ""), (".global", "%s", "", ""), (".shared", "q", ZERO_SHARED, DRAIN)) for t in ("u8", "s16", "b32", "b64")),
    *(store(f"st.{sem}{scope}{s}.{t}", t, a, arch=90 if scope == ".cluster" else 70, before=before, after=after) for sem in ("relaxed", "release") for scope in SCOPES
      for s, a, before, after in (("", "%s", "", ""), (".global", "%s", "", ""), (".shared", "q", ZERO_SHARED, DRAIN)) for t in ("u16", "b32", "u64")),
    *(store(f"st.mmio.relaxed.sys.global.{t}", t) for t in ("b32", "b64")),
    *(store(f"st.weak.global{h}.b32", "b32") for h in (".L1::evict_normal", ".L1::evict_unchanged", ".L1::evict_first", ".L1::evict_last", ".L1::no_allocate")),
    Row("st.global.L2::cache_hint.{b32,b64}", ": T", 80, text="{ " + POLICY + " {op} [%s], %a, policy; }", plain=True),
    Row("st.global.b128", ": b64 b64", 70, text="{ .reg .b128 q; mov.b128 q, {%a, %b}; {op} [%s], q; }", plain=True),
    Row("st.shared::cta.b32", ": b32", 70, text="{ " + ZERO_SHARED + " {op} [q], %a; " + DRAIN + " }", plain=True),
    Row("st.shared::cluster.b32", ": b32", 90, text="{ " + ZERO_SHARED + " {op} [q], %a; " + DRAIN + " }", plain=True),
)
HINTS = (
    Row("prefetch{,.global}.{L1,L2}", ":", text="{op} [%s];", plain=True),
    Row("prefetch.global.L2::{evict_last,evict_normal}", ":", 80, text="{op} [%s];", plain=True), Row("prefetchu.L1", ":", text="{op} [%s];", plain=True),
    Row("applypriority.global.L2::evict_normal", ":", 80, text="{op} [%s], 128;", plain=True),
    Row("discard.global.L2", ":", 80, text="{op} [%s], 128; st.global.v4.b32 [%s], {%t, %t, %t, %t};" + "".join(f" st.global.v4.b32 [%s+{k}], {{%t, %t, %t, %t}};" for k in range(16, 128, 16)), plain=True),
    Row("createpolicy.fractional.L2::{evict_last,evict_normal,evict_first,evict_unchanged}{,.L2::evict_unchanged}.b64", "b64:", 80, text="{op} %d, 0.5;", plain=True, unordered="an opaque value"),
    Row("createpolicy.range.global.L2::evict_last{,.L2::evict_first}.b64", "b64:", 80, text="{op} %d, [%s], 0x100000, 0x200000;", plain=True, unordered="an opaque value"),
    Row("createpolicy.cvt.L2.b64", "b64: b64", 80, text="{op} %d, %a;", plain=True, unordered="an opaque value", values=("=0x10f0000000000000",)),
    Row("cp.async.{ca,cg}.shared.global", ": b32", 80, plain=True, text="{ " + ZERO_SHARED + " cp.async.cg.shared.global [q], [%s], 16; cp.async.commit_group; cp.async.wait_group 0; " + DRAIN + " }"),
    Row("cp.async.ca.shared.global{,.L2::64B,.L2::128B,.L2::256B}", ":", 80, plain=True, text="{ " + ZERO_SHARED + " {op} [q], [%s], 16; cp.async.wait_all; " + DRAIN + " }"),
    *(Row(f"cp.async.ca.shared.global {size}", ":", 80, plain=True, text="{ " + ZERO_SHARED + f" cp.async.ca.shared.global [q], [%s], {size}; cp.async.commit_group; cp.async.wait_group 0; " + DRAIN + " }") for size in (4, 8, 16)),
    *(Row(f"cp.async.ca.shared.global {size} src-size", ": u32", 80, plain=True, values=(f"0..{size}",),
          text="{ " + ZERO_SHARED + f" cp.async.ca.shared.global [q], [%s], {size}, %a; cp.async.wait_all; " + DRAIN + " }") for size in (4, 8, 16)),
    *(Row(f"cp.async.ca.shared.global {size} ignore-src", ": pred", 80, plain=True,
          text="{ " + ZERO_SHARED + f" cp.async.ca.shared.global [q], [%s], {size}, %a; cp.async.wait_all; " + DRAIN + " }") for size in (4, 8, 16)),
    Row("cp.async.cg.shared.global.L2::cache_hint", ":", 80, plain=True, text="{ " + ZERO_SHARED + POLICY + " {op} [q], [%s], 16, policy; cp.async.wait_all; " + DRAIN + " }"),
)
# fmt: on
ROWS = (*LOADS, *STORES, *HINTS)
