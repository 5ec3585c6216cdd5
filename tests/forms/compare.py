"""Comparison and selection (PTX ISA 8.8, sections 9.7.6 and 9.7.7)."""

from __future__ import annotations

from tests.forms.form import Row

ORDERED = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
SIGNED = "{eq,ne,lt,le,gt,ge}"
UNSIGNED = "{eq,ne,lt,le,gt,ge,lo,ls,hi,hs}"
BOOL = "{and,or,xor}"

# fmt: off
ROWS = (
    Row(f"setp.{SIGNED}.{{s16,s32,s64}}", "pred: T T"), Row(f"setp.{UNSIGNED}.{{u16,u32,u64}}", "pred: T T"),
    Row("setp.{eq,ne}.{b16,b32,b64}", "pred: T T"),
    Row(f"setp.{ORDERED}{{,.ftz}}.f32", "pred: T T"), Row(f"setp.{ORDERED}.f64", "pred: T T"),
    Row(f"setp.{SIGNED}.{BOOL}.{{s16,s32,s64}}", "pred pred: T T pred"),
    Row(f"setp.{UNSIGNED}.{BOOL}.{{u16,u32,u64}}", "pred pred: T T pred"),
    Row(f"setp.{{eq,ne}}.{BOOL}.{{b16,b32,b64}}", "pred pred: T T pred"),
    Row(f"setp.{ORDERED}.{BOOL}{{,.ftz}}.f32", "pred pred: T T pred"), Row(f"setp.{ORDERED}.{BOOL}.f64", "pred pred: T T pred"),
    Row(f"setp.{{lt,ne}}.{BOOL}.{{s32,f32}}", "pred pred: T T pred", text="{op} %d|%d1, %a, %b, !%c;"),
    Row(f"set.{SIGNED}.{{u32,s32,f32}}.{{s16,s32,s64}}", "U: T T"), Row(f"set.{UNSIGNED}.{{u32,s32,f32}}.{{u16,u32,u64}}", "U: T T"),
    Row("set.{eq,ne}.{u32,s32,f32}.{b16,b32,b64}", "U: T T"),
    Row(f"set.{ORDERED}{{,.ftz}}.{{u32,s32,f32}}.f32", "U: T T"), Row(f"set.{ORDERED}.{{u32,s32,f32}}.f64", "U: T T"),
    Row(f"set.{{lt,eq}}.{BOOL}.{{u32,f32}}.{{s32,u64,f32,f64}}", "U: T T pred"),
    Row("selp.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}", "T: T T pred"),
    Row("slct.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}.s32", "U: U U T"),
    Row("slct{,.ftz}.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}.f32", "U: U U T"),
    # half precision
    Row(f"setp.{ORDERED}{{,.ftz}}.f16", "pred: T T"), Row(f"setp.{ORDERED}{{,.ftz}}.f16x2", "pred pred: T T"),
    Row(f"setp.{ORDERED}.bf16", "pred: T T", arch=90), Row(f"setp.{ORDERED}.bf16x2", "pred pred: T T", arch=90),
    Row(f"setp.{{lt,neu}}.{BOOL}{{,.ftz}}.f16", "pred: T T pred"), Row(f"setp.{{lt,neu}}.{BOOL}{{,.ftz}}.f16x2", "pred pred: T T pred"),
    Row(f"set.{ORDERED}{{,.ftz}}.{{f16,u16,s16,u32,s32}}.f16", "U: T T"),
    Row(f"set.{ORDERED}.{{bf16,u16,s16,u32,s32}}.bf16", "U: T T", arch=90),
    Row(f"set.{ORDERED}{{,.ftz}}.{{f16x2,u32,s32}}.f16x2", "U: T T"), Row(f"set.{ORDERED}.{{bf16x2,u32,s32}}.bf16x2", "U: T T", arch=90),
    Row(f"set.{{lt,equ}}.{BOOL}.f16.f16", "U: T T pred"), Row(f"set.{{lt,equ}}.{BOOL}.f16x2.f16x2", "U: T T pred"),
)
# fmt: on
