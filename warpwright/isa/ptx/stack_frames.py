"""Stack frames of PTX functions: where variables are kept, and how functions call each other.

A function's frame in local memory holds, from its start: the return address (8 bytes), results and parameters of its
signature, its own local and parameter variables, and what it saves around calls.  A register holds the frame's offset;
the kernel's own frame begins at 0.  A caller writes arguments and return address after its own frame, moves the
register up and branches; the callee returns through the address in its frame.  Virtual registers belong to a function,
not to a call: values that are live after a call that may re-enter the same function are saved in the caller's frame.
Convergence barriers are saved around every call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from warpwright.isa.ops import Access, Op
from warpwright.isa.ptx.control_flow import Block, Graph, Step
from warpwright.isa.ptx.meaning import Storage
from warpwright.isa.ptx.syntax import Function, Prototype, Variable

RETURN_ADDRESS_BYTES = 8
FRAME_ALIGNMENT = 16


def align(offset: int, to: int) -> int:
    return -(-offset // to) * to


def signature(prototype: Prototype) -> tuple[list[int], int]:
    """Offsets of results, then parameters, in the callee's frame, and the end of the last."""
    offset, places = RETURN_ADDRESS_BYTES, []
    for variable in (*prototype.results, *prototype.parameters):
        offset = align(offset, variable.align)
        places.append(offset)
        offset += variable.size_bytes
    return places, offset


@dataclass(frozen=True, slots=True)
class FrameSize:
    """A function's frame size; held in an attribute until it is known."""

    function: str


@dataclass(frozen=True, slots=True)
class LocalEnd:
    """A thread's local memory in bytes; held in an attribute until it is known."""


@dataclass(frozen=True, slots=True)
class Returns:
    """The addresses that a function may return to; held in an attribute until they are known."""

    function: str


@dataclass(slots=True)
class Frame:
    """A function's layout in local memory."""

    function: Function
    places: dict[str, Storage] = field(default_factory=dict)
    size_bytes: int = 0

    def take(self, size: int, alignment: int) -> int:
        """Reserve space at the frame's end."""
        place = align(self.size_bytes, alignment)
        self.size_bytes = place + size
        return place

    @property
    def aligned_bytes(self) -> int:
        return align(self.size_bytes, FRAME_ALIGNMENT)


def make_frame(function: Function, parameter_base: int) -> Frame:
    """Place all variables except shared ones."""
    frame = Frame(function)
    if function.is_kernel:
        for variable, offset in zip(
            function.prototype.parameters, kernel_parameters(function, parameter_base), strict=True
        ):
            frame.places[variable.name] = Storage("param", parameter_base + offset)
    else:
        offsets, frame.size_bytes = signature(function.prototype)
        both = (*function.prototype.results, *function.prototype.parameters)
        for variable, offset in zip(both, offsets, strict=True):
            frame.places[variable.name] = Storage("local", offset)
    for variable in function.variables.values():
        if variable.space in ("local", "param"):
            frame.places[variable.name] = Storage("local", frame.take(variable.size_bytes, variable.align))
    return frame


def kernel_parameters(function: Function, parameter_base: int) -> list[int]:
    """Offsets of a kernel's parameters from the start of the parameter area, whose own address counts for their
    alignment."""
    offset, places = 0, []
    for variable in function.prototype.parameters:
        offset = align(parameter_base + offset, variable.align) - parameter_base
        places.append(offset)
        offset += variable.size_bytes
    return places


def place_shared(variables: Iterable[Variable]) -> tuple[dict[str, Storage], int]:
    """Place shared variables from 0 on; unsized ones come last, where the launch's dynamic part begins."""
    places: dict[str, Storage] = {}
    offset, dynamic_alignment = 0, 1
    known = {v.name: v for v in variables}.values()
    for variable in known:
        if variable.unsized:
            dynamic_alignment = max(dynamic_alignment, variable.align)
            continue
        offset = align(offset, variable.align)
        places[variable.name] = Storage("shared", offset)
        offset += variable.size_bytes
    dynamic = any(v.unsized for v in known)
    offset = align(offset, max(dynamic_alignment, 16)) if dynamic else offset
    for variable in known:
        if variable.unsized:
            places[variable.name] = Storage("shared", offset)
    return places, offset


