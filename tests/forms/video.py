"""Video instructions, scalar and SIMD (PTX ISA 8.8, sections 9.7.18 and 9.7.19)."""

from __future__ import annotations

from typing import Any

from tests.forms.form import Row

TYPES = "{u32,s32}"
PARTS = (("", ""), (".b0", ".b3"), (".h0", ".h1"), (".b2", ""))
SELECT2 = (("", ""), (".h32", ".h01"), (".h20", ".h13"))
SELECT4 = (("", ""), (".b7654", ".b0123"), (".b5140", ".b3333"))
SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
SIMD = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
COMPARE = "{eq,ne,lt,le,gt,ge}"


def scalar(name: str) -> tuple[Row, ...]:
    """One operation in all its forms: parts of the operands, a second operation, a merged part of the result."""
    types = f"{TYPES}.{TYPES}.{TYPES}"
    rows = [Row(f"{name}.{types}{{,.sat}}", "u32: u32 u32", text=f"{{op}} %d, %a{x}, %b{y};") for x, y in PARTS]
    rows += [Row(f"{name}.{types}{{,.sat}}.{{add,min,max}}", "u32: u32 u32 u32", text="{op} %d, %a.h1, %b.b1, %c;")]
    rows += [
        Row(f"{name}.{types}{{,.sat}}", "u32: u32 u32 u32", text=f"{{op}} %d{part}, %a.b1, %b.h0, %c;")
        for part in (".b0", ".b3", ".h0", ".h1")
    ]
    return tuple(rows)


# fmt: off
def set_rows(first: int, last: int, plain: bool) -> tuple[Row, ...]:
    """Comparisons; before sm_70 from registers alone: with a literal the assembler (12.9) makes a word that is none of VSET."""
    name = f"vset.{TYPES}.{TYPES}.{COMPARE}"
    how: dict[str, Any] = {"arch": first, "last": last, "plain": plain}
    return (
        *(Row(name, "u32: u32 u32", text=f"{{op}} %d, %a{x}, %b{y};", **how) for x, y in PARTS),
        Row(f"{name}.{{add,min,max}}", "u32: u32 u32 u32", text="{op} %d, %a.h1, %b.b1, %c;", **how),
        Row(name, "u32: u32 u32 u32", text="{op} %d.h1, %a.h1, %b.b1, %c;", **how),
    )


ROWS = (
    *(row for name in SCALAR for row in scalar(name)),
    *(Row(f"{name}.{TYPES}.{TYPES}.u32{{,.sat}}.{mode}", "u32: u32 u32", text=f"{{op}} %d, %a{x}, %b{y};", values=("", v)) for name in ("vshl", "vshr") for mode in ("clamp", "wrap") for (x, y), v in zip(PARTS[:2], ("0..40", ""), strict=True)),
    *(Row(f"{name}.{TYPES}.{TYPES}.u32{{,.sat}}.{mode}.{{add,min,max}}", "u32: u32 u32 u32", values=("", "0..40"), text="{op} %d, %a, %b, %c;") for name in ("vshl", "vshr") for mode in ("clamp", "wrap")),
    *(Row(f"vmad.{TYPES}.{TYPES}.{TYPES}{{,.sat}}{{,.shr7,.shr15}}", "u32: u32 u32 u32", text=f"{{op}} %d, %a{x}, %b{y}, %c;") for x, y in PARTS[1:3]),
    Row("vmad.s32.s32.s32{,.sat}{,.shr7}", "u32: u32 u32 u32", text="{op} %d, %a.h0, -%b.b1, %c;"), Row("vmad.s32.s32.s32{,.sat}{,.shr15}", "u32: u32 u32 u32", text="{op} %d, %a.h0, %b.b1, -%c;"),
    Row("vmad.u32.u32.u32{,.sat}{,.shr7}", "u32: u32 u32 u32", text="{op} %d, %a.b0, %b.b1, %c;"), Row("vmad.s32.s32.s32.po", "u32: u32 u32 u32", text="{op} %d, %a.h0, %b.h1, %c;"),
    *(row for first, last, plain in ((70, 999, False), (60, 62, True)) for row in set_rows(first, last, plain)),
    *(Row(f"{name}2.{TYPES}.{TYPES}.{TYPES}{{,.sat}}", "u32: u32 u32 u32", text=f"{{op}} %d{mask}, %a{x}, %b{y}, %c;") for name in SIMD for (x, y), mask in zip(SELECT2, ("", ".h0", ".h1"), strict=True)),
    *(Row(f"{name}2.{TYPES}.{TYPES}.{TYPES}.add", "u32: u32 u32 u32", text="{op} %d, %a, %b, %c;") for name in SIMD),
    *(Row(f"{name}4.{TYPES}.{TYPES}.{TYPES}{{,.sat}}", "u32: u32 u32 u32", text=f"{{op}} %d{mask}, %a{x}, %b{y}, %c;") for name in SIMD for (x, y), mask in zip(SELECT4, ("", ".b0", ".b321"), strict=True)),
    *(Row(f"{name}4.{TYPES}.{TYPES}.{TYPES}.add", "u32: u32 u32 u32", text="{op} %d, %a, %b, %c;") for name in SIMD),
    Row(f"vset2.{TYPES}.{TYPES}.{COMPARE}{{,.add}}", "u32: u32 u32 u32", text="{op} %d, %a, %b, %c;"), Row(f"vset2.{TYPES}.{TYPES}.{COMPARE}", "u32: u32 u32 u32", text="{op} %d.h1, %a.h02, %b.h31, %c;"),
    Row(f"vset4.{TYPES}.{TYPES}.{COMPARE}{{,.add}}", "u32: u32 u32 u32", text="{op} %d, %a, %b, %c;"), Row(f"vset4.{TYPES}.{TYPES}.{COMPARE}", "u32: u32 u32 u32", text="{op} %d.b20, %a.b7362, %b.b0145, %c;"),
    # whole words in the second operation, other parts of the result, shifts into parts
    *(Row(f"{name}.{TYPES}.{TYPES}.{TYPES}{{,.sat}}.{{min,max}}", "u32: u32 u32 u32", text="{op} %d, %a, %b, %c;", plain=True) for name in SCALAR),
    *(Row(f"{name}.{TYPES}.{TYPES}.{TYPES}{{,.sat}}", "u32: u32 u32 u32", text=f"{{op}} %d{part}, %a, %b, %c;", plain=True) for name in ("vadd", "vabsdiff") for part in (".b1", ".b2", ".h1")),
    *(Row(f"{name}.{TYPES}.{TYPES}.u32{{,.sat}}.{{clamp,wrap}}", "u32: u32 u32 u32", text=f"{{op}} %d{part}, %a, %b, %c;", values=("", "0..40"), plain=True) for name in ("vshl", "vshr") for part in (".b0", ".b2", ".h0", ".h1")),
    Row(f"vset.{TYPES}.{TYPES}.{{lt,ne}}.{{add,min}}", "u32: u32 u32 u32", text="{op} %d, %a, %b, %c;", plain=True),
    Row(f"vmad.{TYPES}.{TYPES}.{TYPES}{{,.sat}}{{,.shr15}}", "u32: u32 u32 u32", text="{op} %d, %a, %b, %c;", plain=True),
)
# fmt: on
