"""Conversions (PTX ISA 8.8, section 9.7.9.21 and cvt.pack)."""

from __future__ import annotations

from typing import Any

from tests.forms.form import Row

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
TO_INTEGER = "{rni,rzi,rmi,rpi}"
RND = "{rn,rz,rm,rp}"


def row(pattern: str, arch: int = 60, signature: str = "S: T", **more: Any) -> Row:
    return Row(pattern, signature, arch, **more)


def narrows(to: str, of: str) -> bool:
    """Whether an integer type does not hold every value of another, so that .sat is allowed."""
    small, large = int(to[1:]), int(of[1:])
    return small < large or (to[0] != of[0] and (small == large or to[0] == "u"))


# fmt: off
ROWS = (
    *(row(f"cvt.{d}.{s}") for d in INTEGERS for s in INTEGERS),
    *(row(f"cvt.sat.{d}.{s}") for d in INTEGERS for s in INTEGERS if narrows(d, s)),
    # to integers
    row(f"cvt.{TO_INTEGER}{{,.ftz}}{{,.sat}}.{{{','.join(INTEGERS)}}}.f32"), row(f"cvt.{TO_INTEGER}{{,.sat}}.{{{','.join(INTEGERS)}}}.f64"),
    row(f"cvt.{TO_INTEGER}{{,.sat}}.{{{','.join(INTEGERS)}}}.f16"), row(f"cvt.{TO_INTEGER}.{{u16,u32,u64,s16,s32,s64}}.bf16", 90),
    # from integers
    row(f"cvt.{RND}{{,.sat}}.{{f16,f32,f64}}.{{{','.join(INTEGERS)}}}"), row(f"cvt.{RND}.bf16.{{u16,u32,u64,s16,s32,s64}}", 90),
    # between floats; to an integral value in the same type
    row("cvt{,.ftz}{,.sat}.f64.f32"), row("cvt{,.sat}.f64.f16"), row("cvt.f64.bf16", 90), row("cvt{,.ftz}{,.sat}.f32.f16"), row("cvt{,.ftz}.f32.bf16", 80),
    row(f"cvt.{RND}{{,.ftz}}{{,.sat}}.f32.f64"), row(f"cvt.{RND}{{,.ftz}}{{,.sat}}.f16.f32"), row(f"cvt.{RND}{{,.sat}}.f16.f64"),
    row("cvt.{rn,rz}{,.relu}.bf16.f32", 80), row("cvt.{rm,rp}.bf16.f32", 90), row(f"cvt.{RND}.bf16.f64", 90), row("cvt.{rn,rz}.relu.f16.f32", 80),
    row(f"cvt.{RND}.bf16.f16", 90), row(f"cvt.{RND}.f16.bf16", 90),
    row(f"cvt.{TO_INTEGER}{{,.ftz}}{{,.sat}}.f32.f32"), row(f"cvt.{TO_INTEGER}{{,.sat}}.f64.f64"), row(f"cvt.{TO_INTEGER}{{,.sat}}.f16.f16"),
    row(f"cvt.{TO_INTEGER}.bf16.bf16", 90), row("cvt{,.ftz}{,.sat}.f32.f32"), row("cvt{,.sat}.{f64.f64,f16.f16}"),
    # packed
    row("cvt.{rn,rz}{,.relu}.f16x2.f32", 80, "f16x2: T T"), row("cvt.{rn,rz}{,.relu}.bf16x2.f32", 80, "bf16x2: T T"),
    row("cvt.rna.tf32.f32", 80, "b32: T"), row("cvt.{rn,rz}{,.relu}.tf32.f32", 90, "b32: T"), row("cvt.{rna}.satfinite.tf32.f32", 90, "b32: T"),
    row("cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32", 89, "S: T T"), row("cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2", 89, "S: T"),
    row("cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}", 89, "f16x2: T"),
    row("cvt.pack.sat.{u16,s16}.s32", 72, "b32: s32 s32"), row("cvt.pack.sat.{u8,s8}.s32.b32", 72, "b32: s32 s32 b32"),
    row("cvt.pack.sat.{u4,s4,u2,s2}.s32.b32", 75, "b32: s32 s32 b32"),
)
# fmt: on
