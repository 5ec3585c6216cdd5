"""Tests whether lanes of a traced store that share an address store the same value, which the checks need.

After the store, every lane reads its address back.  This is omitted if lanes' addresses certainly differ.
"""

from __future__ import annotations

from warpwright.engine.abi import ALIKE
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.addressing import Place, addresses_vector, is_uniform, lanes_to_touch
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.loads import gather
from warpwright.engine.jit.shapes import SCALAR_KIND, VECTOR_KIND


def asked(w: FunctionWriter, place: Place) -> bool:
    """Whether lanes of a traced store may share an address, and memory can be read back."""
    if not (w.trace and w.recording) or place.address.shape.kind not in (SCALAR_KIND, VECTOR_KIND):
        return False
    space = place.access.space
    if space not in ("shared", "global") or (space == "shared" and w.setting.clustered):
        return False
    if is_uniform(place.address):
        return True
    return place.size >= 4 and not (place.spread.places == w.lanes and place.pattern is not None)


def note(w: FunctionWriter, record: int, place: Place, words: list[Val]) -> None:
    """After a store: mark its trace record if every executing lane finds in memory what it stored.

    Args:
        record: the record's first word, as a position in ``trace_line``.
        words: the stored value, in 32-bit words or one narrower part.
    """
    if is_uniform(place.address):
        found = _one_place(w, place, words)
    else:
        found = _many_places(w, place, words)
    differs = w.op(f"icmp ne {w.mask_type} {found}, 0")
    tr.mark(w, record, w.op(f"select i1 {differs}, i64 0, i64 {ALIKE}"))


def _one_place(w: FunctionWriter, place: Place, words: list[Val]) -> str:
    """Executing lanes whose words differ from the lowest lane's, for stores to one address."""
    differ = "0"
    for word in words:
        if is_uniform(word):
            continue
        size = min(place.size, 4)
        kind = f"<{w.lanes} x i{8 * size}>"
        lane = w.op(f"and {w.mask_type} {w.lowest_lane(w.exec.bits)}, {w.lanes - 1}")
        first = w.op(f"extractelement {kind} {w.vector(word)}, {w.mask_type} {lane}")
        same = w.op(f"icmp ne {kind} {w.vector(word)}, {w.splat(f'i{8 * size}', first)}")
        differ = w.op(f"or {w.mask_type} {differ}, {w.bits_of(same)}")
    return w.op(f"and {w.mask_type} {differ}, {w.exec.bits}")


def _many_places(w: FunctionWriter, place: Place, words: list[Val]) -> str:
    """Executing lanes that find a different value at their address."""
    addresses = addresses_vector(w, place)
    base = "%host_minus_device" if place.wide else w.op("ptrtoint ptr %shared_base to i64")
    pointers = w.op(f"add {w.vec64} {addresses}, {w.splat('i64', base)}")
    differ = "0"
    for n, word in enumerate(words):
        at = w.op(f"add {w.vec64} {pointers}, {w.splat('i64', str(4 * n))}") if n else pointers
        touched, mask = lanes_to_touch(w, w.op(f"inttoptr {w.vec64} {at} to {w.vecptr}"))
        held = gather(w, touched, mask)
        differ = w.op(f"or {w.mask_type} {differ}, {w.bits_of(w.op(f'icmp ne {w.vec32} {held}, {w.vector(word)}'))}")
    return w.op(f"and {w.mask_type} {differ}, {w.exec.bits}")
