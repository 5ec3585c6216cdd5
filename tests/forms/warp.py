"""Across lanes, barriers, fences, mbarriers (PTX ISA 8.8, section 9.7.13 and shfl, 9.7.9.6), control flow (9.7.12)."""

from __future__ import annotations

from dataclasses import replace

from tests.forms.form import Row

SOME = "{ .reg .pred mine; .reg .b32 m; and.b32 m, %t, 3; setp.ne.u32 mine, m, 1; "
"""Guards three lanes of four; their mask is 0xdddddddd."""
MASK = "0xdddddddd"
BARRIER = "{ .reg .b64 state; .reg .b32 q; .shared .align 8 .b64 gate{n}_{v}[64]; mov.u32 q, gate{n}_{v}; .reg .pred first, done; setp.eq.u32 first, %t, 0; .reg .b32 w; "

# fmt: off
SHUFFLES = (
    *(Row(f"shfl.sync.{mode}.b32", "b32 pred: b32 b32 b32", text="{op} %d|%d1, %a, %b, %c, -1;") for mode in ("up", "down", "bfly", "idx")),
    *(Row(f"shfl.sync.{mode}.b32", "b32 pred: b32 b32 b32", values=("", "0..31", c), text="{op} %d|%d1, %a, %b, %c, -1;") for mode in ("up", "down", "bfly", "idx") for c in ("=0x1f", "=0", "=0x181f", "=0x1c07")),
    *(Row(f"shfl.sync.{mode}.b32", "b32: b32", text=f"{{op}} %d, %a, {lane}, {c}, -1;", plain=True) for mode, c in (("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)) for lane in (0, 1, 5, 16, 31)),
    *(Row(f"shfl.sync.{mode}.b32", "b32 pred: b32 b32", values=("", "0..31"), text=SOME + f"mov.b32 %d, 0; setp.ne.u32 %d1, 0, 0; @mine {{op}} %d|%d1, %a, %b, 31, {MASK}; }}", plain=True, unordered="lanes outside of the mask give no defined value") for mode in ("up", "down", "bfly", "idx")),
    Row("shfl.sync.idx.b32", "b32: b32", text=SOME + f".reg .b32 from; and.b32 from, %t, 31; shr.u32 from, from, 2; shl.b32 from, from, 2; mov.b32 %d, 0; @mine {{op}} %d, %a, from, 31, {MASK}; }}", plain=True),
)
VOTES = (
    Row("vote.sync.{all,any,uni}.pred", "pred: pred", text="{op} %d, %a, -1;"), Row("vote.sync.ballot.b32", "b32: pred", text="{op} %d, %a, -1;"),
    Row("vote.sync.{all,any,uni}.pred", "pred: pred", text="{op} %d, !%a, -1;"), Row("vote.sync.{all,any,uni}.pred", "pred: u32", text="{ .reg .pred p; setp.gt.u32 p, %a, 0; {op} %d, p, -1; }"),
    Row("vote.sync.{all,any,uni}.pred", "pred: u32", values=("0..20",), text="{ .reg .pred p; setp.lt.u32 p, %a, 20; {op} %d, p, -1; }"),
    Row("vote.sync.ballot.b32", "b32: pred", text=SOME + f"mov.b32 %d, 0; @mine {{op}} %d, %a, {MASK}; }}", plain=True),
    Row("vote.sync.{all,any,uni}.pred", "pred: pred", text=SOME + f"setp.ne.u32 %d, 0, 0; @mine {{op}} %d, %a, {MASK}; }}", plain=True),
    Row("match.any.sync.{b32,b64}", "b32: T", values=("0..5",), text="{op} %d, %a, -1;"), Row("match.any.sync.{b32,b64}", "b32: T", text="{op} %d, %a, -1;"),
    Row("match.all.sync.{b32,b64}", "b32 pred: T", values=("0..1",), text="{op} %d|%d1, %a, -1;"), Row("match.all.sync.{b32,b64}", "b32 pred: T", values=("=12345",), text="{op} %d|%d1, %a, -1;"),
    Row("match.any.sync.b32", "b32: b32", values=("0..3",), text=SOME + f"mov.b32 %d, 0; @mine {{op}} %d, %a, {MASK}; }}", plain=True),
    Row("match.all.sync.b32", "b32 pred: b32", values=("=3",), text=SOME + f"mov.b32 %d, 0; setp.ne.u32 %d1, 0, 0; @mine {{op}} %d|%d1, %a, {MASK}; }}", plain=True),
    Row("activemask.b32", "b32:", text="{op} %d;"), Row("activemask.b32", "b32:", text=SOME + "mov.b32 %d, 0; @mine {op} %d; }"),
    Row("redux.sync.{add,min,max}.{u32,s32}", "T: T", 80, text="{op} %d, %a, -1;"), Row("redux.sync.{and,or,xor}.b32", "T: T", 80, text="{op} %d, %a, -1;"),
    Row("redux.sync.{add,min,max}.{u32,s32}", "T: T", 80, text=SOME + f"mov.b32 %d, 0; @mine {{op}} %d, %a, {MASK}; }}", plain=True),
    Row("elect.sync", "pred:", 90, text="{op} _|%d, -1;"), Row("elect.sync", "b32 pred:", 90, text="{op} %d|%d1, -1;"),
    Row("elect.sync", "b32 pred:", 90, text=SOME + f"mov.b32 %d, 99; setp.ne.u32 %d1, 0, 0; @mine {{op}} %d|%d1, {MASK}; }}"),
    Row("bar.warp.sync", "b32: b32", text="{ .reg .b64 q; xor.b32 %d, %t, 1; sub.u32 %d, %d, %t; mul.wide.s32 q, %d, 128; add.u64 q, q, %s; st.global.b32 [%s], %a; {op} -1; ld.volatile.global.b32 %d, [q]; }", plain=True),
)
POOL = ".maxntid 128, 1, 1 .minnctapersm 1"
"""What lets the compiler know how many registers a kernel begins with."""
EXCHANGE = ".shared .b32 tile{n}_{v}[256]; .reg .b32 q, w; mov.u32 q, tile{n}_{v}; mad.lo.u32 w, %t, 4, q; st.shared.b32 [w], %a; "
FETCH = " xor.b32 w, %t, 255; mad.lo.u32 w, w, 4, q; ld.shared.b32 %d, [w]; "
BARRIERS = (
    *(Row(name, "b32: b32", arch, text="{ " + EXCHANGE + f"{name.split(' ')[0]} {arguments};" + FETCH + "}", plain=True) for name, arguments, arch in (
        ("bar.sync", "0", 60), ("bar.sync 1", "1", 60), ("bar.sync 2,256", "2, 256", 60), ("barrier.sync", "0", 60), ("barrier.sync.aligned", "3", 60), ("barrier.sync 4,256", "4, 256", 60),
        ("bar.cta.sync", "0", 60), ("barrier.cta.sync.aligned", "5, 256", 60), ("barrier.cta.sync", "6, 256", 60))),
    Row("bar.sync register", "b32: b32", text="{ " + EXCHANGE + ".reg .b32 which; ld.param.u32 which, [p0]; and.b32 which, which, 7; bar.sync which;" + FETCH + "}", plain=True),
    Row("bar.sync register, register", "b32: b32", text="{ " + EXCHANGE + ".reg .b32 which, count; ld.param.u32 which, [p0]; and.b32 which, which, 7; mov.u32 count, %ntid.x; bar.sync which, count;" + FETCH + "}", plain=True),
    Row("bar.{arrive,cta.arrive}", "b32: b32", text="{ " + EXCHANGE + ".reg .pred low; setp.lt.u32 low, %t, 128; .reg .b32 other; xor.b32 other, %t, 128; mad.lo.u32 other, other, 4, q; mov.b32 %d, 0; @!low {op} 1, 256; @low bar.sync 1, 256; @low ld.shared.b32 %d, [other]; bar.sync 0; }", plain=True),
    Row("barrier.arrive{,.aligned}", "b32: b32", text="{ " + EXCHANGE + ".reg .pred low; setp.lt.u32 low, %t, 128; .reg .b32 other; xor.b32 other, %t, 128; mad.lo.u32 other, other, 4, q; mov.b32 %d, 0; @!low {op} 1, 256; @low barrier.sync 1, 256; @low ld.shared.b32 %d, [other]; bar.sync 0; }", plain=True),
    Row("{bar.red,barrier.red,barrier.cta.red,barrier.red.aligned}.popc.u32", "u32: pred", text="{op} %d, 0, %a;"), Row("{bar.red,barrier.red,barrier.red.aligned}.{and,or}.pred", "pred: pred", text="{op} %d, 0, %a;"),
    Row("bar.red.popc.u32", "u32: pred", text="{op} %d, 3, 256, !%a;"), Row("bar.red.{and,or}.pred", "pred: u32", text="{ .reg .pred p; setp.ne.u32 p, %a, 12345; {op} %d, 2, 256, p; }"),
    Row("{membar.cta,membar.gl,membar.sys,fence.sc.cta,fence.sc.gpu,fence.sc.sys,fence.acq_rel.cta,fence.acq_rel.gpu,fence.acq_rel.sys}", "b32: b32", plain=True, text="st.global.b32 [%s], %a; {op}; ld.global.b32 %d, [%s];"),
    Row("{fence.sc.cluster,fence.acq_rel.cluster}", "b32: b32", 90, plain=True, text="st.global.b32 [%s], %a; {op}; ld.global.b32 %d, [%s];"),
    Row("fence.proxy.{alias,async,async.global,async.shared::cta}", "b32: b32", 90, plain=True, text="st.global.b32 [%s], %a; {op}; ld.global.b32 %d, [%s];"),
    Row("fence.mbarrier_init.release.cluster", ":", 90, plain=True, text="{op};"),
    Row("fence.proxy.tensormap::generic.release.{cta,cluster,gpu,sys}", ":", 90, plain=True, text="{op};"),
    Row("fence.proxy.tensormap::generic.acquire.{cta,gpu,sys}", ":", 90, plain=True, text="{op} [%s], 128;"),
    Row("barrier.cluster.{arrive,arrive.relaxed,arrive.release}{,.aligned}", "b32: b32", 90, plain=True, text="{ " + EXCHANGE + "{op}; barrier.cluster.wait;" + FETCH + " bar.sync 0; }", unordered=""),
    Row("barrier.cluster.wait{,.acquire}{,.aligned}", "b32: b32", 90, plain=True, text="{ " + EXCHANGE + "barrier.cluster.arrive; {op};" + FETCH + " bar.sync 0; }"),
    Row("griddepcontrol.{wait,launch_dependents}", ":", 90, plain=True, text="{op};"),
    Row("nanosleep.u32", ": u32", values=("0..100",), text="{op} %a;"), Row("pmevent{ 3,.mask 5}", ":", text="{op};", plain=True),
    Row("setmaxnreg.dec.sync.aligned.u32", "b32: b32", 90, target="a", plain=True, text="{op} 40; xor.b32 %d, %a, %t;", threads=128, directives=POOL),
    Row("setmaxnreg.inc.sync.aligned.u32", "b32: b32", 90, target="a", plain=True, text="setmaxnreg.dec.sync.aligned.u32 24; {op} 104; xor.b32 %d, %a, %t;", threads=128, directives=POOL),
)
MBARRIERS = (
    *(Row(f"{wait}{order}{scope}{space}.b64", "b32:", arch, plain=True,
          text=BARRIER + "@first mbarrier.init.shared.b64 [q], 256; bar.sync 0; mbarrier.arrive.shared.b64 state, [q]; again: {op} done, [q], state; @!done bra again; mov.u32 %d, 7; }")
      for wait, order, scope, space, arch in (("mbarrier.test_wait", "", "", ".shared", 80), ("mbarrier.test_wait", "", "", ".shared::cta", 80), ("mbarrier.try_wait", "", "", ".shared", 90), ("mbarrier.try_wait", "", "", ".shared::cta", 90),
                                            ("mbarrier.test_wait", ".acquire", ".cta", ".shared", 80), ("mbarrier.try_wait", ".acquire", ".cta", ".shared", 90), ("mbarrier.try_wait", ".acquire", ".cluster", ".shared", 90))),
    *(Row(f"{wait}.parity.shared.b64", "b32:", arch, plain=True,
          text=BARRIER + "@first mbarrier.init.shared.b64 [q], 256; bar.sync 0; mbarrier.arrive.shared.b64 state, [q]; again: {op} done, [q], 0; @!done bra again; mbarrier.arrive.shared.b64 state, [q]; more: {op} done, [q], 1; @!done bra more; mov.u32 %d, 7; }")
      for wait, arch in (("mbarrier.test_wait", 80), ("mbarrier.try_wait", 90))),
    Row("mbarrier.try_wait.parity.shared.b64 suspend", "pred: u32", 90, plain=True, values=("=64",),
        text=BARRIER + "@first mbarrier.init.shared.b64 [q], 1000; bar.sync 0; mbarrier.try_wait.parity.shared.b64 %d, [q], 0, %a; }"),
    Row("mbarrier.arrive.noComplete{,.release.cta}.shared.b64", "u32:", 80, plain=True,
        text=BARRIER + "@first mbarrier.init.shared.b64 [q], 1000; bar.sync 0; {op} state, [q], 2; bar.sync 0; mbarrier.pending_count.b64 %d, state; @first mbarrier.inval.shared.b64 [q]; }", unordered="each thread sees another state"),
    Row("mbarrier.arrive{,.release.cta,.release.cluster}{,.shared,.shared::cta}.b64", "b32:", 90, plain=True,
        text=BARRIER + "@first mbarrier.init.shared.b64 [q], 512; bar.sync 0; .reg .b64 g; cvta.shared.u64 g, gate{n}_{v}; mbarrier.arrive.shared.b64 state, [q], 2; again: mbarrier.test_wait.shared.b64 done, [q], state; @!done bra again; mov.u32 %d, 7; {op} state, [WHERE]; }"),
    Row("mbarrier.arrive_drop.shared.b64", "b32:", 80, plain=True,
        text=BARRIER + "@first mbarrier.init.shared.b64 [q], 256; bar.sync 0; .reg .pred low; setp.lt.u32 low, %t, 128; @low {op} state, [q]; @!low mbarrier.arrive.shared.b64 state, [q]; again: mbarrier.test_wait.shared.b64 done, [q], state; @!done bra again;"
        " @!low mbarrier.arrive.shared.b64 state, [q]; @low bra leave; more: mbarrier.test_wait.shared.b64 done, [q], state; @!done bra more; leave: mov.u32 %d, 7; }"),
    Row("mbarrier.arrive_drop.noComplete.shared.b64", "u32:", 80, plain=True, unordered="each thread sees another state",
        text=BARRIER + "@first mbarrier.init.shared.b64 [q], 1000; bar.sync 0; {op} state, [q], 1; mbarrier.pending_count.b64 %d, state; }"),
    Row("mbarrier.pending_count.b64", "u32:", 90, plain=True, text=BARRIER + "mad.lo.u32 q, %t, 0, q; @first mbarrier.init.shared.b64 [q], 700; bar.sync 0; mov.u32 %d, 0; @first mbarrier.arrive.shared.b64 state, [q], 99; @first {op} %d, state; }"),
    Row("mbarrier.arrive.expect_tx{,.release.cta}.shared.b64", "b32:", 90, plain=True,
        text=BARRIER + "@first mbarrier.init.shared.b64 [q], 256; bar.sync 0; {op} state, [q], 8; mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [q], 8; again: mbarrier.try_wait.shared.b64 done, [q], state; @!done bra again; mov.u32 %d, 7; }"),
    Row("mbarrier.{expect_tx,complete_tx}.relaxed.cta.shared::cta.b64", "b32:", 90, plain=True,
        text=BARRIER + "@first mbarrier.init.shared.b64 [q], 256; bar.sync 0; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [q], 16; mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [q], 16; mbarrier.arrive.shared.b64 state, [q]; again: mbarrier.try_wait.shared.b64 done, [q], state; @!done bra again; mov.u32 %d, 7; }"),
    Row("cp.async.mbarrier.arrive{,.noinc}.shared.b64", "b32:", 80, plain=True,
        text=BARRIER + ".shared .align 16 .b8 tile{n}_{v}[4096]; mov.u32 w, tile{n}_{v}; mad.lo.u32 w, %t, 16, w; .reg .b32 expected; @first mbarrier.init.shared.b64 [q], COUNT; bar.sync 0; cp.async.ca.shared.global [w], [%s], 16; {op} [q]; ARRIVE again: mbarrier.test_wait.parity.shared.b64 done, [q], 0; @!done bra again; ld.shared.b32 %d, [w+8]; }"),
)
CONTROL = (
    Row("bra{,.uni}", "u32: u32", text="{ .reg .pred p; .reg .b32 k; mov.u32 %d, 0; and.b32 k, %a, 15; again: setp.eq.u32 p, k, 0; @p bra leave; add.u32 %d, %d, k; sub.u32 k, k, 1; {op} again; leave: }"),
    Row("brx.idx", "u32: u32", plain=True, text="{ .reg .b32 k; and.b32 k, %a, 3; places: .branchtargets one, two, three, four; brx.idx k, places; one: mov.u32 %d, 10; bra leave; two: mov.u32 %d, 20; bra leave; three: mov.u32 %d, 30; bra leave; four: mov.u32 %d, 40; leave: }"),
    Row("call", "u32: u32 u32", plain=True, text="{ .reg .b32 x; call (x), twice{n}, (%a, %b); add.u32 %d, x, 1; }",
        declare=".func (.reg .b32 r) twice{n} (.reg .b32 x, .reg .b32 y) { mad.lo.u32 r, x, 2, y; ret; }"),
    Row("call.uni", "u32: u32", plain=True, text="{ .reg .b32 x; .param .b32 i; .param .b32 o; st.param.b32 [i], %a; call.uni (o), steps{n}, (i); ld.param.b32 %d, [o]; }",
        declare=".func (.param .b32 r) steps{n} (.param .b32 x) { .reg .b32 k, t; .reg .pred p; ld.param.b32 k, [x]; and.b32 k, k, 7; mov.u32 t, 0; again: add.u32 t, t, k; setp.eq.u32 p, k, 0; sub.u32 k, k, 1; @!p bra again; st.param.b32 [r], t; ret; }"),
    Row("call indirect", "u32: u32", plain=True, text="{ .reg .b64 f; .reg .b64 g; .reg .pred p; .param .b32 i; .param .b32 o; .reg .b32 k; and.b32 k, %a, 1; setp.eq.u32 p, k, 1; mov.u64 f, left{n}; mov.u64 g, right{n}; selp.b64 f, f, g, p; st.param.b32 [i], %a;"
        " kind: .callprototype (.param .b32 _) _ (.param .b32 _); call (o), f, (i), kind; ld.param.b32 %d, [o]; }",
        declare=".func (.param .b32 r) left{n} (.param .b32 x) { .reg .b32 k; ld.param.b32 k, [x]; add.u32 k, k, 100; st.param.b32 [r], k; ret; }\n.func (.param .b32 r) right{n} (.param .b32 x) { .reg .b32 k; ld.param.b32 k, [x]; xor.b32 k, k, 85; st.param.b32 [r], k; ret; }"),
    Row("ret", "u32: u32", plain=True, text="{ .reg .pred p; setp.lt.u32 p, %a, 1000; st.global.b32 [%s], 5; @p ret; mov.u32 %d, 3; }"), Row("exit", "u32: u32", plain=True, text="{ .reg .pred p; setp.lt.u32 p, %a, 1000; st.global.b32 [%s], 6; @p exit; mov.u32 %d, 3; }"),
    Row("stacksave.u32", "u32: u32", plain=True, arch=70, text="{ .reg .u32 mark; .reg .u64 room; {op} mark; alloca.u64 room, 64; cvta.local.u64 room, room; st.b32 [room+8], %a; ld.b32 %d, [room+8]; stackrestore.u32 mark; }"),
)
# fmt: on


def arrivals() -> tuple[Row, ...]:
    """mbarrier.arrive by address form, and the two ways in which an asynchronous copy arrives."""
    found = []
    for row in MBARRIERS:
        if "WHERE" in row.text:
            for name in (
                "mbarrier.arrive{,.release.cta}.b64",
                "mbarrier.arrive{,.release.cta}{.shared,.shared::cta}.b64",
            ):
                place = "q" if "shared" in name else "g"
                found.append(replace(row, pattern=name, text=row.text.replace("WHERE", place)))
        elif "COUNT" in row.text:
            for suffix, count, arrive in (("", 256, "mbarrier.arrive.shared.b64 state, [q];"), (".noinc", 256, "")):
                name = f"cp.async.mbarrier.arrive{suffix}.shared.b64"
                found.append(
                    replace(row, pattern=name, text=row.text.replace("COUNT", str(count)).replace("ARRIVE", arrive))
                )
        else:
            found.append(row)
    return tuple(found)


ROWS = (*SHUFFLES, *VOTES, *BARRIERS, *arrivals(), *CONTROL)
