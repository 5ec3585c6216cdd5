"""The state of a warp function while it is written: its variables in registers and in memory, and what is known about values."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.flow_graph import Bits, Flow
from warpwright.engine.jit.live_ranges import FILE_BASE, Webs
from warpwright.engine.jit.llvm_text import Masks, ResumePoint, Text, Val
from warpwright.engine.jit.load_windows import AccessGroup, Sum, Window
from warpwright.engine.jit.repeated_code import Repeats
from warpwright.engine.jit.rowwise import scalar_of, spread
from warpwright.engine.jit.shape_inference import Analysis, Setting
from warpwright.engine.jit.shapes import SCALAR_KIND, UNSET_KIND, VECTOR_KIND, Shape
from warpwright.engine.jit.slow_path import Calls, Entry
from warpwright.engine.jit.wave import LLVM_TYPE
from warpwright.isa.ops import Lowered, Op
from warpwright.isa.program import Program


@dataclass(kw_only=True)
class FunctionWriter(Text):
    """State while one warp function is written."""

    program: Program
    lowered: Sequence[Lowered]
    blocks: Sequence[BasicBlock]
    webs: Webs
    flow: Flow
    facts: Analysis
    setting: Setting
    trace: bool
    known_bank_bytes: dict[int, int]
    calls: Calls
    banks: dict[int, str] = field(default_factory=dict)
    """Pointers to the constant banks that are read (computed once, at entry)."""
    held: dict[int, Val] = field(default_factory=dict)
    """Current value of each web within the block."""
    mask: Masks = field(default_factory=lambda: Masks("-1"))
    exec: Masks = field(default_factory=lambda: Masks("-1"))
    guard: Val | None = None
    guard_inverted: bool = False
    block: int = 0
    index: int = 0
    sites: int = 0
    resumes: dict[tuple[str, int], ResumePoint] = field(default_factory=dict)
    shared_limits: dict[tuple[int, int], str] = field(default_factory=dict)
    local_limits: dict[int, str] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    """Byte offsets in the save area."""
    saved_at: Callable[[str, int], int | None] = lambda kind, number: None
    """Byte offset of a variable that is always in the save area; None for one that LLVM places (``resume_points.py``)."""
    sums: dict[str, Sum] = field(default_factory=dict)
    """Scalar addresses computed from other values."""
    products: set[str] = field(default_factory=set)
    """Scalars that are products: of the two terms of an address, the more likely stride."""
    looping: Bits = 0
    """Blocks of loops.  Scalar addresses enter them through a statement that is opaque to LLVM; otherwise it would try
    many ways to increment each access's address separately, which takes a tenth of code generation without benefit."""
    left_out: Bits = 0
    """Omitted blocks: the function enters the whole function there (``lazy_compile.py``)."""
    is_rest: bool = False
    """Whether none of the omitted blocks can be reached from the others: the function is what another one omits."""
    repeats: Repeats | None = None
    """The runs of which the program has only one copy."""
    row_length: int = 0
    """Number of lanes in a row of the block, 0 if warps do not consist of rows."""
    single_loads: frozenset[int] = frozenset()
    """Instructions whose loaded words are only read as f32."""
    fresh: list[str] = field(default_factory=list)
    """Vectors of words created since the last access of the block."""
    numbered: dict[object, Val] = field(default_factory=dict)
    """Scalar results of the current block by operation and operands."""
    groups: list[AccessGroup] = field(default_factory=list)
    open_groups: dict[object, AccessGroup] = field(default_factory=dict)
    """The latest group of each block, base, stride, access size and alignment."""
    rooms: int = 0
    """Windows of the current block that have their own copy in the scratch memory."""
    most_rooms: int = 0
    elements: dict[tuple[str, ...], str] = field(default_factory=dict)
    """By the vectors of their words: multi-word elements in memory order, from which these were extracted
    (``elements.py``)."""
    windows: dict[object, Window] = field(default_factory=dict)
    """The latest window of each group and executing lanes; a store invalidates them."""

    # --- equal values -----------------------------------------------------------------------------
    def vector(self, value: Val) -> str:
        """The vector of a value; the rows of a value by rows are concatenated."""
        if value.rows and not value.vector:
            value.vector = spread(self, value)
        return super().vector(value)

    def number(self, op: Op, args: Sequence[Val]) -> object:
        """Key that identifies a scalar result among all others of the block; None if operands are not scalars."""
        operands = []
        for value in args:
            shape = value.shape
            if value.parts or shape.kind != SCALAR_KIND or (shape.const is None and not value.scalar):
                return None
            operands.append((value.type, shape.pattern, shape.const if shape.const is not None else value.scalar))
        return (op.name, op.type, op.attr, *operands)

    def note_sum(self, name: str, result: str, args: Sequence[Val]) -> None:
        """Record how a scalar i64 was computed, if this may help to compare addresses."""
        if name in ("mul", "shl"):
            self.products.add(result)
        if name != "add":
            return
        x, y = args
        if x.shape.const is not None or (x.scalar in self.products and y.scalar not in self.products):
            x, y = y, x
        if not x.scalar or y.shape.pattern is not None:
            return
        base = self.sums.get(x.scalar, Sum(x.scalar))
        if y.shape.const is not None:
            self.sums[result] = base._replace(step=base.step + sh._signed(y.shape.const, 64))
        elif y.scalar in self.products:
            if base.stride not in ("", y.scalar):
                base = Sum(x.scalar)
            self.sums[result] = base._replace(stride=y.scalar, times=base.times + 1)

    def note_offset(self, result: str, args: Sequence[Val]) -> None:
        """Record a scalar i32 that is the sum of another one and a constant."""
        x, y = args
        if x.shape.const is not None:
            x, y = y, x
        if x.scalar and y.shape.const is not None and y.shape.pattern is None:
            root, step = self.offsets_of.get(x.scalar, (x.scalar, 0))
            self.offsets_of[result] = (root, step + sh._signed(y.shape.const, 32))

    offsets_of: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Scalars i32 as the sum of another one and a constant."""
    unstored: dict[int, str] = field(default_factory=dict)
    """Webs assigned in this block and not yet stored: type and name of the last value of each."""
    accesses: list[Entry] = field(default_factory=list)
    """What slow paths need to know about each access (``slow_path.ACCESS``)."""
    noted_exec: str = ""
    """The lanes that slow paths consider executing."""
    unsettled: bool = False
    """Whether a load of this block may have faulted."""
    recording: bool = False
    """Whether a memory operation leaves a trace record; one operation does so for its whole instruction."""
    trace_at: str = ""
    """Address of the current block's records."""
    trace_words: int = 0
    trace_line: list[tuple[int, Any]] = field(default_factory=list)
    """Words of the current block's records that have not yet been written, and their positions."""
    trace_heads: dict[tuple[str, int], str] = field(default_factory=dict)
    """First words of the current block's records, by lanes and tag."""

    def forget(self) -> None:
        """Forget computed values that are not available to the code that follows."""
        self.held = {}
        self.numbered = {}
        self.fresh = []
        self.noted_exec = ""
        self.elements = {}
        self.windows = {}
        self.rooms = 0

    # --- webs -------------------------------------------------------------------------------------
    def variable(self, kind: str, number: int) -> str:
        """Pointer to a web (``w``), or to the lanes that enter a block (``p``), wait for a convergence point (``a``) or wait at a block barrier (``q``).

        The address of a variable in the save area is computed where it is used. If all addresses were computed at the function's entry, quick code would compute them, and
        store each on the stack, whenever a warp continues.
        """
        offset = self.saved_at(kind, number)
        return f"%{kind}{number}" if offset is None else self.op(f"getelementptr i8, ptr %save, i64 SAVE+{offset}")

    def web_shape(self, number: int) -> Shape:
        return self.facts.webs[number]

    def web_type(self, number: int) -> str:
        """LLVM type of a web's variable."""
        type = self.webs.webs[number].type
        if self.web_shape(number).rows is not None:
            return f"[{self.lanes // self.row_length} x {type}]"
        if self.keeps_bits(number):
            return self.mask_type
        return self.vector_type(type) if self.web_shape(number).kind == VECTOR_KIND else LLVM_TYPE[type]

    def keeps_bits(self, number: int) -> bool:
        """Whether a web is a predicate whose lanes are kept as an i32."""
        is_vector = self.web_shape(number).kind == VECTOR_KIND
        return is_vector and not self.registers.masks and self.webs.webs[number].type == "i1"

    def is_vector(self, number: int) -> bool:
        """Whether a web holds a word or more for each lane, not just a bit."""
        return self.web_shape(number).kind == VECTOR_KIND and self.webs.webs[number].type != "i1"

    def has_storage(self, number: int) -> bool:
        """Whether a web needs a variable (constants do not)."""
        shape = self.web_shape(number)
        return shape.kind != UNSET_KIND and shape.const is None

    def read_web(self, number: int) -> Val:
        held = self.held.get(number)
        if held is None:
            type, shape = self.webs.webs[number].type, self.web_shape(number)
            if shape.rows is not None:
                whole = self.op(f"load {self.web_type(number)}, ptr {self.variable('w', number)}")
                count = self.lanes // self.row_length
                names = (self.op(f"extractvalue {self.web_type(number)} {whole}, {n}") for n in range(count))
                held = Val(type, shape, rows=tuple(names))
            elif self.keeps_bits(number):
                held = Val(type, shape, bits=self.op(f"load {self.mask_type}, ptr {self.variable('w', number)}"))
            elif self.has_storage(number):
                name = self.op(f"load {self.web_type(number)}, ptr {self.variable('w', number)}")
                if self.looping >> self.block & 1 and self.web_type(number) == "i64":
                    name = self.op(f'call i64 asm "", "=r,0"(i64 {name})')
                held = self.made(type, shape, name)
            else:
                held = Val(type, shape)
            self.held[number] = held
        return held

    def write_web(self, number: int, value: Val, keeps_old: bool) -> None:
        """Assign to a web in the executing lanes."""
        web, shape = self.webs.webs[number], self.web_shape(number)
        if not self.has_storage(number):
            self.held[number] = Val(web.type, shape)
            return
        if shape.rows is not None:
            self._write_rows(number, value, keeps_old)
            return
        if self.keeps_bits(number):
            self._write_bits(number, value, keeps_old)
            return
        is_vector = shape.kind == VECTOR_KIND
        name = self.operand(value, is_vector)
        typed = self.web_type(number)
        vec = self.vector_type("i1")
        if number in self.facts.live_elsewhere[self.block]:
            old = self.operand(self.read_web(number), is_vector)
            if is_vector:
                lanes = self.lanes_of(self.written_lanes()) if self.is_shared(number) else self.mask_vector(self.exec)
                name = self.op(f"select {vec} {lanes}, {typed} {name}, {typed} {old}")
        elif self.guard is not None and keeps_old and is_vector and self.is_shared(number):
            old = self.operand(self.read_web(number), is_vector)
            name = self.op(f"select {vec} {self.lanes_of(self.written_lanes())}, {typed} {name}, {typed} {old}")
        elif self.guard is not None and keeps_old:
            old = self.operand(self.read_web(number), is_vector)
            guard_vector = self.guard.shape.kind == VECTOR_KIND or self.guard.shape.pattern is not None
            condition = self.operand(self.guard, guard_vector)
            kind = vec if guard_vector else "i1"
            assert is_vector or not guard_vector
            first, second = (old, name) if self.guard_inverted else (name, old)
            name = self.op(f"select {kind} {condition}, {typed} {first}, {typed} {second}")
        self.unstored[number] = f"{typed} {name}"
        if is_vector and web.type == "i32":
            self.fresh.append(name)
        held = self.made(web.type, shape, name)
        if name == value.scalar:
            held.single = value.single
        if value.parts and not keeps_old and number not in self.facts.live_elsewhere[self.block]:
            held.parts = value.parts if shape.kind == VECTOR_KIND else ()
        self.held[number] = held

    def store_webs(self, wanted: Container[int]) -> None:
        """Write the block's assignments to the variables, if they are read later."""
        for number, value in self.unstored.items():
            if number in wanted or number in self.facts.live_elsewhere[self.block]:
                self.emit(f"store {value}, ptr {self.variable('w', number)}")
        self.unstored = {}

    def is_shared(self, number: int) -> bool:
        """Whether a variable is a uniform register or predicate under a guard: it is shared by all lanes, whichever of
        them write it."""
        return self.guard is not None and FILE_BASE["upred"] <= self.webs.webs[number].keys[0] < FILE_BASE["reg"]

    def written_lanes(self) -> str:
        """The lanes that receive a uniform register's new value: all active lanes, if the guard holds for one of
        them."""
        some = self.op(f"icmp ne {self.mask_type} {self.exec.bits}, 0")
        return self.op(f"select i1 {some}, {self.mask_type} {self.mask.bits}, {self.mask_type} 0")

    def _write_bits(self, number: int, value: Val, keeps_old: bool) -> None:
        """Assign a predicate that is kept as an i32."""
        name = self.predicate(value)
        held = Val("i1", self.web_shape(number), vector=value.vector, bits=name, place=value.place)
        lanes = ""
        if number in self.facts.live_elsewhere[self.block]:
            lanes = self.written_lanes() if self.is_shared(number) else self.exec.bits
        elif self.guard is not None and keeps_old and self.is_shared(number):
            lanes = self.written_lanes()
        elif self.guard is not None and keeps_old:
            lanes = self.predicate(self.guard)
            if self.guard_inverted:
                lanes = self.op(f"xor {self.mask_type} {lanes}, -1")
        if lanes:
            name = self.choose(lanes, name, self.predicate(self.read_web(number)))
            held = Val("i1", self.web_shape(number), bits=name)
        self.unstored[number] = f"{self.mask_type} {name}"
        self.held[number] = held

    def _write_rows(self, number: int, value: Val, keeps_old: bool) -> None:
        """Assign a value by rows; only a guard shared by all lanes can preserve an old value."""
        type, whole = self.webs.webs[number].type, self.web_type(number)
        names = [scalar_of(self, value, n) for n in range(self.lanes // self.row_length)]
        if self.guard is not None and keeps_old:
            old = self.read_web(number).rows
            condition = self.scalar(self.guard)
            pairs = [(o, n) if self.guard_inverted else (n, o) for n, o in zip(names, old, strict=True)]
            names = [self.op(f"select i1 {condition}, {type} {a}, {type} {b}") for a, b in pairs]
        made = "poison"
        for n, name in enumerate(names):
            made = self.op(f"insertvalue {whole} {made}, {type} {name}, {n}")
        self.unstored[number] = f"{whole} {made}"
        self.held[number] = Val(type, self.web_shape(number), rows=tuple(names))

    def add_site(self) -> int:
        """Add an inline cache of an allocation."""
        self.sites += 1
        return self.sites - 1
