"""Floating point: f32, f64, halves and packed halves (PTX ISA 8.8, sections 9.7.3 and 9.7.4)."""

from __future__ import annotations

from tests.forms.form import Row

ROUND = "{,.rn,.rz,.rm,.rp}"
RND = "{rn,rz,rm,rp}"

# fmt: off
ROWS = (
    Row("testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}", "pred: T"),
    Row("copysign.{f32,f64}"),
    Row(f"{{add,sub,mul}}{ROUND}{{,.ftz}}{{,.sat}}.f32"), Row(f"{{add,sub,mul}}{ROUND}.f64"),
    Row(f"fma.{RND}{{,.ftz}}{{,.sat}}.f32", "T: T T T"), Row(f"fma.{RND}.f64", "T: T T T"),
    Row(f"mad.{RND}{{,.ftz}}{{,.sat}}.f32", "T: T T T"), Row(f"mad.{RND}.f64", "T: T T T"),
    Row(f"fma.{RND}{{,.ftz}}{{,.sat}}.f32", "T: T T T", values=("tame", "tame", "tame")),
    Row(f"fma.{RND}.f64", "T: T T T", values=("tame", "tame", "tame")),
    Row("div.{approx,full}{,.ftz}.f32"), Row(f"div.{RND}{{,.ftz}}.f32"), Row(f"div.{RND}.f64"),
    Row(f"div.{RND}.f32", values=("tame", "tame")), Row(f"div.{RND}.f64", values=("tame", "tame")),
    Row("{abs,neg}{,.ftz}.f32", "T: T"), Row("{abs,neg}.f64", "T: T"),
    Row("{min,max}{,.ftz}.f32"), Row("{min,max}{,.ftz}.NaN.f32", arch=80),
    Row("{min,max}{,.ftz}{,.NaN}.xorsign.abs.f32", arch=86), Row("{min,max}.f64"),
    Row("rcp.approx{,.ftz}.f32", "T: T"), Row(f"rcp.{RND}{{,.ftz}}.f32", "T: T"), Row(f"rcp.{RND}.f64", "T: T"),
    Row("rcp.approx.ftz.f64", "T: T"),
    Row("sqrt.approx{,.ftz}.f32", "T: T"), Row(f"sqrt.{RND}{{,.ftz}}.f32", "T: T"), Row(f"sqrt.{RND}.f64", "T: T"),
    Row("rsqrt.approx{,.ftz}.{f32,f64}", "T: T"),
    Row("{sin,cos,lg2,ex2}.approx{,.ftz}.f32", "T: T"),
    Row("{sin,cos,lg2,ex2}.approx{,.ftz}.f32", "T: T", values=("tame",)),
    Row("tanh.approx.f32", "T: T", arch=75),
    # half precision
    Row("{add,sub,mul}{,.rn}{,.ftz}{,.sat}.{f16,f16x2}"), Row("{add,sub,mul}{,.rn}.{bf16,bf16x2}", arch=90),
    Row("fma.rn{,.ftz}{,.sat}.{f16,f16x2}", "T: T T T"), Row("fma.rn{,.ftz}.relu.{f16,f16x2}", "T: T T T", arch=80),
    Row("fma.rn{,.relu}.{bf16,bf16x2}", "T: T T T", arch=80), Row("fma.rn.oob{,.relu}.{f16,f16x2,bf16,bf16x2}", "T: T T T", arch=90),
    Row("fma.rn{,.ftz}.{f16,f16x2}", "T: T T T", values=("tame", "tame", "tame")),
    Row("fma.rn.{bf16,bf16x2}", "T: T T T", arch=80, values=("tame", "tame", "tame")),
    Row("{neg,abs}{,.ftz}.{f16,f16x2}", "T: T"), Row("{neg,abs}.{bf16,bf16x2}", "T: T", arch=80),
    Row("{min,max}{,.ftz}{,.NaN}.{f16,f16x2}", arch=80), Row("{min,max}{,.NaN}.{bf16,bf16x2}", arch=80),
    Row("{min,max}{,.ftz}{,.NaN}.xorsign.abs.{f16,f16x2}", arch=86), Row("{min,max}{,.NaN}.xorsign.abs.{bf16,bf16x2}", arch=86),
    Row("tanh.approx.{f16,f16x2}", "T: T", arch=75), Row("tanh.approx.{bf16,bf16x2}", "T: T", arch=90),
    Row("ex2.approx.{f16,f16x2}", "T: T", arch=75), Row("ex2.approx.ftz.{bf16,bf16x2}", "T: T", arch=90),
    Row("tanh.approx.f16", "T: T", arch=75, values=("tame",)), Row("ex2.approx.f16", "T: T", arch=75, values=("tame",)),
    Row("tanh.approx.bf16", "T: T", arch=90, values=("tame",)), Row("ex2.approx.ftz.bf16", "T: T", arch=90, values=("tame",)),
)
# fmt: on