# --- values that are live after calls ---------------------------------------------------------------
Slot = tuple[str, int]
"""A register file ('reg', 'pred', 'barrier') and a number."""


def effects(step: Step) -> tuple[set[Slot], set[Slot]]:
    """(reads, writes) of a step; a guarded write does not end the lifetime of the old value."""
    reads: set[Slot] = set()
    writes: set[Slot] = set()
    if step.guard is not None:
        reads.add(("pred", step.guard[1]))
    for op in step.ops:
        if op.name == "bssy":
            writes.add(("barrier", op.attr[0]))
        elif op.name == "bsync":
            reads.add(("barrier", op.attr))
        elif op.name[:4] in ("get_", "set_"):
            file = op.name[4:].removesuffix("64")
            slots = {(file, op.attr + n) for n in range(2 if op.name.endswith("64") else 1)}
            if op.name.startswith("get_"):
                reads |= slots
            else:
                writes |= slots
    return reads, writes


def live_after_calls(blocks: list[Block]) -> dict[int, set[Slot]]:
    """Registers that are live after each call, by the id of the calling step."""
    graph = Graph(blocks)
    entry: list[set[Slot]] = [set() for _ in range(len(blocks) + 1)]
    facts = [[effects(step) for step in block.steps] for block in blocks]
    found: dict[int, set[Slot]] = {}

    def through(n: int) -> set[Slot]:
        live: set[Slot] = set().union(*(entry[m] for m in graph.successors[n]))
        for step, (reads, writes) in zip(reversed(blocks[n].steps), reversed(facts[n]), strict=True):
            if step.returns_to:
                found[id(step)] = set(live)
            if step.guard is None:
                live -= writes
            live |= reads
        return live

    changed = True
    while changed:
        changed = False
        for n in range(len(blocks) - 1, -1, -1):
            live = through(n)
            if live != entry[n]:
                entry[n] = live
                changed = True
    return found


def max_live(blocks: list[Block]) -> int:
    """The largest number of 32-bit registers live at the end of a block: an estimate of a compiler's register count."""
    graph = Graph(blocks)
    entry: list[set[Slot]] = [set() for _ in range(len(blocks) + 1)]
    gains = []
    for block in blocks:
        reads: set[Slot] = set()
        kills: set[Slot] = set()
        for step in block.steps:
            r, w = effects(step)
            reads |= r - kills
            if step.guard is None:
                kills |= w
        gains.append((reads, kills))
    changed = True
    while changed:
        changed = False
        for n in range(len(blocks) - 1, -1, -1):
            live: set[Slot] = set().union(*(entry[m] for m in graph.successors[n]))
            live = (live - gains[n][1]) | gains[n][0]
            if live != entry[n]:
                entry[n] = live
                changed = True
    return max((sum(file == "reg" for file, _ in live) for live in entry), default=0)


def save_steps(frame: Frame, slots: Iterable[Slot], stack: int | None) -> tuple[list[Step], list[Step]]:
    """Steps that save registers in the frame and restore them; space is reserved in the frame."""
    save: list[Step] = []
    restore: list[Step] = []
    for file, number in sorted(slots):
        place = frame.take(4, 4)
        how = Access("local", 4)
        address: list[Op] = [Op("const", "i32", (), place)]
        if stack is not None:
            address += [Op("get_reg", "i32", (), stack), Op("add", "i32", (0, 1))]
        at = len(address) - 1
        if file == "pred":
            save_ops = [*address, Op("get_pred", "i1", (), number), Op("zext", "i32", (at + 1,))]
            save_ops.append(Op("store", "void", (at, at + 2), how))
            restore_ops = [*address, Op("load", "i32", (at,), how), Op("trunc", "i1", (at + 1,))]
            restore_ops.append(Op("set_pred", "void", (at + 2,), number))
        else:
            save_ops = [*address, Op(f"get_{file}", "i32", (), number), Op("store", "void", (at, at + 1), how)]
            restore_ops = [*address, Op("load", "i32", (at,), how), Op(f"set_{file}", "void", (at + 1,), number)]
        save.append(Step(save_ops, None, None, "save"))
        restore.append(Step(restore_ops, None, None, "restore"))
    return save, restore
