"""Accesses of consecutive addresses per row of lanes: rows known at compile time, or found at run time.

A block's own rows (``rowwise.py``) need no search.  Addresses without a known shape (such as an index modulo something)
are mostly still consecutive within each half-warp.  Testing for that takes a few instructions; a gather of 32 lanes
with a check for each takes many times as long.
"""

from __future__ import annotations

from warpwright.engine.jit.addressing import Place, mask_literal, masked_stores, word_lanes
from warpwright.engine.jit.checks import rotated
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.rowwise import firsts


def may_have_rows(place: Place) -> bool:
    """Whether an access is worth the test: an access to global memory whose addresses have no known pattern.

    Unknown addresses in shared memory are mostly irregular indeed.
    """
    return place.wide and place.scattered and place.pattern is None


def are_known(w: FunctionWriter, place: Place) -> bool:
    """Whether the addresses of the lanes are consecutive in every row of the block."""
    length = w.row_length
    return length > 0 and place.address.shape.rows == tuple(place.size * (n % length) for n in range(w.lanes))


def find_rows(w: FunctionWriter, place: Place, site: str) -> tuple[str, list[str]]:
    """(i1 whether all executing lanes are in rows without a fault, host pointers of the rows)."""
    if are_known(w, place):
        length, fine, starts = w.row_length, "true", list(place.address.rows)
    else:
        length = w.lanes // 2
        fine, starts = _test(w, place)
    first = w.op(f"load i64, ptr {site}")
    words = w.op(f"load i64, ptr {w.field(site, 8)}")
    # The cache counts positions of one access; a row takes several.
    w.declared["llvm.usub.sat.i64"] = "declare i64 @llvm.usub.sat.i64(i64, i64)"
    limit = w.op(f"call i64 @llvm.usub.sat.i64(i64 {words}, i64 {length - 1})")
    hosts = []
    for start in starts:
        offset = rotated(w, "i64", w.op(f"sub i64 {start}, {first}"), place.size)
        fine = w.op(f"and i1 {fine}, {w.op(f'icmp ult i64 {offset}, {limit}')}")
        hosts.append(w.op(f"inttoptr i64 {w.op(f'add i64 {start}, %host_minus_device')} to ptr"))
    return fine, hosts


def _test(w: FunctionWriter, place: Place) -> tuple[str, list[str]]:
    """(i1 whether the addresses of the executing lanes of each half are consecutive, the addresses of the first
    lanes)."""
    half = w.lanes // 2
    vector = w.vector(place.address)
    starts = [w.op(f"extractelement {w.vec64} {vector}, i64 {n}") for n in firsts(w, half)]
    spread = mask_literal([n // half * half for n in range(w.lanes)])
    bases = w.op(f"shufflevector {w.vec64} {vector}, {w.vec64} poison, {w.vec32} {spread}")
    distances = w.op(f"sub {w.vec64} {vector}, {bases}")
    wanted = w.literal_vector("i64", [place.size * (n % half) for n in range(w.lanes)])
    here = w.bits_of(w.op(f"icmp eq {w.vec64} {distances}, {wanted}"))
    if w.exec.bits != "-1":
        here = w.op(f"or {w.mask_type} {here}, {w.op(f'xor {w.mask_type} {w.exec.bits}, -1')}")
    return w.op(f"icmp eq {w.mask_type} {here}, -1"), starts


def load_rows(w: FunctionWriter, hosts: list[str], size: int) -> str:
    """Load the rows in sequence, in memory order."""
    words = max(1, size // 4)
    length, element = w.lanes // len(hosts) * words, f"i{8 * min(size, 4)}"
    rows = [w.op(f"load <{length} x {element}>, ptr {host}, align {min(size, 4)}") for host in hosts]
    while len(rows) > 1:
        order = mask_literal(list(range(2 * length)))
        pairs = [
            f"<{length} x {element}> {rows[n]}, <{length} x {element}> {rows[n + 1]}" for n in range(0, len(rows), 2)
        ]
        length *= 2
        rows = [w.op(f"shufflevector {pair}, <{length} x i32> {order}") for pair in pairs]
    return rows[0]


def store_rows(w: FunctionWriter, hosts: list[str], value: str, size: int, whole_warp: bool) -> None:
    """Store the executing lanes' elements, given in memory order; ``whole_warp`` if all lanes are known to execute."""
    length, words, element = w.lanes // len(hosts), max(1, size // 4), f"i{8 * min(size, 4)}"
    whole = f"<{w.lanes * words} x {element}>"
    parts = []
    for first, host in zip(firsts(w, length), hosts, strict=True):
        order = mask_literal(range(words * first, words * (first + length)))
        part = w.op(f"shufflevector {whole} {value}, {whole} poison, <{length * words} x i32> {order}")
        parts.append((part, host, word_lanes(range(first, first + length), words)))
    if whole_warp:
        for part, host, lanes in parts:
            w.emit(f"store <{len(lanes)} x {element}> {part}, ptr {host}, align {min(size, 4)}")
        return
    masked_stores(w, element, parts, min(size, 4))
