"""Neighbouring words found at run time: what looks like a gather often reads two rows.

Addresses that no pattern describes (a row's number times an unknown width, an index taken modulo something) mostly still
count up by one word within each half of a warp.  Comparing them with that takes a few instructions; a gather of 32 lanes
with a check of each takes many times as long.
"""

from __future__ import annotations

from warpwright.engine.jit.checks import rotated
from warpwright.engine.jit.function import FunctionWriter
from warpwright.engine.jit.places import VEC32, VEC64, VECBOOL, Place, mask_literal, masked_store
from warpwright.engine.jit.shapes import LANES

ROW = LANES // 2
FIRSTS = (0, ROW)
"""First lane of each row."""


def may_have_rows(place: Place, count: int) -> bool:
    """Whether an access is worth the test: single words of global memory whose addresses nothing is known about.

    Unknown addresses in shared memory mostly are what they seem to be.
    """
    return place.wide and place.scattered and place.pattern is None and place.size == 4 and count == 1


def find_rows(w: FunctionWriter, place: Place, site: str) -> tuple[str, list[str]]:
    """(i1 whether all executing lanes lie in two rows without fault, host pointers of the rows)."""
    vector = w.vector(place.address)
    starts = [w.op(f"extractelement {VEC64} {vector}, i64 {n}") for n in FIRSTS]
    spread = mask_literal([n // ROW * ROW for n in range(LANES)])
    bases = w.op(f"shufflevector {VEC64} {vector}, {VEC64} poison, {VEC32} {spread}")
    distances = w.op(f"sub {VEC64} {vector}, {bases}")
    wanted = w.literal_vector("i64", [4 * (n % ROW) for n in range(LANES)])
    here = w.bits_of(w.op(f"icmp eq {VEC64} {distances}, {wanted}"))
    if w.exec.bits != "-1":
        here = w.op(f"or i32 {here}, {w.op(f'xor i32 {w.exec.bits}, -1')}")
    fine = w.op(f"icmp eq i32 {here}, -1")
    first = w.op(f"load i64, ptr {site}")
    words = w.op(f"load i64, ptr {w.field(site, 8)}")
    # The cache counts places of one word; a row takes ROW of them.
    w.declared["llvm.usub.sat.i64"] = "declare i64 @llvm.usub.sat.i64(i64, i64)"
    limit = w.op(f"call i64 @llvm.usub.sat.i64(i64 {words}, i64 {ROW - 1})")
    hosts = []
    for start in starts:
        offset = rotated(w, "i64", w.op(f"sub i64 {start}, {first}"), 4)
        fine = w.op(f"and i1 {fine}, {w.op(f'icmp ult i64 {offset}, {limit}')}")
        hosts.append(w.op(f"inttoptr i64 {w.op(f'add i64 {start}, %host_minus_device')} to ptr"))
    return fine, hosts


def load_rows(w: FunctionWriter, hosts: list[str]) -> str:
    rows = [w.op(f"load <{ROW} x i32>, ptr {host}, align 4") for host in hosts]
    order = mask_literal(list(range(LANES)))
    return w.op(f"shufflevector <{ROW} x i32> {rows[0]}, <{ROW} x i32> {rows[1]}, {VEC32} {order}")


def store_rows(w: FunctionWriter, hosts: list[str], value: str, mask: str) -> None:
    for first, host in zip(FIRSTS, hosts, strict=True):
        order = mask_literal(list(range(first, first + ROW)))
        half = w.op(f"shufflevector {VEC32} {value}, {VEC32} poison, <{ROW} x i32> {order}")
        if w.exec.bits == "-1":
            w.emit(f"store <{ROW} x i32> {half}, ptr {host}, align 4")
            continue
        inside = w.op(f"shufflevector {VECBOOL} {mask}, {VECBOOL} poison, <{ROW} x i32> {order}")
        masked_store(w, "i32", ROW, half, host, inside, 4)
