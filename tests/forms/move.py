"""Data movement between registers, and addresses (PTX ISA 8.8, section 9.7.9), with special registers."""

from __future__ import annotations

from tests.forms.form import Row

# fmt: off
SPECIALS = (
    *(f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    *("laneid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"),
    *("total_smem_size", "dynamic_smem_size"),
)
"""Special registers whose values do not depend on where and when a block runs."""
CLUSTER = (
    *("is_explicit_cluster", "cluster_ctarank", "cluster_nctarank"),
    *(f"{name}.{axis}" for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "xyz"),
)
PLACES = (
    "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid64", "%clock",
    "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
)
"""Values of time and place: run, not compared."""

ROWS = (
    Row("mov.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}", "T: T"), Row("mov.pred", "pred: pred"),
    Row("mov.b32", "b32: b16 b16", text="{op} %d, {%a, %b};"), Row("mov.b32", "b16 b16: b32", text="{op} {%d, %d1}, %a;"),
    Row("mov.b64", "b64: b32 b32", text="{op} %d, {%a, %b};"), Row("mov.b64", "b32 b32: b64", text="{op} {%d, %d1}, %a;"),
    Row("mov.b64", "b64: b16 b16 b16 b16", text="{op} %d, {%a, %b, %c, %e};"), Row("mov.b64", "b16 b16 b16 b16: b64", text="{op} {%d, %d1, %d2, %d3}, %a;"),
    Row("mov.b32", "b32: b32", text="{ .reg .b8 b0, b1, b2, b3; {op} {b0, b1, b2, b3}, %a; {op} %d, {b3, b1, b2, b0}; }"),
    Row("mov.b128", "b64 b64: b64 b64", arch=70, text="{ .reg .b128 q; {op} q, {%b, %a}; {op} {%d, %d1}, q; }"),
    Row("prmt.b32", "b32: b32 b32 b32"), Row("prmt.b32{.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", "b32: b32 b32 b32"),
    *(Row("prmt.b32", "b32: b32 b32", text=f"{{op}} %d, %a, %b, {selector:#x};") for selector in (0x0123, 0x7654, 0x5410, 0xFEDC, 0x8888, 0xBA98, 0x3210, 0x4444)),
    *(Row(f"mov.u32 %{name}", "u32:", text=f"mov.u32 %d, %{name};") for name in SPECIALS),
    *(Row(f"mov.u32 %{name}", "u32:", 90, text=f"mov.u32 %d, %{name};") for name in CLUSTER[1:]),
    Row("mov.pred %is_explicit_cluster", "pred:", 90, text="mov.pred %d, %is_explicit_cluster;"),
    *(Row(f"mov {name}", "u64:", text=f"mov.u64 %d, {name.replace('gridid64', 'gridid')};" if "64" in name or name == "%globaltimer"
          else f"{{ .reg .b32 v; mov.u32 v, {name}; cvt.u64.u32 %d, v; }}", unordered="time and place") for name in PLACES),
    Row("mov.u64 %reserved_smem_offset", "u32:", text="mov.u32 %d, %reserved_smem_offset_0;", arch=80, unordered="the runtime's own"),
    # addresses
    Row("isspacep.{global,local,shared,const,param}", "pred: u64"), Row("isspacep.{shared::cta,shared::cluster,param::entry}", "pred: u64", 90),
    Row("isspacep.{global,local,shared,const}", "pred pred:", text="{ .reg .b64 q; .shared .b32 here{n}; {op} %d, %s; cvta.shared.u64 q, here{n}; {op} %d1, q; }"),
    Row("cvta.shared.u64", "u32: u32", text="{ .reg .b64 q; .shared .b32 room{n}_{v}[256]; {op} q, room{n}_{v}; mad.wide.u32 q, %t, 4, q; st.b32 [q], %a; ld.b32 %d, [q]; }", plain=True),
    Row("cvta.to.shared.u64", "u32: u32", plain=True,
        text="{ .reg .b64 q; .shared .b32 room{n}_{v}[256]; cvta.shared.u64 q, room{n}_{v}; mad.wide.u32 q, %t, 4, q; {op} q, q; st.shared.b32 [q], %a; ld.shared.b32 %d, [q]; }"),
    Row("cvta.{global,to.global}.u64", "u32:", text="{ .reg .b64 q; {op} q, %s; ld.global.b32 %d, [q]; }", plain=True),
    Row("cvta.local.u64", "u32: u32", text="{ .reg .b64 q; .local .b32 mine[4]; {op} q, mine; st.b32 [q+4], %a; ld.b32 %d, [q+4]; }", plain=True),
    Row("cvta.to.local.u64", "u32: u32", text="{ .reg .b64 q; .local .b32 mine[4]; cvta.local.u64 q, mine; {op} q, q; st.local.b32 [q+8], %a; ld.local.b32 %d, [q+8]; }", plain=True),
    Row("cvta.const.u64", "u32:", text="{ .reg .b64 q; {op} q, table{n}; ld.b32 %d, [q+4]; }", plain=True, declare=".const .align 4 .b32 table{n}[2] = {17, 4711};"),
    Row("cvta.to.const.u64", "u32:", text="{ .reg .b64 q; cvta.const.u64 q, table{n}; {op} q, q; ld.const.b32 %d, [q+4]; }", plain=True, declare=".const .align 4 .b32 table{n}[2] = {17, 4711};"),
    Row("cvta.param.u64", "u64:", text="{ .reg .b64 q; {op} q, in; ld.param.u64 %d, [scratch]; ld.u64 q, [q]; sub.u64 q, q, q; add.u64 %d, q, 5; }", arch=70, plain=True),
    Row("mapa{,.shared::cluster}.u32", "u32:", 90, text="{ .reg .b32 q; .shared .b32 here{n}; mov.u32 q, here{n}; mapa.shared::cluster.u32 q, q, 0; st.shared::cluster.b32 [q], 7; ld.shared::cluster.b32 %d, [q]; }", plain=True),
    Row("getctarank.shared::cluster.u32", "u32:", 90, text="{ .reg .b32 q; .shared .b32 here{n}; mov.u32 q, here{n}; mapa.shared::cluster.u32 q, q, 0; {op} %d, q; }", plain=True),
    Row("getctarank.u64", "u32:", 90, text="{ .reg .b64 q; .shared .b32 here{n}; cvta.shared.u64 q, here{n}; mapa.u64 q, q, 0; {op} %d, q; }", plain=True),
)
# fmt: on
