"""LLVM IR of exchanges between lanes of a warp: through local data share, because the chip has no shuffles or ballots.

A warp is half a wavefront.  Each thread of a block has a word in local data share; the lanes of a wavefront run in
lockstep, so that no barrier is needed between a store and the loads that follow.  The functions are opaque to LLVM
until its passes have run (``toolchain/r600.py``).
"""

from __future__ import annotations

from warpwright.isa.ops import Op
from warpwright.isa.r600.compiler.memory_accesses import linear_thread
from warpwright.isa.r600.compiler.writer import PRIVATE, Writer, operation, refuse

EXCHANGES = frozenset(("shfl", "vote", "match", "activemask", "ldmatrix"))
"""PTX instructions that need these words."""
USERS = ("ww.shuffle", "ww.ballot", "ww.match", "ww.block")
"""The functions that use them."""
BLOCK_WORD_BYTES = 16
"""A word for the block's reductions, after the threads' own."""

HELPERS = """
target triple = "r600--"
declare i32 @llvm.ctpop.i32(i32)
declare void @llvm.r600.group.barrier() convergent
define linkonce_odr void @ww.fence() alwaysinline {{
  ret void
}}
define linkonce_odr i32 @ww.own(i32 %t) alwaysinline {{
  %o = shl i32 %t, 2
  %a = add i32 %o, {base}
  ret i32 %a
}}
define linkonce_odr i32 @ww.shuffle(i32 %v, i32 %lane, i32 %t) convergent alwaysinline {{
  %own = call i32 @ww.own(i32 %t)
  %p = inttoptr i32 %own to ptr addrspace(3)
  store volatile i32 %v, ptr addrspace(3) %p
  %group = and i32 %t, -32
  %l = and i32 %lane, 31
  %s = or i32 %group, %l
  %from = call i32 @ww.own(i32 %s)
  %q = inttoptr i32 %from to ptr addrspace(3)
  %found = load i32, ptr addrspace(3) %q
  ret i32 %found
}}
define linkonce_odr i32 @ww.ballot(i1 %vote, i32 %t) convergent alwaysinline {{
  %group = and i32 %t, -32
  %at = call i32 @ww.own(i32 %group)
  %p = inttoptr i32 %at to ptr addrspace(3)
  store volatile i32 0, ptr addrspace(3) %p
  %lane = and i32 %t, 31
  %bit = shl i32 1, %lane
  %mine = select i1 %vote, i32 %bit, i32 0
  %old = atomicrmw volatile or ptr addrspace(3) %p, i32 %mine seq_cst
  %found = load i32, ptr addrspace(3) %p
  ret i32 %found
}}
define linkonce_odr i32 @ww.match(i32 %v, i32 %t) convergent alwaysinline {{
  %here = call i32 @ww.ballot(i1 true, i32 %t)
  %own = call i32 @ww.own(i32 %t)
  %p = inttoptr i32 %own to ptr addrspace(3)
  store volatile i32 %v, ptr addrspace(3) %p
  %group = and i32 %t, -32
{match}
  %found = and i32 %m31, %here
  ret i32 %found
}}
define linkonce_odr i32 @ww.block(i32 %part, i32 %operation) convergent alwaysinline {{
  %p = inttoptr i32 {block} to ptr addrspace(3)
  call void @llvm.r600.group.barrier()
  store volatile i32 0, ptr addrspace(3) %p
  call void @llvm.r600.group.barrier()
  %sum = atomicrmw volatile add ptr addrspace(3) %p, i32 %part seq_cst
  call void @llvm.r600.group.barrier()
  %found = load i32, ptr addrspace(3) %p
  call void @llvm.r600.group.barrier()
  ret i32 %found
}}
"""
_MATCH = """  %s{n} = or i32 %group, {n}
  %a{n} = call i32 @ww.own(i32 %s{n})
  %q{n} = inttoptr i32 %a{n} to ptr addrspace(3)
  %w{n} = load i32, ptr addrspace(3) %q{n}
  %e{n} = icmp eq i32 %w{n}, %v
  %b{n} = select i1 %e{n}, i32 {bit}, i32 0
  %m{n} = or i32 {before}, %b{n}"""


def exchange_bytes(threads: int) -> int:
    """Bytes of local data share for a block of this many threads."""
    return -(-4 * threads // 16) * 16 + BLOCK_WORD_BYTES


def helpers(base: int, threads: int) -> str:
    """Definitions of the functions, for words that begin at ``base``."""
    match = "\n".join(
        _MATCH.format(n=n, bit=(1 << n) - (1 << 32 if n == 31 else 0), before=f"%m{n - 1}" if n else "0")
        for n in range(32)
    )
    return HELPERS.format(base=base, block=base + exchange_bytes(threads) - BLOCK_WORD_BYTES, match=match)


@operation("shuffle")
def shuffle(w: Writer, op: Op, value: int, lane: int) -> str:
    return w.call(
        "i32", "ww.shuffle", w.typed(value), w.typed(lane), f"i32 {linear_thread(w)}", attributes="convergent"
    )


def _ballot(w: Writer, vote: str) -> str:
    return w.call("i32", "ww.ballot", f"i1 {vote}", f"i32 {linear_thread(w)}", attributes="convergent")


@operation("ballot")
def ballot(w: Writer, op: Op, vote: int) -> str:
    return _ballot(w, w.values[vote])


@operation("active")
def active(w: Writer, op: Op) -> str:
    return _ballot(w, "true")


@operation("match_any")
def match_any(w: Writer, op: Op, value: int) -> str:
    return w.call("i32", "ww.match", w.typed(value), f"i32 {linear_thread(w)}", attributes="convergent")


@operation("barrier_red")
def barrier_red(w: Writer, op: Op, number: int, count: int, vote: int) -> str:
    """The vote of all threads of a block: how many, whether any, whether all."""
    if w.constant(count) != 0 or w.constant(number) is None:
        raise refuse("barriers for some threads of a block: the chip has one barrier for all of them")
    asked = w.values[vote]
    if op.attr == "and":
        asked = w.let(f"xor i1 {asked}, true")
    part = w.let(f"zext i1 {asked} to i32")
    found = w.call("i32", "ww.block", f"i32 {part}", "i32 0", attributes="convergent")
    if op.attr != "popc":
        relation = "eq" if op.attr == "and" else "ne"
        found = w.let(f"zext i1 {w.let(f'icmp {relation} i32 {found}, 0')} to i32")
    w.emit(f"store i32 {found}, ptr addrspace({PRIVATE}) %barrier_result")
    return found
