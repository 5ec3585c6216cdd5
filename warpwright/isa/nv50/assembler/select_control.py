"""Selects instructions for branches, calls, barriers and reconvergence."""

from __future__ import annotations

from warpwright.isa.nv50.assembler.select_integer import compare
from warpwright.isa.nv50.assembler.selector import Const, Selector, Value, refuse, select
from warpwright.isa.nv50.fields import immediate
from warpwright.isa.ops import Op
from warpwright.isa.ptx.meaning import Place
from warpwright.isa.ptx.stack_frames import Returns


def around(s: Selector) -> str:
    """Jump around instructions that cannot be guarded: returns the label to put after them, "" without a guard."""
    if s.guard is None:
        return ""
    label = f"@around{len(s.code.instructions)}"
    test = "e" if s.guard[0] == "lg" else "lg"
    s.emit("bra", label=label).guard = (test, s.guard[1])
    return label


def land(s: Selector, label: str) -> None:
    if label:
        s.emit("label", label=label)
        s.begin_block()


@select("branch")
def branch(s: Selector, op: Op, *condition: Value) -> None:
    assert isinstance(op.attr, Place)
    if condition:
        s.emit("bra", label=op.attr.name).guard = ("lg", s.test(condition[0]))
        return
    s.emit("bra", label=op.attr.name, guarded=True)


@select("branch_indirect")
def branch_indirect(s: Selector, op: Op, address: Value) -> None:
    """A return, or a jump to one of several numbered labels."""
    if isinstance(op.attr, Returns):
        s.emit("ret", "ret", guarded=True)
        return
    label = around(s)
    low = s.reg(address)
    for place in op.attr:
        number = s.labels.setdefault(place, len(s.labels) + 1)
        hit = compare(s, "e", "u32", low, Const(number))
        s.emit("bra", label=place.name).guard = ("lg", s.test(hit))
    land(s, label)


@select("exit")
def exit_(s: Selector, op: Op, *condition: Value) -> None:
    guard = ("lg", s.test(condition[0])) if condition else s.guard
    s.emit("nop", "nop", tail="exit").guard = guard


@select("trap")
def trap(s: Selector, op: Op) -> None:
    label = around(s)
    s.emit("trap", "trap")
    land(s, label)


@select("bssy")
def bssy(s: Selector, op: Op) -> None:
    _, place = op.attr
    s.emit("joinat", "joinat", label=place.name)


@select("bsync")
def bsync(s: Selector, op: Op) -> None:
    s.emit("nop", "nop", tail="join")
    s.begin_block()


@select("barrier")
def barrier(s: Selector, op: Op, number: Value, count: Value) -> None:
    n, c = s.raw(number), s.raw(count)
    if op.attr != "sync" or c != Const(0):
        raise refuse("barriers for some threads of a block need compute capability 2.0")
    if not isinstance(n, Const):
        raise refuse("barriers whose number is not constant need compute capability 2.0")
    label = around(s)
    s.emit("bar", "bar", "inc", "wait", immediate(n.bits), "all")
    land(s, label)


REFUSED = {
    "redux": "reductions of a warp need compute capability 8.0",
    "special64": "clocks of 64 bits need compute capability 2.0",
    "mma": "matrix products need compute capability 7.0",
    "wgmma": "matrix products need compute capability 9.0",
    "texture": "texture objects need compute capability 2.0, and texture references have no assembler",
    "service": "functions of the driver (printf, malloc, assert) need compute capability 2.0",
    "bulk": "bulk copies need compute capability 9.0",
    "async_commit": "asynchronous copies need compute capability 8.0",
    "call": "a call that is not a separate step",
}


def _refuse(s: Selector, op: Op, *values: Value) -> None:
    raise refuse(REFUSED[op.name])


select(*REFUSED)(_refuse)
