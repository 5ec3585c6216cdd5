"""Matrix instructions (PTX ISA 8.8, section 9.7.14): mma, sparse mma, wmma, loads and stores of matrices, movmatrix."""

from __future__ import annotations

from dataclasses import replace

from tests.forms.form import Row

BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "f32": 32,
    "s32": 32,
    "u8": 8,
    "s8": 8,
    "u4": 4,
    "s4": 4,
    "b1": 1,
    "e4m3": 8,
    "e5m2": 8,
}
WORDS = {"f16": "f16x2", "bf16": "bf16x2", "tf32": "f32", "f32": "f32", "f64": "f64", "s32": "s32"}
"""The type of the register that holds elements of a type."""


def registers(type: str, elements: int) -> list[str]:
    """The registers of a lane for its share of a matrix."""
    return [WORDS.get(type, "b32")] * max(1, elements * BITS[type] // (64 if type == "f64" else 32))


def names(first: int, count: int) -> str:
    letters = "abce"
    return "{" + ", ".join(f"%{letters[n]}" if n < 4 else f"%x{n}" for n in range(first, first + count)) + "}"


def mma(
    shape: str,
    d: str,
    a: str,
    b: str,
    c: str,
    arch: int,
    layouts: str = ".row.col",
    extra: str = "",
    tame: bool = True,
    sparse: str = "",
    selector: int = 0,
) -> Row:
    m, n, k = (int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
    quad = shape == "m8n8k4" and a == "f16"
    share = 8 if quad else 32
    ra = registers(a, m * k // share // (2 if sparse else 1))
    rb, rc, rd = registers(b, n * k // share), registers(c, m * n // share), registers(d, m * n // share)
    results = "{" + ", ".join(f"%d{i or ''}" for i in range(len(rd))) + "}"
    text = f"{{op}} {results}, {names(0, len(ra))}, {names(len(ra), len(rb))}, {names(len(ra) + len(rb), len(rc))}"
    operands = [*ra, *rb, *rc]
    floats = a in ("f16", "bf16", "tf32", "f64")
    values = tuple("tame" if tame and floats and t in ("f16x2", "bf16x2", "f32", "f64") else "" for t in operands)
    if sparse:
        operands.append("b32")
        text += f", %x{len(operands) - 1}, {selector:#x}"
        metadata = "metadata1" if a == "tf32" else "metadata"
        values = (*values, metadata)
    kind = f"mma{sparse}.sync.aligned.{shape}{layouts}{extra}.{d}.{a}.{b}.{c}"
    return Row(kind, f"{' '.join(rd)}: {' '.join(operands)}", arch, text=text + ";", plain=True, values=values)


def bits(shape: str, operation: str, arch: int) -> Row:
    row = mma(shape, "s32", "b1", "b1", "s32", arch)
    return Row(f"{row.pattern}.{operation}.popc", row.signature, arch, text=row.text, plain=True)


INT8 = [(a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
INT4 = [(a, b) for a in ("s4", "u4") for b in ("s4", "u4")]
FP8 = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
LAYOUTS = [f".{a}.{b}" for a in ("row", "col") for b in ("row", "col")]

# fmt: off
DENSE = (
    *(mma("m8n8k4", d, "f16", "f16", c, 70, layout) for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")) for layout in LAYOUTS),
    *(mma("m16n8k8", d, "f16", "f16", d, 75, tame=t) for d in ("f16", "f32") for t in (True, False)), *(mma("m16n8k16", d, "f16", "f16", d, 80, tame=t) for d in ("f16", "f32") for t in (True, False)),
    *(mma(s, "f32", "bf16", "bf16", "f32", 80, tame=t) for s in ("m16n8k8", "m16n8k16") for t in (True, False)), *(mma(s, "f32", "tf32", "tf32", "f32", 80, tame=t) for s in ("m16n8k4", "m16n8k8") for t in (True, False)),
    *(mma("m8n8k4", "f64", "f64", "f64", "f64", 80, tame=t, layouts=".row.col" + r) for t in (True, False) for r in ("",)), *(mma(s, "f64", "f64", "f64", "f64", 90, tame=t) for s in ("m16n8k4", "m16n8k8", "m16n8k16") for t in (True, False)),
    *(mma("m8n8k16", "s32", a, b, "s32", 75, extra=s) for a, b in INT8 for s in ("", ".satfinite")), *(mma(shape, "s32", a, b, "s32", 80, extra=s) for shape in ("m16n8k16", "m16n8k32") for a, b in INT8 for s in ("", ".satfinite")),
    *(mma("m8n8k32", "s32", a, b, "s32", 75, extra=s) for a, b in INT4 for s in ("", ".satfinite")), *(mma(shape, "s32", a, b, "s32", 80, extra=s) for shape in ("m16n8k32", "m16n8k64") for a, b in INT4 for s in ("", ".satfinite")),
    bits("m8n8k128", "xor", 75), bits("m8n8k128", "and", 80), *(bits(s, o, 80) for s in ("m16n8k128", "m16n8k256") for o in ("xor", "and")),
    *(mma(shape, d, a, b, d, 89) for shape in ("m16n8k16", "m16n8k32") for d in ("f32", "f16") for a, b in FP8),
)
SPARSE = tuple(row for sparse in (".sp", ".sp::ordered_metadata") for row in (
    *(mma("m16n8k16", d, "f16", "f16", d, 80, sparse=sparse, selector=s) for d in ("f16", "f32") for s in (0, 1, 2, 3)), *(mma("m16n8k32", d, "f16", "f16", d, 80, sparse=sparse, selector=s) for d in ("f16", "f32") for s in (0, 1)),
    *(mma("m16n8k16", "f32", "bf16", "bf16", "f32", 80, sparse=sparse, selector=s) for s in (0, 3)), *(mma("m16n8k32", "f32", "bf16", "bf16", "f32", 80, sparse=sparse, selector=s) for s in (0, 1)),
    *(mma("m16n8k8", "f32", "tf32", "tf32", "f32", 80, sparse=sparse, selector=s) for s in (0, 2)), *(mma("m16n8k16", "f32", "tf32", "tf32", "f32", 80, sparse=sparse, selector=s) for s in (0, 1)),
    *(mma("m16n8k32", "s32", a, b, "s32", 80, sparse=sparse, selector=s, extra=e) for a, b in INT8 for s, e in ((0, ""), (1, ".satfinite"))), *(mma("m16n8k64", "s32", a, b, "s32", 80, sparse=sparse, extra=e) for a, b in INT8 for e in ("", ".satfinite")),
    *(mma("m16n8k64", "s32", a, b, "s32", 80, sparse=sparse, selector=s, extra=e) for a, b in INT4 for s, e in ((0, ""), (1, ".satfinite"))), *(mma("m16n8k128", "s32", a, b, "s32", 80, sparse=sparse, extra=e) for a, b in INT4 for e in ("", ".satfinite")),
    *(mma("m16n8k64", d, a, b, d, 89, sparse=sparse) for d in ("f32",) for a, b in FP8),
))


def tile(name: str) -> str:
    """Shared memory of the warp's own: 1,024 bytes that hold what the scratch memory of its lanes begins with."""
    return ("{ .reg .b32 q, w, lane; .shared .align 128 .b8 " + name + "[8192]; mov.u32 q, " + name + "; mad.lo.u32 w, %t, 32, q; .reg .b32 z<8>; "
            "ld.global.v4.b32 {z0, z1, z2, z3}, [%s]; st.shared.v4.b32 [w], {z0, z1, z2, z3}; ld.global.v4.b32 {z0, z1, z2, z3}, [%s+16]; st.shared.v4.b32 [w+16], {z0, z1, z2, z3}; bar.warp.sync -1; "
            "and.b32 lane, %t, 31; shr.u32 w, %t, 5; mad.lo.u32 q, w, 1024, q; mad.lo.u32 w, lane, 32, q; ")


MATRIX = tuple(
    Row(f"ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16", " ".join(["b32"] * count) + ":", 75, plain=True, text=tile("tile{n}_{v}") + "{op} {" + ", ".join(f"%d{i or ''}" for i in range(count)) + "}, [w]; }")
    for count in (1, 2, 4) for trans in ("", ".trans") for space in (".shared", ".shared::cta")
) + tuple(
    Row(f"stmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16", "b32 b32: " + " ".join(["b32"] * count), 90, plain=True,
        text=tile("tile{n}_{v}") + "{op} [w], {" + ", ".join(("%a", "%b", "%c", "%e")[:count]) + "}; bar.warp.sync -1; ld.shared.v2.b32 {%d, %d1}, [w]; ld.shared.v2.b32 {z0, z1}, [w+8]; st.global.v2.b32 [%s+64], {z0, z1}; }")
    for count in (1, 2, 4) for trans in ("", ".trans") for space in (".shared", ".shared::cta")
) + (
    Row("movmatrix.sync.aligned.m8n8.trans.b16", "b32: b32", 75),
)
SHAPES = {"f16": ("m16n16k16", "m32n8k16", "m8n32k16"), "bf16": ("m16n16k16", "m32n8k16", "m8n32k16"), "tf32": ("m16n16k8",), "f64": ("m8n8k4",), "u8": ("m16n16k16", "m32n8k16", "m8n32k16"), "s8": ("m16n16k16", "m32n8k16", "m8n32k16"),
          "u4": ("m8n8k32",), "s4": ("m8n8k32",), "b1": ("m8n8k128",)}
ARCH = {"f16": 70, "bf16": 80, "tf32": 80, "f64": 80, "u8": 72, "s8": 72, "u4": 75, "s4": 75, "b1": 75}
ACCUMULATE = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}


def fragment(shape: str, matrix: str, type: str) -> int:
    """Registers of a lane."""
    m, n, k = (int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
    if type == "f16" and matrix in "ab":
        return 8
    if matrix in "ab" and type in ("u8", "s8", "bf16"):
        return max(1, (m if matrix == "a" else n) * k * BITS[type] // 1024)
    if matrix in "ab":
        return max(1, (m if matrix == "a" else n) * k * BITS[type] // 32 // (64 if type == "f64" else 32))
    return m * n * BITS[type] // 32 // (64 if type == "f64" else 32)


def wmma(type: str) -> list[Row]:
    """Loads of a, b and c, products, and stores of d."""
    rows, arch = [], ARCH[type]
    layouts = (("row", "col"),) if BITS[type] < 8 else tuple((a, b) for a in ("row", "col") for b in ("row", "col"))
    bar = " bar.warp.sync -1; "
    base = "{ .reg .b64 q; .reg .b32 z; shr.u32 z, %u, 5; ld.param.u64 q, [scratch]; mad.wide.u32 q, z, 4096, q; "
    for shape in SHAPES[type]:
        for layout in ("row", "col"):
            for matrix in "ab":
                if BITS[type] < 8 and (matrix, layout) not in (("a", "row"), ("b", "col")):
                    continue
                m, n, k = (int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
                count = fragment(shape, matrix, type)
                stride = k if (matrix == "a") == (layout == "row") else (m if matrix == "a" else n)
                outs = "{" + ", ".join(f"%d{i or ''}" for i in range(count)) + "}"
                kind = "f64" if type == "f64" else "b32"
                for space in (".global", ""):
                    rows.append(Row(f"wmma.load.{matrix}.sync.aligned.{layout}.{shape}{space}.{type}", " ".join([kind] * count) + ":", arch, plain=True, text=base + f"{{op}} {outs}, [q], {stride}; }}"))
                rows.append(Row(f"wmma.load.{matrix}.sync.aligned.{layout}.{shape}.shared.{type}", " ".join([kind] * count) + ":", arch, plain=True, text=tile("tile{n}_{v}") + f"{{op}} {outs}, [q], {stride}; }}"))
            for c in ACCUMULATE.get(type, ("s32",)):
                m, n, k = (int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
                count, kind = fragment(shape, "c", c), "f64" if c == "f64" else "b32"
                stride = n if layout == "row" else m
                outs = "{" + ", ".join(f"%d{i or ''}" for i in range(count)) + "}"
                rows.append(Row(f"wmma.load.c.sync.aligned.{layout}.{shape}.global.{c}", " ".join([kind] * count) + ":", arch, plain=True, text=base + f"{{op}} {outs}, [q], {stride}; }}"))
                inputs = names(0, count)
                rows.append(Row(f"wmma.store.d.sync.aligned.{layout}.{shape}.global.{c}", ": " + " ".join([kind] * count), arch, plain=True, text=base + bar + f"{{op}} [q], {inputs}, {stride};" + bar + "}"))
        for a, b in layouts:
            for d, c in [(d, c) for d in ACCUMULATE.get(type, ("s32",)) for c in ACCUMULATE.get(type, ("s32",))]:
                ra, rb, rc, rd = (fragment(shape, "a", type), fragment(shape, "b", type), fragment(shape, "c", c), fragment(shape, "d", d))
                word = WORDS.get(type, "b32")
                inputs = [word] * (ra + rb) + [WORDS.get(c, "b32")] * rc
                outs = "{" + ", ".join(f"%d{i or ''}" for i in range(rd)) + "}"
                types = f".{d}.{c}" if type == "f16" else f".{d}.{type}.{type}.{c}"
                for extra in ("", ".satfinite") if type in ("u8", "s8", "u4", "s4") else ("",):
                    name = f"wmma.mma.sync.aligned.{a}.{b}.{shape}{types}{extra}"
                    if type == "b1":
                        name = f"wmma.mma.xor.popc.sync.aligned.{a}.{b}.{shape}{types}"
                    rows.append(Row(name, " ".join([WORDS.get(d, "b32")] * rd) + ": " + " ".join(inputs), arch, plain=True,
                                    values=("tame",) * len(inputs) if type in ACCUMULATE else (), text=f"{{op}} {outs}, {names(0, ra)}, {names(ra, rb)}, {names(ra + rb, rc)};"))
    return rows


OPAQUE = "the layout of a fragment in registers is not part of PTX; whole products are compared in tests/programs"
ROWS = (*DENSE, *SPARSE, *MATRIX, *(replace(row, opaque=OPAQUE) for type in SHAPES for row in wmma(type)))
# fmt: on
